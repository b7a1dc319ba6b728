"""Generalised mean field: the compiled loops for rows whose factors are correlated within a block.

q(v_p) and q(u_p) are full Gaussians (math page §2), as are q(m_i) and q(w_i); the offset stands alone. Means lie in the
tables of `kernels`, covariances in arrays (n_rows + 1, K, K), zero between blocks.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import exact_kernel, kernel
from predilect.models.ratings.kernels import TILE, gather, update_coordinates


@kernel
def update_correlated(  # noqa: PLR0912 (compiled in one piece)
    first: int,
    last: int,
    indptr: NDArray[np.int64],
    index: NDArray[np.int32],
    ratings: NDArray[Any],
    table: NDArray[Any],
    covariances: NDArray[Any],
    other: NDArray[Any],
    other_covariances: NDArray[Any],
    blocks: NDArray[np.int64],
    prior_precisions: NDArray[np.float64],
    prior_means: NDArray[np.float64],
    leverage: NDArray[np.float64],
    noise_precision: float,
    max_passes: int,
    moments: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """Like `kernels.update_rows`, with a full covariance within each block.

    blocks: bounds of the blocks of factors, such as (0, s, K).
    """
    size = len(prior_precisions)
    k_all = size - 1
    wide = table.shape[1] // 2
    tile = np.zeros((TILE, wide), table.dtype)
    gram, gram_part = np.zeros((size + 1, wide)), np.zeros((wide, wide), table.dtype)
    spread, spread_part = np.zeros(wide), np.zeros(wide, table.dtype)
    gradient, value, pace = np.zeros(wide), np.zeros(size), np.zeros(size)
    full, block_inverse = np.zeros((size, size)), np.zeros((size, size))
    base = indptr[first]

    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            continue
        full[:] = 0
        for begin in range(start, stop, TILE):
            end = min(begin + TILE, stop)
            gather(index[begin:end], ratings[begin - base : end - base], other, size, tile, gram_part, spread_part)
            keep = 0.0 if begin == start else 1.0
            for k in range(size + 1):
                for l in range(wide):
                    gram[k, l] = keep * gram[k, l] + gram_part[k, l]
            for k in range(wide):
                spread[k] = keep * spread[k] + spread_part[k]
            for n in range(begin, end):
                source = other_covariances[index[n]]
                for k in range(k_all):
                    for l in range(k_all):
                        full[k, l] += source[k, l]
        prior = 0 if prior_means.shape[0] == 1 else row
        # What the covariances of the other side add to the Gram matrix acts like more ratings, of 0.
        for k in range(k_all):
            for l in range(k_all):
                gram[k, l] += full[k, l]
        for k in range(size):
            value[k] = table[row, k if k < k_all else size]
            pace[k] = 1 / (prior_precisions[k] + noise_precision * gram[k, k])
        for block in range(len(blocks) - 1):
            a, b = blocks[block], blocks[block + 1]
            if a == b:
                continue
            for k in range(a, b):
                for l in range(a, b):
                    block_inverse[k - a, l - a] = noise_precision * gram[k, l]
                block_inverse[k - a, k - a] += prior_precisions[k] * (1 - leverage[prior, k])
            totals[0] -= invert(block_inverse, b - a)
            for k in range(a, b):
                for l in range(a, b):
                    covariances[row, k, l] = block_inverse[k - a, l - a]
        update_coordinates(
            gram, pace, prior_precisions, prior_means[prior], noise_precision, max_passes, value, gradient
        )
        squares = gradient[size]
        for k in range(size):
            squares -= value[k] * gradient[k]
        # Σ e² + aᵀ Σ Cov(b) a came out of the enlarged Gram matrix; left are the variances of both offsets and of A.
        offset_variance = 1 / (
            prior_precisions[k_all] * (1 - leverage[prior, k_all]) + noise_precision * gram[k_all, k_all]
        )
        residual = max(squares, 0.0) + spread[size] + gram[k_all, k_all] * offset_variance
        for k in range(k_all):
            for l in range(k_all):
                residual += covariances[row, k, l] * gram[k, l]
        totals[0] += np.log(offset_variance)
        totals[1] += residual
        mine = table[row]
        for k in range(size):
            own = k if k < k_all else size
            variance = offset_variance if k == k_all else float(covariances[row, k, k])
            mine[own] = value[k]
            mine[wide + own] = variance
            moments[0, k] += value[k]
            moments[1, k] += value[k] * value[k]
            moments[2, k] += variance


@kernel
def invert(matrix: NDArray[np.float64], size: int) -> float:
    """Replace the leading block of a positive definite matrix by its inverse; returns the log of its determinant.

    With the block = L Lᵀ: first L with the reciprocals of its diagonal, then L⁻¹, then L⁻ᵀ L⁻¹, all in place.
    """
    log_determinant = 0.0
    for k in range(size):
        for l in range(k + 1):
            inner = matrix[k, l]
            for j in range(l):
                inner -= matrix[k, j] * matrix[l, j]
            if l < k:
                matrix[k, l] = inner * matrix[l, l]
            else:
                log_determinant += np.log(inner)
                matrix[k, k] = 1 / np.sqrt(inner)
    for l in range(size):
        for k in range(l + 1, size):
            inner = 0.0
            for j in range(l, k):
                inner -= matrix[k, j] * matrix[j, l]
            matrix[k, l] = inner * matrix[k, k]
    for k in range(size):
        for l in range(k + 1):
            inner = 0.0
            for j in range(k, size):
                inner += matrix[j, k] * matrix[j, l]
            matrix[k, l] = inner
            matrix[l, k] = inner
    return log_determinant


@exact_kernel
def add_correlations(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    user_table: NDArray[Any],
    item_table: NDArray[Any],
    user_covariances: NDArray[Any],
    item_covariances: NDArray[Any],
    variance: NDArray[np.float64],
) -> None:
    """Add to `variance` what covariances off the diagonal say: tr(C_A C_B) + bᵀ C_A b + aᵀ C_B a without k = l."""
    n_factors = user_covariances.shape[1]
    for n in range(len(users)):
        a, b = user_table[users[n]], item_table[items[n]]
        of_a, of_b = user_covariances[users[n]], item_covariances[items[n]]
        more = 0.0
        for k in range(n_factors):
            for l in range(k):
                more += of_a[k, l] * (of_b[k, l] + b[k] * b[l]) + of_b[k, l] * a[k] * a[l]
        variance[n] += 2 * more
