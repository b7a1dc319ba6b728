"""Progress of a flow run as a Prefect artifact: one bar for the run, its note naming the stage under way."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact

from predilect.tasks import progress

# Rough shares of a run, so that the bar moves evenly enough.
STAGES = (
    "ingest", "validate", "split", "compile", "search", "synthetic", "real", "fit", "evaluate", "cold start", "track",
    "report",
)  # fmt: skip
SECONDS_BETWEEN = 2.0


@contextmanager
def progress_artifact(name: str) -> Iterator[None]:
    """Show every report made inside the block, at most one every two seconds, and 100 % at the end."""
    artifact = cast(UUID, create_progress_artifact(0.0, key="progress", description=name))
    last = 0.0

    def show(stage: str, share: float, note: str) -> None:
        nonlocal last
        now = time.monotonic()
        if stage not in STAGES or now - last < SECONDS_BETWEEN:
            return
        last = now
        percent = 100 * (STAGES.index(stage) + share) / len(STAGES)
        update_progress_artifact(artifact, round(percent, 1), description=f"{name}: {stage} {note}")

    with progress.listen(show):
        yield
    update_progress_artifact(artifact, 100.0, description=f"{name}: done")
