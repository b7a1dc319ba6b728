"""The rankings flow in this process: everything it promises is written, logged and consistent."""

import csv
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.rankings import RankingsModel
from predilect.tasks import compare, compute, runs
from predilect.tasks.compute import Workers
from predilect.tasks.parameters_rankings import RankingsParameters
from predilect.tasks.rankings_fit import fit_rankings, split_rankings
from predilect.tasks.rankings_source import ingest_rankings
from predilect.tasks.settings import Settings
from predilect.tasks.simulate_rankings import SHARES, TOWNS, simulate_rankings


def _train(data: Path | str, **values: Any) -> dict[str, Any]:
    from predilect.flows.train_rankings import train_rankings

    values = {"menu": "all", "resamples": 100, "refits": 20, "k_max": 4, "starts": 3, "search_folds": 2} | values
    return train_rankings(RankingsParameters(data=str(data), **values))


def _run(settings: Settings, run_id: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(settings.mlflow_uri).get_run(run_id)


@pytest.fixture(scope="session")
def ballots_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand ballots of three segments."""
    return simulate_rankings(tmp_path_factory.mktemp("rankings") / "towns", n_ballots=1000, seed=4)


@pytest.fixture(scope="session")
def searched(home: Settings, prefect: None, ballots_csv: Path) -> dict[str, Any]:
    """One run that chooses K."""
    return _train(ballots_csv, name="towns")


@pytest.fixture(scope="session")
def results(searched: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(searched["results_path"]).read_text())
    return found


def test_summary_is_complete(searched: dict[str, Any]) -> None:
    assert set(searched["metrics"]) >= {"log_likelihood", "heldout_log_likelihood_ballot", "bic", "pair_accuracy"}
    assert all(m["low"] <= m["value"] <= m["high"] for m in searched["metrics"].values())
    assert searched["experiment"] == "predilect-rankings"
    assert searched["dataset"]["n_ballots"] == 1000
    assert searched["split"] == {"kind": "random:0.2", "train_rows": 800, "test_rows": 200} | {
        "train_distinct": searched["split"]["train_distinct"]
    }
    assert set(searched["timings"]) >= {"ingest", "validate", "split", "search", "fit", "evaluate", "report"}
    assert searched["parameters"]["menu"] == "all"
    assert searched["differences"]["any order"]["heldout_log_likelihood_ballot"]["low"] > 0


def test_planted_segments_are_found(results: dict[str, Any]) -> None:
    assert results["search"]["chosen"]["k"] == len(SHARES)
    assert [share["value"] for share in results["segments"]["shares"]] == pytest.approx(SHARES, abs=0.06)
    assert sorted(results["items"]["names"]) == sorted(TOWNS)
    for part in results["segments"]["log_worths"]:
        assert sum(each["value"] for each in part) == pytest.approx(0, abs=1e-9)
        assert all(each["low"] < each["value"] < each["high"] for each in part)


def _log_likelihood(order: list[int], log_worths: np.ndarray, shares: np.ndarray) -> float:
    """Of one top-l ballot under menu "all", stage by stage."""
    terms = []
    for k, share in enumerate(shares):
        left = set(range(len(log_worths)))
        total = math.log(share)
        for item in order:
            total += log_worths[item, k] - math.log(sum(math.exp(log_worths[a, k]) for a in left))
            left.remove(item)
        terms.append(total)
    return float(np.logaddexp.reduce(terms))


def test_metrics_are_those_of_the_file_and_the_model(searched: dict[str, Any], ballots_csv: Path) -> None:
    """Recomputed from the CSV, the model folder and the mask of held-out ballots, in plain Python."""
    folder = Path(searched["model_path"]).parent
    model = RankingsModel.load(folder / "model")
    code = {name: place for place, name in enumerate(model.item_ids.ids.tolist())}
    with ballots_csv.open() as stream:
        orders = [tuple(code[name] for name in row) for row in list(csv.reader(stream))[1:]]
    distinct = list(dict.fromkeys(orders))
    test = dict(zip(distinct, np.load(folder / "test_counts.npy").tolist(), strict=True))
    each = {order: _log_likelihood(list(order), model.log_worths, model.shares) for order in distinct}
    held_out = sum(test[order] * each[order] for order in distinct) / sum(test.values())
    fitted = sum(each[order] for order in orders) - sum(test[order] * each[order] for order in distinct)
    metrics = searched["metrics"]
    assert metrics["heldout_log_likelihood_ballot"]["value"] == pytest.approx(held_out, rel=1e-12)
    assert metrics["log_likelihood"]["value"] == pytest.approx(fitted, rel=1e-10)
    n_parameters = model.n_components * len(code) - 1
    assert metrics["bic"]["value"] == pytest.approx(-2 * fitted + n_parameters * math.log(800), rel=1e-10)
    chance = model.win_matrix()
    right = pairs = 0.0
    for order, count in test.items():
        for place, item in enumerate(order):
            behind = set(range(len(code))) - set(order[: place + 1])
            right += count * sum(chance[item, other] > 0.5 for other in behind)
            pairs += count * len(behind)
    assert metrics["pair_accuracy"]["value"] == pytest.approx(right / pairs)


def test_files_agree_with_the_results(searched: dict[str, Any], results: dict[str, Any]) -> None:
    folder = Path(searched["model_path"]).parent
    model = RankingsModel.load(folder / "model")
    worths = pq.read_table(folder / "worths.parquet").to_pandas()
    assert worths["log_worth"].to_numpy() == pytest.approx(model.log_worths.T.ravel())
    segments = pq.read_table(folder / "segments.parquet").to_pandas()
    assert segments["count"].sum() == 1000
    assert segments.filter(like="probability").sum(axis=1).to_numpy() == pytest.approx(1)
    one = segments.iloc[7]
    expected = model.segment(one["items"].tolist()).probabilities
    assert one.filter(like="probability").to_numpy(float) == pytest.approx(expected)
    board = (folder / "leaderboard.md").read_text().splitlines()
    assert len(board) == 2 + len(TOWNS)
    wins = model.win_matrix().sum(axis=1) - 0.5
    assert results["leaderboard"][0]["name"] == model.item_ids.ids[wins.argmax()]
    assert board[2].startswith(f"| 1 | {model.item_ids.ids[wins.argmax()]} | ")
    matrix = np.array(results["overall"]["matrix"]["chance"])
    assert matrix + matrix.T == pytest.approx(np.ones_like(matrix))


def test_everything_is_in_mlflow(home: Settings, searched: dict[str, Any], results: dict[str, Any]) -> None:
    from mlflow import MlflowClient

    run = _run(home, searched["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.params["menu"] == "all"
    for name, metric in searched["metrics"].items():
        assert run.data.metrics[name] == metric["value"]
        assert run.data.metrics[f"{name}_low"] == metric["low"]
    client = MlflowClient(home.mlflow_uri)
    trace = [m.value for m in client.get_metric_history(searched["run_id"], "log_likelihood_trace")]
    assert len(trace) > 1
    assert np.all(np.diff(trace) >= -1e-13 * np.abs(trace[:-1]))  # but for rounding
    assert {a.path for a in client.list_artifacts(searched["run_id"])} >= {
        "report.html",
        "results.json",
        "leaderboard.md",
    }
    where = f"tags.`mlflow.parentRunId` = '{searched['run_id']}'"
    children = {c.info.run_name: c for c in client.search_runs([run.info.experiment_id], filter_string=where)}
    assert set(children) == {"K=1", "K=2", "K=3", "K=4"}
    for line in results["search"]["candidates"]:
        child = children[f"K={line['k']}"].data
        assert child.metrics["heldout_log_likelihood_ballot"] == pytest.approx(np.mean(line["fold_held_out"]))
        assert child.metrics["bic"] == line["bic"]


def test_report_page_is_written(searched: dict[str, Any]) -> None:
    page = Path(searched["report_path"]).read_text()
    for name in TOWNS:
        assert name in page
    for part in ("leaderboard", "segments", "ranks", "search", "fit", "calibration"):
        assert f'id="{part}"' in page
    assert page.count("<svg") >= 8
    assert "| 1 | " in page


def test_same_seed_same_result_and_finished_candidates_are_reused(
    home: Settings, searched: dict[str, Any], results: dict[str, Any], ballots_csv: Path
) -> None:
    journals = {path: path.read_text() for path in (home.state / "searches").glob("*.jsonl")}
    again = _train(ballots_csv, name="towns-again", threads=1)
    assert again["metrics"] == searched["metrics"]
    assert {path: path.read_text() for path in (home.state / "searches").glob("*.jsonl")} == journals
    found = json.loads(Path(again["results_path"]).read_text())
    assert found["search"]["candidates"] == results["search"]["candidates"]
    assert found["segments"] == results["segments"]


def test_worker_processes_find_the_same_bits(
    home: Settings,
    searched: dict[str, Any],
    results: dict[str, Any],
    ballots_csv: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Search, fit and refits there, by processes that start once and end with the run.

    The candidates that are finished are put away, or the search would take them.
    """
    for journal in (home.state / "searches").glob("*.jsonl"):
        journal.rename(tmp_path / journal.name)
    started, start = list[Workers](), compute.workers

    @contextmanager
    def counted(*asked: Any) -> Iterator[Workers]:
        with start(*asked) as found:
            started.append(found)
            yield found

    monkeypatch.setattr(compute, "workers", counted)
    again = _train(ballots_csv, name="towns-elsewhere", compute="processes", workers=2)
    assert [found.client.status for found in started] == ["closed"]
    assert again["metrics"] == searched["metrics"]
    elsewhere = json.loads(Path(again["results_path"]).read_text())
    for part in ("search", "segments", "overall", "leaderboard", "calibration"):
        assert elsewhere[part] == results[part]
    models = [Path(run["model_path"], "arrays.npz").read_bytes() for run in (again, searched)]
    assert models[0] == models[1]


def test_nothing_held_out_and_a_given_k(home: Settings, prefect: None, ballots_csv: Path) -> None:
    found = _train(ballots_csv, split="none", k=2, refits=0, solver="lsr", starts=0)
    assert set(found["metrics"]) == {"log_likelihood", "bic"}
    assert found["baselines"] == {}
    model = RankingsModel.load(Path(found["model_path"]))
    assert found["metrics"]["log_likelihood"]["value"] == model.log_likelihood
    assert model.n_ballots == 1000
    assert model.config.solver == "lsr"
    results = json.loads(Path(found["results_path"]).read_text())
    assert results["segments"]["intervals"]["kind"] == "information"
    assert results["search"]["kind"] == "none"
    assert "none were held out" in Path(found["report_path"]).read_text()


def test_model_serves_pairs(home: Settings, searched: dict[str, Any]) -> None:
    import mlflow
    import pandas as pd

    from predilect.tasks.tracking import as_default

    with as_default(home.mlflow_uri):
        served = mlflow.pyfunc.load_model(f"runs:/{searched['run_id']}/model")
    asked = pd.DataFrame({"better": ["Athens", "Bergen", "Nowhere"], "worse": ["Bergen", "Athens", "Athens"]})
    chance = served.predict(asked)["probability"].to_numpy()
    model = RankingsModel.load(Path(searched["model_path"]))
    assert chance[:2] == pytest.approx(model.win_probability(["Athens", "Bergen"], ["Bergen", "Athens"]))
    assert chance[0] + chance[1] == pytest.approx(1)
    assert np.isnan(chance[2])


@pytest.mark.parametrize(
    ("content", "values", "said"),
    [
        ("2: a,b,a\n1: b,c\n", {}, "line 1: item a is ranked twice"),
        ("2: a,b\n1:\n", {}, "line 2: the ballot is empty"),
        ("2: a;b;c\n1: b,c\n", {}, "line 1: 'a;b;c' is not an item; separate items by commas"),
        ("# n_items=3 n_rankings=9\n2: 0,1\n1: 1,2\n", {}, "header says n_rankings=9, but the counts add up to 3"),
        (
            "# n_items=4\n3: 0,1,2\n2: 2,1,0\n2: 1,0,2\n",
            {},
            "item 3 is never ranked before another item; set nu",
        ),
        ("3: a,b\n2: b,a\n3: c,d\n2: d,c\n", {"menu": "ranked"}, "2 separate islands"),
        ("3: a,b\n2: b,a\n", {"k": 3}, "n_components is 3, but there are only 2 distinct ballots"),
        ("3: a\n2: a\n", {}, "ranks one item only"),
        ("winner,loser,weight\na,b,1\nb,a,0\n", {"menu": "ranked"}, "line 3: the weight is 0; give one above 0"),
        ("winner,loser,weight\na,b,-1\nb,a,1\n", {"menu": "ranked"}, "line 2: the weight is -1; give one above 0"),
        ("0: a,b\n2: b,a\n", {}, "the count is 0"),
        ("a,b\nc,d\n", {}, "say which with form and columns"),
        ("", {}, "is empty"),
    ],
)
def test_bad_data_are_one_sentence(
    home: Settings, tmp_path: Path, content: str, values: dict[str, Any], said: str
) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text(content)
    with pytest.raises((DataError, ParameterError)) as error:
        _fit(bad, tmp_path, **values)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "model").exists()


