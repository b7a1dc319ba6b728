"""What a group thinks of an item: mean, least misery, and whether all rate it at least x, from the joint predictive.

Given an item's B_i and ψ_i the members' ratings are independent; both are unknown, so the ratings are correlated
through them. All else is a Gaussian: members differ by their own A_p, φ_p and noise.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from predilect.models.compiled import default_threads, kernel, threads
from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import UNKNOWN
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.posterior import Side

POINTS = 512
"""Points of the quasi-random rule over an item's factors and offset and over what is the members' own."""
PIECE = 256
"""Items in one piece of work."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupPrediction:
    """One entry an item, (M,) each, in rating units; not clipped to the scale."""

    mean: Floats
    """Of the members' mean rating."""
    variance: Floats
    """Of the members' mean rating, the noise included."""
    least: Floats
    """Expected lowest rating of the group (least misery)."""
    all_at_least: Floats
    """Probability that every member rates the item at least x."""


class Group:
    """Members of a group, known or folded in."""

    def __init__(self, model: RatingsModel, members: Side) -> None:
        """members: one row a member."""
        self.model, self.members = model, members

    @classmethod
    def of(cls, model: RatingsModel, user_ids: ArrayLike) -> "Group":
        """The group of these users; whoever is unknown is taken from the prior. Raises DataError for nobody."""
        codes = model.user_ids.encode(user_ids)
        if not len(codes):
            raise DataError("The group has no members; give the id of at least one user.")
        table = model.posterior.users.table
        return cls(model, Side(np.vstack([table[codes], table[-1:]]), model.posterior.users.prior))

    def predict(self, items: NDArray[np.integer[Any]], at_least: float) -> GroupPrediction:
        """What the group thinks of `items`, (M,) codes, -1 for unknown. at_least: x, in rating units.

        The mean and the variance are exact. The other two integrate over the item's K+1 unknowns, and the lowest
        rating over the members' own parts too, by a fixed set of scrambled Sobol points.
        """
        codes = np.asarray(items)
        if codes.size and not (codes.min() >= UNKNOWN and codes.max() < len(self.model.item_ids)):
            raise DataError(f"The item codes reach from {codes.min()} to {codes.max()}; give 0 … n - 1, or -1.")
        if not np.isfinite(at_least):
            raise ParameterError(f"at_least is {at_least}; give a rating.")
        own, half = np.append(np.arange(self.members.n_factors), self.members.n_factors + 1), self._half
        people = self.members.table[:-1].astype(np.float64)
        things = self.model.posterior.items.table[codes].astype(np.float64)
        noise = 1 / self.model.noise_precision
        means, variances = people[:, own], people[:, own + half]
        item_means, item_variances = things[:, own], things[:, own + half]
        n = len(means)
        centre = means[:, :-1].mean(axis=0)
        mean = item_means[:, :-1] @ centre + means[:, -1].mean() + item_means[:, -1]
        squares = item_means[:, :-1] ** 2 + item_variances[:, :-1]
        # Own parts average out over the members; the item's are theirs in common.
        variance = (squares @ variances[:, :-1].sum(axis=0) + variances[:, -1].sum()) / n**2 + noise / n
        variance += item_variances[:, :-1] @ centre**2 + item_variances[:, -1]
        least, probability = np.empty(len(codes)), np.empty(len(codes))
        points = _normal_points(len(own) + n)
        with threads(self.model.n_threads or default_threads()) as pool:

            def piece(number: int) -> None:
                part = slice(number * PIECE, (number + 1) * PIECE)
                integrate(
                    means, variances, item_means[part], item_variances[part], noise, at_least, points,
                    least[part], probability[part],
                )  # fmt: skip

            pool.run(piece, -(-len(codes) // PIECE))
        return GroupPrediction(mean, variance, least, probability)

    def recommend(
        self, n: int, by: str = "mean", at_least: float | None = None, exclude: ArrayLike | None = None
    ) -> tuple[NDArray[Any], GroupPrediction]:
        """Ids and predictions of up to `n` items, best first by `mean`, `least` or `all_at_least`.

        at_least: x; the default is the scale's upper quarter point, 4 of 1 … 5. exclude: ids of items to leave out.
        """
        if by not in ("mean", "least", "all_at_least"):
            raise ParameterError(f"by is {by!r}; give mean, least or all_at_least.")
        scale = self.model.scale
        x = scale.low + 0.75 * (scale.high - scale.low) if at_least is None else at_least
        left = np.ones(len(self.model.item_ids), np.bool_)
        known = self.model.item_ids.encode([] if exclude is None else exclude)
        left[known[known != UNKNOWN]] = False
        codes = np.flatnonzero(left)
        found = self.predict(codes, x)
        best = np.argsort(-getattr(found, by), kind="stable")[: max(n, 0)]
        parts = (getattr(found, name)[best] for name in ("mean", "variance", "least", "all_at_least"))
        return self.model.item_ids.decode(codes[best].astype(np.int32)), GroupPrediction(*parts)

    @property
    def _half(self) -> int:
        half: int = self.members.table.shape[1] // 2
        return half


@cache
def _normal_points(n_dimensions: int) -> Floats:
    """(POINTS, n_dimensions): standard normals, evenly spread."""
    from scipy.stats import qmc  # slow to import

    points: Floats = ndtri(qmc.Sobol(n_dimensions, rng=0).random(POINTS))
    return points


@kernel
def integrate(
    means: Floats,
    variances: Floats,
    item_means: Floats,
    item_variances: Floats,
    noise: float,
    at_least: float,
    points: Floats,
    least: Floats,
    probability: Floats,
) -> None:
    """Fill `least` and `probability` for each item. The offset comes last in (n, K+1) and (M, K+1)."""
    n, size = means.shape
    thing = np.empty(size)
    for item in range(len(item_means)):
        lows, all_above = 0.0, 0.0
        for p in range(len(points)):
            for k in range(size):
                thing[k] = item_means[item, k] + points[p, k] * math.sqrt(item_variances[item, k])
            lowest, above = np.inf, 1.0
            for member in range(n):
                centre, spread = means[member, size - 1] + thing[size - 1], variances[member, size - 1] + noise
                for k in range(size - 1):
                    centre += means[member, k] * thing[k]
                    spread += variances[member, k] * thing[k] * thing[k]
                sd = math.sqrt(spread)
                lowest = min(lowest, centre + points[p, size + member] * sd)
                above *= 0.5 * math.erfc((at_least - centre) / sd * math.sqrt(0.5))
            lows += lowest
            all_above += above
        least[item] = lows / len(points)
        probability[item] = all_above / len(points)
