"""The ratings in the two orders of a sweep: by user and by item."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import exact_kernel

PIECE = 1 << 16
"""Ratings looked at in one go while encoding: bounds the temporaries."""


@dataclass(frozen=True)
class Order:
    """Compressed rows. Row r holds the ratings indptr[r] … indptr[r+1]-1, by rising `index`."""

    indptr: NDArray[np.int64]
    index: NDArray[np.int32]
    codes: NDArray[Any]
    """uint8 or uint16 places in `levels`, or float32 ratings where `levels` is empty."""
    levels: NDArray[np.float32]

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Ratings a row."""
        return np.diff(self.indptr)

    def chunks(self, n_chunks: int) -> NDArray[np.int64]:
        """Bounds of up to `n_chunks` runs of rows of about equal work; they depend on the data alone."""
        work = self.indptr + ROW_WORK * np.arange(self.n_rows + 1)
        bounds = np.searchsorted(work, np.linspace(0, work[-1], n_chunks + 1))
        return np.unique(bounds)

    def rows(self, first: int, last: int) -> "Order":
        """The rows first … last-1 alone."""
        start, stop = self.indptr[first], self.indptr[last]
        indptr = self.indptr[first : last + 1] - start
        return Order(indptr, self.index[start:stop], self.codes[start:stop], self.levels)

    def ratings(self, start: int, stop: int) -> NDArray[np.float32]:
        """The ratings stored at start … stop-1."""
        if not len(self.levels):
            part: NDArray[np.float32] = self.codes[start:stop]
            return part
        out = np.empty(stop - start, np.float32)
        decode(self.codes, self.levels, start, out)
        return out


ROW_WORK = 16
"""The fixed cost of a row, in ratings."""


def by_user_and_item(
    users: NDArray[np.int32], items: NDArray[np.int32], ratings: NDArray[np.float32], n_users: int, n_items: int
) -> tuple[Order, Order]:
    """Both orders of the ratings, 10 B a rating together where they take up to 256 values.

    users, items: (N,) codes in range. ratings: (N,). Three counting sorts: the input by item, that by user, and
    that by item again into the first one's memory, so that both orders are sorted within a row and do not depend
    on the order of the input.
    """
    levels = levels_of(ratings)
    codes = encode(ratings, levels)
    by_item = _empty(items, n_items, codes.dtype, levels)
    scatter(items, users, codes, 0, by_item.indptr[:-1].copy(), by_item.index, by_item.codes)
    del codes
    by_user = _empty(users, n_users, by_item.codes.dtype, levels)
    transpose(0, *_arrays(by_item), 0, by_user.indptr[:-1].copy(), by_user.index, by_user.codes)
    transpose(0, *_arrays(by_user), 0, by_item.indptr[:-1].copy(), by_item.index, by_item.codes)
    return by_user, by_item


def _arrays(order: Order) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return order.indptr, order.index, order.codes


def _empty(rows: NDArray[np.int32], n_rows: int, dtype: np.dtype[Any], levels: NDArray[np.float32]) -> Order:
    indptr = np.zeros(n_rows + 1, np.int64)
    count(rows, indptr[1:])
    np.cumsum(indptr, out=indptr)
    return Order(indptr, np.empty(len(rows), np.int32), np.empty(len(rows), dtype), levels)


def levels_of(ratings: NDArray[np.float32]) -> NDArray[np.float32]:
    """The distinct ratings, rising, or nothing when there are too many to code."""
    levels = np.empty(0, np.float32)
    for start in range(0, len(ratings), PIECE):
        levels = np.union1d(levels, ratings[start : start + PIECE])
        if len(levels) > np.iinfo(np.uint16).max + 1:
            return np.empty(0, np.float32)
    return levels


def encode(ratings: NDArray[np.float32], levels: NDArray[np.float32]) -> NDArray[Any]:
    if not len(levels):
        return ratings
    codes = np.empty(len(ratings), np.uint8 if len(levels) <= 256 else np.uint16)
    for start in range(0, len(ratings), PIECE):
        codes[start : start + PIECE] = np.searchsorted(levels, ratings[start : start + PIECE])
    return codes


@exact_kernel
def count(rows: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    """Add the number of each row's entries to `counts`: `np.bincount` makes an int64 copy of `rows`."""
    for row in rows:
        counts[row] += 1


@exact_kernel
def scatter(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    codes: NDArray[Any],
    first: int,
    place: NDArray[np.int64],
    index: NDArray[np.int32],
    out: NDArray[Any],
) -> None:
    """The second half of a counting sort by row, of the rows first … first + len(place) - 1 alone.

    place: where each of those rows' next entry goes in `index` and `out`, used up.
    """
    n_rows = len(place)
    for n in range(len(rows)):
        row = rows[n] - first
        if 0 <= row < n_rows:
            to = place[row]
            place[row] = to + 1
            index[to] = columns[n]
            out[to] = codes[n]


@exact_kernel
def transpose(
    row: int,
    indptr: NDArray[np.int64],
    index: NDArray[np.int32],
    codes: NDArray[Any],
    first: int,
    place: NDArray[np.int64],
    out_index: NDArray[np.int32],
    out: NDArray[Any],
) -> None:
    """Scatter compressed rows to the columns first … first + len(place) - 1, whose entries come out by rising row.

    row: the number of the first row of `indptr`, which counts from the start of `index` and `codes`.
    """
    n_columns = len(place)
    for r in range(len(indptr) - 1):
        for n in range(indptr[r], indptr[r + 1]):
            column = index[n] - first
            if 0 <= column < n_columns:
                to = place[column]
                place[column] = to + 1
                out_index[to] = row + r
                out[to] = codes[n]


@exact_kernel
def decode(codes: NDArray[Any], levels: NDArray[np.float32], start: int, out: NDArray[np.float32]) -> None:
    """Ratings of the codes from `start` on."""
    for n in range(len(out)):
        out[n] = levels[codes[start + n]]
