"""What every reader is made of: a source goes in, bounded chunks of ratings come out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from predilect.models.errors import DataError
from predilect.tasks.readers.source import Source

REQUIRED = ("user", "item", "rating")
OPTIONAL = ("timestamp", "fold")
RATING_LIMIT = 1e9
"""Larger ratings are refused: they are never ratings, and their squares would not fit the kernels' float32."""

Where = Callable[[int], str]
"""The place of a row of a chunk in its file, for messages: `where(0)` → "line 2"."""


@dataclass(frozen=True)
class Chunk:
    """Some rows of the source, in its order.

    table: `user` and `item` (dictionary of strings, string, or int64), `rating` (double), and maybe
    `timestamp` (int64 unix seconds) and `fold` (string or dictionary of strings).
    """

    table: pa.Table
    where: Where


@dataclass(frozen=True)
class Scale:
    """Legal ratings: from `low` to `high`, in steps of `step`, or anything between (None)."""

    low: float
    high: float
    step: float | None

    def levels(self) -> list[float] | None:
        """The legal values in ascending order; None when the scale is continuous."""
        if self.step is None:
            return None
        return [round(self.low + k * self.step, 9) for k in range(round((self.high - self.low) / self.step) + 1)]


@dataclass
class Reading:
    """A source being read. `left_out` and `warnings` are complete once `chunks` is exhausted.

    columns: `user`, `item`, … → the column's name in the source. scale: as the format's publisher documents it.
    typed_ids: the file says whether ids are integers or strings, so they are not guessed from their look.
    """

    chunks: Iterator[Chunk]
    columns: dict[str, str]
    scale: Scale | None = None
    typed_ids: bool = False
    left_out: int = 0
    left_out_reason: str = ""
    warnings: list[str] = field(default_factory=list)


def _only_itself(source: Source, member: str) -> tuple[str, ...]:
    return (member,)


@dataclass(frozen=True)
class Reader:
    """One published format.

    names: base names under which its ratings file is published.
    looks: whether a file with this base name and these first bytes is of the format.
    read: (source, member, columns) → Reading; `columns` maps user, item, … to names in the file.
    members: all files that are read with `member`; their content makes the source's digest.
    """

    name: str
    title: str
    names: tuple[str, ...]
    looks: Callable[[str, bytes], bool]
    read: Callable[[Source, str, Mapping[str, str]], Reading]
    aliases: tuple[str, ...] = ()
    members: Callable[[Source, str], tuple[str, ...]] = _only_itself
    takes_columns: bool = False


def check_ratings(table: pa.Table, label: str, where: Where) -> None:
    """Raise DataError at the first rating that is missing, not finite or too large, and at the first empty id."""
    for name in [name for name in ("user", "item") if name in table.column_names]:
        bad = None if pa.types.is_integer(table[name].type) else first_true(pc.equal(_strings(table[name]), ""))
        if bad is not None:
            raise DataError(f"{label}, {where(bad)}: the {name} id is empty; fill it in or remove the row.")
    ratings = table["rating"]
    bad = first_true(pc.invert(pc.fill_null(pc.less_equal(pc.abs(ratings), RATING_LIMIT), False)))
    if bad is not None:
        found = ratings[bad].as_py()
        reason = "is missing" if found is None else f"{found:g} is not a finite number below {RATING_LIMIT:g}"
        raise DataError(f"{label}, {where(bad)}: the rating {reason}; correct it or remove the row.")


def first_true(flags: pa.ChunkedArray | pa.Array) -> int | None:
    """The index of the first true flag, or None."""
    place = pc.index(flags, pa.scalar(True)).as_py()
    return None if place < 0 else int(place)


def _strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Empty ids are rare: look at the distinct values first, and at the rows only when one is there."""
    if pa.types.is_dictionary(column.type):
        if all(pc.index(part.dictionary, "").as_py() < 0 for part in column.chunks):
            return pa.chunked_array([pa.array([], pa.string())])
        return column.cast(column.type.value_type)
    return column


def gather(chunks: Iterable[Chunk]) -> Chunk:
    """All chunks as one, for formats that must be seen whole; the places of rows are kept."""
    tables, starts, places = [], [0], []
    for chunk in chunks:
        tables.append(chunk.table)
        places.append(chunk.where)
        starts.append(starts[-1] + chunk.table.num_rows)
    firsts = np.array(starts)

    def where(row: int) -> str:
        k = int(np.searchsorted(firsts, row, side="right")) - 1
        return places[k](row - int(firsts[k]))

    return Chunk(pa.concat_tables(tables) if tables else pa.table({}), where)
