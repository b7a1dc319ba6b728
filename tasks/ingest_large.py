"""Ratings that do not fit in memory: a source in any known format becomes a folder of parts, ids and both orders.

The folder holds `parts/` (Parquet), `users.parquet` and `items.parquet` (sorted ids), `orders/` (see `order_files`)
and, written last, `manifest.json`: the same as of the table in memory, digest included. What a killed ingestion has
done is taken up by the next.
"""

import fcntl
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.models.compiled import default_threads
from predilect.models.errors import DataError, ParameterError
from predilect.tasks import ingest_checks as checks
from predilect.tasks import progress
from predilect.tasks.canonical import digest_of
from predilect.tasks.ingest import Asked, ask
from predilect.tasks.ingest_checks import IngestOptions
from predilect.tasks.order_build import blocks, build_orders
from predilect.tasks.output import cannot_write, need_space
from predilect.tasks.parts import SIDES, Parts, write_parts
from predilect.tasks.rating_scale import doubts, on_scale
from predilect.tasks.readers.base import Scale
from predilect.tasks.runs import MANIFEST, read_json, write_json

PARTS, ORDERS, FACTS = "parts", "orders", "parts.json"
BYTES_A_ROW = 32
"""Room on the disk while ingesting: parts, and both orders with one of them twice."""
LEAST_TEXT = 16
"""Bytes a rating takes in a text file, at least: for how many rows it may hold."""


def ingest_large(
    source: str,
    data_dir: Path | None,
    out_dir: Path,
    options: IngestOptions | None = None,
    n_threads: int | None = None,
) -> Path:
    """The folder of the source's ratings, under `out_dir`; the same content with the same options is ingested once.

    source, data_dir: as for `ingest_ratings`. Raises DataError or ParameterError, one sentence.
    """
    options = options or IngestOptions()
    if options.duplicates != "error":
        raise ParameterError("duplicates: only `error` is known out of core; remove repeats from the source.")
    asked = ask(source, data_dir, out_dir, options, "-large")
    if (asked.folder / MANIFEST).is_file():
        return asked.folder
    need_space(out_dir, BYTES_A_ROW * _rows(asked))
    with _draft(asked.folder) as draft:
        reading = asked.read()
        (draft / PARTS).mkdir(exist_ok=True)
        parts = write_parts(reading, asked.label, draft / PARTS)
        manifest = _manifest(asked, reading, parts, draft, n_threads or default_threads())
        for side in SIDES:
            pq.write_table(pa.table({"id": parts.names[side]}), draft / f"{side}s.parquet")
            np.save(draft / PARTS / f"{side}.rank.npy", parts.rank[side])
        write_json(draft / PARTS / FACTS, {"time_unit": parts.time_unit})
        write_json(draft / MANIFEST, manifest)
    return asked.folder


def open_parts(folder: Path) -> Parts:
    """The parts of a folder that `ingest_large` made."""
    names = {side: pq.read_table(folder / f"{side}s.parquet")["id"].combine_chunks() for side in SIDES}
    rank = {side: np.load(folder / PARTS / f"{side}.rank.npy", allow_pickle=False) for side in SIDES}
    files = sorted((folder / PARTS).glob("part-*.parquet"))
    facts = read_json(folder / PARTS / FACTS)
    return Parts(files, read_json(folder / MANIFEST)["rows"], names, rank, "row {}".format, **facts)


def _manifest(asked: Asked, reading: Any, parts: Parts, draft: Path, n_threads: int) -> dict[str, Any]:
    """Check the ratings, build the orders, and say what there is."""
    label, warnings = asked.label, reading.warnings
    values, counts = _distinct(parts)
    checks.check_enough(parts.n_rows, parts.names["user"], parts.names["item"], values, label)
    scale, inferred = checks.choose_scale(values, reading.scale, asked.options)
    if inferred:
        warnings += doubts(values, counts, scale)
    _check_scale(parts, values, counts, scale, label)
    if "fold" in reading.columns:
        warnings.append("the publisher's folds are left out: out of core the test part is chosen by a hash")
    (draft / ORDERS).mkdir(exist_ok=True)
    build_orders(parts, values, draft / ORDERS, n_threads)
    _check_repeats(parts, draft / ORDERS, label)
    n_users, n_items = (len(parts.names[side]) for side in SIDES)
    warnings += checks.doubtful_ids(parts.n_rows, n_users, n_items)
    progress.report("ingest", 0.9, "digest")
    return asked.manifest(
        reading,
        digest=digest_of(
            [(parts.names[side], parts.n_rows, parts.column(side)) for side in SIDES],
            parts.column("rating"),
            parts.column("timestamp") if parts.timed else None,
        ),
        rows=parts.n_rows,
        n_users=n_users,
        n_items=n_items,
        scale=checks.scale_facts(scale, inferred),
        time_span=list(parts.time_span) if parts.timed else None,
        folds=None,
        merged=0,
    )


@contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that becomes it at the end. It stays when the process is killed, for the next one.

    Raises DataError when another process works on it.
    """
    draft = folder.with_name(f".{folder.name}.part")
    try:
        draft.mkdir(parents=True, exist_ok=True)
        with (draft / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ParameterError(f"Another process is ingesting into {folder}; wait for it to end.") from None
            try:
                yield draft
                (draft / "lock").unlink()
                shutil.rmtree(folder, ignore_errors=True)
                draft.rename(folder)
            except (DataError, OSError):
                shutil.rmtree(draft, ignore_errors=True)
                raise
    except OSError as error:
        raise cannot_write(folder, error) from error


def _rows(asked: Asked) -> int:
    """How many ratings the source may hold, for the room they need."""
    total = 0
    for member in asked.members:
        if asked.source.kind == "zip":
            with zipfile.ZipFile(asked.source.path) as archive:
                total += archive.getinfo(member).file_size // LEAST_TEXT
            continue
        path = asked.source.file(member)
        if path.suffix == ".parquet":
            total += pq.read_metadata(path).num_rows
        else:
            total += path.stat().st_size // LEAST_TEXT
    return total


def _distinct(parts: Parts) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The different ratings in ascending order, and how many rows have each."""
    found: dict[float, int] = {}
    for ratings in parts.column("rating"):
        values, counts = checks.distinct(ratings)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            found[value] = found.get(value, 0) + count
    ordered = sorted(found)
    return np.array(ordered), np.array([found[value] for value in ordered], np.int64)


def _check_scale(
    parts: Parts, values: NDArray[np.float64], counts: NDArray[np.int64], scale: Scale, label: str
) -> None:
    """Raise DataError when a rating is off the scale."""
    wrong = ~on_scale(values, scale)
    row = 0
    for ratings in parts.column("rating") if wrong.any() else ():
        there = np.flatnonzero(np.isin(ratings, values[wrong]))
        if len(there):
            first = ratings[there[0]]
            raise checks.off_scale(
                parts.where(row + int(there[0])), first, int(counts[wrong].sum()), parts.n_rows, scale, label
            )
        row += len(ratings)


def _check_repeats(parts: Parts, orders: Path, label: str) -> None:
    """Raise DataError when a user has rated an item twice: neighbours in the order by user are then alike."""
    n_pairs, pairs = 0, list[tuple[int, int]]()
    for first, indptr, index, _ in blocks(orders, "by_user"):
        same = np.append(False, index[1:] == index[:-1])
        same[indptr[:-1][indptr[:-1] < len(index)]] = False
        begins = np.flatnonzero(same & ~np.append(False, same[:-1]))
        n_pairs += len(begins)
        for place in begins[: checks.EXAMPLES - len(pairs)]:
            user = int(np.searchsorted(indptr, place, side="right")) - 1
            pairs.append((first + user, int(index[place])))
    if n_pairs:
        shown = [_shown(parts, *pair) for pair in pairs]
        raise DataError(checks.repeated_pairs(label, n_pairs, shown, "remove the repeats from the source"))


def _shown(parts: Parts, user: int, item: int) -> str:
    """A repeated pair with the places of its first two rows."""
    rows, start = [], 0
    for users, items in zip(parts.column("user"), parts.column("item"), strict=True):
        rows += (start + np.flatnonzero((users == user) & (items == item))).tolist()
        start += len(users)
    names = [parts.names[side][code].as_py() for side, code in zip(SIDES, (user, item), strict=True)]
    return f"user {names[0]!r} and item {names[1]!r} on {parts.where(rows[0])} and {parts.where(rows[1])}"
