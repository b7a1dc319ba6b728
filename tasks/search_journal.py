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


def whole_lines(journal: Path) -> list[dict[str, Any]]:
    """The records of a journal; a last line that a crash cut short is taken off it."""
    if not journal.is_file():
        return []
    text = journal.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        journal.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]
