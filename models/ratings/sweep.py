"""One half of a sweep: all users given the items, or all items given the users."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads
from predilect.models.ratings.bound import SideSums
from predilect.models.ratings.correlated import update_correlated
from predilect.models.ratings.kernels import update_rows
from predilect.models.ratings.orders import Order
from predilect.models.ratings.posterior import Side

MAX_PASSES = 2
"""Passes over a row's coordinates while its Gram matrix is at hand: they are cheap then, and save sweeps."""
CORRELATED_PASSES = 10
"""The same where factors are correlated: the inverse of a row's precision costs as much as many passes."""
CHUNK, MAX_CHUNKS, LARGEST_CHUNK = 8192, 256, 1 << 18
"""Ratings a chunk and chunks a side: as many chunks as the first two allow, and more where a chunk would be too large.
Fixed by the data, so that sums do not depend on the threads."""
Chunks = list[tuple[int, int]]


class HalfSweep:
    """Updates one side again and again, in chunks of about equal work."""

    def __init__(self, order: Order, chunks: Chunks | None = None) -> None:
        """chunks: runs of rows (first, last + 1) that cover the order; by default about equal in work."""
        self.order = order
        self.rated = np.flatnonzero(order.counts)
        self.chunks = equal_chunks(order) if chunks is None else chunks

    def run(self, side: Side, other: Side, noise_precision: float, pool: Threads, passes: int = MAX_PASSES) -> SideSums:
        """Set every row of `side` that has ratings to its optimum given `other`, nearly."""
        moments, totals = self.chunk_sums(side, other, noise_precision, pool, passes)
        log_variance, residual = _in_order(totals)
        return SideSums(len(self.rated), _in_order(moments), float(log_variance), float(residual))

    def chunk_sums(
        self, side: Side, other: Side, noise_precision: float, pool: Threads, passes: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Update `side`; each chunk's sums: moments (n_chunks, 3, K+1) and totals (n_chunks, 2), see `update_rows`."""
        n_chunks = len(self.chunks)
        moments = np.zeros((n_chunks, 3, side.n_factors + 1))
        totals = np.zeros((n_chunks, 2))
        prior_means, leverage = side.row_priors()

        def update(chunk: int) -> None:
            first, last = self.chunks[chunk]
            ratings = self.order.ratings(self.order.indptr[first], self.order.indptr[last])
            ratings = ratings.astype(side.table.dtype, copy=False)
            if side.covariances is not None and other.covariances is not None:
                update_correlated(
                    first,
                    last,
                    self.order.indptr,
                    self.order.index,
                    ratings,
                    side.table,
                    side.covariances,
                    other.table,
                    other.covariances,
                    side.blocks,
                    side.prior.precisions,
                    prior_means,
                    leverage,
                    noise_precision,
                    CORRELATED_PASSES,
                    moments[chunk],
                    totals[chunk],
                )
                return
            update_rows(
                first,
                last,
                self.order.indptr,
                self.order.index,
                ratings,
                side.table,
                other.table,
                side.prior.precisions,
                prior_means,
                leverage,
                noise_precision,
                passes,
                moments[chunk],
                totals[chunk],
            )

        pool.run(update, n_chunks)
        return moments, totals


def equal_chunks(order: Order) -> Chunks:
    """Runs of rows of about equal work; they depend on the data alone."""
    n_ratings = len(order.index)
    n_chunks = int(np.clip(n_ratings // CHUNK, 1, max(MAX_CHUNKS, n_ratings // LARGEST_CHUNK)))
    return list(pairwise(order.chunks(n_chunks).tolist()))


def _in_order(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum over the chunks, one after the other."""
    total = np.zeros(parts.shape[1:])
    for part in parts:
        total += part
    return total
