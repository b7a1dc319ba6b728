"""The log-likelihood (or its penalised form) of a mixture as an objective: its value, its gradient, and one EM step."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from predilect.models.compiled import Threads
from predilect.models.rankings.layout import Counts, Layout

# Wins and expected wins below this share of all weight count as that much: an item that never wins in a component
# then comes to rest far down instead of running to minus infinity.
WINS_FLOOR = 1e-13
SHARE_FLOOR = 1e-12


@dataclass(frozen=True)
class Mixture:
    """K Plackett-Luce components: log-worths θ (n, K), one column a component, and shares α (K,) that add up to 1."""

    log_worths: NDArray[np.float64]
    shares: NDArray[np.float64]

    @classmethod
    def single(cls, log_worths: NDArray[np.float64]) -> Self:
        """One component with log-worths θ (n,)."""
        return cls(log_worths[:, None], np.ones(1))

    @property
    def n_components(self) -> int:
        return len(self.shares)

    def pack(self) -> NDArray[np.float64]:
        """θ and log α in one vector, for extrapolation."""
        return np.concatenate([self.log_worths.ravel(), np.log(self.shares)])

    def unpack(self, vector: NDArray[np.float64]) -> "Mixture":
        """The mixture of a packed vector; the shares are normalised."""
        n_items, n_components = self.log_worths.shape
        return Mixture(vector[:-n_components].reshape(n_items, n_components), _shares(vector[-n_components:]))

    def ordered(self) -> "Mixture":
        """Components by share, the largest first, each centred to Σ_i θ_i = 0 (which changes no probability)."""
        order = np.argsort(-self.shares, kind="stable")
        log_worths = self.log_worths[:, order]
        return Mixture(log_worths - log_worths.mean(axis=0), self.shares[order])


@dataclass(frozen=True)
class Point:
    """The objective at a mixture. value: log-likelihood plus log-prior. gradient (n, K) with respect to θ.

    certificate: the largest absolute derivative, of any θ_i^k or (along Σ α = 1) any log α_k, over the total weight:
    0 exactly at a stationary point.
    """

    mixture: Mixture
    counts: Counts
    value: float
    gradient: NDArray[np.float64]
    certificate: float


class Objective:
    """Σ_l w_l log Σ_k α_k P(π_l | θ^k) + ν Σ_k Σ_i (θ_i^k − 2 log(1 + e^θ_i^k)).

    The second term is a ghost item of worth 1 that every item beats ν times and loses to ν times.
    """

    def __init__(self, layout: Layout, pool: Threads, nu: float = 0.0) -> None:
        self.layout = layout
        self.pool = pool
        self.nu = nu
        self.weight = float(layout.weights.sum())
        self.n_passes = 0

    def at(self, mixture: Mixture) -> Point:
        """Value, gradient and expected counts at a mixture: one pass over the ballots."""
        self.n_passes += 1
        counts = self.layout.run(self.pool, mixture.log_worths, mixture.shares)
        value = counts.log_likelihood
        gradient = counts.wins - counts.expected
        if self.nu:
            value += self.log_prior(mixture.log_worths)
            gradient = gradient + self.nu * (1 - 2 * expit(mixture.log_worths))
        steepest = max(np.abs(gradient).max(), np.abs(counts.mass - mixture.shares * self.weight).max())
        return Point(mixture, counts, value, gradient, float(steepest) / self.weight)

    def log_prior(self, log_worths: NDArray[np.float64]) -> float:
        """ν Σ (θ − 2 log(1 + e^θ)), 0 without a prior."""
        return self.nu * float(np.sum(log_worths - 2 * np.logaddexp(0, log_worths))) if self.nu else 0.0

    def step(self, point: Point) -> Mixture:
        """One EM step whose M-step is one minorise-maximise update; the value never falls.

        λ_i ← (W_i + ν) / (D_i + 2ν / (1 + λ_i)) and α_k ← Σ_l w_l q_l^k / Σ_l w_l, at the point's responsibilities.
        """
        log_worths = point.mixture.log_worths
        floor = WINS_FLOOR * self.weight
        wins, expected = point.counts.wins, point.counts.expected
        if self.nu:
            wins = wins + self.nu
            expected = expected + 2 * self.nu * expit(log_worths)
        moved = log_worths + np.log(np.maximum(wins, floor) / np.maximum(expected, floor))
        if not self.nu:
            moved -= moved.mean(axis=0)
        shares = np.maximum(point.counts.mass / self.weight, SHARE_FLOOR)
        return Mixture(moved, shares / shares.sum())


def prior_level(log_worths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-worths shifted, each component by a constant, to where Σ_i (θ_i − 2 log(1 + e^θ_i)) is largest.

    The likelihood does not depend on the level, so a maximum of the posterior always is at that level.
    """
    level = np.zeros(log_worths.shape[1])
    for _ in range(200):
        worth = 1 / (1 + np.exp(-(log_worths + level)))
        step = (0.5 - worth).sum(axis=0) / np.maximum((worth * (1 - worth)).sum(axis=0), 1e-3)
        level += np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-14:
            break
    return log_worths + level


def _shares(log_shares: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = np.maximum(np.exp(log_shares - log_shares.max()), SHARE_FLOOR)
    normalised: NDArray[np.float64] = shares / shares.sum()
    return normalised
