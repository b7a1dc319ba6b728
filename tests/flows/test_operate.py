"""`predilect up`, `down`, `status`, `logs`: twice, beside another, and after processes were killed."""

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from operated import Operated, until

from predilect.models.ratings.model import RatingsModel
from predilect.tasks import processes
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import fetch_model, flow_run_of

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="session")
def long_table(tmp_path_factory: pytest.TempPathFactory, operated: Operated) -> Path:
    """A table that takes long enough to train on for a process to be killed meanwhile."""
    folder = tmp_path_factory.mktemp("long")
    operated.predilect("simulate", str(folder), "--users", "3000", "--items", "600", "--ratings", "200000")
    return folder / "ratings.parquet"


def _tracked(operated: Operated, name: str) -> str:
    from mlflow import MlflowClient

    client = MlflowClient(operated.mlflow)
    experiments = [found.experiment_id for found in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"attributes.run_name = '{name}'")
    status: str = run.info.status
    return status


def _long(table: Path, name: str) -> dict[str, object]:
    return {"data": str(table), "name": name, "search": "greedy", "split": "random:0.2"}


def test_up_again_changes_nothing(operated: Operated) -> None:
    before = operated.pids()
    assert all(before.values())
    operated.predilect("up")
    assert operated.pids() == before


def test_the_service_runs_beside_them_and_waits_for_a_champion(operated: Operated) -> None:
    answer = httpx.get(f"{operated.ratings}/healthz")
    assert answer.status_code == 503
    (found,) = json.loads(operated.predilect("status", "ratings", "--json").stdout)
    assert found["state"] == "up"
    assert "has no champion yet" in found["about"]
    assert found["about"] == answer.json()["detail"]


def test_who_holds_a_port_is_named(operated: Operated, tmp_path: Path) -> None:
    other = Operated(tmp_path)
    other.env["PREDILECT_MLFLOW_PORT"] = operated.mlflow.rpartition(":")[2]
    refused = other.predilect("up", ok=False)
    assert refused.returncode == 2
    assert "is held by process" in refused.stderr
    assert "mlflow" in refused.stderr
    assert other.processes() == []
    assert all(each["state"] == "up" for each in operated.status())


def test_killed_services_and_flow_are_repaired_by_up(operated: Operated, long_table: Path) -> None:
    """Worker, flow and MLflow server die at once; after `up`, no run is left RUNNING and everything answers."""
    run = operated.trigger("train-ratings", _long(long_table, "killed"))
    folder = operated.home / "state" / "runs" / "killed"
    until("the run to fit", 120, lambda: (folder / "split.json").exists() or len(list(folder.glob("*"))) > 3)
    pids = operated.pids()
    (flow,) = [p for p in processes.marked(operated.home / "state" / "services") if processes.FLOW_RUN in p.environ()]
    for pid in (pids["worker"], flow.pid, pids["mlflow"]):
        os.kill(pid, signal.SIGKILL)
    assert operated.state(run) == "RUNNING"
    operated.predilect("up")
    assert all(each["state"] == "up" for each in operated.status())
    assert operated.state(run) == "CRASHED"
    assert _tracked(operated, "killed") == "KILLED"
    assert not (folder / "running.lock").exists()


def test_a_run_goes_on_while_the_prefect_server_is_away(operated: Operated, long_table: Path) -> None:
    run = operated.trigger("train-ratings", _long(long_table, "alone"))
    folder = operated.home / "state" / "runs" / "alone"
    until("the run to start", 120, (folder / "tracking.json").exists)
    os.kill(operated.pids()["prefect"], signal.SIGKILL)
    operated.predilect("up")
    assert operated.ended(run) == "COMPLETED"
    assert _tracked(operated, "alone") == "FINISHED"


