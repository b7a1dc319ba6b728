"""Checkpoints of a fit: where it stands is written every few minutes, and an interrupted fit goes on from there.

They lie under a key of everything that decides the fit's bits. The newest is kept until the next one is complete, and
all go when the fit has ended.
"""

import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from predilect.models.errors import ArtifactError
from predilect.models.ratings.checkpoint import load_state, save_state
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.fit import FitState
from predilect.tasks.output import cannot_write
from predilect.tasks.runs import key_of
from predilect.tasks.settings import Settings

log = logging.getLogger("predilect")
MINUTES = 3.0
"""Between checkpoints, at least."""
LARGEST_SHARE = 0.02
"""Of the time, for writing checkpoints: they are further apart where the disk is slow."""


class Checkpoints:
    """The checkpoints of one fit. `keep` is what `RatingsModel.fit` calls after each sweep."""

    def __init__(self, settings: Settings, decides: Sequence[Any], minutes: float = MINUTES) -> None:
        """decides: the data's digest and whatever else makes the fit's bits others."""
        self.folder = settings.state / "fits" / key_of(decides)
        self.pause = 60 * minutes
        self.seconds = 0.0
        """Spent on writing."""
        self.n_kept = 0
        self._last = time.monotonic()

    def keep(self, state: FitState) -> None:
        """Write a checkpoint if it is time for one."""
        began = time.monotonic()
        if began - self._last < self.pause:
            return
        earlier = self._numbered()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_state(self.folder / f"{earlier[-1][0] + 1 if earlier else 1:06}", state)
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        for _, path in earlier:
            shutil.rmtree(path, ignore_errors=True)
        self._last = time.monotonic()
        self.n_kept += 1
        self.seconds += self._last - began
        self.pause = max(self.pause, (self._last - began) / LARGEST_SHARE)

    def latest(self, config: VBConfig) -> FitState | None:
        """The newest whole checkpoint; None: begin anew."""
        for _, path in reversed(self._numbered()):
            try:
                state = load_state(path, config)
            except ArtifactError as error:
                log.warning("%s A checkpoint before it is looked for.", error)
                continue
            log.warning("The fit goes on from sweep %d of an interrupted one.", len(state.at.bound_trace))
            return state
        return None

    def clear(self) -> None:
        """The fit has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _numbered(self) -> list[tuple[int, Path]]:
        return sorted((int(path.name), path) for path in self.folder.glob("[0-9]*") if path.name.isdigit())
