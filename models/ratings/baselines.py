"""What every model must beat: the global mean, and offsets of users and items without latent factors."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.models.ids import IdMap
from predilect.models.ratings.prediction import Prediction
from predilect.models.ratings.scale import RatingScale

_MAX_SWEEPS = 50
_TOLERANCE = 1e-5  # of the scale's range, the largest change of an offset in a sweep

Codes = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GlobalMean:
    """Every rating is N(mean, variance) of the training ratings."""

    mean: float
    variance: float

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
    ) -> Self:
        """Arguments as for `RatingsModel.fit`. Raises DataError when there are no ratings."""
        _refuse_empty(ratings)
        observed = np.asarray(ratings, np.float64)
        return cls(float(observed.mean()), max(float(observed.var()), _least_variance(scale)))

    def predict(self, users: Codes, items: Codes) -> Prediction:
        """The same for all pairs, shapes (M,)."""
        return Prediction(np.full(len(users), self.mean), np.full(len(users), self.variance))


@dataclass(frozen=True)
class BiasOnly:
    """r_pi = μ + φ_p + ψ_i + ε, φ_p ~ N(0, σ²_φ), ψ_i ~ N(0, σ²_ψ), ε ~ N(0, σ²): K = 0 of the ratings model.

    The offsets are shrunk by σ²/σ²_φ and σ²/σ²_ψ ratings; μ and the three variances are learned from the residuals by
    mean-field variational EM.
    """

    mean: float
    user_offsets: Floats
    """φ, shape (P,); 0 for a user without ratings."""
    item_offsets: Floats
    """ψ, shape (I,)."""
    user_variances: Floats
    """Posterior variance of φ, shape (P,); σ²_φ for a user without ratings."""
    item_variances: Floats
    """Posterior variance of ψ, shape (I,)."""
    user_spread: float
    """σ²_φ."""
    item_spread: float
    """σ²_ψ."""
    noise_variance: float
    """σ²."""

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
    ) -> Self:
        """Arguments as for `RatingsModel.fit`. Raises DataError when there are no ratings."""
        _refuse_empty(ratings)
        floor = _least_variance(scale)
        n_rows = len(ratings)
        mean = float(np.mean(ratings, dtype=np.float64))
        residual = np.asarray(ratings, np.float64) - mean
        sides = [
            _Side(codes, len(ids), float(residual.var()), floor)
            for codes, ids in ((users, user_ids), (items, item_ids))
        ]
        noise = max(float(residual.var()), floor)
        for _ in range(_MAX_SWEEPS):
            change = 0.0
            for side in sides:
                change = max(change, side.update(residual, noise))
                mean += side.centre()
            uncertainty = sum(float(side.counts @ side.variances) for side in sides)
            noise = max((float(residual @ residual) + uncertainty) / n_rows, floor)
            if change < _TOLERANCE * (scale.high - scale.low):
                break
        by_user, by_item = sides
        return cls(
            mean,
            by_user.offsets,
            by_item.offsets,
            by_user.variances,
            by_item.variances,
            by_user.spread,
            by_item.spread,
            noise,
        )

    def predict(self, users: Codes, items: Codes) -> Prediction:
        """Mean and variance, shapes (M,); code -1 = unknown: offset 0 with the variance of its kind."""
        mean = np.full(len(users), self.mean)
        variance = np.full(len(users), self.noise_variance)
        for codes, offsets, variances, spread in (
            (users, self.user_offsets, self.user_variances, self.user_spread),
            (items, self.item_offsets, self.item_variances, self.item_spread),
        ):
            known = codes >= 0
            mean += np.where(known, offsets[codes], 0.0)
            variance += np.where(known, variances[codes], spread)
        return Prediction(mean, variance)

    def recommend_codes(
        self, user_codes: Codes, n: int, seen: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None
    ) -> NDArray[np.int32]:
        """The n items of highest offset that each user has not seen, shape (U, n), -1 where there are no more.

        seen: items by user as a CSR pair (indptr, indices) over the users' codes; None = nothing is left out.
        """
        order = np.lexsort((np.arange(len(self.item_offsets)), -self.item_offsets)).astype(np.int32)
        top = np.full((len(user_codes), n), -1, np.int32)
        for row, user in enumerate(user_codes.tolist()):
            theirs = order[:0] if seen is None or user < 0 else seen[1][seen[0][user] : seen[0][user + 1]]
            first = order[: n + len(theirs)]
            left = first[~np.isin(first, theirs)][:n] if len(theirs) else first
            top[row, : len(left)] = left
        return top


class _Side:
    """The offsets of all users, or of all items, while they are fitted."""

    def __init__(self, codes: Codes, n: int, spread: float, floor: float) -> None:
        self.codes, self.floor = codes, floor
        self.counts = np.bincount(codes, minlength=n).astype(np.float64)
        self.present = self.counts > 0
        self.offsets = np.zeros(n)
        self.spread = max(spread, floor)
        self.variances = np.full(n, self.spread)

    def update(self, residual: Floats, noise: float) -> float:
        """One coordinate update of offsets and spread; `residual` is kept up to date. The largest change."""
        precision = 1 / self.spread + self.counts / noise
        sums = np.bincount(self.codes, residual, len(self.offsets)) + self.counts * self.offsets
        change = sums / noise / precision - self.offsets
        self.offsets += change
        residual -= change[self.codes]
        self.variances = 1 / precision
        second_moment = self.offsets**2 + self.variances
        self.spread = max(float(second_moment[self.present].mean()), self.floor)
        self.variances[~self.present] = self.spread
        return float(np.abs(change).max())

    def centre(self) -> float:
        """Take the offsets' mean out and return it: the fit is the same and the prior N(0, spread) likes it better."""
        centre = float(self.offsets[self.present].mean())
        self.offsets[self.present] -= centre
        return centre


def _refuse_empty(ratings: NDArray[np.floating[Any]]) -> None:
    if not len(ratings):
        raise DataError("there are no ratings to fit a baseline on; choose a split with a training part.")


def _least_variance(scale: RatingScale) -> float:
    """Constant ratings would leave a variance of 0, and a density without bound."""
    return (1e-3 * (scale.high - scale.low)) ** 2