def test_results_outlive_the_mlflow_server(operated: Operated, long_table: Path) -> None:
    run = operated.trigger("train-ratings", _long(long_table, "untracked"))
    folder = operated.home / "state" / "runs" / "untracked"
    until("the run to start", 120, (folder / "tracking.json").exists)
    os.kill(operated.pids()["mlflow"], signal.SIGKILL)
    for left in processes.marked(operated.home / "state" / "services", "mlflow"):
        left.kill()
    assert operated.ended(run) == "COMPLETED"
    assert (folder / "results.json").is_file()
    assert (folder / ".untracked").exists()
    operated.predilect("up")
    assert _tracked(operated, "untracked") == "FINISHED"
    assert not (folder / ".untracked").exists()


def test_logs_are_shown(operated: Operated) -> None:
    assert "worker" in operated.predilect("logs", "worker").stdout
    assert operated.predilect("logs", "--lines", "2").stdout.count("mlflow: ") <= 2


def test_backup_taken_while_up_is_read_elsewhere(operated: Operated, tmp_path: Path) -> None:
    """After the runs above: the run folder, its MLflow run and its model, without any server."""
    operated.predilect("backup", str(tmp_path / "saved.tar.gz"))
    other = Operated(tmp_path / "elsewhere")
    other.predilect("restore", str(tmp_path / "saved.tar.gz"))
    listed = json.loads(other.predilect("runs", "--json").stdout)
    assert {(each["run"], each["status"]) for each in listed} >= {("killed", "KILLED"), ("untracked", "FINISHED")}
    settings = Settings(home=other.home)
    run_id = next(each["run_id"] for each in listed if each["run"] == "untracked")
    from predilect.tasks.tracking import store

    with store(settings) as client:
        experiment = client.get_run(run_id).info.experiment_id
        (model,) = client.search_logged_models([experiment], f"source_run_id = '{run_id}'")
        client.download_artifacts(run_id, "report.html", str(tmp_path))
    fetch_model(settings, f"models:/{model.model_id}", tmp_path / "model")
    (manifest,) = (tmp_path / "model").rglob("manifest.json")
    assert len(RatingsModel.load(manifest.parent).user_ids.ids) > 2000


def test_housekeeping_runs_as_a_flow_and_takes_old_flow_runs_away(operated: Operated) -> None:
    """Two flow runs that ended long ago, one of them of a run folder that stays, and one of today."""
    old, today = (operated.trigger("housekeeping", {"dry_run": True, "keep": 0}) for _ in range(2))
    assert {operated.ended(old), operated.ended(today)} == {"COMPLETED"}
    folder = operated.home / "state" / "runs" / "alone"
    held = flow_run_of(folder)
    with closing(sqlite3.connect(operated.home / "state" / "prefect" / "prefect.db")) as database:
        for run in (old, held):
            database.execute(
                "UPDATE flow_run SET end_time = datetime(end_time, '-100 days') WHERE replace(id, '-', '') = ?",
                (str(run).replace("-", ""),),
            )
        assert database.total_changes == 2
        database.commit()
    of = {"flow_run_id": {"any_": [old]}}
    assert operated.ask("/artifacts/filter", {"artifacts": of})
    assert operated.ask("/logs/filter", {"logs": of})
    would = json.loads(operated.predilect("housekeeping", "--keep", "0", "--json").stdout)
    assert [each["days"] > 99 for each in would if each["kind"] == "flow run"] == [True]
    assert operated.state(old) == "COMPLETED"
    gone = json.loads(operated.predilect("housekeeping", "--keep", "0", "--no-dry-run", "--json").stdout)
    assert [each["name"] for each in gone] == [each["name"] for each in would]
    assert operated.state(today) == operated.state(str(held)) == "COMPLETED"
    assert operated.ask("/flow_runs/filter", {"flow_runs": {"id": {"any_": [old]}}}) == []
    assert operated.ask("/artifacts/filter", {"artifacts": of}) == []
    until("the logs to go", 60, lambda: operated.ask("/logs/filter", {"logs": of}) == [])
