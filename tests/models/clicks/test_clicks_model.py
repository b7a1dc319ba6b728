"""The estimator: the suite of all families, and data that nobody wants."""

from pathlib import Path

import numpy as np
import pytest
from clicks_examples import fixed, table
from conformance import Arrays, Conformance
from scipy import sparse

from predilect.models.clicks.clusters import UserClusters
from predilect.models.clicks.config import ClicksConfig
from predilect.models.clicks.contexts import Contexts
from predilect.models.clicks.design import Design
from predilect.models.clicks.encoder import ContextEncoder
from predilect.models.clicks.features import FeatureColumns, TextOptions
from predilect.models.clicks.model import ClicksModel
from predilect.models.clicks.prediction import Prediction
from predilect.models.clicks.ranking import score
from predilect.models.errors import DataError

WORDS = ["cat", "dog", "red", "blue", "win", "lose", "big", "small", "old", "new", "day", "night"]


def impressions_log() -> tuple[FeatureColumns, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Texts, row ids, impressions and clicks; rows enough for several chunks of the likelihood."""
    rng = np.random.default_rng(4)
    texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(400)]
    n_rows = 20_000
    rows = {
        "lines": rng.integers(400, size=n_rows),
        "users": rng.integers(60, size=n_rows) * 10**12,
        "groups": np.array([f"gröup {g}" for g in rng.integers(30, size=n_rows)]),
    }
    n = rng.integers(0, 12, n_rows)
    appeal = np.array(["cat" in text for text in texts])[rows["lines"]]
    return FeatureColumns(texts={"headline": texts}), rows, n, rng.binomial(n, np.where(appeal, 0.3, 0.15))


class TestClicks(Conformance):
    def fit(self, seed: int, n_threads: int) -> ClicksModel:
        columns, rows, n, v = impressions_log()
        clusters = UserClusters.fit(np.arange(50) * 10**12, np.arange(50) % 7, 3, seed=0)
        encoder = ContextEncoder.fit(
            columns, options=TextOptions(min_lines=1), clusters=clusters, groups=rows["groups"]
        )
        design = encoder.encode(columns, **rows)
        config = ClicksConfig(rank=4, max_rounds=2, tolerance=1e-3)
        return ClicksModel.fit(design, n, v, config, encoder=encoder, seed=seed, n_threads=n_threads)

    def load(self, folder: Path) -> ClicksModel:
        return ClicksModel.load(folder)

    def learned(self, model: ClicksModel) -> Arrays:
        sides = {f"{s}": posterior for s, posterior in enumerate(model.posteriors)}
        return {
            "coefficients": model.coefficients,
            "precisions": np.array(list(model.precisions.values())),
            **{f"scale {s}": side.scale for s, side in sides.items()},
            **{f"factor {s}": side.factor for s, side in sides.items()},
            "group lines": model.posteriors[0].group_lines.toarray(),
            "group variance": model.posteriors[0].group_variance,
        }

    def ask(self, model: ClicksModel, columns: FeatureColumns, rows: dict[str, object]) -> Arrays:
        design = model.encoder.encode(columns, **rows)
        return {**vars(model.predict(design)), **score(model, design, ("mean", "uqp", "thompson"), n_points=8)}

    def answers(self, model: ClicksModel) -> Arrays:
        columns, rows, _, _ = impressions_log()
        return self.ask(model, columns, {name: column[:500] for name, column in rows.items()})

    def answers_unknown(self, model: ClicksModel) -> Arrays:
        columns = FeatureColumns(texts={"headline": ["zebra", "", "cat"]})
        return {
            f"{kind} {name}": array
            for kind, users in (("number", [-1, 2, 3]), ("string", ["x", "y", "z"]))
            for name, array in self.ask(model, columns, {"users": users, "groups": ["a", "b", "c"]}).items()
        }

    def answers_nothing(self, model: ClicksModel) -> Arrays:
        columns = FeatureColumns(texts={"headline": []})
        return self.ask(model, columns, {"users": [], "groups": []})


def test_the_suite_sees_several_chunks() -> None:
    columns, rows, n, _ = impressions_log()
    design = ContextEncoder.fit(columns, options=TextOptions(min_lines=1)).encode(columns, lines=rows["lines"])
    assert len(n) > 2 * 8192
    assert Contexts.of(design, n, n, 2).n_chunks > 2


def same(one: Prediction, other: Prediction, tolerance: float) -> None:
    for name, values in vars(one).items():
        np.testing.assert_allclose(values, vars(other)[name], atol=tolerance, err_msg=name)


def test_rows_without_impressions_change_nothing():
    design, n, v = table(n_groups=10)
    n[::5], v[::5] = 0, 0
    shown = n > 0
    one = ClicksModel.fit(design, n, v, fixed(rank=1000)).predict(design)
    two = ClicksModel.fit(design.take(shown), n[shown], v[shown], fixed(rank=1000)).predict(design)
    same(one, two, 1e-7)


@pytest.mark.parametrize("model", ["l-log", "l-bbl", "l-prop"])
def test_no_clicks_and_clicks_everywhere_stay_finite(model):
    design, n, _ = table(n_groups=10)
    for v in (np.zeros_like(n), n):
        fitted = ClicksModel.fit(design, n, v, ClicksConfig(model=model, max_rounds=4))
        prediction = fitted.predict(design)
        assert all(np.isfinite(values).all() for values in vars(prediction).values())
        p = score(fitted, design, ("mean",))["mean"]
        assert (p < 0.01).all() if not v.any() else (p > 0.99).all()


def test_perfectly_separating_words_stay_finite():
    features = sparse.csr_matrix(np.repeat(np.eye(2), 50, axis=0))
    design = Design.of(features)
    n = np.full(100, 20)
    v = np.where(np.arange(100) < 50, 20, 0)
    for model in ("l-log", "l-prop"):
        fitted = ClicksModel.fit(design, n, v, ClicksConfig(model=model, max_rounds=5))
        zeta = fitted.predict(design).zeta
        assert np.isfinite(zeta).all()
        assert zeta[0] > 2
        assert zeta[-1] < -2


def test_empty_and_constant_columns_stay_finite():
    design, n, v = table()
    wide = np.hstack([design.features.toarray(), np.zeros((design.features.shape[0], 1)), np.ones((500, 1))])
    fitted = ClicksModel.fit(Design.of(wide, lines=design.lines), n, v, ClicksConfig(max_rounds=4))
    assert all(np.isfinite(values).all() for values in vars(fitted.predict(Design.of(wide))).values())


def test_nothing_to_learn_from_is_an_error():
    design, n, v = table(n_rows=30)
    with pytest.raises(DataError, match="No row has impressions"):
        ClicksModel.fit(design, np.zeros(30), np.zeros(30))
    with pytest.raises(DataError, match="No row has impressions"):
        ClicksModel.fit(design.take(slice(0, 0)), [], [])
    with pytest.raises(DataError, match="The design has 30 rows but there are 29 counts"):
        ClicksModel.fit(design, n[1:], v[1:])
    with pytest.raises(DataError, match="clicks cannot exceed impressions"):
        ClicksModel.fit(design, v, v + 1)


def test_a_design_of_other_features_is_an_error():
    design, n, v = table()
    fitted = ClicksModel.fit(design, n, v, fixed())
    with pytest.raises(DataError, match="n_features = 2 but the model was fitted on 12"):
        fitted.predict(Design.of(sparse.eye(2, format="csr")))


def test_words_with_effects_are_found():
    model = TestClicks().fit(seed=0, n_threads=1)
    mean, sd = model.block("mean.headline")
    effect = dict(zip(model.encoder.features.names, mean / sd, strict=True))
    assert max(effect, key=effect.get) == "cat"
    assert effect["cat"] > 5
