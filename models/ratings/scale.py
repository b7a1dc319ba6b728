"""The scale on which people rate."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predilect.models.errors import ParameterError


@dataclass(frozen=True)
class RatingScale:
    """Legal ratings: from `low` to `high`, either the sorted `levels` only or, with None, anything between."""

    low: float
    high: float
    levels: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ParameterError(f"The rating scale {self.low} … {self.high} is not a range; give low < high.")
        if self.levels is None:
            return
        if any(a >= b for a, b in pairwise(self.levels)):
            raise ParameterError(f"The rating levels {self.levels} are not in rising order; sort them, each once.")
        if len(self.levels) < 2 or self.levels[0] < self.low or self.levels[-1] > self.high:
            raise ParameterError(
                f"The rating levels {self.levels} do not lie in {self.low} … {self.high}; give two or more inside it."
            )

    @property
    def midpoint(self) -> float:
        """Half way from low to high: μ_ψ of the paper's prior."""
        return (self.low + self.high) / 2

    def clip(self, ratings: ArrayLike) -> NDArray[np.float64]:
        """`ratings`, any shape, moved into the scale."""
        return np.clip(np.asarray(ratings, np.float64), self.low, self.high)

    def round(self, ratings: ArrayLike) -> NDArray[np.float64]:
        """`ratings`, any shape, moved to the nearest legal level (half way: the higher); clipped if continuous."""
        clipped = self.clip(ratings)
        if self.levels is None:
            return clipped
        levels = np.array(self.levels)
        nearest: NDArray[np.float64] = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, clipped, side="right")]
        return nearest

    def to_facts(self) -> dict[str, Any]:
        """What a manifest holds."""
        return {"low": self.low, "high": self.high, "levels": None if self.levels is None else list(self.levels)}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> "RatingScale":
        """The inverse of `to_facts`."""
        levels = facts["levels"]
        return cls(float(facts["low"]), float(facts["high"]), None if levels is None else tuple(map(float, levels)))
