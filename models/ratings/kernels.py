"""The compiled loop of a half-sweep: every row's posterior, given the other side's.

A rating is r = A_p·B_i + φ_p + ψ_i + ε. With x = (B_i, 1, r − ψ_i), row p needs from its ratings only the Gram matrix
Σ_i x xᵀ and the summed variances Σ_i Var(B_i, 0, ψ_i): after that a pass over its coordinates costs K², however many
its ratings. Both are gathered a tile at a time, so a row may be of any length.

Both sides keep a *table*, one record a row, so that a gather touches few cache lines. With K factors and
W = `width(K)` a record is: ⟨A_1⟩ … ⟨A_K⟩, 1, ⟨φ⟩, padding; and W further on Var A_1 … Var A_K, 0, Var φ, padding.
The offset φ is the coordinate K of its own row, whose partner is the 1 of the other side.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import kernel
from predilect.models.ratings.gram import gram_matrix

TILE = 256
"""Ratings gathered at a time, at most: they and their Gram matrix stay in the first-level cache."""
SETTLED = 1e-8
"""Passes over a row's coordinates end when none moved by more than the root of this, in standard deviations."""


def width(n_factors: int) -> int:
    """W: room for the factors, the one and the offset, up to a multiple of eight for whole vector registers."""
    return -(-(n_factors + 2) // 8) * 8


@kernel
def update_rows(
    first: int,
    last: int,
    indptr: NDArray[np.int64],
    index: NDArray[np.int32],
    ratings: NDArray[Any],
    table: NDArray[Any],
    other: NDArray[Any],
    prior_precisions: NDArray[np.float64],
    prior_means: NDArray[np.float64],
    leverage: NDArray[np.float64],
    noise_precision: float,
    max_passes: int,
    moments: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """Update the rows first … last-1 of `table`; rows without ratings are left alone.

    ratings: those of these rows only, in the dtype of `table` and of `other`, the other side's. prior_precisions:
    (K+1,), the offset last. prior_means, leverage: (n_rows, K+1), or (1, K+1) for all rows alike; the leverage, 0
    without features, is the share of a row's prior precision that its own regression on features takes back (see
    `side_prior`). noise_precision: ⟨θ⟩. max_passes: over a row's coordinates, ended early when none moved by more than
    1e-4 of its standard deviation. Added to: moments (3, K+1), each coordinate's Σ mean, Σ mean² and Σ variance;
    totals (2,), Σ log variance and S, the expected squared residual.
    """
    size = len(prior_precisions)
    shared = prior_means.shape[0] == 1
    wide = table.shape[1] // 2
    tile = np.zeros((TILE, wide), table.dtype)
    gram, gram_part = np.zeros((size + 1, wide)), np.zeros((wide, wide), table.dtype)
    spread, spread_part = np.zeros(wide), np.zeros(wide, table.dtype)
    gradient, value, variance, pace = np.zeros(wide), np.zeros(size), np.zeros(size), np.zeros(size)
    base = indptr[first]

    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            continue
        for begin in range(start, stop, TILE):
            end = min(begin + TILE, stop)
            gather(index[begin:end], ratings[begin - base : end - base], other, size, tile, gram_part, spread_part)
            keep = 0.0 if begin == start else 1.0
            for k in range(size + 1):
                for l in range(wide):
                    gram[k, l] = keep * gram[k, l] + gram_part[k, l]
            for k in range(wide):
                spread[k] = keep * spread[k] + spread_part[k]
        prior = 0 if shared else row
        for k in range(size):
            value[k] = table[row, k if k < size - 1 else size]
            information = noise_precision * (gram[k, k] + spread[k])
            pace[k] = 1 / (prior_precisions[k] + information)
            variance[k] = 1 / (prior_precisions[k] * (1 - leverage[prior, k]) + information)
        update_coordinates(
            gram, pace, prior_precisions, prior_means[prior], noise_precision, max_passes, value, gradient
        )
        record(gram, spread, variance, value, gradient, table[row], moments, totals)


@kernel
def gather(
    index: NDArray[np.int32],
    ratings: NDArray[Any],
    other: NDArray[Any],
    target: int,
    tile: NDArray[Any],
    gram: NDArray[Any],
    spread: NDArray[Any],
) -> None:
    """Set `gram` to Σ x xᵀ and `spread` to the summed variances of one row's ratings, up to a tile of them."""
    n, wide = len(index), tile.shape[1]
    spread[:] = 0
    # Four at a time: a single chain of additions to memory would wait for itself.
    whole = n - n % 4
    for j in range(0, whole, 4):
        s0, s1, s2, s3 = other[index[j]], other[index[j + 1]], other[index[j + 2]], other[index[j + 3]]
        t0, t1, t2, t3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        for k in range(wide):
            t0[k], t1[k], t2[k], t3[k] = s0[k], s1[k], s2[k], s3[k]
        for k in range(wide):
            spread[k] += (s0[wide + k] + s1[wide + k]) + (s2[wide + k] + s3[wide + k])
    for j in range(whole, n):
        source, goal = other[index[j]], tile[j]
        for k in range(wide):
            goal[k] = source[k]
            spread[k] += source[wide + k]
    for j in range(n):
        tile[j, target] = ratings[j] - tile[j, target]
    gram_matrix(tile, n, gram)


@kernel
def update_coordinates(
    gram: NDArray[np.float64],
    pace: NDArray[np.float64],
    prior_precisions: NDArray[np.float64],
    prior_means: NDArray[np.float64],
    noise_precision: float,
    max_passes: int,
    value: NDArray[np.float64],
    gradient: NDArray[np.float64],
) -> None:
    """Coordinate ascent over one row's means `value`, offset first (math page §2); leaves `gradient` = Σ x e.

    pace: the variance that each coordinate would have with the whole prior precision.
    """
    size, wide = len(value), len(gradient)
    for l in range(wide):
        gradient[l] = gram[size, l]
    for k in range(size):
        for l in range(wide):
            gradient[l] -= value[k] * gram[k, l]
    for _ in range(max_passes):
        moved = 0.0
        for turn in range(size):
            k = size - 1 if turn == 0 else turn - 1
            pull = prior_precisions[k] * prior_means[k] + noise_precision * (gradient[k] + value[k] * gram[k, k])
            step = pull * pace[k] - value[k]
            value[k] += step
            for l in range(wide):
                gradient[l] -= step * gram[k, l]
            moved = max(moved, step * step / pace[k])
        if moved < SETTLED:
            break


@kernel
def record(
    gram: NDArray[np.float64],
    spread: NDArray[np.float64],
    variance: NDArray[np.float64],
    value: NDArray[np.float64],
    gradient: NDArray[np.float64],
    mine: NDArray[Any],
    moments: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """Write one row's posterior to its record `mine`, and add to the sums."""
    size = len(value)
    wide = len(mine) // 2
    # Σ e² = Σ e (r − ψ − Σ_k value_k x_k), not negative but for rounding.
    squares = gradient[size]
    for k in range(size):
        squares -= value[k] * gradient[k]
    residual = max(squares, 0.0) + spread[size]
    product = 1.0
    for k in range(size):
        square = value[k] * value[k]
        residual += (gram[k, k] + spread[k]) * variance[k] + square * spread[k]
        moments[0, k] += value[k]
        moments[1, k] += square
        moments[2, k] += variance[k]
        own = k if k < size - 1 else size
        mine[own] = value[k]
        mine[wide + own] = variance[k]
        # One logarithm for as many variances as a double's range holds.
        product *= variance[k]
        if not 1e-150 < product < 1e150:
            totals[0] += np.log(product)
            product = 1.0
    totals[0] += np.log(product)
    totals[1] += residual
