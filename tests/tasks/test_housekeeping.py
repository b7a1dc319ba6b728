"""Retention: what is old enough goes, from MLflow and from disk; registered, unlogged and running ones never do."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from predilect.tasks import housekeeping, processes
from predilect.tasks.housekeeping import DAY, housekeep
from predilect.tasks.parameters_housekeeping import HousekeepingParameters
from predilect.tasks.prefect_housekeeping import housekeep_flow_runs
from predilect.tasks.runs import RunFolder
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import JOURNAL, Tracker, store


def _run(settings: Settings, name: str, status: str, days: float, log: bool = True) -> str | None:
    held = RunFolder.create(settings, name, "ratings")
    tracker = Tracker(held.path, settings)
    tracker.start("predilect-ratings", {})
    (held.path / "note.txt").write_text("x")
    tracker.artifact(held.path / "note.txt")
    tracker.child("candidate", {}, {"loss": 1.0}, {})
    tracker.finish(status)
    run_id = tracker.send() if log else None
    held.release()
    then = time.time() - days * DAY
    os.utime(held.path / JOURNAL, (then, then))
    return run_id


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def test_old_runs_go_everywhere_and_a_dry_run_takes_nothing(settings: Settings) -> None:
    old = _run(settings, "old", "FINISHED", 100)
    _run(settings, "newer", "FINISHED", 95)
    failed = _run(settings, "failed", "FAILED", 20)
    _run(settings, "failed-late", "FAILED", 5)
    _run(settings, "unlogged", "FINISHED", 200, log=False)
    (settings.runs / "unlogged" / ".untracked").touch()
    parameters = HousekeepingParameters(keep=1)
    would = housekeep(settings, parameters)
    assert {each["name"] for each in would} == {"old", "failed"}
    assert (settings.runs / "old").is_dir()
    with store(settings) as client:
        place = Path(client.get_run(old).info.artifact_uri.removeprefix("file://"))
    assert (place / "note.txt").is_file()
    assert housekeep(settings, parameters.model_copy(update={"dry_run": False})) == would
    assert {folder.name for folder in settings.runs.iterdir()} == {"newer", "failed-late", "unlogged"}
    assert not (place / "note.txt").exists()
    with store(settings) as client:
        left = client.search_runs(["1"])
        assert {run.info.run_name for run in left} == {"newer", "failed-late", "candidate"}
        assert len(left) == 4  # two runs, each with its child
        assert client.get_run(failed).info.lifecycle_stage == "deleted"
    assert housekeep(settings, parameters) == []


def test_registered_models_and_running_ones_stay(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = _run(settings, "champion", "FINISHED", 1000)
    _run(settings, "other", "FINISHED", 1000)
    (settings.runs / "other" / "running.lock").touch()
    monkeypatch.setattr(housekeeping, "_registered", lambda _: {run_id})
    assert housekeep(settings, HousekeepingParameters(keep=0)) == []
    monkeypatch.undo()
    assert [each["name"] for each in housekeep(settings, HousekeepingParameters(keep=0))] == ["champion"]


class _Server:
    """A Prefect server with two flows' runs, newest first as it is asked, and what was deleted on it."""

    def __init__(self) -> None:
        self.deleted: list[Any] = []

    def pages(self, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if path == "/artifacts/filter":
            yield {"id": "artifact"}
            return
        for state in body["flow_runs"]["state"]["type"]["any_"]:
            for flow, days in (("a", 1), ("a", 95), ("b", 96), ("a", 97), ("a", 98)):
                ended = (datetime.now(UTC) - timedelta(days=days)).isoformat()
                name = f"{flow}-{days}-{state.lower()}"
                yield {"id": name, "name": name, "flow_id": flow, "state_type": state, "end_time": ended}

    def ask(self, path: str, body: Any = None, method: str = "") -> None:
        self.deleted.append(path if body is None else body["flow_runs"]["id"]["any_"])


def test_old_flow_runs_go_unless_newest_or_of_a_run_that_stays() -> None:
    server: Any = _Server()
    parameters = HousekeepingParameters(keep=1, failed_days=97)
    rows = housekeep_flow_runs(server, parameters, kept={"a-98-failed", "a-97-completed"})
    gone = ["a-95-completed", "a-98-completed", "a-97-failed"]
    gone += [f"a-{days}-{state}" for state in ("crashed", "cancelled") for days in (97, 98)]
    assert [row["name"] for row in rows] == gone
    assert rows[0]["why"] == "completed, older than 90 days, not among the newest 1"
    assert server.deleted == []
    assert housekeep_flow_runs(
        server, parameters.model_copy(update={"dry_run": False}), {"a-98-failed", "a-97-completed"}
    )
    assert server.deleted == ["/artifacts/artifact", gone]


def test_old_files_go(settings: Settings) -> None:
    _run(settings, "one", "FINISHED", 1)
    old = [
        settings.runs / "one" / "quarantine.parquet",
        processes.log_file(settings.services, "worker").with_name("worker.log.1"),
        settings.state / "searches" / "k.jsonl",
    ]
    young = [path.with_name(f"young-{path.name}") for path in old[1:]]
    for path in (*old, *young):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for name, paths in (("key", old), ("young-key", young)):
        (settings.state / "fits" / name / "000001").mkdir(parents=True)
        paths.append(settings.state / "fits" / name)
    for path in old:
        os.utime(path, (time.time() - 40 * DAY,) * 2)
    gone = housekeep(settings, HousekeepingParameters(dry_run=False))
    assert [each["kind"] for each in gone] == [
        "quarantine",
        "log",
        "search journal",
        "checkpoints of a fit",
    ]
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in young)
