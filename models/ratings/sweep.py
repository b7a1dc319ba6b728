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
CHUNK, MAX_CHUNKS = 8192, 256
"""Ratings a chunk, and chunks a side; fixed by the data, so that sums do not depend on the threads."""


class HalfSweep:
    """Updates one side again and again, in chunks of about equal work."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.rated = np.flatnonzero(order.counts)
        bounds = order.chunks(int(np.clip(len(order.index) // CHUNK, 1, MAX_CHUNKS)))
        self.chunks: list[tuple[int, int]] = list(pairwise(bounds.tolist()))

    def run(self, side: Side, other: Side, noise_precision: float, pool: Threads, passes: int = MAX_PASSES) -> SideSums:
        """Set every row of `side` that has ratings to its optimum given `other`, nearly."""
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
        log_variance, residual = _in_order(totals)
        return SideSums(len(self.rated), _in_order(moments), float(log_variance), float(residual))


def _in_order(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum over the chunks, one after the other."""
    total = np.zeros(parts.shape[1:])
    for part in parts:
        total += part
    return total
