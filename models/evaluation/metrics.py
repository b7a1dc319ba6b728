"""Accuracy, predictive density and interval metrics a row; NDCG and recall of the top ten a user.

Everything ends as one `Total` a metric, from which `bootstrap.estimates` makes values with intervals.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from predilect.models.errors import DataError
from predilect.models.evaluation.bootstrap import Total

LEVELS = (50, 80, 90, 95)
TOP = 10
_BLOCK_ROWS = 1 << 18
_LOG_2PI = float(np.log(2 * np.pi))

Floats = NDArray[np.float64]


class Scale(Protocol):
    """The legal ratings."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    def clip(self, x: Any, /) -> Any: ...
    def round(self, x: Any, /) -> Any: ...


def row_losses(
    ratings: NDArray[np.floating[Any]], mean: Floats, variance: Floats, scale: Scale
) -> dict[str, NDArray[np.float64]]:
    """Every metric's contribution of each row, each shape (M,), float64.

    ratings: observed. mean, variance: of the predictive distribution, not clipped, variance > 0. Shapes (M,).

    - mae, rmse: absolute and squared error of the mean clipped to the scale (rmse is the root of its average).
    - mae_rounded: absolute error of the mean clipped and rounded to the nearest legal rating.
    - log_predictive_density: natural log of the normal density at the rating.
    - coverage_L: 1 where the rating lies in the central L % interval of the normal, else 0.
    - interval_width_90: width of the central 90 % interval, in rating units.
    """
    observed = np.asarray(ratings, np.float64)
    clipped = np.abs(observed - scale.clip(mean))
    sd = np.sqrt(variance)
    deviation = np.abs(observed - mean) / sd
    losses = {
        "mae": clipped,
        "mae_rounded": np.abs(observed - scale.round(mean)),
        "rmse": clipped**2,
        "log_predictive_density": -0.5 * (_LOG_2PI + deviation**2) - np.log(sd),
    }
    for level in LEVELS:
        losses[f"coverage_{level}"] = (deviation <= half_width(level / 100)).astype(np.float64)
    losses["interval_width_90"] = 2 * half_width(0.9) * sd
    return losses


def row_totals(
    users: NDArray[np.integer[Any]],
    n_users: int,
    ratings: NDArray[np.floating[Any]],
    mean: Floats,
    variance: Floats,
    scale: Scale,
) -> dict[str, Total]:
    """The totals of `row_losses` by user.

    users: codes 0..n_users-1 of the people of the TEST part, shape (M,): people whom the model does not know have
    codes of their own here, their rows are scored like any others. Rows are taken in blocks, so memory beyond the
    input is a few MB. Raises DataError when there are no rows or a prediction is not a number.
    """
    if not len(ratings):
        raise DataError("there are no test rows to score; choose another split.")
    if not (np.isfinite(mean).all() and (np.asarray(variance) > 0).all() and np.isfinite(variance).all()):
        row = int(np.argmin(np.isfinite(mean) & np.isfinite(variance) & (np.asarray(variance) > 0)))
        raise DataError(
            f"test row {row} has predicted mean {mean[row]} and variance {variance[row]}, but both must be finite and "
            "the variance positive; retrain the model."
        )
    counts = np.bincount(users, minlength=n_users).astype(np.float64)
    sums: dict[str, Floats] = {}
    for rows in _blocks(len(ratings)):
        for name, loss in row_losses(ratings[rows], mean[rows], variance[rows], scale).items():
            sums.setdefault(name, np.zeros(n_users))
            sums[name] += np.bincount(users[rows], loss, n_users)
    return {name: Total(total, counts, root=name == "rmse") for name, total in sums.items()}


def relevance_threshold(scale: Scale) -> float:
    """Ratings from here on count as relevant: the top quarter of the scale's range, which is 4 of 1..5."""
    return scale.low + 0.75 * (scale.high - scale.low)


def ranking_totals(
    top: NDArray[np.integer[Any]],
    users: NDArray[np.integer[Any]],
    items: NDArray[np.integer[Any]],
    relevant: NDArray[np.bool_],
) -> dict[str, Total]:
    """NDCG and recall of the first ten, a user; users without a relevant test item have count 0.

    top: item codes recommended to each person of the test part, best first, -1 where there is none, over all items
    that the person has not rated in the training part, shape (n_users, ≥ 10). users: rows of `top`, items: item codes
    (-1 = unknown to the model, so never found), relevant: rating at or above the threshold; all of the test part,
    shape (M,).

    Gains are 0 or 1: ndcg_10 = Σ_hits 1/log2(rank + 1) over its largest possible value; recall_10 = hits / relevant.
    """
    n_users = len(top)
    first = np.asarray(top[:, :TOP])
    discount = 1 / np.log2(np.arange(2, TOP + 2))
    gain, hits = np.zeros(n_users), np.zeros(n_users)
    users, items = users[relevant], items[relevant]
    for rows in _blocks(len(users)):
        found = (first[users[rows]] == items[rows, None]) & (items[rows, None] >= 0)
        gain += np.bincount(users[rows], found @ discount[: found.shape[1]], n_users)
        hits += np.bincount(users[rows], found.any(axis=1), n_users)
    n_relevant = np.bincount(users, minlength=n_users)
    ideal = np.append(0, np.cumsum(discount))[np.minimum(n_relevant, TOP)]
    counts = (n_relevant > 0).astype(np.float64)
    return {
        "ndcg_10": Total(gain / np.where(counts > 0, ideal, 1), counts),
        "recall_10": Total(hits / np.maximum(n_relevant, 1), counts),
    }


def half_width(level: float) -> float:
    """Half the width of the central interval that holds `level` (0..1) of a standard normal."""
    return float(ndtri(0.5 + level / 2))


def _blocks(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, _BLOCK_ROWS):
        yield slice(start, min(start + _BLOCK_ROWS, n_rows))
