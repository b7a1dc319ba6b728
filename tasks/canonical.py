"""The canonical ratings table: ids as codes in sorted order, its digest, and its Parquet file."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.data_contracts.schemas import ratings_schema

ROWS_A_GROUP = 1 << 20
_PLAIN_INTEGER = r"^(0|-?[1-9][0-9]*)$"


@dataclass(frozen=True)
class Coded:
    """A column of names: the distinct ones sorted (int64 or string), and the code of each row (-1 = none)."""

    names: pa.Array
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, column: pa.ChunkedArray, *, infer_integers: bool) -> Self:
        """Encode a column of int64, strings or dictionaries of strings.

        infer_integers: names that are all plain integers (no leading zeros or plus signs, 64 bits) become int64.
        """
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        encoded = encoded.unify_dictionaries()
        names = encoded.chunk(0).dictionary
        codes = np.concatenate([part.indices.fill_null(-1).to_numpy() for part in encoded.chunks]).astype(np.int32)
        used = np.flatnonzero(np.bincount(codes + 1, minlength=len(names) + 1)[1:])
        place = np.full(len(names) + 1, -1, np.int32)  # The last is for code -1.
        names, place[used] = sorted_names(names.take(pa.array(used)), infer_integers=infer_integers)
        return cls(names, place[codes])

    def take(self, rows: NDArray[np.int64]) -> Self:
        """These rows, with the same names."""
        return replace(self, codes=self.codes[rows])

    def decode(self, codes: NDArray[np.int32]) -> pa.Array:
        """The names of some codes; null for -1."""
        return self.names.take(pa.array(codes, mask=codes < 0))

    def update(self, digest: Any) -> None:
        """Feed the content to a hash."""
        update_column(digest, self.names, len(self.codes), [self.codes])


@dataclass(frozen=True)
class CanonicalRatings:
    """N ratings. ratings: (N,) float64; timestamps: (N,) int64 unix seconds or None; folds: test fold or None."""

    users: Coded
    items: Coded
    ratings: NDArray[np.float64]
    timestamps: NDArray[np.int64] | None
    folds: Coded | None

    def __len__(self) -> int:
        return len(self.ratings)

    def take(self, rows: NDArray[np.int64], ratings: NDArray[np.float64]) -> Self:
        """These rows with new ratings."""
        times, folds = self.timestamps, self.folds
        return replace(
            self,
            users=self.users.take(rows),
            items=self.items.take(rows),
            ratings=ratings,
            timestamps=None if times is None else times[rows],
            folds=None if folds is None else folds.take(rows),
        )

    def digest(self) -> str:
        """SHA-256 of the content in row order, as hex; it does not depend on how Parquet encodes it."""
        coded = [part for part in (self.users, self.items, self.folds) if part is not None]
        return digest_of(
            [(part.names, len(self), [part.codes]) for part in coded],
            [self.ratings],
            None if self.timestamps is None else [self.timestamps],
        )

    def write(self, path: Path) -> None:
        """Write `path` as Parquet, a group of rows at a time."""
        schema = ratings_schema(
            self.users.names.type,
            self.items.names.type,
            timestamp=self.timestamps is not None,
            fold=self.folds is not None,
        )
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for start in range(0, len(self), ROWS_A_GROUP):
                rows = slice(start, start + ROWS_A_GROUP)
                columns = [self.users.decode(self.users.codes[rows]), self.items.decode(self.items.codes[rows])]
                columns.append(pa.array(self.ratings[rows]))
                if self.timestamps is not None:
                    columns.append(pa.array(self.timestamps[rows]))
                if self.folds is not None:
                    columns.append(self.folds.decode(self.folds.codes[rows]))
                writer.write_table(pa.table(columns, schema=schema))


def digest_of(
    coded: Iterable[tuple[pa.Array, int, Iterable[NDArray[np.int32]]]],
    ratings: Iterable[NDArray[np.float64]],
    timestamps: Iterable[NDArray[np.int64]] | None,
) -> str:
    """See `CanonicalRatings.digest`; every column may come in pieces. coded: names, rows and codes of each."""
    total = hashlib.sha256(b"predilect-ratings-1;")
    for names, n_rows, codes in coded:
        update_column(total, names, n_rows, codes)
    for some in ratings:
        total.update(some.astype("<f8", copy=False).data)
    if timestamps is not None:
        total.update(b"timestamp;")
        for times in timestamps:
            total.update(times.astype("<i8", copy=False).data)
    return total.hexdigest()


def update_column(digest: Any, names: pa.Array, n_rows: int, codes: Iterable[NDArray[np.int32]]) -> None:
    """Feed a column of names to a hash: the distinct ones, and the code of each row, in pieces."""
    digest.update(f"{names.type}:{len(names)}:{n_rows};".encode())
    if pa.types.is_string(names.type):
        digest.update(pc.binary_length(names).to_numpy().astype("<i8").data)
        _, offsets, text = names.buffers()
        bounds = np.frombuffer(offsets, np.int32)[names.offset :][: len(names) + 1]
        digest.update(text[bounds[0] : bounds[-1]] if text else b"")
    else:
        digest.update(names.to_numpy().astype("<i8").data)
    for some in codes:
        digest.update(some.astype("<i4", copy=False).data)


def sorted_names(names: pa.Array, *, infer_integers: bool) -> tuple[pa.Array, NDArray[np.int32]]:
    """Distinct names in order, and the place of each there; see `Coded.of`."""
    if infer_integers and pa.types.is_string(names.type):
        names = _as_integers(names)
    order = pc.sort_indices(names).to_numpy()
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return names.take(pa.array(order)), place


def _as_integers(names: pa.Array) -> pa.Array:
    """As int64 where every name is a plain 64-bit integer, else as they are."""
    if pc.all(pc.match_substring_regex(names, _PLAIN_INTEGER)).as_py():
        try:
            return names.cast(pa.int64())
        except pa.ArrowInvalid:  # Beyond 64 bits.
            return names
    return names
