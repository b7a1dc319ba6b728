"""A canonical ratings table in memory, as codes, and its training and test parts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.models.ids import UNKNOWN, IdMap
from predilect.models.ratings.scale import RatingScale
from predilect.tasks.runs import read_json

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class RatingsTable:
    """N ratings with users and items as codes into their id maps."""

    users: Codes
    items: Codes
    ratings: NDArray[np.float32]
    timestamps: NDArray[np.int64] | None
    folds: NDArray[Any] | None
    user_ids: IdMap
    item_ids: IdMap
    scale: RatingScale
    manifest: dict[str, Any]


@dataclass(frozen=True)
class Ratings:
    """One part of a table. Codes are into the training part's id maps; -1 for a user or item it does not hold."""

    users: Codes
    items: Codes
    ratings: NDArray[np.float32]
    user_ids: IdMap
    item_ids: IdMap


def read_table(folder: Path) -> RatingsTable:
    """The canonical table in `folder`."""
    table = pq.read_table(folder / "ratings.parquet")
    manifest = read_json(folder / "manifest.json")
    user_ids, users = _coded(table["user"])
    item_ids, items = _coded(table["item"])
    names = table.column_names
    return RatingsTable(
        users=users,
        items=items,
        ratings=table["rating"].to_numpy().astype(np.float32),
        timestamps=table["timestamp"].to_numpy() if "timestamp" in names else None,
        folds=table["fold"].to_numpy() if "fold" in names else None,
        user_ids=user_ids,
        item_ids=item_ids,
        scale=RatingScale.from_facts(manifest["scale"]),
        manifest=manifest,
    )


KnownIds = tuple[IdMap | None, IdMap | None]
"""Users and items that are known from tables, whether or not they have ratings."""


def parts(table: RatingsTable, test: NDArray[np.bool_], known: KnownIds = (None, None)) -> tuple[Ratings, Ratings]:
    """The training and the test part, `test` being the mask of the latter; see `parts_of_rows`."""
    return parts_of_rows(table, np.flatnonzero(~test), np.flatnonzero(test), known)


def parts_of_rows(
    table: RatingsTable, train: NDArray[np.int64], test: NDArray[np.int64], known: KnownIds = (None, None)
) -> tuple[Ratings, Ratings]:
    """The two parts of which these are the rows. Their id maps hold the ids in the training part and those `known`."""
    user_ids, user_code = _used(table.user_ids, table.users[train], known[0])
    item_ids, item_code = _used(table.item_ids, table.items[train], known[1])
    made = [
        Ratings(user_code[table.users[rows]], item_code[table.items[rows]], table.ratings[rows], user_ids, item_ids)
        for rows in (train, test)
    ]
    return made[0], made[1]


def _coded(column: pa.ChunkedArray) -> tuple[IdMap, Codes]:
    """Sorted ids and the code of each value; strings are never made into Python objects one a row."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    ids, place = IdMap.of(encoded.dictionary.to_numpy(zero_copy_only=False))
    return ids, place[encoded.indices.to_numpy()]


def _used(ids: IdMap, codes: Codes, known: IdMap | None) -> tuple[IdMap, Codes]:
    """The map of the ids in use or known, and the new code of every old one (-1 = neither)."""
    used = np.zeros(len(ids), np.bool_)
    used[codes] = True
    if known is None:
        new = np.where(used, np.cumsum(used) - 1, UNKNOWN).astype(np.int32)
        return IdMap(ids.ids[used]), new
    wider = IdMap(np.union1d(ids.ids[used], known.ids))
    return wider, wider.encode(ids.ids)
