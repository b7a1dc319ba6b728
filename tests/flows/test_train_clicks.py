"""The clicks flow in this process: everything it promises is written, logged and consistent; bad input is one error."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from predilect.models.clicks import ClicksModel
from predilect.models.errors import DataError, ParameterError
from predilect.tasks import compare
from predilect.tasks.canonical_clicks import ClicksTable
from predilect.tasks.clicks_fit import choose_parts
from predilect.tasks.clicks_source import ingest_clicks
from predilect.tasks.clicks_validate import validate_clicks
from predilect.tasks.parameters_clicks import ClicksParameters
from predilect.tasks.settings import Settings
from predilect.tasks.simulate_clicks import simulate_clicks
from predilect.tasks.tracking import as_default

COLUMNS = {"texts": ["title"], "categories": ["place"], "group": "test"}


def _train(data: Path, **values: Any) -> dict[str, Any]:
    from predilect.flows.train_clicks import train_clicks

    return train_clicks(ClicksParameters(data=str(data), **({"resamples": 100} | COLUMNS | values)))


@pytest.fixture(scope="session")
def counts_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate_clicks(tmp_path_factory.mktemp("clicks") / "headlines", n_headlines=1_200, seed=5)


@pytest.fixture(scope="session")
def trained(home: Settings, prefect: None, counts_csv: Path) -> dict[str, Any]:
    return _train(counts_csv, name="headlines")


@pytest.fixture(scope="session")
def results(trained: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(trained["results_path"]).read_text())
    return found


def _frame(table: Path, n: int) -> pd.DataFrame:
    return pd.read_csv(table).head(n)


def _check(home: Settings, tmp_path: Path, frame: pd.DataFrame, **values: Any) -> ClicksTable:
    path = tmp_path / "bad.csv"
    frame.to_csv(path, index=False)
    folder = ingest_clicks(ClicksParameters(data=str(path), **(COLUMNS | values)))
    validate_clicks(folder, tmp_path)
    return ClicksTable.read(folder)


def test_summary_is_complete(trained: dict[str, Any]) -> None:
    assert set(trained["metrics"]) >= {
        "log_likelihood_row", "log_likelihood_impression", "auc", "sauc", "coverage_90"
    }  # fmt: skip
    assert all(m["low"] <= m["value"] <= m["high"] for m in trained["metrics"].values())
    assert trained["experiment"] == "predilect-clicks"
    assert trained["split"]["kind"] == "group:0.3"
    assert trained["split"]["train_rows"] + trained["split"]["test_rows"] == 1200
    assert set(trained["timings"]) >= {"ingest", "validate", "split", "compile", "fit", "evaluate", "report"}


def test_metrics_are_those_of_the_file_and_the_predictions(trained: dict[str, Any], counts_csv: Path) -> None:
    """Recomputed from the CSV and the normals of each held-out row, by quadrature and pair counting."""
    found = pd.read_parquet(Path(trained["model_path"]).parent / "predictions.parquet")
    rows = pd.read_csv(counts_csv).iloc[found["row"]]
    assert (rows[["impressions", "clicks"]].to_numpy() == found[["impressions", "clicks"]].to_numpy()).all()
    train = pd.read_csv(counts_csv).drop(index=found["row"])
    assert not set(rows["test"]) & set(train["test"])
    x, w = np.polynomial.hermite_e.hermegauss(25)
    w = w / w.sum()
    zeta, eta = (
        found[name].to_numpy()[:, None, None] + found[f"{name}_sd"].to_numpy()[:, None, None] * grid
        for name, grid in (("zeta", x[:, None]), ("eta", x[None, :]))
    )
    n, v = (rows[name].to_numpy()[:, None, None] for name in ("impressions", "clicks"))
    each = np.log((stats.betabinom.pmf(v, n, np.exp(zeta + eta), np.exp(eta)) * (w[:, None] * w)).sum(axis=(1, 2)))
    np.testing.assert_allclose(found["log_likelihood"], each, atol=2e-3)
    metrics = trained["metrics"]
    assert metrics["log_likelihood_row"]["value"] == pytest.approx(each.mean(), abs=1e-3)
    held = (found["clicks_low"] <= found["clicks"]) & (found["clicks"] <= found["clicks_high"])
    assert metrics["coverage_90"]["value"] == pytest.approx(held.mean())
    p = found["mean"].to_numpy()
    positive, negative = found["clicks"].to_numpy(), (found["impressions"] - found["clicks"]).to_numpy()
    above = (p[:, None] > p).astype(float) + 0.5 * (p[:, None] == p)
    area = (positive[:, None] * negative * above).sum() / (positive.sum() * negative.sum())
    assert metrics["auc"]["value"] == pytest.approx(area, abs=1e-12)


def test_planted_words_are_found(results: dict[str, Any], counts_csv: Path) -> None:
    truth = json.loads((counts_csv.parent / "truth.json").read_text())
    mean = results["words"]["mean"]
    names = [row["name"].split(":")[-1].split("=")[-1].strip() for way in ("up", "down") for row in mean[way]]
    effects = [row["value"] for way in ("up", "down") for row in mean[way]]
    known = truth["mean_effects"] | truth["places"]
    assert set(names) <= set(known)
    assert np.corrcoef(effects, [known[name] for name in names])[0, 1] > 0.9
    assert results["differences"]["no-context"]["log_likelihood_row"]["low"] > 0


def test_run_is_logged_and_its_model_predicts(trained: dict[str, Any], home: Settings, counts_csv: Path) -> None:
    import mlflow

    run = mlflow.MlflowClient(home.mlflow_uri).get_run(trained["run_id"])
    assert run.data.metrics["log_likelihood_row"] == pytest.approx(trained["metrics"]["log_likelihood_row"]["value"])
    assert run.data.params["model"] == "l-prop"
    with as_default(home.mlflow_uri):
        served = mlflow.pyfunc.load_model(f"runs:/{trained['run_id']}/model")
    folder = Path(trained["model_path"]).parent
    predictions = pd.read_parquet(folder / "predictions.parquet").head(50)
    rows = pd.read_csv(counts_csv).iloc[predictions["row"]].rename(columns={"test": "group"})
    said = served.predict(rows[["title", "place", "group"]])
    np.testing.assert_allclose(said["mean"], predictions["mean"], rtol=1e-9)
    assert (said["sd"] > 0).all()
    assert (said["upper"] > said["mean"]).all()
    assert ClicksModel.load(folder / "model").config.model == "l-prop"
    page = Path(trained["report_path"]).read_text()
    assert "What moves clicks" in page


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("clicks", 10_000, "clicks not above impressions"),
        ("clicks", -1, "clicks 0 or more and finite"),
        ("clicks", 1.5, "counts are whole numbers"),
        ("clicks", None, "clicks given"),
        ("impressions", "inf", "impressions 0 or more and finite"),
        ("impressions", "many", "'many' in column impressions is not a number"),
    ],
)
def test_counts_that_cannot_be(
    home: Settings, tmp_path: Path, counts_csv: Path, column: str, value: Any, said: str
) -> None:
    frame = _frame(counts_csv, 30).astype({column: object})
    frame.loc[7, column] = value
    with pytest.raises(DataError, match=said):
        _check(home, tmp_path, frame)


def test_missing_columns_files_and_parts(home: Settings, tmp_path: Path, counts_csv: Path) -> None:
    with pytest.raises(DataError, match="no column for the impressions and clicks"):
        _check(home, tmp_path, _frame(counts_csv, 30).drop(columns=["impressions", "clicks"]))
    with pytest.raises(DataError, match="no column 'lead' for the text"):
        _check(home, tmp_path, _frame(counts_csv, 30), texts=["lead"])
    with pytest.raises(DataError, match="something was shown"):
        _check(home, tmp_path, _frame(counts_csv, 30).assign(impressions=0, clicks=0))
    table = ClicksTable.read(ingest_clicks(ClicksParameters(data=str(counts_csv), group="none", texts=["title"])))
    with pytest.raises(DataError, match="needs a group on every row"):
        choose_parts(table, ClicksParameters(data="x", split="group:0.3"))
    with pytest.raises(DataError, match="needs a user, an item and a time"):
        choose_parts(table, ClicksParameters(data="x", history=0.2))
    with pytest.raises(ParameterError, match="the kind is time, random, group or stable"):
        ClicksParameters.parse(None, ["split=user:0.2"], data="x")
    with pytest.raises(ParameterError, match="model = 'xl'"):
        ClicksParameters.parse(None, ["model=xl"], data="x")


def test_splits(home: Settings, counts_csv: Path) -> None:
    table = ClicksTable.read(ingest_clicks(ClicksParameters(data=str(counts_csv), **COLUMNS)))
    late, _ = choose_parts(table, ClicksParameters(data="x", split="time:0.25"))
    weeks = np.asarray(table.time)
    assert weeks[late.test].min() >= weeks[late.train].max()
    assert len(late.test) == 300
    some, _ = choose_parts(table, ClicksParameters(data="x", split="random:0.25"))
    assert len(some.test) == 300
    assert sorted([*some.train, *some.test]) == list(range(1200))


def test_log_of_impressions_becomes_pairs(home: Settings, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("user,item,clicked,time\na,x,0,1\na,x,1,3\nb,x,0,2\na,y,true,4\n")
    table = ClicksTable.read(ingest_clicks(ClicksParameters(data=str(log))))
    rows = {(u, i): (n, v, t) for u, i, n, v, t in zip(table.users.values, table.items.values, table.impressions,
            table.clicks, table.time, strict=True)}  # fmt: skip
    assert rows == {("a", "x"): (2, 1, 3), ("b", "x"): (1, 0, 2), ("a", "y"): (1, 1, 4)}
    log.write_text("user,item,clicked\na,x,0\na,x,2\n")
    with pytest.raises(DataError, match="'2' in column clicked is neither 0 nor 1"):
        ingest_clicks(ClicksParameters(data=str(log)))


def test_mind_and_open_bandit(home: Settings, tmp_path: Path) -> None:
    mind = tmp_path / "mind"
    mind.mkdir()
    (mind / "news.tsv").write_text(
        'N1\tsports\tgolf\tA title "quoted"\tabstract\tu\t[]\t[]\nN2\tnews\tworld\tOther\t\tu\t[]\t[]\n'
    )
    (mind / "behaviors.tsv").write_text(
        "1\tU1\t11/11/2019 9:05:58 AM\tN2\tN1-1 N2-0\n2\tU1\t11/12/2019 9:05:58 PM\tN2\tN1-0\n"
    )
    table = ClicksTable.read(ingest_clicks(ClicksParameters(data=str(mind))))
    assert sorted(table.impressions.tolist()) == [1, 2]
    assert table.clicks.sum() == 1
    assert table.history is not None
    assert [part.tolist() for part in table.history] == [["U1"], ["N2"]]
    assert set(table.contexts.columns.texts["title"]) == {'A title "quoted"', "Other"}
    (mind / "behaviors.tsv").write_text("1\tU1\t11/11/2019 9:05:58 AM\tN2\tN7-1\n")
    with pytest.raises(DataError, match=r"N7-1' names an article not in news\.tsv"):
        ingest_clicks(ClicksParameters(data=str(mind)))
    bandit = tmp_path / "bandit"
    bandit.mkdir()
    (bandit / "item_context.csv").write_text("item_id,item_feature_0,item_feature_1\n0,-0.5,a\n1,0.5,b\n")
    (bandit / "all.csv").write_text(
        "timestamp,item_id,position,click,user_feature_0\n"
        "2019-11-24 00:00:00+00:00,0,1,0,z\n2019-11-24 00:00:01+00:00,1,2,1,z\n"
    )
    table = ClicksTable.read(ingest_clicks(ClicksParameters(data=str(bandit))))
    assert set(table.contexts.columns.categories) == {"user_feature_0", "item_feature_0", "item_feature_1", "position"}
    assert table.clicks.sum() == 1


def test_hard_tables_are_fitted(home: Settings, prefect: None, tmp_path: Path, counts_csv: Path) -> None:
    """Zero impressions, no clicks at all, constant columns, empty texts, a rank above the number of coefficients."""
    frame = _frame(counts_csv, 60).assign(clicks=0, size=1.0)
    frame.loc[:5, "impressions"] = 0
    frame.loc[:20, "title"] = ""
    path = tmp_path / "hard.csv"
    frame.to_csv(path, index=False)
    found = _train(path, numbers=["size"], rank=4096, compare=[], model="l-bbl", split="random:0.3")
    assert np.isfinite(found["metrics"]["log_likelihood_row"]["value"])
    assert "auc" not in found["metrics"]
    assert "no clicks" in Path(found["report_path"]).read_text()


@pytest.mark.parametrize("kept", [["test"], ["user", "item"], ["user"], ["item"], []])
def test_stable_split_holds_as_data_grow(home: Settings, tmp_path: Path, kept: list[str]) -> None:
    """Rows that are there already stay in their part, and what belongs together is in one part."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "user": [f"u{k}" for k in rng.integers(0, 60, 900)],
            "item": [f"i{k}" for k in rng.integers(0, 30, 900)],
            "test": [f"t{k}" for k in rng.integers(0, 100, 900)],
            "place": rng.choice(["front", "side", "foot"], 900),
            "impressions": rng.integers(20, 40, 900),
            "clicks": rng.integers(0, 20, 900),
        }
    )
    frame = frame[[*kept, "place", "impressions", "clicks"]]
    parts = []
    for n in (500, 900):
        path = tmp_path / f"grown-{n}.csv"
        frame.head(n).to_csv(path, index=False)
        asked = ClicksParameters(
            data=str(path), split="stable:0.3", categories="place", group="test" if "test" in kept else "none"
        )
        parts.append(choose_parts(ClicksTable.read(ingest_clicks(asked)), asked)[0])
    early, late = parts
    assert np.array_equal(early.test, late.test[late.test < 500])
    assert 0.2 < len(late.test) / 900 < 0.4
    together = {"test": ["test"], "user": ["user", "item"]}.get(kept[0] if kept else "", [])
    if set(together) <= set(kept) and together:
        keys = frame[together].agg("/".join, axis=1)
        assert not set(keys[late.test]) & set(keys[late.train])


def test_what_is_kept_for_pairing_gives_the_metrics(trained: dict[str, Any]) -> None:
    kept = compare._scored_rows(Path(trained["results_path"]).parent)
    assert kept is not None
    values, _ = kept[1](0, 100)
    expected = {name: metric["value"] for name, metric in trained["metrics"].items()}
    assert values == pytest.approx(expected, abs=1e-6)
