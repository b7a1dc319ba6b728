"""Canonical clicks on disk: one row a context that was shown and picked, and a manifest.

`clicks.parquet`: `impressions` and `clicks`, then what there is of `user`, `item`, `group` (text) and `time` (number),
then the context: `text.NAME`, `category.NAME` and `number.NAME`. `history.parquet` (`user`, `item`), when there is one:
what users picked before the first row.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.models.clicks import FeatureColumns, check_counts
from predilect.models.errors import DataError
from predilect.models.ids import IdMap
from predilect.tasks.runs import read_json

CLICKS, HISTORY, MANIFEST = "clicks.parquet", "history.parquet", "manifest.json"
KINDS = ("text", "category", "number")
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Coded:
    """A column of ids: the distinct ones, and the code of each row (-1 where it is empty)."""

    ids: IdMap
    codes: Codes

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Self:
        """Strings are never made into Python objects one a row."""
        encoded = column.combine_chunks().dictionary_encode()
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        if not len(encoded.dictionary):
            return cls(IdMap(np.zeros(0, np.str_)), np.full(len(column), -1, np.int32))
        ids, place = IdMap.of(encoded.dictionary.to_numpy(zero_copy_only=False).astype(np.str_))
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return cls(ids, np.where(codes >= 0, place[codes], -1).astype(np.int32))

    @property
    def values(self) -> NDArray[Any]:
        """The id of each row, as text; "" where it is empty."""
        return np.append(self.ids.ids, "")[self.codes]


@dataclass(frozen=True)
class Contexts:
    """The distinct contexts of a table's rows, and which one each row shows."""

    columns: FeatureColumns
    lines: Codes

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """From the columns text.NAME, category.NAME and number.NAME of a table."""
        names = [name for name in table.column_names if name.partition(".")[0] in KINDS]
        key = np.zeros(table.num_rows, np.int64)
        for name in names:
            encoded = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
            encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
            key = key * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        first, lines = np.unique(key, return_index=True, return_inverse=True)[1:]
        distinct = table.select(names).take(pa.array(first))
        found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        for name in names:
            kind, _, own = name.partition(".")
            column = distinct[name]
            if kind == "number":
                found[kind][own] = column.to_numpy()
            else:
                found[kind][own] = np.array(
                    pc.fill_null(column, "").to_pylist(), dtype=object if kind == "text" else str
                )
        return cls(FeatureColumns(found["text"], found["category"], found["number"]), lines.astype(np.int32))

    def some(self, lines: NDArray[np.integer[Any]]) -> FeatureColumns:
        """Some of the contexts."""

        def of(part: Mapping[str, Any]) -> dict[str, Any]:
            return {name: np.asarray(values)[lines] for name, values in part.items()}

        return FeatureColumns(of(self.columns.texts), of(self.columns.categories), of(self.columns.numbers))


@dataclass(frozen=True)
class ClicksTable:
    """A canonical folder in memory; what the data do not have is None."""

    impressions: Codes
    clicks: Codes
    users: Coded | None
    items: Coded | None
    groups: Coded | None
    time: NDArray[np.float64] | None
    contexts: Contexts
    history: tuple[NDArray[Any], NDArray[Any]] | None
    """Users and items of earlier picks."""
    manifest: dict[str, Any]

    def __len__(self) -> int:
        return len(self.impressions)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises DataError when the folder is not one of canonical clicks."""
        try:
            table = pq.read_table(folder / CLICKS)
            manifest = read_json(folder / MANIFEST)
            history = pq.read_table(folder / HISTORY) if (folder / HISTORY).is_file() else None
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataError(
                f"{folder} is not a folder of canonical clicks ({error}); ingest the data again."
            ) from error
        impressions, clicks = check_counts(table["impressions"].to_numpy(), table["clicks"].to_numpy())
        ids = {
            name: Coded.of(table[name]) if name in table.column_names else None for name in ("user", "item", "group")
        }
        past = None
        if history is not None:
            past = (Coded.of(history["user"]).values, Coded.of(history["item"]).values)
        return cls(
            impressions,
            clicks,
            ids["user"],
            ids["item"],
            ids["group"],
            table["time"].to_numpy() if "time" in table.column_names else None,
            Contexts.of(table),
            past,
            manifest,
        )

    def labels(self, rows: NDArray[Any]) -> list[str]:
        """What to call the thing that each of some rows shows: its item, first text, or category values."""
        lines = self.contexts.lines[rows]
        columns = self.contexts.columns
        for texts in columns.texts.values():
            return [str(text) for text in np.asarray(texts)[lines]]
        if self.items is not None:
            return [str(text) for text in self.items.values[rows]]
        values = [np.asarray(column)[lines] for column in columns.categories.values()]
        return [", ".join(map(str, parts)) for parts in zip(*values, strict=True)] or [f"row {row}" for row in rows]


def digest(table: pa.Table, history: pa.Table | None) -> str:
    """SHA-256 of the content, as hex; it does not depend on how Parquet encodes it."""
    total = hashlib.sha256(b"predilect-clicks-1;")
    for part in (table, history):
        if part is None:
            continue
        for name in part.column_names:
            column = part[name].combine_chunks()
            total.update(f"{len(name.encode())}:{name}:{len(column)};".encode())
            if pa.types.is_string(column.type):
                encoded = column.dictionary_encode()
                encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
                for text in encoded.dictionary.to_pylist():
                    total.update(f"{len(text.encode())}:{text}".encode())
                codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
                total.update(np.ascontiguousarray(codes, "<i8").data)
            else:
                values = column.to_numpy(zero_copy_only=False)
                total.update(np.ascontiguousarray(values, "<f8").data)
    return total.hexdigest()
