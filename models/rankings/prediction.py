"""Probabilities under a mixture, and how they hold up on ballots that were not fitted."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Mixture
from predilect.models.rankings.spectral import pair_wins

NORMAL_95 = 1.959963984540054


class Interval(NamedTuple):
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PairCalibration:
    """Pairwise predictions P(i before j) ≥ ½ against held-out comparisons, by tenth of ½..1.

    predicted, observed (B,): mean prediction and observed share; weight (B,): comparisons in the bin. Bins without any
    are left out. expected_error: mean |predicted − observed|, weighted by comparisons.
    """

    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]
    weight: NDArray[np.float64]
    expected_error: float


def win_matrix(mixture: Mixture) -> NDArray[np.float64]:
    """P(i before j) = Σ_k α_k σ(θ_i^k − θ_j^k) as (n, n), ½ on the diagonal."""
    chance = np.zeros((len(mixture.log_worths),) * 2)
    for share, theta in zip(mixture.shares, mixture.log_worths.T, strict=True):
        chance += share * expit(theta[:, None] - theta[None, :])
    return chance


def first_probabilities(mixture: Mixture, menu: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """P(i first of `menu`) = Σ_k α_k λ_i^k / Σ_{a ∈ menu} λ_a^k, in the order of the menu (None: all items)."""
    log_worths = mixture.log_worths if menu is None else mixture.log_worths[menu]
    chance: NDArray[np.float64] = softmax(log_worths, axis=0) @ mixture.shares
    return chance


def mean_log_likelihood(log_likelihoods: NDArray[np.float64], weights: NDArray[np.float64]) -> Interval:
    """The mean a ballot of log-likelihoods (m,), rows standing for `weights` (m,) ballots, with a normal interval.

    The interval treats ballots as independent draws; with one ballot it is the value itself.
    """
    total = float(weights.sum())
    mean = float(weights @ log_likelihoods) / total
    variance = float(weights @ (log_likelihoods - mean) ** 2) / max(total - 1, 1)
    half = NORMAL_95 * float(np.sqrt(variance / total))
    return Interval(mean, mean - half, mean + half)


def pair_calibration(mixture: Mixture, layout: Layout, n_bins: int = 10) -> PairCalibration:
    """Calibration of `win_matrix` on the pairs that the ballots compare."""
    wins = pair_wins(layout)
    chance = win_matrix(mixture)
    i, j = np.triu_indices(len(chance), 1)
    flip = chance[i, j] < 0.5
    predicted = np.where(flip, chance[j, i], chance[i, j])
    won = np.where(flip, wins[j, i], wins[i, j])
    met = wins[i, j] + wins[j, i]
    place = np.minimum(((predicted - 0.5) * 2 * n_bins).astype(np.int64), n_bins - 1)
    weight = np.bincount(place, met, n_bins).astype(np.float64)
    filled = weight > 0
    weight = weight[filled]
    mean = np.bincount(place, met * predicted, n_bins)[filled] / weight
    seen = np.bincount(place, won, n_bins)[filled] / weight
    error = float(weight @ np.abs(mean - seen) / weight.sum()) if weight.size else 0.0
    return PairCalibration(mean, seen, weight, error)
