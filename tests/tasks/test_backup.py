"""Backup and restore: elsewhere, with every address put right; damaged files and homes in use are refused."""

import os
import shutil
from pathlib import Path

import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.tasks import runs
from predilect.tasks.backup import backup, restore
from predilect.tasks.runs import RunFolder
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import Tracker, store


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A backup of a home with one logged run, and the run's id; the home is gone by then."""
    folder = tmp_path_factory.mktemp("saved")
    settings = Settings(home=folder / "home", tracking_uri=None)
    held = RunFolder.create(settings, "one", "ratings")
    tracker = Tracker(held.path, settings)
    tracker.start("predilect-ratings", {})
    (held.path / "note.txt").write_text("kept")
    tracker.artifact(held.path / "note.txt")
    tracker.finish("FINISHED")
    run_id = tracker.send()
    held.release()
    (settings.services / "logs").mkdir(parents=True)
    (settings.services / "worker.json").write_text("{}")
    done = backup(settings, folder / "saved.tar.gz")
    assert done["databases"] == 1
    assert not list(settings.state.glob(".*.part"))
    shutil.rmtree(settings.home)
    return folder / "saved.tar.gz", str(run_id)


def test_restored_elsewhere_runs_and_artifacts_are_read(saved: tuple[Path, str], tmp_path: Path) -> None:
    file, run_id = saved
    settings = Settings(home=tmp_path / "other place")
    restore(settings, file)
    assert runs.find(settings, "one").is_relative_to(settings.home)
    assert not settings.services.exists()
    with store(settings) as client:
        assert client.get_run(run_id).info.status == "FINISHED"
        got = client.download_artifacts(run_id, "note.txt", str(tmp_path))
    assert Path(got).read_text() == "kept"
    with pytest.raises(ParameterError, match="in use"):
        restore(settings, file)


def test_what_is_no_whole_backup_is_refused(saved: tuple[Path, str], tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    whole = saved[0].read_bytes()
    bad = tmp_path / "bad.tar.gz"
    for content in (b"", b"no archive", whole[: len(whole) // 2]):
        bad.write_bytes(content)
        with pytest.raises(DataError, match="damaged"):
            restore(settings, bad)
    with pytest.raises(ParameterError, match="no such file"):
        restore(settings, tmp_path / "absent.tar.gz")
    assert not settings.runs.exists()
    assert list(settings.home.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    with pytest.raises(DataError, match="cannot be written"):
        backup(settings, tmp_path / "absent" / "saved.tar.gz")
    assert os.listdir(tmp_path) == ["home"]
