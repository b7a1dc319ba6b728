"""The journals of searches: one line a finished candidate, kept under a key of everything that decides its losses."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from predilect.tasks.settings import Settings


def journal_for(settings: Settings, decides: Sequence[Any]) -> Path:
    """The journal of a search; decides: the data's digest and whatever else makes a candidate's losses others."""
    key = hashlib.sha256(json.dumps(list(decides)).encode()).hexdigest()[:24]
    folder = settings.state / "searches"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key}.jsonl"
