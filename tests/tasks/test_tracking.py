"""The journal is sent in order, once, and nothing is lost when the store is away or the process dies."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from predilect.models.errors import ParameterError
from predilect.tasks import runs, tracking
from predilect.tasks.settings import Settings, prepare_environment
from predilect.tasks.tracking import Tracker, TrackingError, reconcile, waiting


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    found = Settings()
    prepare_environment(found)
    return found


@pytest.fixture
def run(settings: Settings) -> Iterator[runs.RunFolder]:
    folder = runs.RunFolder.create(settings, "first", "ratings")
    yield folder
    folder.release()


def _client(settings: Settings):  # type: ignore[no-untyped-def]
    from mlflow import MlflowClient

    return MlflowClient(settings.mlflow_uri)


def _say_much(tracker: Tracker) -> None:
    tracker.start("predilect-test", {"predilect.family": "test"})
    tracker.params({"tau": 2.5, "kappas": [1, 2]})
    tracker.metrics({"mae": 0.7})
    tracker.series("bound", [-3.0 + i / 1000 for i in range(1500)])
    tracker.child("candidate", {"tau": 1}, {"mae": 0.8}, {"predilect.part": "search"})
    tracker.dataset("d", "0" * 64, "d.csv", {"rows": 3})
    (tracker.folder / "note.txt").write_text("hello")
    tracker.artifact(tracker.folder / "note.txt")


def test_everything_arrives_once(settings: Settings, run: runs.RunFolder) -> None:
    tracker = Tracker(run.path, settings)
    _say_much(tracker)
    run_id = tracker.flush()
    assert tracker.flush() == run_id
    tracker.finish("FINISHED")
    tracker.flush()
    client = _client(settings)
    found = client.get_run(run_id)
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "first"
    assert found.data.params == {"tau": "2.5", "kappas": "[1, 2]"}
    assert found.data.metrics["mae"] == 0.7
    assert [m.value for m in client.get_metric_history(run_id, "bound")][-1] == pytest.approx(-1.501)
    assert len(client.get_metric_history(run_id, "bound")) == 1500
    assert found.inputs.dataset_inputs[0].dataset.name == "d"
    assert [a.path for a in client.list_artifacts(run_id)] == ["note.txt"]
    children = client.search_runs([found.info.experiment_id], filter_string=f"tags.`mlflow.parentRunId` = '{run_id}'")
    assert [child.data.metrics for child in children] == [{"mae": 0.8}]


def test_store_away_keeps_results_and_sync_sends_them(
    settings: Settings, run: runs.RunFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PREDILECT_TRACKING_URI", "http://user:secret@127.0.0.1:9")
    away = Tracker(run.path, Settings())
    _say_much(away)
    assert away.flush() is None
    away.finish("FINISHED")
    assert away.flush() is None
    (said,) = [record.getMessage() for record in caplog.records if record.name == "predilect"]
    assert "predilect sync first" in said
    assert "secret" not in said
    assert waiting(settings) == [run.path]
    assert tracking.catch_up(Settings()) == []
    with pytest.raises(TrackingError):
        away.send()
    assert tracking.catch_up(settings) == ["first"]
    assert _client(settings).get_run(runs.mlflow_id(run.path)).info.status == "FINISHED"
    assert not waiting(settings)


def test_what_was_made_just_before_death_is_not_made_again(
    settings: Settings, run: runs.RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = Tracker(run.path, settings)
    _say_much(tracker)
    tracker.finish("FINISHED")
    for name, send in list(tracking._SEND.items()):

        def dies(*words: Any, _send: Any = send, _name: str = name) -> None:
            _send(*words)
            monkeypatch.setitem(tracking._SEND, _name, _send)
            raise KeyboardInterrupt

        monkeypatch.setitem(tracking._SEND, name, dies)
    for _ in range(len({"start", "params", "metrics", "series", "child", "dataset", "artifact", "finish"})):
        with pytest.raises(KeyboardInterrupt):
            tracker.send()
    run_id = tracker.send()
    client = _client(settings)
    found = client.search_runs([client.get_run(run_id).info.experiment_id])
    assert sorted(each.info.run_name for each in found) == ["candidate", "first"]
    assert {each.info.status for each in found} == {"FINISHED"}
    assert len(client.get_metric_history(run_id, "bound")) == 1500


def test_two_that_send_at_once_send_once(
    settings: Settings, run: runs.RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`predilect up` logs what waits while the run itself goes on and does the same."""
    _say_much(Tracker(run.path, settings))
    send = tracking._SEND["child"]

    def slowly(*words: Any) -> None:
        time.sleep(1)
        send(*words)

    monkeypatch.setitem(tracking._SEND, "child", slowly)
    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(Tracker(run.path, settings).send) for _ in range(2))
        assert first.result() == second.result()
    client = _client(settings)
    found = client.search_runs([client.get_run(first.result()).info.experiment_id])
    assert sorted(each.info.run_name for each in found) == ["candidate", "first"]