def _fit(data: Path, run: Path, **values: Any) -> RankingsModel:
    """The stages up to the fit, without a flow."""
    parameters = RankingsParameters(data=str(data), **{"menu": "all", "split": "none", "k": 1} | values)
    folder = ingest_rankings(parameters)
    split_rankings(folder, run, parameters)
    fit_rankings(folder, run, parameters, {"k": int(parameters.k)})
    return RankingsModel.load(run / "model")


def test_bad_data_fail_the_run(home: Settings, prefect: None, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("2: a,b,a\n1: b,c\n")
    before = set(home.runs.glob("*"))
    with pytest.raises(DataError) as error:
        _train(bad)
    (folder,) = set(home.runs.glob("*")) - before
    run = _run(home, runs.mlflow_id(folder) or "")
    assert run.info.status == "FAILED"
    assert run.data.tags["predilect.reason"] == str(error.value)
    assert not (folder / "model").exists()
    assert not (folder / runs.RESULTS).exists()


def test_prior_makes_islands_and_unranked_items_solvable(home: Settings, tmp_path: Path) -> None:
    apart = tmp_path / "apart.txt"
    apart.write_text("# n_items=5\n3: 0,1\n2: 1,0\n3: 2,3\n2: 3,2\n")
    model = _fit(apart, tmp_path, menu="ranked", nu=0.5)
    assert model.log_worths.shape == (5, 1)
    assert np.all(np.isfinite(model.log_worths))


def test_menus_are_different_models(home: Settings, tmp_path: Path) -> None:
    table = tmp_path / "top.txt"
    table.write_text("5: a,b\n4: b,c\n3: c,a\n2: c\n1: b,a,c\n")
    found = {menu: _fit(table, tmp_path, menu=menu) for menu in ("all", "ranked")}
    assert found["all"].log_likelihood < found["ranked"].log_likelihood - 1
    assert any("2 ballots name a single item" in said for said in found["ranked"].warnings)


def test_ballots_that_a_split_leaves_too_few_of_are_named(home: Settings, tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    few.write_text("1: a,b\n1: b,a\n")
    with pytest.raises(DataError, match=r"Without the ballots that split=random:0.5 holds out: No finite worths"):
        _fit(few, tmp_path, split="random:0.5")
    with pytest.raises(DataError, match=r"has 2 ballots, too few for split=random:0.2"):
        _fit(few, tmp_path, split="random:0.2")


@pytest.mark.parametrize("stage", ["search", "evaluate"])
def test_interrupt_in_every_stage_leaves_a_killed_run(
    home: Settings, prefect: None, ballots_csv: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    from predilect.flows import train_rankings, wiring

    def interrupted(*_args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_rankings, f"{stage}_task", wiring.as_task(interrupted, stage, 1))
    before = set(home.runs.glob("*"))
    with pytest.raises(KeyboardInterrupt):
        _train(ballots_csv, k=1)
    (folder,) = set(home.runs.glob("*")) - before
    assert _run(home, runs.mlflow_id(folder) or "").info.status == "KILLED"
    assert not (folder / "report.html").exists()
    assert not list(folder.rglob("*.part"))


def test_what_is_kept_for_pairing_gives_the_metrics(searched: dict[str, Any]) -> None:
    kept = compare._scored_units(Path(searched["results_path"]).parent)
    assert kept is not None
    values, _ = kept[1](0, 100)
    expected = {
        name: metric["value"] for name, metric in searched["metrics"].items() if name not in ("log_likelihood", "bic")
    }
    assert values == pytest.approx(expected, abs=1e-6)
