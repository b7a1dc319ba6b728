"""What a fit of a given size will take: memory, time a sweep, bytes that travel; time from a sample swept here and now.

The sample has the shape of the real thing: rows as long, and partners drawn by popularity from a table as large, since
whether that table fits a cache decides the pace.
"""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import threads
from predilect.models.errors import ParameterError
from predilect.models.random import stream
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.kernels import width
from predilect.models.ratings.orders import Order
from predilect.models.ratings.posterior import Prior, Side
from predilect.models.ratings.shards import bytes_a_sweep
from predilect.models.ratings.simulate import SimulationConfig, popularity_ranks
from predilect.models.ratings.sweep import LARGEST_CHUNK, HalfSweep

SAMPLE = 2_000_000
"""Ratings of a sample, one for each half of a sweep."""
LARGEST_TABLE = 1 << 30
"""Bytes of the partners' table in a sample, at most: a larger one is no slower to read a record from."""
BASE = 250e6
"""Resident bytes of a process with the libraries loaded."""
ID_BYTES, HELD_ID_BYTES = 240, 90
"""Ingestion: of an id in Python's tables and as text while the source is read, and afterwards."""
READ_BYTES, PART_BYTES, RANGE_BYTES = 190e6, 170e6, 1 << 29
"""Ingestion: of a part (4 million rows of 24 B) and a batch on their way to a file, which the allocators then keep; of
a part and the one before while they are sorted (40 B a row); of a thread's range of rows."""


@dataclass(frozen=True)
class Problem:
    """A fit's size. Raises ParameterError when it is impossible.

    n_factors: K. correlated: with full covariances (`gmf`), in blocks of these sizes.
    """

    n_users: int
    n_items: int
    n_ratings: int
    n_factors: int
    correlated: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("n_users", "n_items", "n_ratings", "n_factors"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} is {getattr(self, name)}; give 1 or more.")
        if self.n_ratings > self.n_users * self.n_items:
            raise ParameterError(
                f"n_ratings is {self.n_ratings:,}, but {self.n_users:,} users and {self.n_items:,} items make "
                f"{self.n_users * self.n_items:,} pairs; correct one of them."
            )

    @property
    def order_bytes(self) -> int:
        """Of both orders: index and one-byte rating code twice, and where each row begins."""
        return 10 * self.n_ratings + 8 * (self.n_users + self.n_items + 2)

    @property
    def row_bytes(self) -> int:
        """Of a user's or an item's factors in the kernels' tables."""
        return 8 * width(self.n_factors) + (4 * self.n_factors**2 if self.correlated else 0)

    @property
    def factor_bytes(self) -> int:
        """Of all factors while they are fitted."""
        return self.row_bytes * (self.n_users + self.n_items + 2)

    def fit_bytes(self, n_threads: int) -> int:
        """Peak resident memory of a fit from files, the mapped files included, which the system can take back."""
        chunk = max(self.n_ratings // 256, LARGEST_CHUNK)
        counts = 24 * (self.n_users + self.n_items)
        return int(BASE + self.order_bytes + self.factor_bytes + counts + n_threads * 4 * chunk)

    @property
    def driver_bytes(self) -> int:
        """The same of the process that drives workers: all factors, twice while they travel, and the rating codes."""
        return int(BASE + self.n_ratings + 2 * self.factor_bytes + 40 * (self.n_users + self.n_items))

    def ingest_bytes(self, n_threads: int) -> int:
        """Peak resident memory of ingestion out of core, where all threads write at once."""
        order = 5 * self.n_ratings
        n_ranges = min(n_threads, -(-order // RANGE_BYTES))
        # Of a range's five bytes a rating, the index's four are there twice while they go to their mapped file.
        sorting = n_ranges * (PART_BYTES + 9 / 5 * min(order, RANGE_BYTES))
        ids = self.n_users + self.n_items
        return int(BASE + READ_BYTES + max(ID_BYTES * ids, HELD_ID_BYTES * ids + sorting))

    @property
    def disk_bytes(self) -> int:
        """Of what ingestion and split keep: parts, the orders of all ratings and of the training part."""
        return 8 * self.n_ratings + 2 * self.order_bytes

    @property
    def checkpoint_bytes(self) -> int:
        """Of a checkpoint: means and variances of all factors and offsets."""
        numbers = 2 * self.n_factors + 2 + sum(size**2 for size in self.correlated)
        return 4 * numbers * (self.n_users + self.n_items)

    def bytes_moved(self, n_workers: int) -> int:
        """What a sweep sends through the driver's network; 0 on one machine's threads."""
        if not n_workers:
            return 0
        return bytes_a_sweep(self.n_users, self.n_items, self.n_factors, n_workers, self.correlated)

    def worker_bytes(self, n_workers: int) -> int:
        """Peak resident memory of a worker: its share of the orders, and all factors with a copy on their way."""
        return int(BASE + self.order_bytes / n_workers + 2 * self.factor_bytes)


def seconds_a_sweep(problem: Problem, n_threads: int) -> float:
    """How long a sweep takes on this machine when it does nothing else, from samples of both halves."""
    total = 0.0
    most = LARGEST_TABLE // problem.row_bytes
    for n_rows, n_partners, by_popularity in (
        (problem.n_users, min(problem.n_items, most), True),
        (problem.n_items, min(problem.n_users, most), False),
    ):
        order = _sample(problem.n_ratings, n_rows, n_partners, by_popularity)
        total += _timed(order, n_partners, problem, n_threads) * problem.n_ratings / len(order.index)
    return total


def _sample(n_ratings: int, n_rows: int, n_partners: int, by_popularity: bool) -> Order:
    """Rows of the mean length, whose partners are distinct and rise."""
    random = stream(0, "plan", n_rows)
    length = max(1, min(round(n_ratings / n_rows), n_partners // 2, SAMPLE))
    rows = max(1, min(n_rows, SAMPLE // length))
    if by_popularity:
        config = SimulationConfig(n_users=2, n_items=max(2, n_partners), n_ratings=2)
        partners: NDArray[np.int64] = popularity_ranks(random.random((rows, length)), config)
        # Popular things are anywhere in the table.
        partners = random.permutation(n_partners)[np.minimum(partners, n_partners - 1)]
    else:
        partners = random.integers(0, n_partners, (rows, length))
    index = np.sort(partners, axis=1).astype(np.int32).ravel()
    codes = random.integers(0, 5, len(index)).astype(np.uint8)
    return Order(np.arange(rows + 1, dtype=np.int64) * length, index, codes, np.arange(1, 6, dtype=np.float32))


def _timed(order: Order, n_partners: int, problem: Problem, n_threads: int) -> float:
    """Processor seconds of a thread in a half-sweep over a sample, the best of three."""
    config = VBConfig(n_user_latents=problem.n_factors, n_item_latents=0)
    prior = Prior(np.ones(config.n_factors + 1), np.zeros(config.n_factors + 1))
    side, other = Side.at_prior(order.n_rows, prior), Side.at_prior(n_partners, prior)
    other.means[:] = 0.1 * stream(0, "plan", "factors").standard_normal(other.means.shape, np.float32)
    if problem.correlated:
        for one in (side, other):
            one.correlate(problem.correlated[0])
    half = HalfSweep(order)
    best = np.inf
    with threads(n_threads) as pool:
        for _ in range(3):
            began = time.process_time()
            half.run(side, other, 1.0, pool)
            best = min(best, time.process_time() - began)
    return float(best) / n_threads
