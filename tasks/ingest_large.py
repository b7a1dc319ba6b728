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
from predilect.tasks.merge_large import merge_parts, merged_parts, put_in_place, refuse_repeats
from predilect.tasks.order_build import build_orders
from predilect.tasks.output import cannot_write, need_space
from predilect.tasks.parts import SIDES, Parts, write_parts
from predilect.tasks.rating_scale import all_kept, distinct_of_parts, doubts, on_scale
from predilect.tasks.readers.base import Scale
from predilect.tasks.repeats import scale_of_means
from predilect.tasks.runs import MANIFEST, read_json, write_json

PARTS, ORDERS, MERGED, FACTS = "parts", "orders", "merged", "parts.json"
BYTES_A_ROW = 32
"""Room on the disk while ingesting: parts, and both orders with one of them twice."""
BYTES_TO_MERGE = 32
"""More of it where every pair is rated twice: what becomes of each row, and the parts again."""
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
    asked = ask(source, data_dir, out_dir, options or IngestOptions(), "-large")
    if (asked.folder / MANIFEST).is_file():
        return asked.folder
    merging = BYTES_TO_MERGE if asked.options.duplicates != "error" else 0
    need_space(out_dir, (BYTES_A_ROW + merging) * _rows(asked))
    with _draft(asked.folder) as draft:
        if not (draft / MANIFEST).is_file():
            reading = asked.read()
            (draft / PARTS).mkdir(exist_ok=True)
            parts = write_parts(reading, asked.label, draft / PARTS)
            manifest = _manifest(asked, reading, parts, draft, n_threads or default_threads())
            for side in SIDES:
                pq.write_table(pa.table({"id": parts.names[side]}), draft / f"{side}s.parquet")
                np.save(draft / PARTS / f"{side}.rank.npy", parts.rank[side])
            write_json(draft / PARTS / FACTS, {"time_unit": parts.time_unit})
            write_json(draft / MANIFEST, manifest)
        put_in_place(draft / MERGED, draft / PARTS)
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
    values, counts = distinct_of_parts(parts.column("rating"))
    checks.check_enough(parts.n_rows, parts.names["user"], parts.names["item"], values, label)
    scale, inferred = checks.choose_scale(values, reading.scale, asked.options)
    if inferred:
        warnings += doubts(values, counts, parts.n_rows, scale)
    _check_scale(parts, values, scale, label)
    if "fold" in reading.columns:
        warnings.append("the publisher's folds are left out: out of core the test part is chosen by a hash")
    n_read = parts.n_rows
    parts, n_between = _one_a_pair(parts, values, scale, draft, asked, n_threads)
    scale = scale_of_means(scale, n_between, warnings)
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
        merged=n_read - parts.n_rows,
    )


def _one_a_pair(
    parts: Parts, values: NDArray[np.float64], scale: Scale, draft: Path, asked: Asked, n_threads: int
) -> tuple[Parts, int]:
    """Build the orders, with one rating a pair; the parts that have it, and how many merged ratings are off the scale.

    Raises DataError when a pair is rated twice and nothing is to be done about it.
    """

    def build(parts: Parts, values: NDArray[np.float64]) -> Path:
        (draft / ORDERS).mkdir(exist_ok=True)
        build_orders(parts, values, draft / ORDERS, n_threads)
        return draft / ORDERS

    if merged_parts(parts, draft / MERGED) is None:
        orders = build(parts, values)
        if asked.options.duplicates == "error":
            refuse_repeats(parts, orders, asked.label)
        else:
            merge_parts(parts, orders, draft / MERGED, asked.options.duplicates, scale)
    merged = merged_parts(parts, draft / MERGED)
    if merged is None:
        return parts, 0
    build(merged[0], distinct_of_parts(merged[0].column("rating"))[0])
    return merged


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


def _check_scale(parts: Parts, values: NDArray[np.float64], scale: Scale, label: str) -> None:
    """Raise DataError when a rating is off the scale. values: the different ratings, as far as they are kept."""
    if all_kept(values) and on_scale(values, scale).all():
        return
    row, n_wrong, place, rating = 0, 0, "", 0.0
    for ratings in parts.column("rating"):
        wrong = np.flatnonzero(~on_scale(ratings, scale))
        if len(wrong) and not n_wrong:
            place, rating = parts.where(row + int(wrong[0])), ratings[wrong[0]]
        n_wrong += len(wrong)
        row += len(ratings)
    if n_wrong:
        raise checks.off_scale(place, rating, n_wrong, parts.n_rows, scale, label)
