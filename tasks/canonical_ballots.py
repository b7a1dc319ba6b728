"""Canonical rankings on disk: one row a distinct ballot, one row an item, and a manifest.

`ballots.parquet`: `items` (list of ids, best first), `count` (how many equal ballots a row stands for) and `weight`
(what the row weighs in all: its count, when the source gave no weights). `items.parquet`: `item` (id, sorted) and
`name`, also of items on no ballot.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.data_contracts.schemas import ballots_schema
from predilect.models.errors import DataError
from predilect.models.ids import IdMap
from predilect.models.rankings import Ballots, Menu
from predilect.tasks.runs import read_json

BALLOTS, ITEMS, MANIFEST = "ballots.parquet", "items.parquet", "manifest.json"
ROWS_A_GROUP = 1 << 18


@dataclass(frozen=True)
class CanonicalBallots:
    """Distinct ballots with the ids (int64 or string, sorted) and names of all items, by code."""

    ballots: Ballots
    item_ids: pa.Array
    item_names: list[str]

    def digest(self) -> str:
        """SHA-256 of the content, as hex; it does not depend on how Parquet encodes it."""
        total = hashlib.sha256(b"predilect-rankings-1;")
        for text in (*map(str, self.item_ids.to_pylist()), *self.item_names):
            total.update(f"{len(text.encode())}:{text}".encode())
        for values, kind in (
            (self.ballots.items, "<i4"),
            (self.ballots.offsets, "<i8"),
            (self.ballots.counts, "<i8"),
            (self.ballots.weights, "<f8"),
        ):
            total.update(np.ascontiguousarray(values, kind).data)
        return total.hexdigest()

    def write(self, folder: Path) -> None:
        """Write both tables into `folder`."""
        schema = ballots_schema(self.item_ids.type)
        with pq.ParquetWriter(folder / BALLOTS, schema, compression="zstd") as writer:
            for first in range(0, len(self.ballots), ROWS_A_GROUP):
                last = min(first + ROWS_A_GROUP, len(self.ballots))
                bounds = self.ballots.offsets[first : last + 1]
                ids = self.item_ids.take(pa.array(self.ballots.items[bounds[0] : bounds[-1]]))
                offsets = pa.array((bounds - bounds[0]).astype(np.int32))
                columns = [
                    pa.ListArray.from_arrays(offsets, ids, type=schema.field("items").type),
                    pa.array(self.ballots.counts[first:last]),
                    pa.array(self.ballots.weights[first:last]),
                ]
                writer.write_table(pa.table(columns, schema=schema))
        pq.write_table(
            pa.table({"item": self.item_ids, "name": pa.array(self.item_names, pa.string())}), folder / ITEMS
        )


@dataclass(frozen=True)
class RankingsTable:
    """A canonical folder in memory. item_names: by code, as in `item_ids`."""

    ballots: Ballots
    item_ids: IdMap
    item_names: list[str]
    manifest: dict[str, Any]

    @classmethod
    def read(cls, folder: Path, menu: Menu) -> Self:
        """Raises DataError when the folder is not one of canonical rankings."""
        try:
            table = pq.read_table(folder / BALLOTS)
            items = pq.read_table(folder / ITEMS)
            manifest = read_json(folder / MANIFEST)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataError(
                f"{folder} is not a folder of canonical rankings ({error}); ingest the data again."
            ) from error
        ids = IdMap(items["item"].to_numpy(zero_copy_only=False))
        lists = table["items"].combine_chunks()
        codes, offsets = codes_of(lists, ids)
        ballots = Ballots.of(
            codes, offsets, len(ids), menu, counts=table["count"].to_numpy(), weights=table["weight"].to_numpy()
        )
        return cls(ballots, ids, items["name"].to_pylist(), manifest)


def codes_of(lists: pa.ListArray | pa.ChunkedArray, ids: IdMap) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The item codes of lists of ids, -1 for unknown ones, and where each list begins."""
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(pc.list_value_length(lists).to_numpy(), out=offsets[1:])
    encoded = lists.flatten().dictionary_encode()
    place = ids.encode(encoded.dictionary.to_numpy(zero_copy_only=False))
    codes: NDArray[np.int32] = place[encoded.indices.to_numpy()]
    return codes, offsets
