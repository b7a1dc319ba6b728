"""A run whose disk fills up: one sentence, and nothing left open."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from predilect.models.errors import DataError
from predilect.tasks import tracking
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.runs import mlflow_id
from predilect.tasks.settings import Settings, prepare_environment
from predilect.tasks.training_run import training_run


@pytest.mark.parametrize("noted", [True, False])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: bool) -> None:
    """noted: whether there was room for the run's last line; if not, the next command closes it."""
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    settings = Settings()
    prepare_environment(settings)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "model.npz")

    def no_room(*_: Any) -> None:
        raise full

    parameters = RatingsParameters(data="ratings.csv", name="first")
    with (  # noqa: PT012
        pytest.raises(DataError, match=r"^model\.npz: No space left on device; free space"),
        training_run(parameters, "ratings", None) as run,
    ):
        run.tracker.metrics({"mae": 0.5})
        if not noted:
            run.tracker.finish = no_room  # type: ignore[method-assign]
        raise full
    assert (run.folder / "running.lock").exists() is not noted
    assert tracking.reconcile(settings) == ([] if noted else ["first"])
    with tracking.store(settings) as client:
        found = client.get_run(mlflow_id(run.folder))
    assert found.info.status == ("FAILED" if noted else "KILLED")
    assert found.data.metrics == {"mae": 0.5}
