"""A source of ratings streamed to Parquet parts with dense codes for ids: the first pass of ingestion out of core.

A part is complete or absent, and the ids that it met first stand beside it, so a pass that was interrupted goes on
after the last complete part. Codes in the files are in the order in which ids were met; `Parts` gives those of the
sorted ids, as every other table has them.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.tasks import progress
from predilect.tasks.canonical import sorted_names
from predilect.tasks.ingest_checks import refuse_empty, time_unit
from predilect.tasks.readers.base import Reading, Where

PART_ROWS = 1 << 22
SIDES = ("user", "item")
Codes = NDArray[np.int32]


class Part(NamedTuple):
    """Some ratings, in the source's order: codes of the sorted ids, ratings, and times as they came or None."""

    users: Codes
    items: Codes
    ratings: NDArray[np.float64]
    timestamps: NDArray[np.int64] | None


@dataclass(frozen=True)
class Parts:
    """All ratings of a source, in files."""

    files: list[Path]
    n_rows: int
    names: dict[str, pa.Array]
    """Sorted ids by side, "user" and "item"."""
    rank: dict[str, Codes]
    """The place of each code of the files among the sorted ids, by side."""
    where: Where
    """The place of a row in the source, for messages."""
    time_unit: int = 1
    """What the timestamps in the files are divided by to be seconds."""

    @property
    def timed(self) -> bool:
        """Whether the ratings have timestamps."""
        return "timestamp" in pq.read_schema(self.files[0]).names

    @property
    def time_span(self) -> tuple[int, int]:
        """The first and the last timestamp, in seconds; from what the files say of their columns."""
        place = pq.read_schema(self.files[0]).get_field_index("timestamp")
        groups = [
            found.row_group(group).column(place).statistics
            for found in map(pq.read_metadata, self.files)
            for group in range(found.num_row_groups)
            if found.row_group(group).num_rows
        ]
        first, last = min(one.min for one in groups), max(one.max for one in groups)
        return first // self.time_unit, last // self.time_unit

    def column(self, name: str) -> Iterator[NDArray[Any]]:
        """One column, a part at a time: user, item (codes), rating or timestamp."""
        for file in self.files:
            values = pq.read_table(file, columns=[name])[name].to_numpy()
            yield self.rank[name][values] if name in SIDES else self._seconds(values) if name == "timestamp" else values

    def read(self, number: int) -> Part:
        """One part."""
        table = pq.read_table(self.files[number])
        users, items = (self.rank[side][table[side].to_numpy()] for side in SIDES)
        times = self._seconds(table["timestamp"].to_numpy()) if "timestamp" in table.column_names else None
        return Part(users, items, table["rating"].to_numpy(), times)

    def _seconds(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        return times if self.time_unit == 1 else times // self.time_unit


def write_parts(reading: Reading, label: str, folder: Path) -> Parts:
    """Stream all chunks of a source into `folder`, or those that an earlier attempt did not come to.

    Raises DataError when there is no rating at all, and what the reader raises.
    """
    codes = {side: _Codes() for side in SIDES}
    files = _complete(folder)
    done = 0
    for file in files:
        done += pq.read_metadata(file).num_rows
        for side in SIDES:
            codes[side].restore(pq.read_table(_ids_path(file, side))["id"])
    starts, places, n_rows, n_waiting = [0], list[Where](), 0, 0
    waiting: list[pa.Table] = []

    def flush() -> None:
        nonlocal waiting, n_waiting
        if n_waiting:
            files.append(folder / f"part-{len(files):05}.parquet")
            _write(files[-1], waiting, codes)
            waiting, n_waiting = [], 0

    for chunk in reading.chunks:
        starts.append(starts[-1] + chunk.table.num_rows)
        places.append(chunk.where)
        fresh = chunk.table.slice(max(0, done - n_rows))
        n_rows = starts[-1]
        if fresh.num_rows:
            waiting.append(_coded(fresh, codes))
            n_waiting += fresh.num_rows
        if n_waiting >= PART_ROWS:
            flush()
        progress.report("ingest", 0.1, f"{n_rows:,} rows read")
    flush()
    refuse_empty(n_rows, reading, label)
    firsts = np.array(starts)

    def where(row: int) -> str:
        chunk = int(np.searchsorted(firsts, row, side="right")) - 1
        return places[chunk](row - int(firsts[chunk]))

    sides = {side: sorted_names(codes[side].since(0), infer_integers=not reading.typed_ids) for side in SIDES}
    names, rank = ({side: pair[k] for side, pair in sides.items()} for k in (0, 1))
    parts = Parts(files, n_rows, names, rank, where)
    if not parts.timed:
        return parts
    return replace(parts, time_unit=time_unit(parts.time_span[0], reading.warnings))


class _Codes:
    """Codes 0, 1, … for ids in the order in which they are met."""

    def __init__(self) -> None:
        self._code: dict[int | str, int] = {}
        self.written = 0

    def of(self, column: pa.ChunkedArray) -> Codes:
        """The code of each row; ids met for the first time get the next ones."""
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        return np.concatenate([self._of(part.dictionary, part.indices.to_numpy()) for part in encoded.chunks])

    def _of(self, ids: pa.Array, indices: NDArray[np.integer[Any]]) -> Codes:
        used = np.zeros(len(ids), np.bool_)
        used[indices] = True
        met = ids.filter(pa.array(used)).to_pylist()
        self._add(one for one in met if one not in self._code)
        code = np.empty(len(ids), np.int32)
        code[used] = np.fromiter(map(self._code.__getitem__, met), np.int32, len(met))
        coded: Codes = code[indices]
        return coded

    def _add(self, new: Iterator[int | str]) -> None:
        self._code.update(zip(list(new), itertools.count(len(self._code)), strict=False))

    def restore(self, ids: pa.ChunkedArray) -> None:
        """Take up the ids that an earlier attempt wrote."""
        self._add(iter(ids.to_pylist()))
        self.written = len(self._code)

    def since(self, first: int) -> pa.Array:
        """The ids with the codes `first` and up."""
        ids = list(itertools.islice(self._code, first, None))
        return pa.array(ids, None if ids else pa.string())


def _coded(table: pa.Table, codes: dict[str, _Codes]) -> pa.Table:
    columns = {side: pa.array(codes[side].of(table[side])) for side in SIDES}
    columns["rating"] = pc.add(table["rating"], 0.0)  # No minus zero.
    if "timestamp" in table.column_names:
        columns["timestamp"] = table["timestamp"]
    return pa.table(columns)


def _write(file: Path, tables: list[pa.Table], codes: dict[str, _Codes]) -> None:
    """Write a part, its new ids first: the part is complete when its own file is there."""
    for side in SIDES:
        new = codes[side].since(codes[side].written)
        pq.write_table(pa.table({"id": new}), _ids_path(file, side))
        codes[side].written += len(new)
    write_part(file, pa.concat_tables(tables))


def write_part(file: Path, table: pa.Table) -> None:
    """Write the ratings of a part; the file is complete or absent."""
    draft = file.with_suffix(".draft")
    pq.write_table(table, draft, compression="lz4")
    draft.rename(file)


def _complete(folder: Path) -> list[Path]:
    """The parts of an earlier attempt, up to the first that is missing or damaged."""
    named = (folder / f"part-{number:05}.parquet" for number in itertools.count())
    return list(itertools.takewhile(_whole, named))


def _whole(file: Path) -> bool:
    try:
        return bool(pq.read_metadata(file).num_rows > 0)
    except (OSError, pa.ArrowException):
        return False


def _ids_path(file: Path, side: str) -> Path:
    return file.with_suffix(f".{side}s")
