"""The evidence lower bound in closed form, and the updates of what all rows share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from predilect.models.ratings.posterior import Prior

NOISE_SHAPE = NOISE_RATE = 1.0
"""a and b of the noise precision's Gamma prior."""


@dataclass(frozen=True)
class SideSums:
    """What the bound needs of one side: sums over its rows that have ratings."""

    n_rows: int
    moments: NDArray[np.float64]
    """(3, K+1): Σ mean, Σ mean², Σ variance of each coordinate, the offset last."""
    log_variance: float
    """Σ log variance over all coordinates."""
    residual: float
    """S: Σ over the ratings of the expected squared residual, the posterior's variances included."""

    def squares(self, about: NDArray[np.float64]) -> NDArray[np.float64]:
        """(K+1,): Σ ⟨(x − about)²⟩ of each coordinate."""
        mean, square, variance = self.moments
        total: NDArray[np.float64] = square - 2 * about * mean + self.n_rows * about**2 + variance
        return total


@dataclass(frozen=True)
class Noise:
    """q(θ) = Gamma(shape, rate), θ the precision of a rating."""

    shape: float
    rate: float

    @classmethod
    def given(cls, n_ratings: int, residual: float) -> "Noise":
        """The optimum given S."""
        return cls(NOISE_SHAPE + n_ratings / 2, NOISE_RATE + residual / 2)

    @property
    def precision(self) -> float:
        """⟨θ⟩."""
        return self.shape / self.rate

    @property
    def log_precision(self) -> float:
        """⟨log θ⟩."""
        return float(digamma(self.shape) - np.log(self.rate))


def best_prior(sums: SideSums, offset_mean: float | None = None) -> Prior:
    """The prior that maximises the bound given the posterior; the offset's mean stays when it is given."""
    means = sums.moments[0] / sums.n_rows
    if offset_mean is not None:
        means[-1] = offset_mean
    return Prior(sums.n_rows / sums.squares(means), means)


def bound(n_ratings: int, residual: float, noise: Noise, sides: Sequence[tuple[SideSums, Prior]]) -> float:
    """F (math page §3), in nats; `residual`: S under the present posterior of both sides."""
    value = 0.5 * n_ratings * (noise.log_precision - np.log(2 * np.pi)) - 0.5 * noise.precision * residual
    for sums, prior in sides:
        squares = sums.squares(prior.means)
        value += 0.5 * float(np.sum(sums.n_rows * (np.log(prior.precisions) + 1) - prior.precisions * squares))
        value += 0.5 * sums.log_variance
    value += _gamma_log_density(NOISE_SHAPE, NOISE_RATE, noise) - _gamma_log_density(noise.shape, noise.rate, noise)
    return float(value)


def _gamma_log_density(shape: float, rate: float, noise: Noise) -> float:
    """⟨log Gamma(θ; shape, rate)⟩ under q(θ)."""
    return float(shape * np.log(rate) - gammaln(shape) + (shape - 1) * noise.log_precision - rate * noise.precision)
