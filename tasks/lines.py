"""Files of JSON lines that are only appended to, and stay readable whatever ends their writer."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any


def append_line(path: Path, text: str) -> None:
    """Add a line, whole or not at all; the part of one that an earlier writer left is taken off first.

    Raises OSError, as on a full disk, with the file as it was.
    """
    with open(path, "a+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        end = _end_of_lines(file.fileno())
        os.truncate(file.fileno(), end)
        line = memoryview(f"{text}\n".encode())
        try:
            while line:
                line = line[os.write(file.fileno(), line) :]
        except BaseException:
            os.truncate(file.fileno(), end)
            raise


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The values of a file's lines, without the part of one that its writer did not finish; none without a file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _end_of_lines(file: int) -> int:
    """Where the last whole line of an open file ends."""
    end = os.fstat(file).st_size
    while end:
        start = max(0, end - 65_536)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
