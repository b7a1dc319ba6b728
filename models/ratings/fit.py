"""Coordinate ascent on the bound: sweeps, precisions, stopping, restarts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from predilect.models.compiled import Threads
from predilect.models.random import stream
from predilect.models.ratings.bound import Noise, best_prior, bound
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.features import Features
from predilect.models.ratings.posterior import Prior, Side
from predilect.models.ratings.side_prior import FeatureBasis, SidePrior
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
    user_weights: NDArray[np.float64] | None = None
    """(d, K+1): ⟨β⟩ of the users' features, where they have any."""
    item_weights: NDArray[np.float64] | None = None
    """(d, K+1): alike."""
    lambdas: tuple[NDArray[np.float64] | None, ...] = (None, None)
    """λ (K+1,) of both."""


class Start(NamedTuple):
    """Where an ascent begins, or goes on."""

    users: Side
    items: Side
    noise: Noise
    lambdas: tuple[NDArray[np.float64] | None, ...] = (None, None)
    """λ of the users' and the items' features, if not the first guess."""
    bound_trace: tuple[float, ...] = ()
    """F after each sweep that was done before."""
    noise_sd_trace: tuple[float, ...] = ()


class FitState(NamedTuple):
    """Where a fit stands after a sweep: all that is needed to go on to the same bits.

    Its arrays are those at work: whoever keeps the state writes them before the next sweep.
    """

    restart: int
    """Which random start is at work; `config.restarts` when it is the correlated fit after them."""
    at: Start
    best: Fit | None
    """The best of the starts before, or the mean-field fit before the correlated one (its traces count)."""


OnState = Callable[[FitState], None]


