"""The items with the highest predicted rating, for many users at once, without a users × items matrix."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads, exact_kernel
from predilect.models.errors import ParameterError
from predilect.models.ids import UNKNOWN
from predilect.models.ratings.posterior import Side

BLOCK = 128
"""Users whose scores are computed in one matrix product."""


def top_items(
    rows: NDArray[np.integer[Any]],
    user_side: Side,
    item_side: Side,
    n: int,
    seen: tuple[NDArray[np.int64], NDArray[np.int32]],
    pool: Threads,
) -> NDArray[np.int32]:
    """(len(rows), n) item codes, best first, for the rows of `user_side`; -1 where no unseen item is left.

    seen: compressed rows, one for each of `rows`: the items left out. Equal scores: the lower code first.
    Raises ParameterError for n < 0.
    """
    if n < 0:
        raise ParameterError(f"The number of items to recommend is {n}; give 0 or more.")
    best = np.full((len(rows), n), UNKNOWN, np.int32)
    if n == 0:
        return best
    k = user_side.n_factors
    # (A, φ, 1)·(B, 1, ψ): the records of both sides hold the one before the offset.
    swapped = [*range(k), k + 1, k]
    items = item_side.table[:-1, : k + 2].T
    indptr, index = seen

    def block(number: int) -> None:
        part = slice(number * BLOCK, (number + 1) * BLOCK)
        scores = user_side.table[rows[part]][:, swapped] @ items
        select(scores, indptr[part.start : part.stop + 1], index, best[part])

    pool.run(block, -(-len(rows) // BLOCK))
    return best


@exact_kernel
def select(scores: NDArray[Any], indptr: NDArray[np.int64], index: NDArray[np.int32], best: NDArray[np.int32]) -> None:
    """Fill each row of `best` with the columns of the highest scores, those in `index` left out; spoils `scores`."""
    n_rows, n_items = scores.shape
    n = best.shape[1]
    value = np.empty(n, scores.dtype)
    for row in range(n_rows):
        for s in range(indptr[row], indptr[row + 1]):
            scores[row, index[s]] = -np.inf
        value[:] = -np.inf
        for item in range(n_items):
            score = scores[row, item]
            if score > value[n - 1]:
                place = n - 1
                while place > 0 and score > value[place - 1]:
                    value[place] = value[place - 1]
                    best[row, place] = best[row, place - 1]
                    place -= 1
                value[place] = score
                best[row, place] = item
