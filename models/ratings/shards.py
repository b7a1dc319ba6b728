"""A half-sweep cut into shards, each with a process that keeps its rows' ratings and factors; only factors travel.

A shard is a run of consecutive chunks of each order, so that a shard's sums are the chunks' own and whoever adds them
in chunk order gets the same bits for any number of shards. A side travels as *records*: a row's K + 1 means and K + 1
variances, (2K + 2) numbers, and the covariances of its two blocks of factors where they are correlated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads, exact_kernel
from predilect.models.ratings.orders import ROW_WORK, Order
from predilect.models.ratings.posterior import Prior, Side
from predilect.models.ratings.sweep import Chunks, HalfSweep

USERS, ITEMS = 0, 1
"""Which half of a sweep."""


class Shard(NamedTuple):
    """What one process does: runs of rows of the users and of the items, both without gaps."""

    users: Chunks
    items: Chunks

    def rows(self, half: int) -> tuple[int, int]:
        """First and last + 1 of its users, or of its items."""
        return (self[half][0][0], self[half][-1][1]) if self[half] else (0, 0)


def divide(halves: tuple[HalfSweep, HalfSweep], weights: Sequence[float]) -> list[Shard]:
    """A shard for each weight, about in proportion to it; some may be empty."""
    cuts = []
    for half in halves:
        ends = np.array([last for _, last in half.chunks])
        work = half.order.indptr[ends] + ROW_WORK * ends
        targets = np.cumsum([0, *weights]) / np.sum(weights) * work[-1]
        # The bound between two chunks that is nearest.
        cuts.append(np.searchsorted((np.append(0, work[:-1]) + work) / 2, targets))
        cuts[-1][-1] = len(half.chunks)
    return [
        Shard(*(half.chunks[cut[n] : cut[n + 1]] for half, cut in zip(halves, cuts, strict=True)))
        for n in range(len(weights))
    ]


def bytes_a_sweep(n_users: int, n_items: int, n_factors: int, n_shards: int, correlated: Sequence[int] = ()) -> int:
    """What travels in a sweep: every row goes to all shards but its own, and from its own to the driver.

    correlated: the sizes of the blocks of factors whose covariances travel too (`gmf`).
    """
    return n_shards * (n_users + n_items) * 4 * (2 * n_factors + 2 + sum(size * size for size in correlated))


@dataclass
class Update:
    """What a shard is asked: to update its rows of one half given all of the other side."""

    half: int
    noise_precision: float
    passes: int
    prior: Prior
    row_means: NDArray[np.float64] | None
    leverage: NDArray[np.float64] | None
    """Of the shard's rows, see `posterior.Side`."""
    blocks: tuple[int, int] | None
    """Sizes of the blocks of factors where they are correlated."""
    mine: NDArray[Any] | int
    """The shard's rows as they are before the update, or the digest that they should have."""
    theirs: NDArray[Any] | int
    """The same of the shard's rows of the other side."""
    others: list[tuple[int, NDArray[Any]]]
    """The other rows of the other side: where each run begins, and its records."""


class Updated(NamedTuple):
    """What a shard answers."""

    moments: NDArray[np.float64]
    totals: NDArray[np.float64]
    records: NDArray[Any]


class Missing(NamedTuple):
    """The rows that a shard does not hold as they should be: its own, and its own of the other side. Send them."""

    mine: bool
    theirs: bool


class ShardHost:
    """One shard's ratings, and both sides' factors as they were when it last heard of them."""

    def __init__(self, orders: tuple[Order, Order], shard: Shard, n_threads: int) -> None:
        self.shard, self.pool = shard, Threads(n_threads)
        self.halves, self.n_rows = [], [order.n_rows for order in orders]
        for half, order in enumerate(orders):
            first, last = shard.rows(half)
            chunks = [(begin - first, end - first) for begin, end in shard[half]]
            self.halves.append(HalfSweep(order.rows(first, last), chunks))
        self.sides: list[Side | None] = [None, None]
        self._records: list[NDArray[Any] | None] = [None, None]

    def update(self, asked: Update) -> Updated | Missing:
        """Update the shard's rows, if it holds, or is sent, what that takes."""
        half = asked.half
        mine, other = self._side(half, asked), self._side(1 - half, asked)
        for place, records in asked.others:
            unpack(records, other, place)
        held = [
            _take(side, rows, given)
            for side, rows, given in (
                (mine, self.shard.rows(half), asked.mine),
                (other, self.shard.rows(1 - half), asked.theirs),
            )
        ]
        if not all(held):
            return Missing(not held[0], not held[1])
        first, last = self.shard.rows(half)
        covariances = None if mine.covariances is None else mine.covariances[first : last + 1]
        own = replace(mine, table=mine.table[first : last + 1], prior=asked.prior, covariances=covariances)
        own.row_means, own.leverage = asked.row_means, asked.leverage
        sums = self.halves[half].chunk_sums(own, other, asked.noise_precision, self.pool, asked.passes)
        # The last answer's memory is free again: the driver had all of it before it asked for the other half.
        self._records[half] = records = room(own, last - first, self._records[half])
        return Updated(*sums, pack(own, 0, records))

    def _side(self, half: int, asked: Update) -> Side:
        """The whole side, made anew where it had another form."""
        side = self.sides[half]
        if side is None or side.n_factors != len(asked.prior.means) - 1:
            side = Side.at_prior(self.n_rows[half], asked.prior)
        if asked.blocks is None:
            side.covariances = None
        elif side.covariances is None:
            side.correlate(asked.blocks[0])
        self.sides[half] = side
        return side