class Ascent:
    """The ratings of one fit, and coordinate ascent over them."""

    def __init__(
        self,
        by_user: HalfSweep,
        by_item: HalfSweep,
        midpoint: float,
        config: VBConfig,
    ) -> None:
        """midpoint: of the rating scale, the prior mean of an item's offset."""
        self.by_user, self.by_item = by_user, by_item
        self.n_ratings = len(by_user.order.index)
        self.midpoint, self.config = midpoint, config
        self._item_totals, self._squares = _totals(self.by_item)
        self.bases: list[FeatureBasis | None] = [None, None]

    def use_features(self, user_design: Features, item_design: Features) -> None:
        """Let the priors' means depend on features; see `features.design`."""
        self.bases = [
            FeatureBasis(self.by_user.order, user_design, 0.0),
            FeatureBasis(self.by_item.order, item_design, self.midpoint),
        ]

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

    def run(
        self, start: Start, pool: Threads, on_sweep: OnSweep | None = None, keep: Callable[[Start], None] | None = None
    ) -> Fit:
        """Sweep until the bound rises by less than the tolerance. keep: called after each sweep with where that is."""
        users, items, config = start.users, start.items, self.config
        traces = list(start.bound_trace), list(start.noise_sd_trace)
        fit = Fit(users, items, start.noise, *traces, self._settled(traces[0]), lambdas=start.lambdas)
        priors = [
            None if basis is None else SidePrior(basis, side, pool, lambda_)
            for basis, side, lambda_ in zip(self.bases, (users, items), start.lambdas, strict=True)
        ]
        while not fit.converged and len(fit.bound_trace) < config.max_sweeps:
            user_sums = self.by_user.run(users, items, fit.noise.precision, pool)
            item_sums = self.by_item.run(items, users, fit.noise.precision, pool)
            fit.noise = Noise.given(self.n_ratings, item_sums.residual)
            learn = config.precisions == "empirical_bayes" and len(fit.bound_trace) >= PATIENCE
            plain, featured = [], 0.0
            for side, sums, prior, offset_mean in (
                (users, user_sums, priors[0], 0.0),
                (items, item_sums, priors[1], None),
            ):
                if prior is not None:
                    featured += prior.update(side, pool, learn) + sums.log_variance / 2
                    continue
                if learn:
                    # Both sides' scales are free: only their product matters, and the bound climbs faster so.
                    side.prior = best_prior(sums, offset_mean)
                plain.append((sums, side.prior))
            fit.bound_trace.append(bound(self.n_ratings, item_sums.residual, fit.noise, plain) + featured)
            fit.noise_sd_trace.append(fit.noise.precision**-0.5)
            fit.lambdas = tuple(None if prior is None else prior.lambda_ for prior in priors)
            if on_sweep is not None:
                on_sweep(len(fit.bound_trace), fit.bound_trace[-1], fit.noise_sd_trace[-1])
            if keep is not None:
                keep(_now(fit))
            fit.converged = self._settled(fit.bound_trace)
        for side, prior in zip((users, items), priors, strict=True):
            if prior is not None:
                prior.finish(side)
        fit.user_weights, fit.item_weights = (None if prior is None else prior.weights for prior in priors)
        return fit

    def best(
        self,
        seed: int,
        pool: Threads,
        start: Start | None = None,
        on_sweep: OnSweep | None = None,
        on_state: OnState | None = None,
        resume: FitState | None = None,
    ) -> Fit:
        """From `start`, or from each of the random starts, of which the one that reaches the highest bound is kept.

        on_state: called after each sweep. resume: what it was called with earlier, to go on from there.
        """
        best, first = (None, 0) if resume is None else (resume.best, resume.restart)
        swept = 0  # Sweeps are counted on through the restarts.
        for number in range(first, self.config.restarts if start is None else 1):
            report = None if on_sweep is None else partial(_report, on_sweep, swept)
            begin = self.random_start(seed, number) if start is None else start
            keep = None if on_state is None else partial(_keep, on_state, number, best)
            fit = self._finished(self.run(resume.at if resume and number == first else begin, pool, report, keep))
            swept += len(fit.bound_trace)
            if best is None or fit.bound_trace[-1] > best.bound_trace[-1]:
                best = fit
        assert best is not None
        return best

    def all(
        self, n: int, seed: int, pool: Threads, start: Start | None = None, on_sweep: OnSweep | None = None
    ) -> list[Fit]:
        """`n` fits, all from `start` or each from a random start of its own."""
        fits: list[Fit] = []
        for number in range(n):
            report = None if on_sweep is None else partial(_report, on_sweep, sum(len(f.bound_trace) for f in fits))
            begin = self.random_start(seed, number) if start is None else start
            fits.append(self._finished(self.run(begin, pool, report)) if number == 0 or start is None else fits[0])
        return fits

    def correlated(
        self,
        fit: Fit,
        pool: Threads,
        on_sweep: OnSweep | None = None,
        on_state: OnState | None = None,
        resume: FitState | None = None,
    ) -> Fit:
        """Generalised mean field from a mean-field fit; the traces go on."""
        if resume is None:
            for side in (fit.users, fit.items):
                side.correlate(self.config.n_item_latents)
        begin = Start(fit.users, fit.items, fit.noise, fit.lambdas) if resume is None else resume.at
        keep = None if on_state is None else partial(_keep, on_state, self.config.restarts, fit)
        more = self._finished(self.run(begin, pool, on_sweep, keep))
        more.bound_trace[:0], more.noise_sd_trace[:0] = fit.bound_trace, fit.noise_sd_trace
        return more

    def _finished(self, fit: Fit) -> Fit:
        """With whoever has no ratings at the final prior, or at what the features say."""
        for side, half, basis in zip((fit.users, fit.items), (self.by_user, self.by_item), self.bases, strict=True):
            side.reset(np.flatnonzero(half.order.counts == 0) if basis is None else np.empty(0, np.int64))
        return fit

    def _settled(self, bound_trace: list[float]) -> bool:
        if len(bound_trace) < PATIENCE + 2:
            return False
        before, after = bound_trace[-2:]
        # The paper divides by |F| alone, which passes through 0 when the noise is about a quarter of the ratings' unit.
        return after - before < self.config.tolerance * max(abs(before), self.n_ratings)


def _report(on_sweep: OnSweep, before: int, sweep: int, bound: float, noise_sd: float) -> None:
    on_sweep(before + sweep, bound, noise_sd)


def _now(fit: Fit) -> Start:
    return Start(fit.users, fit.items, fit.noise, fit.lambdas, tuple(fit.bound_trace), tuple(fit.noise_sd_trace))


def _keep(on_state: OnState, restart: int, best: Fit | None, at: Start) -> None:
    on_state(FitState(restart, at, best))


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
