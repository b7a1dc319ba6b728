"""What a ratings model says about a (user, item) pair."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads, exact_kernel
from predilect.models.ratings.correlated import add_correlations
from predilect.models.ratings.posterior import Side

PAIRS = 1 << 16
"""Pairs predicted in one piece of work."""


class Prediction(NamedTuple):
    """Mean and variance of the predicted rating, one a pair; the mean is not clipped to the scale.

    The variance is that of the rating, the noise included: 1/⟨θ⟩ + Var φ + Var ψ + V_pi.
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]


def predict(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    user_side: Side,
    item_side: Side,
    noise_variance: float,
    pool: Threads,
) -> Prediction:
    """Predict each pair (users[n], items[n]); codes in range, -1 for unknown."""
    mean, variance = np.empty(len(users)), np.empty(len(users))

    def piece(number: int) -> None:
        part = slice(number * PAIRS, (number + 1) * PAIRS)
        predict_pairs(
            users[part],
            items[part],
            user_side.table,
            item_side.table,
            user_side.n_factors,
            noise_variance,
            mean[part],
            variance[part],
        )
        if user_side.covariances is not None and item_side.covariances is not None:
            add_correlations(
                users[part],
                items[part],
                user_side.table,
                item_side.table,
                user_side.covariances,
                item_side.covariances,
                variance[part],
            )

    pool.run(piece, -(-len(users) // PAIRS))
    return Prediction(mean, variance)


@exact_kernel
def predict_pairs(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    user_table: NDArray[Any],
    item_table: NDArray[Any],
    n_factors: int,
    noise_variance: float,
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> None:
    """Fill `mean` and `variance`. The code -1 is the tables' last row: the prior."""
    wide = user_table.shape[1] // 2
    for n in range(len(users)):
        user, item = user_table[users[n]], item_table[items[n]]
        offset = n_factors + 1
        m = float(user[offset]) + float(item[offset])
        v = noise_variance + float(user[wide + offset]) + float(item[wide + offset])
        for k in range(n_factors):
            a, b = float(user[k]), float(item[k])
            var_a, var_b = float(user[wide + k]), float(item[wide + k])
            m += a * b
            v += var_a * (b * b + var_b) + a * a * var_b
        mean[n] = m
        variance[n] = v
