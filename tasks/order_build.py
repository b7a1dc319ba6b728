"""Parts of ratings sorted into both orders, in files, in bounded memory: the second pass of ingestion out of core.

Counting sorts of a range of rows at a time: the parts by item, that by user, and that by item again, as in memory
(`models.ratings.orders`), so that both orders are sorted within a row. Each of the three is complete or absent, and an
interrupted pass goes on after the last complete one.
"""

import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads, threads
from predilect.models.ratings.orders import count as count_rows
from predilect.models.ratings.orders import encode, scatter, transpose
from predilect.tasks import progress
from predilect.tasks.array_file import ArrayFile
from predilect.tasks.order_files import FACTS, LEVELS, part_path, seal
from predilect.tasks.parts import Parts
from predilect.tasks.rating_scale import all_kept

RANGE_BYTES = 1 << 29
"""What a thread's range of rows may take in memory (one row is always taken whole)."""
BLOCK_RATINGS = 1 << 23
"""Ratings of an order that are read at a time."""
MOST_LEVELS = 1 << 16

Block = tuple[int, NDArray[np.int64], NDArray[np.int32], NDArray[Any]]
"""Some rows of an order: (first row, indptr from 0, index, codes)."""
Fill = Callable[[int, NDArray[np.int64], NDArray[np.int32], NDArray[Any]], None]
"""Fill a range of rows: (first row, where each row's entries go, index, codes)."""


def build_orders(parts: Parts, values: NDArray[np.float64], folder: Path, n_threads: int) -> None:
    """Write both orders of all ratings into `folder`. values: the distinct ratings, rising, as far as they are kept."""
    draft = folder / "unsorted"
    if not (folder / FACTS).exists():
        draft.mkdir(exist_ok=True)
        _build(parts, values, draft, folder, n_threads)
        seal(folder)
    shutil.rmtree(draft, ignore_errors=True)


def _build(parts: Parts, values: NDArray[np.float64], draft: Path, folder: Path, n_threads: int) -> None:
    levels = np.unique(values.astype(np.float32))
    if len(levels) > MOST_LEVELS or not all_kept(values):
        levels = np.empty(0, np.float32)
    np.save(folder / LEVELS, levels)
    code_type = encode(np.empty(0, np.float32), levels).dtype
    indptr = {side: _indptr(parts.column(side), len(parts.names[side])) for side in ("user", "item")}

    def from_parts(first: int, place: NDArray[np.int64], index: NDArray[np.int32], codes: NDArray[Any]) -> None:
        for users, items, ratings in zip(*map(parts.column, ("user", "item", "rating")), strict=True):
            scatter(items, users, encode(ratings.astype(np.float32), levels), first, place, index, codes)

    def from_order(source: Path, side: str) -> Fill:
        read = open_blocks(source, side)

        def fill(first: int, place: NDArray[np.int64], index: NDArray[np.int32], codes: NDArray[Any]) -> None:
            for row, block_indptr, block_index, block_codes in read():
                transpose(row, block_indptr, block_index, block_codes, first, place, index, codes)

        return fill

    with threads(n_threads) as pool:
        for number, (goal, side, source) in enumerate(
            ((draft, "item", None), (folder, "user", (draft, "by_item")), (folder, "item", (folder, "by_user")))
        ):
            progress.report("ingest", 0.4 + 0.15 * number, f"sorting, {number + 1} of 3")
            if not part_path(goal, f"by_{side}", "codes").exists():
                fill = from_parts if source is None else from_order(*source)
                _sort(goal, f"by_{side}", indptr[side], code_type, fill, pool)


def blocks(folder: Path, side: str) -> Iterator[Block]:
    """An order in runs of rows; only one run is in memory."""
    return open_blocks(folder, side)()


def open_blocks(folder: Path, side: str) -> Callable[[], Iterator[Block]]:
    """What reads an order in runs of rows, any number of times and in any thread."""
    indptr = np.load(part_path(folder, side, "indptr"), allow_pickle=False)
    index, codes = (ArrayFile(part_path(folder, side, part)) for part in ("index", "codes"))

    def read() -> Iterator[Block]:
        for first, last in _ranges(indptr, BLOCK_RATINGS):
            run = int(indptr[first]), int(indptr[last])
            yield first, indptr[first : last + 1] - indptr[first], index.read(*run), codes.read(*run)

    return read


def _sort(
    folder: Path, side: str, indptr: NDArray[np.int64], code_type: np.dtype[Any], fill: Fill, pool: Threads
) -> None:
    """Write one order, a range of rows at a time; the codes' file gets its name last."""
    np.save(part_path(folder, side, "indptr"), indptr)
    drafts = {part: part_path(folder, side, part).with_suffix(".draft") for part in ("index", "codes")}
    kinds = {"index": np.dtype(np.int32), "codes": code_type}
    files = {part: ArrayFile.make(draft, kinds[part], int(indptr[-1])) for part, draft in drafts.items()}
    ranges = _ranges(indptr, RANGE_BYTES // sum(kind.itemsize for kind in kinds.values()))

    def sort(number: int) -> None:
        first, last = ranges[number]
        start, stop = indptr[first], indptr[last]
        arrays = {part: np.empty(stop - start, kind) for part, kind in kinds.items()}
        fill(first, indptr[first:last] - start, arrays["index"], arrays["codes"])
        for part, file in files.items():
            file.write(int(start), arrays[part])

    pool.run(sort, len(ranges))
    for part, draft in drafts.items():
        draft.rename(part_path(folder, side, part))


def _indptr(codes: Iterator[NDArray[np.int32]], n_rows: int) -> NDArray[np.int64]:
    indptr = np.zeros(n_rows + 1, np.int64)
    for some in codes:
        count_rows(some, indptr[1:])
    return np.cumsum(indptr, out=indptr)


def _ranges(indptr: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """Runs of rows that hold up to `size` ratings, or one row."""
    bounds = [0]
    while bounds[-1] < len(indptr) - 1:
        last = int(np.searchsorted(indptr, indptr[bounds[-1]] + size, side="right")) - 1
        bounds.append(min(max(last, bounds[-1] + 1), len(indptr) - 1))
    return list(pairwise(bounds))
