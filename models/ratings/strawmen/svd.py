"""SVD(λ): factors by stochastic gradient descent on the squared error, with a learning rate that adapts itself."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import exact_kernel
from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.random import stream
from predilect.models.ratings.prediction import Prediction
from predilect.models.ratings.scale import RatingScale

MAX_SWEEPS, TOLERANCE = 10_000, 1e-5  # the paper's
FIRST_RATE, FASTER, SLOWER = 0.005, 1.05, 0.5
"""The rate grows while the error falls; a sweep that raises the error is undone and the rate halved."""
START_SD = 0.1

Codes = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Svd:
    """r_pi = μ + a_p·b_i, minimising Σ (r − r̂)² + λ (|a_p|² + |b_i|²) over the training ratings.

    The factors hold an offset each: a_p ends in 1 and b_i in a free number, and the reverse.
    """

    mean: float
    users: Floats
    """(n_users + 1, C + 2); the last row, nothing but its 1, stands for the unknown."""
    items: Floats
    """(n_items + 1, C + 2)."""
    variance: float
    """Mean squared error on the training ratings: too small where C is large."""
    n_sweeps: int

    @classmethod
    def fit(
        cls,
        users: Codes,
        items: Codes,
        ratings: NDArray[np.floating[Any]],
        scale: RatingScale,
        *,
        user_ids: IdMap,
        item_ids: IdMap,
        n_factors: int = 5,
        penalty: float = 0.01,
        seed: int = 0,
        max_sweeps: int = MAX_SWEEPS,
    ) -> Self:
        """Arguments as for `RatingsModel.fit`; n_factors: C; penalty: λ. One thread.

        Raises DataError without ratings, ParameterError for an impossible C or λ.
        """
        if not len(ratings):
            raise DataError("there are no ratings to fit an SVD on; choose a split with a training part.")
        if n_factors < 1 or not 0 <= penalty < np.inf:
            raise ParameterError(f"n_factors is {n_factors} and penalty {penalty}; give 1 and 0 or more.")
        draw = stream(seed, "svd")
        order = draw.permutation(len(ratings))
        stars = np.asarray(ratings, np.float64)[order]
        mean = float(stars.mean())
        left, right = (draw.normal(0, START_SD, (len(ids) + 1, n_factors + 2)) for ids in (user_ids, item_ids))
        left[:, -2:], right[:, -2:] = (0, 1), (1, 0)
        left[-1, :-2] = right[-1, :-2] = 0
        error, n_sweeps = descend(
            users[order].astype(np.int32), items[order].astype(np.int32), stars - mean, left, right, penalty,
            max_sweeps, TOLERANCE,
        )  # fmt: skip
        return cls(mean, left, right, max(error, (1e-3 * (scale.high - scale.low)) ** 2), n_sweeps)

    def predict(self, users: Codes, items: Codes) -> Prediction:
        """Mean and variance, shapes (M,); code -1 = unknown: without its part."""
        mean = self.mean + np.einsum("nk,nk->n", self.users[users], self.items[items])
        return Prediction(mean, np.full(len(users), self.variance))


@exact_kernel
def descend(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    ratings: NDArray[np.float64],
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    penalty: float,
    max_sweeps: int,
    tolerance: float,
) -> tuple[float, int]:
    """Improve `left` and `right` in place; the mean squared error, and the sweeps made."""
    n, width = len(ratings), left.shape[1]
    rate = FIRST_RATE
    before = squared_error(users, items, ratings, left, right)
    kept_left, kept_right = left.copy(), right.copy()
    sweeps = 0
    while sweeps < max_sweeps:
        sweeps += 1
        for r in range(n):
            a, b = left[users[r]], right[items[r]]
            error = ratings[r]
            for k in range(width):
                error -= a[k] * b[k]
            for k in range(width):
                old = a[k]
                # The last two are an offset and the 1 that the other side's offset meets.
                if k != width - 1:
                    a[k] += rate * (error * b[k] - penalty * old)
                if k != width - 2:
                    b[k] += rate * (error * old - penalty * b[k])
        after = squared_error(users, items, ratings, left, right)
        if not after < before:
            left[:], right[:] = kept_left, kept_right
            rate *= SLOWER
            if rate < 1e-7:
                break
            continue
        kept_left[:], kept_right[:] = left, right
        settled = before - after < tolerance * before
        before = after
        rate *= FASTER
        if settled:
            break
    return before, sweeps


@exact_kernel
def squared_error(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    ratings: NDArray[np.float64],
    left: NDArray[np.float64],
    right: NDArray[np.float64],
) -> float:
    """The mean squared error on the training ratings."""
    total = 0.0
    for r in range(len(ratings)):
        a, b = left[users[r]], right[items[r]]
        error = ratings[r]
        for k in range(left.shape[1]):
            error -= a[k] * b[k]
        total += error * error
    return total / len(ratings)
