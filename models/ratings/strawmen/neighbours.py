"""Pearson(k) and Euclidean(k): an item's rating from those that the user gave to the k items most like it."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads, default_threads, exact_kernel, threads
from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.random import stream
from predilect.models.ratings.orders import Order, by_user_and_item
from predilect.models.ratings.prediction import Prediction
from predilect.models.ratings.scale import RatingScale

Similarity = Literal["pearson", "euclidean"]
HELD_OUT = 20_000
"""Training ratings, a tenth of them at most, that are predicted from the others for the variance."""
ITEMS = 16
"""Items in one piece of work."""

Floats = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """r_pi = r̄_i + Σ_j s_ij (r_pj − r̄_j) / Σ_j s_ij over the k items j most similar to i that p rated, s_ij > 0.

    Pearson: s is the correlation of the ratings by those who rated both. Euclidean: s = 1 / (1 + d), d the root mean
    square of their differences.
    """

    similarity: Similarity
    k: int | None
    """None: all items that the user rated."""
    by_user: Order
    by_item: Order
    item_means: Floats
    """(n_items,): r̄, the overall mean for an item without ratings."""
    user_means: Floats
    """(n_users,): for pairs where the item is unknown; the overall mean for a user without ratings."""
    mean: float
    variance: float
    """Mean squared error on held-out training ratings."""
    n_threads: int | None = None

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
        similarity: Similarity = "pearson",
        k: int | None = 25,
        seed: int = 0,
        n_threads: int | None = None,
    ) -> "Neighbours":
        """Arguments as for `RatingsModel.fit`. Raises DataError without ratings, ParameterError for k < 1."""
        if not len(ratings):
            raise DataError("there are no ratings to fit neighbours on; choose a split with a training part.")
        if k is not None and k < 1:
            raise ParameterError(f"k is {k}; give 1 or more, or none for all.")
        if similarity not in get_args(Similarity):
            raise ParameterError(f"similarity is {similarity!r}; give one of {', '.join(get_args(Similarity))}.")
        people, things = np.asarray(users, np.int32), np.asarray(items, np.int32)
        stars = np.asarray(ratings, np.float32)
        sizes = len(user_ids), len(item_ids)

        def fitted(rows: NDArray[np.int64], variance: float) -> "Neighbours":
            orders = by_user_and_item(people[rows], things[rows], stars[rows], *sizes)
            mean = float(np.mean(stars[rows], dtype=np.float64))
            item_means, user_means = (
                _means(codes[rows], stars[rows], n, mean)
                for codes, n in zip((things, people), sizes[::-1], strict=True)
            )
            return Neighbours(similarity, k, *orders, item_means, user_means, mean, variance, n_threads)

        order = stream(seed, "neighbours", "held out").permutation(len(stars))
        held_out, rest = np.split(order, [min(HELD_OUT, len(stars) // 10)])
        floor = (1e-3 * (scale.high - scale.low)) ** 2
        if len(held_out):
            found = fitted(rest, 1.0).predict(people[held_out], things[held_out]).mean
            errors = scale.clip(found) - stars[held_out]
        else:
            errors = stars - np.mean(stars, dtype=np.float64)
        return fitted(np.arange(len(stars)), max(float(np.mean(errors**2)), floor))

    def predict(self, users: Codes, items: Codes) -> Prediction:
        """Mean and variance, shapes (M,); code -1 = unknown: the mean of whichever is known."""
        known = (users >= 0) & (items >= 0)
        mean = np.full(len(users), self.mean)
        mean[items >= 0] = self.item_means[items[items >= 0]]
        only_user = (items < 0) & (users >= 0)
        mean[only_user] = self.user_means[users[only_user]]
        rows = np.flatnonzero(known)
        rows = rows[np.argsort(items[rows], kind="stable")]
        asked, first = np.unique(items[rows], return_index=True)
        bounds = np.append(first, len(rows))
        found: Floats = np.empty(len(rows))
        people = users[rows].astype(np.int32)
        with threads(self.n_threads or default_threads()) as pool:
            self._predict(asked.astype(np.int32), bounds, people, found, pool)
        mean[rows] = found
        return Prediction(mean, np.full(len(users), self.variance))

    def _predict(
        self, asked: NDArray[np.int32], bounds: NDArray[Any], people: NDArray[np.int32], found: Floats, pool: Threads
    ) -> None:
        ratings = [order.ratings(0, len(order.index)) for order in (self.by_item, self.by_user)]

        def piece(number: int) -> None:
            part = slice(number * ITEMS, (number + 1) * ITEMS)
            predict_items(
                asked[part], bounds[part.start : part.stop + 1], people, self.by_item.indptr, self.by_item.index,
                ratings[0], self.by_user.indptr, self.by_user.index, ratings[1], self.item_means,
                self.similarity == "pearson", self.k or len(self.item_means), found,
            )  # fmt: skip

        pool.run(piece, -(-len(asked) // ITEMS))


def _means(codes: Codes, ratings: NDArray[np.float32], n: int, mean: float) -> Floats:
    counts = np.bincount(codes, minlength=n)
    found: Floats = np.where(counts > 0, np.bincount(codes, ratings, n) / np.maximum(counts, 1), mean)
    return found


@exact_kernel
def predict_items(
    asked: NDArray[np.int32],
    bounds: NDArray[np.int64],
    people: NDArray[np.int32],
    raters_at: NDArray[np.int64],
    raters: NDArray[np.int32],
    rater_stars: NDArray[np.float32],
    rated_at: NDArray[np.int64],
    rated: NDArray[np.int32],
    rated_stars: NDArray[np.float32],
    item_means: NDArray[np.float64],
    pearson: bool,
    k: int,
    found: NDArray[np.float64],
) -> None:
    """Fill `found` for the pairs bounds[a] … bounds[a+1]-1 of item asked[a] and the users in `people`.

    The similarities of one item to all others are made from the rows of its raters, used, and forgotten.
    """
    n_items = len(item_means)
    sums = np.zeros((n_items, 6))
    similarity = np.zeros(n_items)
    k = min(k, n_items)
    best, place_of = np.empty(k), np.empty(k, np.int64)
    for a in range(len(asked)):
        item = asked[a]
        sums[:] = 0
        for r in range(raters_at[item], raters_at[item + 1]):
            x = rater_stars[r] - item_means[item]
            for s in range(rated_at[raters[r]], rated_at[raters[r] + 1]):
                other = sums[rated[s]]
                y = rated_stars[s] - item_means[rated[s]]
                other[0] += 1
                other[1] += x
                other[2] += y
                other[3] += x * y
                other[4] += x * x
                other[5] += y * y
        for j in range(n_items):
            similarity[j] = similarity_of(sums[j], item_means[item] - item_means[j], pearson)
        similarity[item] = 0
        for pair in range(bounds[a], bounds[a + 1]):
            start, stop = rated_at[people[pair]], rated_at[people[pair] + 1]
            kept = nearest(rated[start:stop], similarity, best, place_of)
            total, weights = 0.0, 0.0
            for place in range(kept):
                s = start + place_of[place]
                total += best[place] * (rated_stars[s] - item_means[rated[s]])
                weights += best[place]
            found[pair] = item_means[item] + (total / weights if weights > 0 else 0.0)


@exact_kernel
def similarity_of(sums: NDArray[np.float64], shift: float, pearson: bool) -> float:
    """From n, Σx, Σy, Σxy, Σx² and Σy² over those who rated both, each item's mean taken off; shift: x's minus y's."""
    n, x, y, xy, xx, yy = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    if pearson:
        if n < 2:
            return 0.0
        spread = (xx - x * x / n) * (yy - y * y / n)
        return (xy - x * y / n) / math.sqrt(spread) if spread > 1e-9 else 0.0
    if n == 0:
        return 0.0
    # The differences are of the ratings themselves.
    squares = xx - 2 * xy + yy + 2 * shift * (x - y) + n * shift * shift
    return 1 / (1 + math.sqrt(max(squares, 0.0) / n))


@exact_kernel
def nearest(
    items: NDArray[np.int32], similarity: NDArray[np.float64], best: NDArray[np.float64], place_of: NDArray[np.int64]
) -> int:
    """Fill `best` with the highest positive similarities of `items`, falling, and `place_of` with where they are."""
    kept = 0
    for s in range(len(items)):
        value = similarity[items[s]]
        if value <= 0 or (kept == len(best) and value <= best[kept - 1]):
            continue
        place = min(kept, len(best) - 1)
        kept = min(kept + 1, len(best))
        while place > 0 and value > best[place - 1]:
            best[place] = best[place - 1]
            place_of[place] = place_of[place - 1]
            place -= 1
        best[place] = value
        place_of[place] = s
    return kept
