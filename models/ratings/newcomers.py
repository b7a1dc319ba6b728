"""People and things that come after the fit: ratings that arrive one by one, what to ask next, a new item."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predilect.models.compiled import default_threads, threads
from predilect.models.errors import DataError
from predilect.models.ids import UNKNOWN
from predilect.models.ratings.fold_in import FoldedUser, fold_in
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.posterior import Side
from predilect.models.ratings.prediction import Prediction, predict

Floats = NDArray[np.float64]


class Newcomer:
    """A user whose ratings arrive in a stream. The items, the noise and the prior stay as they were fitted."""

    def __init__(self, model: RatingsModel) -> None:
        self.model = model
        self.ratings: dict[int, float] = {}
        """Item code → rating."""
        self.folded: FoldedUser = model.fold_in([], [])
        """The posterior given all ratings so far; predicts and recommends."""
        _, self._variances, self._x = _views(model.posterior.items)
        counts = model.item_counts.astype(np.float64)
        weights = counts / counts.sum()
        self._catalogue = (self._x * weights[:, None]).T @ self._x

    def rate(self, item_id: int | str, rating: float) -> FoldedUser:
        """Take a rating in and return the new posterior, the one that all ratings at once would give.

        A second rating of an item replaces the first. One of an unknown item says nothing. Raises DataError for a
        rating off the scale, and then forgets it.
        """
        scale = self.model.scale
        if not scale.low <= rating <= scale.high:
            raise DataError(
                f"The rating {rating} of item {item_id!r} is not on the scale {scale.low} … {scale.high}; correct it."
            )
        code = int(self.model.item_ids.encode([item_id])[0])
        if code == UNKNOWN:
            return self.folded
        self.ratings[code] = rating
        items = np.fromiter(self.ratings, np.int32, len(self.ratings))
        given = np.fromiter(self.ratings.values(), np.float32, len(self.ratings))
        posterior = self.model.posterior
        side = fold_in(items, given, posterior.items, posterior.users, self.model.noise_precision)
        self.folded = FoldedUser(self.model, side, items, 0)
        return self.folded

    def ask(self, n: int = 1, exclude: ArrayLike | None = None) -> tuple[NDArray[Any], Floats]:
        """Ids of the `n` items whose rating would tell the most about this user, best first, and how much each would.

        How much: the share by which the rating would shrink the variance of the user's expected ratings, averaged over
        the items as often as they are rated. What is not known of an item counts as noise of its rating, so an item
        that nobody knows well says little. In closed form: with x_j = (⟨B_j⟩, 1), s_j² the noise of its rating and Σ
        the covariance of (A, φ), the reduction is |M^½ Σ x_j|² / (s_j² + x_jᵀ Σ x_j), M = Σ_i w_i x_i x_iᵀ. Rated items
        and those with ids in `exclude` are not asked about.
        """
        left = np.ones(len(self._x), np.bool_)
        left[list(self.ratings)] = False
        known = self.model.item_ids.encode([] if exclude is None else exclude)
        left[known[known != UNKNOWN]] = False
        codes = np.flatnonzero(left)
        covariance, noise = self._covariance()
        moved = self._x[codes] @ covariance
        reduction = np.einsum("jk,kl,jl->j", moved, self._catalogue, moved, optimize=True)
        reduction /= noise[codes] + np.einsum("jk,jk->j", moved, self._x[codes])
        share = reduction / np.trace(self._catalogue @ covariance)
        best = np.argsort(-share, kind="stable")[: max(n, 0)]
        return self.model.item_ids.decode(codes[best].astype(np.int32)), share[best]

    def _covariance(self) -> tuple[Floats, Floats]:
        """(K+1, K+1): of (A, φ) given the ratings so far, and (n_items,): each item's noise s²."""
        means, variances, _ = _views(self.folded.side)
        squares = np.append(means[0, :-1] ** 2 + variances[0, :-1], 1.0)
        noise = np.asarray(1 / self.model.noise_precision + self._variances @ squares, np.float64)
        rated = self._x[list(self.ratings)]
        precision = np.diag(self.model.posterior.users.prior.precisions)
        precision += (rated / noise[list(self.ratings)][:, None]).T @ rated
        return np.linalg.inv(precision).astype(np.float64, copy=False), noise


@dataclass(frozen=True)
class FoldedItem:
    """An item that was not in the training data, known from ratings by known users."""

    model: RatingsModel
    side: Side
    """One row: the item's posterior."""
    n_unknown: int
    """Ratings by users whom the model does not know, which say nothing here and were left out."""

    def predict(self, users: NDArray[np.integer[Any]]) -> Prediction:
        """Predict the rating of the item by each user: (M,) codes, -1 for unknown."""
        codes = np.ascontiguousarray(users, np.int32)
        if codes.size and not (codes.min() >= UNKNOWN and codes.max() < len(self.model.user_ids)):
            raise DataError(f"The user codes reach from {codes.min()} to {codes.max()}; give 0 … n - 1, or -1.")
        with threads(self.model.n_threads or default_threads()) as pool:
            return predict(
                codes, np.zeros(len(codes), np.int32), self.model.posterior.users, self.side,
                1 / self.model.noise_precision, pool,
            )  # fmt: skip

    def predict_ids(self, user_ids: ArrayLike) -> Prediction:
        """Predict the rating by the users with these ids, (M,), known or not."""
        return self.predict(self.model.user_ids.encode(user_ids))


def fold_in_item(model: RatingsModel, user_ids: ArrayLike, ratings: ArrayLike) -> FoldedItem:
    """A new item's posterior from some ratings, (M,) and (M,), the users held fixed; no rating: the prior.

    Raises DataError when the two differ in length or a rating is off the scale.
    """
    users, given = model.user_ids.encode(user_ids), np.asarray(ratings, np.float32)
    if users.shape != given.shape:
        raise DataError(f"There are {users.size} users and {given.size} ratings; give one of each a row.")
    off = ~((given >= np.float32(model.scale.low)) & (given <= np.float32(model.scale.high)))
    if off.any():
        row = int(np.argmax(off))
        raise DataError(
            f"Rating {row} is {given[row]}, not on the scale {model.scale.low} … {model.scale.high}; correct it."
        )
    known = users != UNKNOWN
    posterior = model.posterior
    side = fold_in(users[known], given[known], posterior.users, posterior.items, model.noise_precision)
    return FoldedItem(model, side, int(np.sum(~known)))


def _views(side: Side) -> tuple[Floats, Floats, Floats]:
    """(n, K+1) means and variances of the rows, the offset last, and what they multiply: (⟨B⟩, 1)."""
    means = np.column_stack([side.means, side.offsets]).astype(np.float64)
    variances = np.column_stack([side.variances, side.offset_variances]).astype(np.float64)
    x = means.copy()
    x[:, -1] = 1
    return means, variances, x
