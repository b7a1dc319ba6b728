"""The journals of searches: one line a finished candidate, kept under a key of everything that decides its losses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from predilect.tasks.runs import key_of
from predilect.tasks.settings import Settings


def journal_for(settings: Settings, decides: Sequence[Any]) -> Path:
    """The journal of a search; decides: the data's digest and whatever else makes a candidate's losses others."""
    folder = settings.state / "searches"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key_of(decides)}.jsonl"
