"""Jester: a wide headerless CSV, one user a line; first the number of jokes rated, then a rating a joke, 99 = none.

Users are called by their line and jokes by their column, both counted from 1: the file has no ids of its own. Of the
three published parts, those that lie together are read together, and lines are counted on from part to part.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from predilect.models.errors import DataError
from predilect.tasks.readers.base import Chunk, Reader, Reading, Scale
from predilect.tasks.readers.source import Source
from predilect.tasks.readers.text import count_lines, filled_lines, is_number, split

MISSING = 99.0
SCALE = Scale(-10, 10, None)
_PARTS = tuple(f"jester-data-{k}.csv" for k in (1, 2, 3))


def _fields(head: bytes) -> list[str]:
    return split(head.partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf").decode(errors="replace").strip(), ",")


def _looks(name: str, head: bytes) -> bool:
    fields = _fields(head)
    if len(fields) < 11 or not all(map(is_number, fields)):
        return False
    values = np.array(fields, float)
    rated = values[1:][values[1:] != MISSING]
    return values[0] == len(rated) and bool((np.abs(rated) <= SCALE.high).all())


def _read(source: Source, member: str, columns: Mapping[str, str]) -> Reading:
    if member.lower().endswith((".xls", ".xlsx")):
        raise DataError(f"{source.label(member)} is an Excel workbook; open it and save the sheet as CSV.")
    return Reading(_chunks(source, member), {"user": "line", "item": "column", "rating": "field"}, SCALE)


def _members(source: Source, member: str) -> tuple[str, ...]:
    parts = [found for part in _PARTS if (found := source.find(part))]
    return tuple(parts) if member in parts else (member,)


def _chunks(source: Source, member: str) -> Iterator[Chunk]:
    before = 0  # Lines of the parts that are done.
    for part in _members(source, member):
        label, n_fields, first_line = source.label(part), len(_fields(source.head(part))), 1
        for block in source.blocks(part):
            lines = filled_lines(block, first_line)
            first_line += count_lines(block)
            if len(lines):
                yield _long(_wide(block, n_fields, label, lines), label, lines, before)
        before += first_line - 1


def _wide(block: bytes, n_fields: int, label: str, lines: np.ndarray) -> np.ndarray:
    """(n_lines, n_fields) numbers."""
    names = [str(k) for k in range(n_fields)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(block),
            read_options=arrow_csv.ReadOptions(column_names=names),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()), null_values=[]),
        )
        return np.column_stack([column.to_numpy() for column in table.columns])
    except pa.ArrowInvalid as error:
        rows = [row for row in block.decode(errors="replace").splitlines() if row]
        for line, row in zip(lines, rows, strict=False):
            fields = split(row, ",")
            if len(fields) != n_fields:
                raise DataError(
                    f"{label}, line {line}: {len(fields)} fields where {n_fields} are expected; mend it."
                ) from None
            for k, field in enumerate(fields):
                if not is_number(field):
                    raise DataError(
                        f"{label}, line {line}, column {k + 1}: {field!r} is not a number; mend it."
                    ) from None
        raise DataError(f"{label}, lines {lines[0]} to {lines[-1]}: {error}; mend the file.") from error


def _long(wide: np.ndarray, label: str, lines: np.ndarray, before: int) -> Chunk:
    counts, values = wide[:, 0], wide[:, 1:]
    rated = values != MISSING
    bad = np.argwhere(rated & ~(np.abs(values) <= SCALE.high))
    if len(bad):
        row, joke = bad[0]
        raise DataError(
            f"{label}, line {lines[row]}, column {joke + 2}: the rating {values[row, joke]:g} is off the scale "
            f"{SCALE.low:g} to {SCALE.high:g}, and only {MISSING:g} means none; correct it."
        )
    wrong = np.flatnonzero(rated.sum(axis=1) != counts)
    if len(wrong):
        row = wrong[0]
        raise DataError(
            f"{label}, line {lines[row]}: the first field promises {counts[row]:g} ratings, but {rated[row].sum()} "
            "are there; check that this is a Jester file."
        )
    row, joke = np.nonzero(rated)
    users, jokes = lines[row].astype(np.int64), joke.astype(np.int64) + 1
    table = pa.table({"user": users + before, "item": jokes, "rating": values[rated]})
    return Chunk(table, lambda k: f"line {users[k]}, column {jokes[k] + 1}")


READER = Reader(
    "jester",
    "Jester jokes (wide CSV)",
    _PARTS,
    _looks,
    _read,
    members=_members,
)
