"""One rating a pair out of core: parts whose repeated pairs are settled by the rule of `repeats`, in bounded memory.

A pair rated twice has neighbours that are alike in the order by user. The rows of such pairs are gathered from the
parts, a run of users at a time, and what becomes of each is written down; then the parts that hold any are written
anew. Every file is complete or absent, so a killed merge goes on after its last one.
"""

import shutil
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.tasks import progress
from predilect.tasks.order_build import blocks
from predilect.tasks.parts import Parts, write_part
from predilect.tasks.rating_scale import on_scale
from predilect.tasks.readers.base import Scale
from predilect.tasks.repeats import Pairs, Repeats, repeated_pairs
from predilect.tasks.runs import read_json, write_json

FACTS, SETTLED, OLD = "merged.json", "settled", "old-orders"
ROWS_AT_ONCE = 1 << 23
"""Rows of repeated pairs that are settled at a time (a block of the order is always taken whole)."""
FATE = np.dtype([("row", np.int64), ("rating", np.float64)])
"""What becomes of a row: the rating that it then has, or NaN when it goes."""


def refuse_repeats(parts: Parts, orders: Path, label: str) -> None:
    """Raise DataError when a user has rated an item twice. orders: of these parts."""
    n_pairs, examples = 0, list[tuple[int, int, int]]()
    for pairs in _runs(orders, len(parts.names["item"])):
        examples = examples or _gather(parts, pairs).examples()
        n_pairs += len(pairs)
    if n_pairs:
        raise DataError(repeated_pairs(label, n_pairs, examples, parts.names["user"], parts.names["item"], parts.where))


def merge_parts(parts: Parts, orders: Path, folder: Path, policy: str, scale: Scale) -> None:
    """Write the parts that change into `folder`, where a pair is rated twice; else write nothing.

    orders: of these parts; they are gone when parts were written. policy: "last" or "mean".
    """
    settled = folder / SETTLED
    files = []
    for pairs in _runs(orders, len(parts.names["item"])):
        progress.report("ingest", 0.85, "repeated pairs")
        settled.mkdir(parents=True, exist_ok=True)
        # Named by what it settles: a run of another size, of an earlier attempt, is another file.
        files.append(settled / f"{pairs[0]}-{pairs[-1]}.npy")
        if not files[-1].exists():
            _settle(parts, pairs, policy, files[-1])
    if not files:
        return
    _write_changed(parts, folder, files)
    n_between = sum(_between(file, scale) for file in files) if policy == "mean" else 0
    write_json(folder / FACTS, {"between": n_between})
    # In one step the merge counts as done and the orders of the repeats are out of the way.
    orders.rename(folder / OLD)
    for path in (folder / OLD).iterdir():
        path.unlink()
    shutil.rmtree(settled)


def merged_parts(parts: Parts, folder: Path) -> tuple[Parts, int] | None:
    """The parts with one rating a pair and how many of those lie off the scale; None when nothing was merged."""
    if not (folder / OLD).exists():
        return None
    new = [folder / file.name for file in parts.files]
    files = [file if file.exists() else old for file, old in zip(new, parts.files, strict=True)]
    n_rows = sum(pq.read_metadata(file).num_rows for file in files)
    return replace(parts, files=files, n_rows=n_rows), read_json(folder / FACTS)["between"]


def put_in_place(folder: Path, parts: Path) -> None:
    """Replace the parts in the folder `parts` by those that were merged. It may be repeated when interrupted."""
    for file in folder.glob("part-*.parquet"):
        file.replace(parts / file.name)
    shutil.rmtree(folder, ignore_errors=True)


def _runs(orders: Path, n_items: int) -> Iterator[Pairs]:
    """The repeated pairs, rising, of runs of users that have up to ROWS_AT_ONCE rows of such pairs together."""
    waiting, n_waiting = list[Pairs](), 0
    for first, indptr, index, _ in blocks(orders, "by_user"):
        same = np.append(False, index[1:] == index[:-1])
        same[indptr[:-1][indptr[:-1] < len(index)]] = False
        begins = np.flatnonzero(same & ~np.append(False, same[:-1]))
        n_rows = int(np.count_nonzero(same)) + len(begins)
        if waiting and n_waiting + n_rows > ROWS_AT_ONCE:
            yield np.concatenate(waiting)
            waiting, n_waiting = [], 0
        if n_rows:
            users = first + np.searchsorted(indptr, begins, side="right") - 1
            waiting.append(users * n_items + index[begins])
            n_waiting += n_rows
    if waiting:
        yield np.concatenate(waiting)


def _gather(parts: Parts, pairs: Pairs) -> Repeats:
    """All rows of some pairs, which rise."""
    n_items = len(parts.names["item"])
    concerned = np.zeros(len(parts.names["user"]), np.bool_)
    concerned[pairs // n_items] = True
    found, start = list[tuple[NDArray[np.int64], Pairs, NDArray[np.int64], NDArray[np.float64]]](), 0
    for number in range(len(parts.files)):
        part = parts.read(number)
        near = np.flatnonzero(concerned[part.users])
        theirs = part.users[near].astype(np.int64) * n_items + part.items[near]
        is_one = pairs[np.minimum(np.searchsorted(pairs, theirs), len(pairs) - 1)] == theirs
        near = near[is_one]
        rows = start + near
        times = rows if part.timestamps is None else part.timestamps[near]
        found.append((rows, theirs[is_one], times, part.ratings[near]))
        start += len(part.users)
    rows, theirs, times, ratings = map(np.concatenate, zip(*found, strict=True))
    del found
    return Repeats.of(rows, theirs, times, ratings)


def _settle(parts: Parts, pairs: Pairs, policy: str, file: Path) -> None:
    """Write what becomes of every row of these pairs, by row."""
    repeats = _gather(parts, pairs)
    fates = np.empty(len(repeats.rows), FATE)
    fates["row"] = np.sort(repeats.rows)
    fates["rating"] = np.nan
    rows, ratings = repeats.kept(policy)
    fates["rating"][np.searchsorted(fates["row"], rows)] = ratings
    draft = file.with_suffix(".draft.npy")
    np.save(draft, fates)
    draft.rename(file)


def _write_changed(parts: Parts, folder: Path, files: list[Path]) -> None:
    """Write each part of which a row is settled in `files`, unless an earlier attempt has."""
    start = 0
    for old in parts.files:
        stop = start + pq.read_metadata(old).num_rows
        new = folder / old.name
        fates = np.concatenate([_of_rows(file, start, stop) for file in files])
        if len(fates) and not new.exists():
            table = pq.read_table(old)
            ratings = table["rating"].to_numpy().copy()
            ratings[fates["row"] - start] = fates["rating"]
            table = table.set_column(table.column_names.index("rating"), "rating", pa.array(ratings))
            write_part(new, table.filter(pa.array(~np.isnan(ratings))))
        start = stop


def _of_rows(file: Path, start: int, stop: int) -> NDArray[np.void]:
    """What a file says of the rows start … stop-1."""
    fates = np.load(file, mmap_mode="r")
    return np.array(fates[bisect_left(fates["row"], start) : bisect_left(fates["row"], stop)])


def _between(file: Path, scale: Scale) -> int:
    """How many ratings in a file are off the scale."""
    ratings = np.load(file)["rating"]
    return int(np.count_nonzero(~on_scale(ratings[~np.isnan(ratings)], scale)))