def _take(side: Side, rows: tuple[int, int], given: NDArray[Any] | int) -> bool:
    """Set the rows to the records given, or see whether they have the digest given."""
    if isinstance(given, int):
        return digest(side, *rows) == given
    unpack(given, side, rows[0])
    return True


def room(side: Side, n_rows: int, old: NDArray[Any] | None = None) -> NDArray[Any]:
    """Records of so many rows, to be written; `old` if it fits: fresh memory costs as much as all the packing."""
    sizes = np.diff(side.blocks) if side.covariances is not None else np.zeros(2, np.int64)
    shape = n_rows, 2 * side.n_factors + 2 + int(sizes @ sizes)
    return old if old is not None and old.shape == shape else np.empty(shape, side.table.dtype)


def pack(side: Side, first: int, records: NDArray[Any]) -> NDArray[Any]:
    """Write the rows from `first` on to these records, and return them."""
    pack_rows(side.table, _covariances(side), side.blocks, side.n_factors, first, records)
    return records


def unpack(records: NDArray[Any], side: Side, first: int) -> None:
    """Set the rows from `first` on to these records."""
    unpack_rows(records, side.table, _covariances(side), side.blocks, side.n_factors, first)


def digest(side: Side, first: int, last: int) -> int:
    """64 bits by which two states of the rows first … last-1 are told apart; not against forgery."""
    value = int(mix(side.table[first:last].reshape(-1).view(np.uint32)))
    if side.covariances is not None:
        value ^= int(mix(side.covariances[first:last].reshape(-1).view(np.uint32))) * 3
    return value


def _covariances(side: Side) -> NDArray[Any]:
    return np.empty((0, 0, 0), side.table.dtype) if side.covariances is None else side.covariances


@exact_kernel
def pack_rows(
    table: NDArray[Any],
    covariances: NDArray[Any],
    blocks: NDArray[np.int64],
    n_factors: int,
    first: int,
    records: NDArray[Any],
) -> None:
    """Write the rows from `first` on to `records`; without covariances these are (0, 0, 0)."""
    wide = table.shape[1] // 2
    for n in range(len(records)):
        row, record = table[first + n], records[n]
        for k in range(n_factors):
            record[k] = row[k]
        record[n_factors] = row[n_factors + 1]
        for k in range(n_factors):
            record[n_factors + 1 + k] = row[wide + k]
        record[2 * n_factors + 1] = row[wide + n_factors + 1]
        if len(covariances):
            at = 2 * n_factors + 2
            for b in range(len(blocks) - 1):
                for k in range(blocks[b], blocks[b + 1]):
                    for l in range(blocks[b], blocks[b + 1]):
                        record[at] = covariances[first + n, k, l]
                        at += 1


@exact_kernel
def unpack_rows(
    records: NDArray[Any],
    table: NDArray[Any],
    covariances: NDArray[Any],
    blocks: NDArray[np.int64],
    n_factors: int,
    first: int,
) -> None:
    """The inverse of `pack_rows`."""
    wide = table.shape[1] // 2
    for n in range(len(records)):
        row, record = table[first + n], records[n]
        for k in range(n_factors):
            row[k] = record[k]
        row[n_factors + 1] = record[n_factors]
        for k in range(n_factors):
            row[wide + k] = record[n_factors + 1 + k]
        row[wide + n_factors + 1] = record[2 * n_factors + 1]
        if len(covariances):
            at = 2 * n_factors + 2
            for b in range(len(blocks) - 1):
                for k in range(blocks[b], blocks[b + 1]):
                    for l in range(blocks[b], blocks[b + 1]):
                        covariances[first + n, k, l] = record[at]
                        at += 1


@exact_kernel
def mix(words: NDArray[np.uint32]) -> np.uint64:
    """A hash of the words: multiply and shift, in four lanes so that none waits for another."""
    prime, shift = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
    half = np.uint64(32)
    a, b, c, d = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    whole = len(words) - len(words) % 8
    for n in range(0, whole, 8):
        a = (a ^ (np.uint64(words[n]) | np.uint64(words[n + 1]) << half)) * prime
        b = (b ^ (np.uint64(words[n + 2]) | np.uint64(words[n + 3]) << half)) * prime
        c = (c ^ (np.uint64(words[n + 4]) | np.uint64(words[n + 5]) << half)) * prime
        d = (d ^ (np.uint64(words[n + 6]) | np.uint64(words[n + 7]) << half)) * prime
        a, b, c, d = a ^ a >> shift, b ^ b >> shift, c ^ c >> shift, d ^ d >> shift
    for n in range(whole, len(words)):
        a = (a ^ np.uint64(words[n])) * prime
        a ^= a >> shift
    for lane in (b, c, d):
        a = (a ^ lane) * prime
        a ^= a >> shift
    return a