def test_half_a_line_of_the_journal_is_no_reason_to_lose_the_rest(settings: Settings, run: runs.RunFolder) -> None:
    tracker = Tracker(run.path, settings)
    _say_much(tracker)
    with open(run.path / "journal.jsonl", "a", encoding="utf-8") as journal:
        journal.write('{"do": "metrics", "val')
    assert not tracker.finished()
    tracker.finish("KILLED", "by a full disk")
    assert tracker.finished()
    assert _client(settings).get_run(tracker.send()).info.status == "KILLED"


def test_locked_database_keeps_results(
    settings: Settings, run: runs.RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    tracker = Tracker(run.path, settings)
    tracker.start("predilect-test", {})
    assert tracker.flush() is not None
    holder = sqlite3.connect(settings.mlruns / "mlflow.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    tracker.metrics({"mae": 0.5})
    assert tracker.flush() is None
    holder.execute("ROLLBACK")
    holder.close()
    run_id = tracker.send()
    assert _client(settings).get_run(run_id).data.metrics == {"mae": 0.5}


KILLED = """
import sys, time
from predilect.tasks.runs import RunFolder
from predilect.tasks.settings import Settings, prepare_environment
from predilect.tasks.tracking import Tracker
settings = Settings(); prepare_environment(settings)
held = RunFolder.create(settings, "doomed", "x")
tracker = Tracker(held.path, settings)
tracker.start("predilect-test", {}); tracker.metrics({"mae": .9})
(held.path / ".model.1.part").mkdir()
if "flush" in sys.argv: tracker.flush()
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("flushed", ["flush", "no"])
def test_killed_run_is_closed_by_the_next_command(settings: Settings, flushed: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, flushed], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert reconcile(settings) == []  # it lives
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert reconcile(settings) == ["doomed"]
    assert reconcile(settings) == []
    folder = settings.runs / "doomed"
    run_id = runs.mlflow_id(folder)
    found = _client(settings).get_run(run_id)
    assert found.info.status == "KILLED"
    assert found.data.metrics == {"mae": 0.9}
    assert not list(folder.glob("*.part"))
    process.stdout.close()


def test_find_by_name_start_or_id(settings: Settings, run: runs.RunFolder) -> None:
    (run.path / runs.RESULTS).write_text("{}")
    (run.path / "tracking.json").write_text(json.dumps({"run_id": "abc", "sent": 0}))
    for text in ("first", "fi", "abc"):
        assert runs.find(settings, text) == run.path
    with pytest.raises(ParameterError, match="no run matches"):
        runs.find(settings, "other")


def test_name_in_use(settings: Settings, run: runs.RunFolder) -> None:
    with pytest.raises(ParameterError, match="exists"):
        runs.RunFolder.create(settings, "first", "x")


def test_json_is_complete_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    runs.write_json(path, {"a": 1})
    with pytest.raises(ValueError):
        runs.write_json(path, {"a": float("nan")})
    assert runs.read_json(path) == {"a": 1}


def test_end_that_cannot_be_noted_is_noted_by_the_next_command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from predilect.models.errors import DataError
    from predilect.tasks.parameters import RatingsParameters
    from predilect.tasks.training_run import training_run

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "journal.jsonl")

    def doomed() -> None:
        with training_run(RatingsParameters(data="x", name="full"), "ratings", None):
            monkeypatch.setattr(Tracker, "finish", full)
            full()

    finish = Tracker.finish
    with pytest.raises(DataError, match="No space left"):
        doomed()
    monkeypatch.setattr(Tracker, "finish", finish)
    assert reconcile(settings) == ["full"]
    assert _client(settings).get_run(runs.mlflow_id(settings.runs / "full")).info.status == "KILLED"


def test_no_draft_is_left_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, *_: object, **__: object) -> None:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        runs.write_json(tmp_path / "x.json", {})
    assert not list(tmp_path.iterdir())
