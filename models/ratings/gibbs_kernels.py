"""The compiled loop of a Gibbs half-sweep: every row drawn from its full conditional, given the other side.

With x = (B_i, 1) and K factors, row p's factors and offset together are Gaussian given everything else, with precision
Q = diag(α) + θ Σ_i x xᵀ and mean Q⁻¹ (α m_p + θ Σ_i x (r − ψ_i)); m_p is the row's prior mean. Both sides keep a table
with one record a row: A_1 … A_K, 1, φ, padding to a multiple of eight.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import kernel
from predilect.models.ratings.gram import gram_matrix
from predilect.models.ratings.kernels import TILE


@kernel
def sample_rows(
    first: int,
    last: int,
    indptr: NDArray[np.int64],
    index: NDArray[np.int32],
    ratings: NDArray[Any],
    table: NDArray[Any],
    other: NDArray[Any],
    prior_precisions: NDArray[np.float64],
    prior_means: NDArray[np.float64],
    noise_precision: float,
    normals: NDArray[np.float64],
    residual: NDArray[np.float64],
) -> None:
    """Draw the rows first … last-1 of `table`; rows without ratings are left alone.

    ratings: those of these rows only. prior_precisions: (K+1,), the offset last. prior_means: (n_rows, K+1).
    normals: (last - first, K+1) standard normal draws. Added to: residual (1,), Σ e² under the new rows.
    """
    size = len(prior_precisions)
    wide = table.shape[1]
    tile = np.zeros((TILE, wide), table.dtype)
    gram, gram_part = np.zeros((wide, wide)), np.zeros((wide, wide), table.dtype)
    factor, value, pull = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    base = indptr[first]

    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            continue
        for begin in range(start, stop, TILE):
            end = min(begin + TILE, stop)
            for j in range(begin, end):
                source, goal = other[index[j]], tile[j - begin]
                for k in range(wide):
                    goal[k] = source[k]
                goal[size] = ratings[j - base] - goal[size]
            gram_matrix(tile, end - begin, gram_part)
            keep = 0.0 if begin == start else 1.0
            for k in range(size + 1):
                for l in range(size + 1):
                    gram[k, l] = keep * gram[k, l] + gram_part[k, l]
        for k in range(size):
            pull[k] = prior_precisions[k] * prior_means[row, k] + noise_precision * gram[size, k]
            for l in range(k + 1):
                factor[k, l] = noise_precision * gram[k, l]
            factor[k, k] += prior_precisions[k]
        draw(factor, pull, normals[row - first], value)
        squares = gram[size, size]
        for k in range(size):
            inner = -2 * gram[size, k]
            for l in range(size):
                inner += value[l] * gram[k, l]
            squares += value[k] * inner
            table[row, k if k < size - 1 else size] = value[k]
        residual[0] += max(squares, 0.0)


@kernel
def draw(
    factor: NDArray[np.float64], pull: NDArray[np.float64], normals: NDArray[np.float64], value: NDArray[np.float64]
) -> None:
    """Set `value` to a draw from N(Q⁻¹ pull, Q⁻¹), Q being the lower triangle of `factor`, which is spoilt.

    With Q = L Lᵀ: y = L⁻¹ pull, value = L⁻ᵀ (y + normals).
    """
    size = len(pull)
    for k in range(size):
        for l in range(k):
            inner = factor[k, l]
            for j in range(l):
                inner -= factor[k, j] * factor[l, j]
            factor[k, l] = inner * factor[l, l]
        inner = factor[k, k]
        for j in range(k):
            inner -= factor[k, j] * factor[k, j]
        # The diagonal holds the reciprocal: one division a row instead of one an element.
        factor[k, k] = 1 / np.sqrt(inner)
        inner = pull[k]
        for j in range(k):
            inner -= factor[k, j] * value[j]
        value[k] = inner * factor[k, k]
    for k in range(size):
        value[k] += normals[k]
    for turn in range(size):
        k = size - 1 - turn
        value[k] *= factor[k, k]
        for j in range(k):
            value[j] -= factor[k, j] * value[k]
