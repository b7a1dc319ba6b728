"""Recommendations of a run's model for everybody, as one Parquet file that is complete or absent."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import UNKNOWN, IdMap
from predilect.models.ratings.explore import Explore, recommend_codes
from predilect.models.ratings.model import RatingsModel
from predilect.tasks import progress
from predilect.tasks.ingest_large import ORDERS
from predilect.tasks.order_files import FACTS, open_orders
from predilect.tasks.output import parquet_file
from predilect.tasks.quarantine import TABLE
from predilect.tasks.ratings_table import RatingsTable, read_table
from predilect.tasks.runs import MANIFEST, data_folder, read_json
from predilect.tasks.score_blocks import Chosen
from predilect.tasks.settings import Settings

USERS = 1 << 16
"""Users in one piece of work and one row group of the file."""


def load_model(run: Path) -> RatingsModel:
    """The run's model. Raises ParameterError when the run has no ratings model."""
    return RatingsModel.load(Chosen.of_run("ratings", run).folder)


def data_of(run: Path, settings: Settings) -> RatingsTable:
    """The canonical ratings, test part included, that the run was given. Raises DataError when they are gone."""
    folder = data_folder(run, settings, TABLE)
    if folder is not None:
        return read_table(folder)
    if data_folder(run, settings, f"{ORDERS}/{FACTS}") is not None:
        raise DataError(
            f"Run {run.name} was trained on ratings kept in files, and this needs them in memory; train with "
            "`predilect train ratings` on data that fit."
        )
    raise DataError(
        f"The ratings that run {run.name} was trained on are no longer in {settings.data}; train again on that data."
    )


def recommend(
    run: Path,
    out: Path,
    *,
    n: int = 10,
    explore: Explore = "none",
    quantile: float = 0.9,
    seed: int = 0,
    seen: bool = False,
    threads: int | None = None,
) -> dict[str, Any]:
    """Write the `n` best items for every user of the run's data to the Parquet file `out`; what was done.

    Columns user, item, rank (from 1), mean (within the scale) and sd of the predicted rating, users by rising id.
    seen: also recommend what a user has rated, in training or test part. explore, quantile and seed: see
    `models.ratings.explore`. An `out` that is there is replaced at the end, else kept.
    """
    if n < 1:
        raise ParameterError(f"n = {n}: give 1 or more.")
    model = replace(load_model(run), n_threads=threads)
    start = time.perf_counter()
    large = data_folder(run, Settings(), f"{ORDERS}/{FACTS}")
    if large is not None and data_folder(run, Settings(), TABLE) is None and _same_codes(model, large):
        by_user, _ = open_orders(large / ORDERS)
        user_ids, rated = model.user_ids, (by_user.indptr, by_user.index)
    else:
        table = data_of(run, Settings())
        user_ids, rated = table.user_ids, _rated(table, model)
    users = model.user_ids.encode(user_ids.ids)
    if seen:
        rated = np.zeros(len(users) + 1, np.int64), np.empty(0, np.int32)
    rows = 0
    with parquet_file(out, _schema(user_ids, model)) as writer:
        for first in range(0, len(users), USERS):
            part = slice(first, first + USERS)
            indptr = rated[0][part.start : part.start + len(users[part]) + 1]
            best = recommend_codes(
                model, users[part], n, (indptr, rated[1]), explore=explore, quantile=quantile, seed=seed
            )
            writer.write_table(_lists(model, user_ids.ids[part], users[part], best, writer.schema))
            rows += int(np.sum(best != UNKNOWN))
            progress.report("recommend", min(part.stop / len(users), 1.0), f"{rows:,} recommendations")
    return {
        "run": run.name,
        "out": str(out),
        "users": len(users),
        "rows": rows,
        "explore": explore,
        "seconds": time.perf_counter() - start,
    }


def _same_codes(model: RatingsModel, large: Path) -> bool:
    """Whether the model knows every user and item of the files, and so by the files' own codes."""
    manifest = read_json(large / MANIFEST)
    return (len(model.user_ids), len(model.item_ids)) == (manifest["n_users"], manifest["n_items"])


def _rated(table: RatingsTable, model: RatingsModel) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The items that each user of the table has rated, as compressed rows of the model's codes."""
    items = model.item_ids.encode(table.item_ids.ids)[table.items]
    known = items != UNKNOWN
    users, items = table.users[known], items[known]
    indptr = np.zeros(len(table.user_ids) + 1, np.int64)
    np.cumsum(np.bincount(users, minlength=len(table.user_ids)), out=indptr[1:])
    return indptr, items[np.argsort(users, kind="stable")]


def _schema(user_ids: IdMap, model: RatingsModel) -> pa.Schema:
    kinds = [pa.string() if ids.ids.dtype.kind == "U" else pa.int64() for ids in (user_ids, model.item_ids)]
    return pa.schema({"user": kinds[0], "item": kinds[1], "rank": pa.int32(), "mean": pa.float32(), "sd": pa.float32()})


def _lists(
    model: RatingsModel, ids: NDArray[Any], codes: NDArray[np.int32], best: NDArray[np.int32], schema: pa.Schema
) -> pa.Table:
    row, rank = np.nonzero(best != UNKNOWN)
    items = best[row, rank]
    found = model.predict(codes[row], items)
    columns = [
        ids[row],
        model.item_ids.decode(items),
        (rank + 1).astype(np.int32),
        model.scale.clip(found.mean).astype(np.float32),
        np.sqrt(found.variance).astype(np.float32),
    ]
    return pa.Table.from_arrays([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)],
                                schema=schema)  # fmt: skip
