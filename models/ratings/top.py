"""The items with the highest predicted rating, for many users at once, without a users × items matrix."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads, exact_kernel
from predilect.models.errors import ParameterError
from predilect.models.ids import UNKNOWN
from predilect.models.ratings.posterior import Side

BLOCK = 128
"""Users whose scores are computed in one matrix product."""
TILE = 1024
"""Items of that product: with a block of users, their scores stay in the second-level cache."""
STRIDE = 64
"""Scores that are compared with the threshold at once."""

Seen = tuple[NDArray[np.int64], NDArray[np.int32]]
Scores = Callable[[slice, slice, NDArray[np.float32]], None]
"""(places in the rows, items, out): fills `out` with their scores."""


def top_items(
    rows: NDArray[np.integer[Any]],
    user_side: Side,
    item_side: Side,
    n: int,
    seen: Seen,
    pool: Threads,
    deviations: float = 0.0,
) -> NDArray[np.int32]:
    """(len(rows), n) item codes, best first, for the rows of `user_side`; -1 where no unseen item is left.

    Scored by the mean of A_p·B_i + φ_p + ψ_i plus `deviations` times its posterior standard deviation, without the
    noise. seen: compressed rows, one for each of `rows`: the items left out. Equal scores: the lower code first.
    Raises ParameterError for n < 0.
    """
    k, half = user_side.n_factors, user_side.table.shape[1] // 2
    # (A, φ, 1)·(B, 1, ψ): the records of both sides hold the one before the offset.
    swapped = [*range(k), k + 1, k]
    users, items = user_side.table[rows][:, swapped], np.ascontiguousarray(item_side.table[:-1, : k + 2].T)

    def mean(part: slice, tile: slice, out: NDArray[Any]) -> None:
        np.matmul(users[part], items[:, tile], out=out)

    if deviations == 0:
        return best_of(len(rows), item_side.n_rows, n, seen, mean, pool)
    # Var = Σ_k Var A_k ⟨B_k²⟩ + ⟨A_k⟩² Var B_k + Var φ + Var ψ.
    theirs, mine = item_side.table[:-1], user_side.table[rows]
    spreads = np.hstack(
        [mine[:, half : half + k], mine[:, :k] ** 2, mine[:, half + k + 1 :][:, :1], np.ones_like(mine[:, :1])]
    )
    item_spreads = np.hstack(
        [
            theirs[:, :k] ** 2 + theirs[:, half : half + k],
            theirs[:, half : half + k],
            np.ones_like(theirs[:, :1]),
            theirs[:, half + k + 1 :][:, :1],
        ]
    ).T.copy()

    def optimistic(part: slice, tile: slice, out: NDArray[Any]) -> None:
        mean(part, tile, out)
        variance = spreads[part] @ item_spreads[:, tile]
        out += out.dtype.type(deviations) * np.sqrt(variance, out=variance)

    return best_of(len(rows), item_side.n_rows, n, seen, optimistic, pool)


def best_of(n_rows: int, n_items: int, n: int, seen: Seen, scores: Scores, pool: Threads) -> NDArray[np.int32]:
    """(n_rows, n) item codes by falling score; see `top_items`."""
    if n < 0:
        raise ParameterError(f"The number of items to recommend is {n}; give 0 or more.")
    best = np.full((n_rows, n), UNKNOWN, np.int32)
    if n == 0:
        return best
    indptr, index = seen

    def block(number: int) -> None:
        part = slice(number * BLOCK, min((number + 1) * BLOCK, n_rows))
        size = part.stop - part.start
        value = np.full((size, n), -np.inf, np.float32)
        room = np.empty(size * min(TILE, n_items), np.float32)
        for first in range(0, n_items, TILE):
            tile = slice(first, min(first + TILE, n_items))
            out = room[: size * (tile.stop - first)].reshape(size, -1)
            scores(part, tile, out)
            select_tile(out, first, indptr[part.start : part.stop + 1], index, value, best[part])

    pool.run(block, -(-n_rows // BLOCK))
    return best


@exact_kernel
def select(scores: NDArray[Any], indptr: NDArray[np.int64], index: NDArray[np.int32], best: NDArray[np.int32]) -> None:
    """Fill each row of `best` with the columns of the highest scores, those in `index` left out; spoils `scores`."""
    select_tile(scores, 0, indptr, index, np.full(best.shape, -np.inf, scores.dtype), best)


@exact_kernel
def select_tile(
    scores: NDArray[Any],
    first: int,
    indptr: NDArray[np.int64],
    index: NDArray[np.int32],
    value: NDArray[Any],
    best: NDArray[np.int32],
) -> None:
    """Put the highest scores, their columns counted from `first` on, among those in `value` and `best`, both falling
    along a row; items in `index` are left out. Spoils `scores`."""
    n_rows, width = scores.shape
    n = best.shape[1]
    for row in range(n_rows):
        mine, kept, codes = scores[row], value[row], best[row]
        for s in range(indptr[row], indptr[row + 1]):
            place = index[s] - first
            if 0 <= place < width:
                mine[place] = -np.inf
        for start in range(0, width, STRIDE):
            stop = min(start + STRIDE, width)
            threshold = kept[n - 1]
            # Counted without a branch, many at once; few strides hold a score worth a closer look.
            above = 0
            for item in range(start, stop):
                above += mine[item] > threshold
            if above == 0:
                continue
            for item in range(start, stop):
                score = mine[item]
                if score > kept[n - 1]:
                    place = n - 1
                    while place > 0 and score > kept[place - 1]:
                        kept[place] = kept[place - 1]
                        codes[place] = codes[place - 1]
                        place -= 1
                    kept[place] = score
                    codes[place] = first + item
