"""Coordinate ascent on the bound: sweeps, precisions, stopping, restarts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from predilect.models.compiled import Threads
from predilect.models.random import stream
from predilect.models.ratings.bound import Noise, SideSums, best_prior, bound
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.orders import Order
from predilect.models.ratings.posterior import Prior, Side
from predilect.models.ratings.sweep import HalfSweep

OnSweep = Callable[[int, float, float], None]
START_SD = 0.1
"""Standard deviation of the items' random factors at the start, in units of their prior's."""
PATIENCE = 3
"""Sweeps before the precisions are estimated: at the start the factors are nearly nothing, and would be kept so."""


@dataclass
class Fit:
    """A posterior and how it was reached."""

    users: Side
    items: Side
    noise: Noise
    """q(θ)."""
    bound_trace: list[float]
    """F after each sweep, in nats."""
    noise_sd_trace: list[float]
    """1/√⟨θ⟩ after each sweep, in rating units."""
    converged: bool


class Start(NamedTuple):
    """Where an ascent begins."""

    users: Side
    items: Side
    noise: Noise


class Ascent:
    """The ratings of one fit, and coordinate ascent over them."""

    def __init__(self, by_user: Order, by_item: Order, midpoint: float, config: VBConfig) -> None:
        """midpoint: of the rating scale, the prior mean of an item's offset."""
        self.by_user, self.by_item = HalfSweep(by_user), HalfSweep(by_item)
        self.n_ratings = len(by_user.index)
        self.midpoint, self.config = midpoint, config
        self._item_totals, self._squares = _totals(self.by_item)

    def random_start(self, seed: int, restart: int, dtype: DTypeLike = np.float32) -> Start:
        """Users at their prior, items' factors small and random, items' offsets the (shrunken) mean ratings."""
        user_prior, item_prior = _fixed_priors(self.config, self.midpoint)
        order = self.by_item.order
        users = Side.at_prior(self.by_user.order.n_rows, user_prior, dtype)
        items = Side.at_prior(order.n_rows, item_prior, dtype)
        draw = stream(seed, "restart", restart).standard_normal(items.means.shape, np.float32)
        items.means[:] = START_SD / np.sqrt(item_prior.precisions[:-1]) * draw
        mean = self._item_totals.sum() / self.n_ratings
        items.offsets[:] = (self._item_totals + mean) / (order.counts + 1)
        return Start(users, items, Noise.given(self.n_ratings, self._squares - self.n_ratings * mean**2))

    def run(self, start: Start, pool: Threads, on_sweep: OnSweep | None = None) -> Fit:
        """Sweep until the bound rises by less than the tolerance."""
        users, items, noise, config = start.users, start.items, start.noise, self.config
        fit = Fit(users, items, noise, [], [], converged=False)
        for sweep in range(config.max_sweeps):
            user_sums = self.by_user.run(users, items, fit.noise.precision, pool)
            item_sums = self.by_item.run(items, users, fit.noise.precision, pool)
            fit.noise = Noise.given(self.n_ratings, item_sums.residual)
            if config.precisions == "empirical_bayes" and sweep >= PATIENCE:
                # Both sides' scales are free: only their product matters, and the bound climbs faster so.
                users.prior, items.prior = best_prior(user_sums, offset_mean=0.0), best_prior(item_sums)
            fit.bound_trace.append(self._bound(fit, user_sums, item_sums))
            fit.noise_sd_trace.append(fit.noise.precision**-0.5)
            if on_sweep is not None:
                on_sweep(sweep + 1, fit.bound_trace[-1], fit.noise_sd_trace[-1])
            if sweep > PATIENCE and self._settled(*fit.bound_trace[-2:]):
                fit.converged = True
                break
        return fit

    def best(self, seed: int, pool: Threads, start: Start | None = None, on_sweep: OnSweep | None = None) -> Fit:
        """From `start`, or from each of the random starts, of which the one that reaches the highest bound is kept."""
        if start is not None:
            return self._finished(self.run(start, pool, on_sweep))
        best, n_sweeps = None, 0
        for restart in range(self.config.restarts):
            # Sweeps are counted on through the restarts.
            report = None if on_sweep is None else partial(_report, on_sweep, n_sweeps)
            fit = self.run(self.random_start(seed, restart), pool, report)
            n_sweeps += len(fit.bound_trace)
            if best is None or fit.bound_trace[-1] > best.bound_trace[-1]:
                best = fit
        assert best is not None  # restarts ≥ 1
        return self._finished(best)

    def _finished(self, fit: Fit) -> Fit:
        """With whoever has no ratings at the final prior."""
        for side, half in ((fit.users, self.by_user), (fit.items, self.by_item)):
            side.reset(np.flatnonzero(half.order.counts == 0))
        return fit

    def _settled(self, before: float, after: float) -> bool:
        # The paper divides by |F| alone, which passes through 0 when the noise is about a quarter of the ratings' unit.
        return after - before < self.config.tolerance * max(abs(before), self.n_ratings)

    def _bound(self, fit: Fit, user_sums: SideSums, item_sums: SideSums) -> float:
        sides = ((user_sums, fit.users.prior), (item_sums, fit.items.prior))
        return bound(self.n_ratings, item_sums.residual, fit.noise, sides)


def _report(on_sweep: OnSweep, before: int, sweep: int, bound: float, noise_sd: float) -> None:
    on_sweep(before + sweep, bound, noise_sd)


def _fixed_priors(config: VBConfig, midpoint: float) -> tuple[Prior, Prior]:
    """The paper's priors of users and items: τ for weights, 1 for latents and offsets."""
    weights, latents = np.full(config.n_item_latents, config.tau), np.ones(config.n_user_latents)
    zeros = np.zeros(config.n_factors)
    return (
        Prior(np.concatenate([weights, latents, [1.0]]), np.append(zeros, 0.0)),
        Prior(np.concatenate([weights / config.tau, latents * config.tau, [1.0]]), np.append(zeros, midpoint)),
    )


def _totals(half: HalfSweep) -> tuple[NDArray[np.float64], float]:
    """The sum of each row's ratings, and the sum of all squared."""
    totals, squares = np.zeros(half.order.n_rows), 0.0
    for first, last in half.chunks:
        rated = half.rated[slice(*np.searchsorted(half.rated, [first, last]))]
        ratings = half.order.ratings(half.order.indptr[first], half.order.indptr[last]).astype(np.float64)
        totals[rated] = (
            np.add.reduceat(ratings, half.order.indptr[rated] - half.order.indptr[first]) if len(rated) else 0
        )
        squares += float(ratings @ ratings)
    return totals, squares
