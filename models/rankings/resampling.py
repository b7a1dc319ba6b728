"""Bootstrap intervals of worths, shares and ranks: whole ballots are drawn with replacement and the fit repeated."""

from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from predilect.models.compiled import Threads
from predilect.models.errors import ParameterError
from predilect.models.fan_out import FanOut, fan_out
from predilect.models.random import stream
from predilect.models.rankings.ballots import Ballots
from predilect.models.rankings.connectivity import diagnose
from predilect.models.rankings.em import climb_from
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Mixture, Objective
from predilect.models.rankings.starts import emptied

Floats = NDArray[np.float64]
TOLERANCE = 1e-6
MAX_PASSES = 1_000


@dataclass(frozen=True)
class Bootstrap:
    """What the resamples that could be fitted gave, components matched to those of the fit.

    log_worths (B, n, K), centred; shares (B, K); ranks (B, n, K), 1 for the item with the largest worth.
    n_disconnected: resamples without finite worths. n_emptied: resamples in which a component ran empty. Neither is
    among the B, so intervals are conditional on the fit existing; a large count says that the data are too few.
    """

    log_worths: NDArray[np.float64]
    shares: NDArray[np.float64]
    ranks: NDArray[np.int64]
    n_disconnected: int
    n_emptied: int

    @property
    def n_degenerate(self) -> int:
        """Resamples that could not be fitted."""
        return self.n_disconnected + self.n_emptied

    def interval(self, values: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
        """Percentile interval over the first axis of `values` (one of this object's arrays): (low, high)."""
        if not len(values):
            nan = np.full(values.shape[1:], np.nan)
            return nan, nan
        low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def rank_interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The ranks (n, K) between which each item lies; whole numbers, rounded outwards."""
        low, high = self.interval(self.ranks.astype(np.float64), level)
        return np.floor(low), np.ceil(high)


def bootstrap(
    ballots: Ballots,
    mixture: Mixture,
    *,
    n_resamples: int,
    seed: int,
    nu: float = 0.0,
    n_threads: int = 1,
    elsewhere: FanOut | None = None,
) -> Bootstrap:
    """Refit `n_resamples` resamples of the ballots, each from the fitted mixture.

    As many ballots are drawn as there are, rows in proportion to their counts, each drawn ballot weighing what one of
    its row's does. Resamples are independent streams of the seed, so threads do not change the result. elsewhere: where
    the refits are done, if not on threads.
    """
    if n_resamples < 1:
        raise ParameterError(f"n_resamples is {n_resamples}; give 1 or more.")
    layout = Layout(ballots)
    total = int(ballots.counts.sum())
    chance = ballots.counts / total
    each = ballots.weights / ballots.counts
    alone = Threads(1)

    def resample(number: int) -> tuple[Mixture | None, bool]:
        """The refit, if there is one, and whether its ballots are connected."""
        drawn = stream(seed, "bootstrap", number).multinomial(total, chance)
        part = layout.reweighted(drawn * each)
        if not nu and not diagnose(part).connected:
            return None, False
        objective = Objective(part, alone, nu)
        found = climb_from(objective, mixture, "auto", TOLERANCE, MAX_PASSES).point.mixture
        return None if emptied(found) else match(found, mixture), True

    with closing((elsewhere or partial(fan_out, n_threads=n_threads))(resample, n_resamples)) as refits:
        made = dict(refits)
    kept = [found for number in range(n_resamples) if (found := made[number][0]) is not None]
    shape = mixture.log_worths.shape
    log_worths = np.array([found.log_worths for found in kept]).reshape(-1, *shape)
    shares = np.array([found.shares for found in kept]).reshape(-1, shape[1])
    n_disconnected = sum(not connected for _, connected in made.values())
    return Bootstrap(log_worths, shares, ranks(log_worths), n_disconnected, n_resamples - len(kept) - n_disconnected)


def match(mixture: Mixture, reference: Mixture) -> Mixture:
    """The mixture centred, its components in the order in which they are closest to the reference's in all."""
    log_worths = mixture.log_worths - mixture.log_worths.mean(axis=0)
    other = reference.log_worths - reference.log_worths.mean(axis=0)
    distance = ((log_worths[:, :, None] - other[:, None, :]) ** 2).sum(axis=0)
    rows, columns = linear_sum_assignment(distance)
    order = rows[np.argsort(columns)]
    return Mixture(log_worths[:, order], mixture.shares[order])


def ranks(log_worths: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rank of each item, 1 for the largest log-worth, along the last axis but one; equal worths by item order."""
    order = np.argsort(-log_worths, axis=-2, kind="stable")
    ranked: NDArray[np.int64] = np.argsort(order, axis=-2, kind="stable") + 1
    return ranked


def distance(mixture: Mixture, truth: Mixture) -> float:
    """Frobenius distance of the centred log-worths (n, K), up to the order of the components."""
    matched = match(mixture, truth).log_worths
    centred = truth.log_worths - truth.log_worths.mean(axis=0)
    return float(np.sqrt(np.sum((matched - centred) ** 2)))
