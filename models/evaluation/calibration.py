"""Do the predictive distributions say how wrong they are? Coverage, PIT histogram, residuals by rating."""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

NOMINAL = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
PIT_BINS = 10
_CONTINUOUS_BINS = 10

Floats = NDArray[np.float64]


class Calibration(TypedDict):
    """Shares, each between 0 and 1."""

    nominal: list[float]
    covered: list[float]
    """Share of ratings inside the central interval of each nominal level."""
    pit: list[float]
    """Share of ratings in each tenth of their predictive distribution, lowest first; all 0.1 when calibrated."""


class ResidualsAtRating(TypedDict):
    """Observed minus predicted at one rating (at the middle of one of ten equal bins when the scale is continuous)."""

    rating: float
    n: int
    mean: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float


def calibration(ratings: NDArray[np.floating[Any]], mean: Floats, variance: Floats) -> Calibration:
    """Coverage at the NOMINAL levels and the histogram of the probability integral transform.

    ratings, mean, variance: observed and predicted, variance > 0, shapes (M,), M ≥ 1. The predictive distribution is
    the normal one; discrete ratings are taken at their values.
    """
    below = ndtr((np.asarray(ratings, np.float64) - mean) / np.sqrt(variance))
    central = np.abs(2 * below - 1)  # the smallest central interval that holds the rating
    bins = np.minimum((below * PIT_BINS).astype(np.int64), PIT_BINS - 1)
    return {
        "nominal": list(NOMINAL),
        "covered": [float(np.mean(central <= level)) for level in NOMINAL],
        "pit": (np.bincount(bins, minlength=PIT_BINS) / len(bins)).tolist(),
    }


def residuals(
    ratings: NDArray[np.floating[Any]],
    mean: Floats,
    *,
    low: float,
    high: float,
    levels: Sequence[float] | None,
) -> list[ResidualsAtRating]:
    """Mean and quantiles of observed minus predicted, by observed rating; ratings that do not occur are left out.

    low, high, levels: of the rating scale; levels None = continuous. mean: clipped or not, as it is to be shown.
    """
    observed = np.asarray(ratings, np.float64)
    residual = observed - mean
    if levels is None:
        edges = np.linspace(low, high, _CONTINUOUS_BINS + 1)
        centres = (edges[:-1] + edges[1:]) / 2
        place = np.clip(np.searchsorted(edges, observed, side="right") - 1, 0, _CONTINUOUS_BINS - 1)
    else:
        centres = np.asarray(levels, np.float64)
        place = np.searchsorted((centres[:-1] + centres[1:]) / 2, observed)
    table: list[ResidualsAtRating] = []
    for group, centre in enumerate(centres):
        at = residual[place == group]
        if len(at):
            q05, q25, q50, q75, q95 = np.quantile(at, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
            table.append(
                {
                    "rating": float(centre),
                    "n": len(at),
                    "mean": float(at.mean()),
                    "q05": q05,
                    "q25": q25,
                    "q50": q50,
                    "q75": q75,
                    "q95": q95,
                }
            )
    return table
