"""The whole training flow in this process: everything it promises is written, logged and consistent."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError, PredilectError
from predilect.tasks import compare, runs
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.settings import Settings

METRICS = {"mae", "mae_rounded", "rmse", "coverage_90", "log_predictive_density", "ndcg_10", "recall_10"}


def _train(data: Path, **values: Any) -> dict[str, Any]:
    from predilect.flows.train import train_ratings

    return train_ratings(RatingsParameters(data=str(data), resamples=100, restarts=1, **values))


def _run(settings: Settings, run_id: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(settings.mlflow_uri).get_run(run_id)


@pytest.fixture(scope="session")
def greedy(home: Settings, prefect: None, ratings_csv: Path) -> dict[str, Any]:
    """One run with everything on."""
    return _train(
        ratings_csv,
        name="greedy",
        search="greedy",
        search_budget=24,
        cold_start=True,
        cold_start_kappas=[1, 5],
        cold_start_repeats=1,
        cold_start_groups=2,
        split="time:0.2",
        max_sweeps=20,
    )


def test_summary_is_complete(home: Settings, greedy: dict[str, Any]) -> None:
    assert set(greedy["metrics"]) >= METRICS
    assert all(m["low"] <= m["value"] <= m["high"] for m in greedy["metrics"].values())
    assert greedy["dataset"]["rows"] == 3000
    assert greedy["experiment"] == "predilect-ratings"
    assert set(greedy["timings"]) >= {"ingest", "validate", "search", "fit", "evaluate", "cold start", "report"}
    assert greedy["parameters"]["search"] == "greedy"
    assert greedy["differences"]["global mean"]["rmse"]["high"] < 0  # there is structure, and it was found
    json.dumps(greedy)


def test_metrics_are_those_of_the_predictions(greedy: dict[str, Any]) -> None:
    folder = Path(greedy["model_path"]).parent
    table = pq.read_table(folder / "predictions.parquet").to_pandas()
    clipped = table["mean"].clip(1, 5)
    assert greedy["metrics"]["rmse"]["value"] == pytest.approx(np.sqrt(((table["rating"] - clipped) ** 2).mean()))
    inside = (table["rating"] - table["mean"]).abs() <= 1.6448536269514722 * table["sd"]
    assert greedy["metrics"]["coverage_90"]["value"] == pytest.approx(inside.mean())
    assert len(table) == greedy["split"]["test_rows"]


def test_everything_is_in_mlflow(home: Settings, greedy: dict[str, Any]) -> None:
    from mlflow import MlflowClient

    run = _run(home, greedy["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.params["search"] == "greedy"
    assert run.data.metrics["rmse"] == greedy["metrics"]["rmse"]["value"]
    assert run.data.metrics["rmse_low"] == greedy["metrics"]["rmse"]["low"]
    assert run.data.tags["predilect.dataset"] == "stars"
    assert run.data.tags["predilect.inference"] == "mf"
    assert run.data.tags["prefect.flow_run_id"]
    assert run.inputs.dataset_inputs[0].dataset.digest == greedy["dataset"]["digest"][:32]
    client = MlflowClient(home.mlflow_uri)
    bound = [m.value for m in client.get_metric_history(greedy["run_id"], "bound")]
    assert len(bound) > 1
    assert np.all(np.diff(bound) > -1e-6 * np.abs(bound[:-1]))
    assert {m.step for m in client.get_metric_history(greedy["run_id"], "cold_start_mae")} == {1, 5}
    assert {a.path for a in client.list_artifacts(greedy["run_id"])} >= {
        "report.html",
        "results.json",
        "environment.json",
        "data_docs",
    }
    where = f"tags.`mlflow.parentRunId` = '{greedy['run_id']}'"
    children = client.search_runs([run.info.experiment_id], filter_string=where)
    candidates = json.loads(Path(greedy["results_path"]).read_text())["search"]["candidates"]
    assert sorted(c.data.metrics["mae_rounded"] for c in children) == pytest.approx(
        sorted(c["mae"] for c in candidates)
    )


def test_report_page_is_written(greedy: dict[str, Any]) -> None:
    page = Path(greedy["report_path"]).read_text()
    assert f"{greedy['metrics']['rmse']['value']:.3f}" in page


def test_same_seed_same_result_and_finished_candidates_are_reused(
    home: Settings, greedy: dict[str, Any], ratings_csv: Path
) -> None:
    before = {journal: journal.read_text() for journal in (home.state / "searches").glob("*.jsonl")}
    again = _train(
        ratings_csv, name="again", search="greedy", search_budget=24, split="time:0.2", max_sweeps=20, threads=1
    )
    assert again["metrics"] == greedy["metrics"]
    after = {journal: journal.read_text() for journal in (home.state / "searches").glob("*.jsonl")}
    assert after == before  # no candidate was fitted again
    found = json.loads(Path(again["results_path"]).read_text())["search"]["candidates"]
    assert sum(c["shared_with"] is None for c in found) in [text.count("\n") for text in before.values()]


def test_model_serves_in_a_clean_process(home: Settings, greedy: dict[str, Any], tmp_path: Path) -> None:
    import subprocess
    import sys

    script = tmp_path / "serve.py"
    script.write_text(
        "import sys, pandas as pd, mlflow\n"
        "model = mlflow.pyfunc.load_model(f'runs:/{sys.argv[1]}/model')\n"
        "print(model.predict(pd.DataFrame({'user': ['u0', 'nobody'], 'item': [1, 2]})).to_json())\n"
    )
    ran = subprocess.run(
        [sys.executable, script, greedy["run_id"]],
        env={"MLFLOW_TRACKING_URI": home.mlflow_uri, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    served = json.loads(ran.stdout.splitlines()[-1])
    from predilect.models.ratings.model import RatingsModel

    expected = RatingsModel.load(Path(greedy["model_path"])).predict_ids(["u0", "nobody"], [1, 2])
    assert list(served["sd"].values()) == pytest.approx(np.sqrt(expected.variance), abs=1e-9)
    assert not [path for path in home.mlruns.rglob("*") if path.suffix in {".pkl", ".pickle", ".joblib"}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "empty"),
        ("user,item,rating\n", "no "),
        ("user,item,rating\na,b,3\na,b,4\nc,d,5\n", "twice|duplicate|more than once"),
        ("user,item,rating\na,b,nan\nc,d,2\n", "line|row"),
        ("user,item,rating\na,b,3\nc,d,3\ne,f,3\n", "all 3 ratings are 3"),
    ],
)
def test_bad_data_fails_the_run_with_one_sentence(
    home: Settings, prefect: None, tmp_path: Path, content: str, said: str
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(content)
    before = set(home.runs.glob("*"))
    with pytest.raises(DataError, match=said) as error:
        _train(bad)
    assert "\n" not in str(error.value)
    (folder,) = set(home.runs.glob("*")) - before
    run = _run(home, runs.mlflow_id(folder) or "")
    assert run.info.status == "FAILED"
    assert run.data.tags["predilect.reason"] == str(error.value)
    assert not (folder / "model").exists()
    assert not (folder / runs.RESULTS).exists()
    assert not (folder / runs.LOCK).exists()


STAGES = ("ingest", "validate", "split", "search", "fit", "evaluate", "report")


@pytest.mark.parametrize("stage", STAGES)
def test_interrupt_in_every_stage_leaves_a_killed_run_and_nothing_half_written(
    home: Settings, prefect: None, ratings_csv: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    from predilect.flows import train, wiring

    def interrupted(*_args: Any) -> None:
        raise KeyboardInterrupt

    module = wiring if stage == "report" else train
    monkeypatch.setattr(module, f"{stage}_task", wiring.as_task(interrupted, stage, 1))
    before = set(home.runs.glob("*"))
    with pytest.raises(KeyboardInterrupt):
        _train(ratings_csv, max_sweeps=3)
    (folder,) = set(home.runs.glob("*")) - before
    assert _run(home, runs.mlflow_id(folder) or "").info.status == "KILLED"
    assert not (folder / runs.LOCK).exists()
    assert not (folder / "report.html").exists()
    assert not list(folder.rglob("*.part"))


def test_disk_full_is_one_sentence(
    home: Settings, prefect: None, ratings_csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from predilect.flows import train, wiring

    def full(*_args: Any) -> None:
        raise OSError(28, "No space left on device", "model")

    monkeypatch.setattr(train, "fit_task", wiring.as_task(full, "fit", 1))
    with pytest.raises(DataError, match="No space left on device"):
        _train(ratings_csv, max_sweeps=3)


def test_store_away_still_gives_results(
    home: Settings, prefect: None, ratings_csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREDILECT_TRACKING_URI", "http://127.0.0.1:9")
    found = _train(ratings_csv, name="away", max_sweeps=3)
    assert found["tracked"] is False
    assert Path(found["report_path"]).is_file()
    monkeypatch.delenv("PREDILECT_TRACKING_URI")
    from predilect.tasks.tracking import Tracker

    run_id = Tracker(runs.find(home, "away"), home).send()
    assert run_id is not None
    assert _run(home, run_id).data.metrics["rmse"] == found["metrics"]["rmse"]["value"]


def test_unknown_parameter_is_refused_before_the_run(home: Settings, prefect: None) -> None:
    from predilect.flows.train import train_ratings

    before = set(home.runs.glob("*"))
    with pytest.raises(Exception, match=r"extra|Extra|not permitted"):
        train_ratings({"data": "x", "tua": 1})  # as Prefect hands it over
    assert set(home.runs.glob("*")) == before
    assert issubclass(DataError, PredilectError)


def test_what_is_kept_for_pairing_gives_the_metrics(greedy: dict[str, Any]) -> None:
    kept = compare._scored_units(Path(greedy["results_path"]).parent)
    assert kept is not None
    values, _ = kept[1](0, 100)
    expected = {name: metric["value"] for name, metric in greedy["metrics"].items()}
    assert values == pytest.approx(expected, abs=1e-6)
