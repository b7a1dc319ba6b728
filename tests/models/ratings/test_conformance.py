"""The suite that every family passes, on ratings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from conformance import Arrays, Conformance
from scipy.sparse import csr_array

from predilect.models.ids import IdMap
from predilect.models.ratings import Features, Prediction, RatingScale, RatingsModel, VBConfig
from predilect.models.ratings.orders import Order
from predilect.models.ratings.sweep import CHUNK, HalfSweep

USERS = np.array(["Ann", "Bo", "Šárka", "o'Neil", "007"] + [f"user {n:03}" for n in range(295)])


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Enough ratings for several chunks a side."""
    rng = np.random.default_rng(3)
    users, items = np.nonzero(rng.random((300, 200)) < 0.35)
    tastes, traits = rng.normal(0, 1, (300, 2)), rng.normal(0, 1, (200, 2))
    values = 3 + 0.7 * np.sum(tastes[users] * traits[items], axis=1) + rng.normal(0, 0.6, len(users))
    return USERS[users], items * 10**12, np.clip(np.round(values), 1, 5)


class TestRatings(Conformance):
    config = VBConfig(n_user_latents=2, n_item_latents=1, max_sweeps=8)

    def features(self) -> dict[str, Features]:
        return {}

    def fit(self, seed: int, n_threads: int) -> RatingsModel:
        users, items, ratings = table()
        user_ids, user_codes = IdMap.of(users)
        item_ids, item_codes = IdMap.of(items)
        assert len(ratings) > 2 * CHUNK
        return RatingsModel.fit(
            user_codes,
            item_codes,
            ratings.astype(np.float32),
            RatingScale(1, 5, (1, 2, 3, 4, 5)),
            self.config,
            user_ids=user_ids,
            item_ids=item_ids,
            seed=seed,
            n_threads=n_threads,
            **self.features(),
        )

    def load(self, folder: Path) -> RatingsModel:
        return RatingsModel.load(folder)

    def learned(self, model: RatingsModel) -> Arrays:
        sides = {"user": model.posterior.users, "item": model.posterior.items}
        arrays = {name: array for side in sides for name, array in sides[side].to_arrays(side).items()}
        noise = np.array([model.posterior.noise.shape, model.posterior.noise.rate])
        if model.sampled is not None:
            arrays |= model.sampled.to_arrays()
        if model.posterior.user_weights is not None:
            arrays["user weights"] = model.posterior.user_weights
        return arrays | {"noise": noise, "bound": model.bound_trace, "noise_sd": model.noise_sd_trace}

    def answers(self, model: RatingsModel) -> Arrays:
        users, items, _ = table()
        ids, best = model.recommend("Ann", 7, exclude=items[users == "Ann"])
        codes = model.recommend_codes(np.arange(300), 5)
        folded = model.fold_in(items[:20:2], [5.0, 1, 3, 4, 2, 5, 5, 1, 3, 3])
        return {
            **named("pairs", model.predict_ids(users, items)),
            **named("best", best),
            **named("folded", folded.predict_ids(items)),
            "best ids": ids,
            "best codes": codes,
        }

    def answers_unknown(self, model: RatingsModel) -> Arrays:
        return {
            **named("user", model.predict_ids(["nobody", "Ann "], [0, 10**12])),
            **named("item", model.predict_ids(["Ann", "Bo"], [-5, 123])),
            **named("kind", model.predict_ids([1, 2], ["x", "y"])),
            **named("folded", model.fold_in(["x"], [5.0]).predict_ids([123, 0])),
            "best": model.recommend("nobody", 3)[0],
            "best of a number": model.recommend(5, 3, exclude=["x"])[0],
        }

    def answers_nothing(self, model: RatingsModel) -> Arrays:
        return {
            **named("ids", model.predict_ids([], [])),
            **named("codes", model.predict(np.zeros(0, np.int32), np.zeros(0, np.int32))),
            **named("folded", model.fold_in([], []).predict_ids([])),
            "best": model.recommend("Ann", 0)[0],
            "best codes": model.recommend_codes(np.zeros(0, np.int32), 5),
        }


class TestGeneralised(TestRatings):
    config = replace(TestRatings.config, inference="gmf")


class TestExactEM(TestRatings):
    config = replace(TestRatings.config, inference="em", max_sweeps=3)


class TestGibbs(TestRatings):
    config = replace(TestRatings.config, inference="gibbs", chains=2, burn_in=2, samples=6, draws=3)


class Featured(TestRatings):
    """A constant, the rated set, and a group for half of the users and items."""

    def features(self) -> dict[str, Features]:
        sides = {"user_features": 300, "item_features": 200}
        return {
            name: Features(csr_array(np.arange(n)[:, None] % 2 * 0.5), ("odd: yes",), ("odd",), np.array([0.5]))
            for name, n in sides.items()
        }


class TestFeatures(Featured):
    config = replace(TestRatings.config, rated_set=True)


class TestGeneralisedFeatures(Featured):
    config = replace(TestRatings.config, rated_set=True, inference="gmf")


class TestGibbsFeatures(Featured):
    config = replace(TestGibbs.config, rated_set=True)


def named(name: str, prediction: Prediction) -> Arrays:
    return {f"{name} {field}": array for field, array in prediction._asdict().items()}


def test_the_suite_sees_several_chunks() -> None:
    order = Order(
        np.arange(0, 3 * CHUNK + 1, CHUNK), np.zeros(3 * CHUNK, np.int32), np.zeros(0), np.zeros(0, np.float32)
    )
    assert len(HalfSweep(order).chunks) > 1
