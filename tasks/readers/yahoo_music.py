"""Yahoo! Music: blocks of a line `user|count` and then `count` lines that start item<TAB>rating.

Whatever follows the rating (KDD Cup 2011: a day counted from an undisclosed one, and a time) is left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.tasks.readers.base import Chunk, Reader, Reading
from predilect.tasks.readers.source import Source
from predilect.tasks.readers.text import Layout, count_lines, parse

_BLOCK = re.compile(rb"[^\s|]+\|\d+\s*\n([^\s|]+(\t[^\n\r|\t]+)+)")


@dataclass
class _Open:
    """The user whose block is being read; it may run on over the next piece of the file."""

    user: str = ""
    line: int = 0
    promised: int = 0
    seen: int = 0


def _read(source: Source, member: str, columns: Mapping[str, str]) -> Reading:
    label, found = source.label(member), _BLOCK.match(source.head(member).removeprefix(b"\xef\xbb\xbf"))
    if found is None:
        raise DataError(
            f"{label}, line 1: no block of a line user|count and lines item<TAB>rating; check that this is a "
            "Yahoo! Music training file."
        )
    n_fields = found[1].count(b"\t") + 1
    layout = Layout("\t", n_fields, {"item": 0, "rating": 1}, quoted=False)
    reading = Reading(_chunks(source, member, layout), {"user": "block", "item": "field 1", "rating": "field 2"})
    if n_fields > 2:
        reading.warnings.append(
            f"the {n_fields - 2} fields after the rating are left out: their day 0 is not published"
        )
    return reading


def _chunks(source: Source, member: str, layout: Layout) -> Iterator[Chunk]:
    label, first_line, current = source.label(member), 1, _Open()
    for block in source.blocks(member):
        chunk = _piece(block, first_line, current, layout, label)
        first_line += count_lines(block)
        if chunk is not None:
            yield chunk
    _close(current, label)


def _piece(block: bytes, first_line: int, current: _Open, layout: Layout, label: str) -> Chunk | None:
    """The ratings of some whole lines; `current` is brought up to their end."""
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(text == ord("\n")) + 1
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    lengths = np.diff(ends, prepend=0)
    starts = ends - lengths
    is_blank = (text[starts] == ord("\n")) | ((lengths == 2) & (text[starts] == ord("\r")))
    is_header = np.zeros(len(ends), bool)
    is_header[np.searchsorted(ends, np.flatnonzero(text == ord("|")), side="right")] = True
    is_body = ~is_header & ~is_blank
    body, header = np.flatnonzero(is_body), np.flatnonzero(is_header)
    users, promised = _headers(text[np.repeat(is_header, lengths)].tobytes(), label, first_line + header)
    owner = np.cumsum(is_header)[body]  # 0: the user open from the piece before; k: the k-th header of this piece
    if len(owner) and owner[0] == 0 and not current.line:
        raise DataError(
            f"{label}, line {first_line + body[0]}: a rating stands before the first user|count line; mend it."
        )
    names = pa.array([current.user, *users])
    seen = np.bincount(owner, minlength=len(names))
    current.seen += int(seen[0])
    if users:
        _close(current, label)
        for k in np.flatnonzero(seen[1:-1] != promised[:-1]):
            _close(_Open(users[k], first_line + int(header[k]), int(promised[k]), int(seen[k + 1])), label)
        current.user, current.line = users[-1], first_line + int(header[-1])
        current.promised, current.seen = int(promised[-1]), int(seen[-1])
    if not len(body):
        return None
    chunk = parse(text[np.repeat(is_body, lengths)].tobytes(), layout, label, first_line + body)
    return Chunk(chunk.table.append_column("user", names.dictionary_encode().take(pa.array(owner))), chunk.where)


def _headers(text: bytes, label: str, lines: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
    """The users and promised counts of some user|count lines."""
    if not text:
        return [], np.empty(0, np.int64)
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text),
            read_options=arrow_csv.ReadOptions(column_names=["user", "count"]),
            parse_options=arrow_csv.ParseOptions(delimiter="|", quote_char=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types={"user": pa.string(), "count": pa.int64()}, null_values=[], strings_can_be_null=False
            ),
        )
        return table["user"].to_pylist(), table["count"].to_numpy()
    except pa.ArrowInvalid as error:
        for line, row in zip(lines, text.splitlines(), strict=False):
            if not re.fullmatch(rb"[^|\t]+\|\d{1,18}", row):
                raise DataError(f"{label}, line {line}: {row!r:.60} is not user|count; mend the line.") from error
        raise DataError(f"{label}, between lines {lines[0]} and {lines[-1]}: {error}; mend the file.") from error


def _close(block: _Open, label: str) -> None:
    """Raise DataError unless the user has the number of ratings promised."""
    if block.seen != block.promised:
        raise DataError(
            f"{label}, line {block.line}: user {block.user} has {block.seen} ratings where {block.promised} are "
            "promised; the file may be cut short."
        )


READER = Reader(
    "yahoo-music",
    "Yahoo! Music (user|count blocks)",
    ("trainIdx1.txt", "trainIdx2.txt", "train.txt"),
    lambda name, head: _BLOCK.match(head) is not None,
    _read,
    ("yahoo", "kddcup2011"),
)
