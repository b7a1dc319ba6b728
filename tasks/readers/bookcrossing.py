"""BookCrossing: `BX-Book-Ratings.csv`; semicolons, Latin-1, quoted fields with backslash escapes.

A rating of 0 means that the book was seen, not rated: such rows are left out and counted.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from predilect.tasks.readers.base import Chunk, Reader, Reading, Scale, Where
from predilect.tasks.readers.source import Source
from predilect.tasks.readers.text import Layout, read_delimited

COLUMNS = {"user": "User-ID", "item": "ISBN", "rating": "Book-Rating"}
_HEADER = b'"User-ID";"ISBN";"Book-Rating"'
_LAYOUT = Layout(";", 3, {"user": 0, "item": 1, "rating": 2}, header_lines=1, escape="\\", latin1=True)


def _read(source: Source, member: str, columns: Mapping[str, str]) -> Reading:
    reading = Reading(iter(()), dict(COLUMNS), Scale(1, 10, 1))
    reading.left_out_reason = "rating 0 means implicit interest, not a rating"
    reading.chunks = _chunks(source, member, reading)
    return reading


def _chunks(source: Source, member: str, reading: Reading) -> Iterator[Chunk]:
    for chunk in read_delimited(source, member, _LAYOUT):
        explicit = np.flatnonzero(chunk.table["rating"].to_numpy() != 0)
        reading.left_out += chunk.table.num_rows - len(explicit)
        if len(explicit):
            yield Chunk(chunk.table.take(pa.array(explicit)), _kept(chunk.where, explicit.astype(np.int32)))


def _kept(where: Where, rows: np.ndarray) -> Where:
    return lambda k: where(int(rows[k]))


READER = Reader(
    "bookcrossing",
    "BookCrossing",
    ("BX-Book-Ratings.csv",),
    lambda name, head: head.startswith(_HEADER),
    _read,
    ("book-crossing", "bx-csv-dump"),
)
