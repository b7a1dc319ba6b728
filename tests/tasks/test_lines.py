"""Files of JSON lines: what a writer that died, or a full disk, leaves of a line."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from predilect.tasks.lines import append_line, whole_lines


def test_part_of_a_line_is_passed_over_and_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    assert whole_lines(path) == []
    append_line(path, json.dumps({"n": 1}))
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"n": 2, "text": "' + "é" * 100_000)  # longer than what is looked at in one go
    assert whole_lines(path) == [{"n": 1}]
    append_line(path, json.dumps({"n": 3}))
    assert whole_lines(path) == [{"n": 1}, {"n": 3}]
    path.write_text('{"n"')
    append_line(path, json.dumps({"n": 4}))
    assert whole_lines(path) == [{"n": 4}]


def test_text_may_hold_separators_of_lines(tmp_path: Path) -> None:
    line = {"name": "one\u2028two\x85three\n"}
    append_line(tmp_path / "lines", json.dumps(line, ensure_ascii=False))
    assert whole_lines(tmp_path / "lines") == [line]


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    append_line(path, json.dumps({"n": 1}))
    write = os.write

    def full(file: int, data: Any) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[: len(data) - 5])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        append_line(path, json.dumps({"n": 2, "text": "cut short"}))
    assert path.read_text() == '{"n": 1}\n'
