"""Gibbs sampling of the ratings model: several chains that start from variational fits."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from predilect.models.compiled import Threads, threads
from predilect.models.random import stream
from predilect.models.ratings.bound import NOISE_RATE, NOISE_SHAPE
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.convergence import Convergence, effective_size, split_rhat
from predilect.models.ratings.draws import Draws, SideDraws
from predilect.models.ratings.effects import EffectRecorder, Effects
from predilect.models.ratings.features import Features
from predilect.models.ratings.fit import Fit, OnSweep
from predilect.models.ratings.gibbs_kernels import sample_rows
from predilect.models.ratings.kernels import width
from predilect.models.ratings.orders import Order
from predilect.models.ratings.posterior import Side
from predilect.models.ratings.regression import Regression, regression
from predilect.models.ratings.sweep import CHUNK, MAX_CHUNKS

WATCHED = 100
"""Training pairs whose predictions are followed for the diagnostics."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """What the chains left."""

    draws: Draws
    user_effects: Effects
    item_effects: Effects
    convergence: Convergence

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays for `artifact.save`."""
        arrays = self.draws.to_arrays() | self.convergence.to_arrays()
        return arrays | self.user_effects.to_arrays("user") | self.item_effects.to_arrays("item")

    def to_facts(self) -> dict[str, Any]:
        """The texts that go with them."""
        sides = {"user": self.user_effects, "item": self.item_effects}
        return {name: {"names": side.names, "groups": side.groups} for name, side in sides.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """The inverse of both."""
        users, items = (Effects.from_arrays(arrays, name, **facts[name]) for name in ("user", "item"))
        return cls(Draws.from_arrays(arrays), users, items, Convergence.from_arrays(arrays))


class SideModel:
    """What all chains share of one side: its ratings, features and chunks."""

    def __init__(self, name: str, order: Order, features: Features, n_factors: int, base: float) -> None:
        """base: where the offsets' prior is centred, before the features."""
        self.name, self.order, self.features, self.base = name, order, features, base
        self.rated, self.unrated = np.flatnonzero(order.counts), np.flatnonzero(order.counts == 0)
        self.rated_features = features.of(self.rated)
        # The last row is whoever is unknown: the constant alone.
        self.others_features = csr_array(features.matrix[self.unrated])
        self.regression: Regression = regression(self.rated_features.matrix, n_factors + 1)
        bounds = order.chunks(int(np.clip(len(order.index) // CHUNK, 1, MAX_CHUNKS)))
        self.chunks: list[tuple[int, int]] = list(pairwise(bounds.tolist()))
        self.own = [*range(n_factors), n_factors + 1]
        """Columns of a table's factors and offset."""


class SideChain:
    """One side of one chain: its present factors, their prior, and a random stream a chunk."""

    def __init__(self, model: SideModel, start: Side, seed: int, number: int) -> None:
        """start: the variational posterior, from which the factors are drawn."""
        self.model, self.regression = model, copy(model.regression)
        name = ("gibbs", number, model.name)
        self.streams = [stream(seed, *name, chunk) for chunk in range(len(model.chunks))]
        self.rng = stream(seed, *name, "prior")
        k = start.n_factors
        self.table = np.zeros((model.order.n_rows, width(k)), np.float32)
        self.table[:, k] = 1
        spread = np.sqrt(np.column_stack([start.variances, start.offset_variances]))
        self.table[:, model.own] = np.column_stack([start.means, start.offsets])
        self.table[:, model.own] += spread * self.rng.standard_normal(spread.shape)
        self.prior_means = np.zeros((model.order.n_rows, k + 1))

    def sweep(self, other: NDArray[Any], noise_precision: float, pool: Threads) -> float:
        """Draw the prior given the factors, then the factors given the other side; returns Σ e²."""
        model, order = self.model, self.model.order
        values = self.rated_values.astype(np.float64)
        values[:, -1] -= model.base
        means = self.regression.draw(values, self.rng, pool)
        means[:, -1] += model.base
        self.prior_means[model.rated] = means
        residual = np.zeros((len(model.chunks), 1))

        def update(chunk: int) -> None:
            first, last = model.chunks[chunk]
            ratings = order.ratings(order.indptr[first], order.indptr[last])
            normals = self.streams[chunk].standard_normal((last - first, len(model.own)))
            sample_rows(
                first, last, order.indptr, order.index, ratings, self.table, other,
                self.regression.alpha, self.prior_means, noise_precision, normals, residual[chunk],
            )  # fmt: skip

        pool.run(update, len(model.chunks))
        return float(sum(residual[:, 0]))

    @property
    def rated_values(self) -> NDArray[Any]:
        """(n_rated, K+1): factors and offsets of the rows with ratings."""
        values: NDArray[Any] = self.table[np.ix_(self.model.rated, self.model.own)]
        return values

    def values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n_rows + 1, K+1): factors and offsets, the prior means for rows without ratings and for the unknown."""
        model = self.model
        values = np.empty((model.order.n_rows + 1, len(model.own)))
        values[model.rated] = self.rated_values
        values[model.unrated] = model.others_features @ weights
        values[-1] = weights[0]
        values[[*model.unrated, -1], -1] += model.base
        return values


class Chain:
    """One chain: users given items, items given users, then the noise."""

    def __init__(self, users: SideModel, items: SideModel, start: Fit, seed: int, number: int) -> None:
        self.users = SideChain(users, start.users, seed, number)
        self.items = SideChain(items, start.items, seed, number)
        self.noise_precision = start.noise.precision
        self.rng = stream(seed, "gibbs", number, "noise")

    def sweep(self, pool: Threads) -> None:
        self.users.sweep(self.items.table, self.noise_precision, pool)
        residual = self.items.sweep(self.users.table, self.noise_precision, pool)
        n = len(self.users.model.order.index)
        self.noise_precision = float(self.rng.gamma(NOISE_SHAPE + n / 2, 1 / (NOISE_RATE + residual / 2)))

    def pairs(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
        """The expected ratings of some pairs at present."""
        k = len(self.users.model.own) - 1
        a, b = self.users.table[users], self.items.table[items]
        found: NDArray[Any] = np.sum(a[:, :k] * b[:, :k], axis=1) + a[:, k + 1] + b[:, k + 1]
        return found


def sample(
    users: SideModel,
    items: SideModel,
    starts: Sequence[Fit],
    config: VBConfig,
    seed: int,
    n_threads: int,
    on_sweep: OnSweep | None = None,
) -> Sampled:
    """Run a chain from each of `starts` and keep thinned draws; the same bits for any `n_threads`.

    on_sweep: called after each sweep of all chains with its number (counted on from the first start's), the bound of
    that start and the first chain's noise standard deviation.
    """
    chains = [Chain(users, items, start, seed, number) for number, start in enumerate(starts)]
    n_draws, k = len(chains) * config.draws, config.n_factors
    kept = [SideDraws.empty(side.order.counts, n_draws, k) for side in (users, items)]
    recorders = [EffectRecorder(side.rated_features, n_draws) for side in (users, items)]
    noise, done = np.zeros(n_draws), sum(len(start.bound_trace) for start in starts)
    noise_trace = np.zeros((len(chains), config.samples))
    n_items = items.order.n_rows
    rated_weights = np.zeros((n_items, n_draws, k + 1), np.float32) if config.rated_set else None
    watched = _watched(users.order, seed)
    traces = np.zeros((len(chains), config.samples, len(watched[0])), np.float32)
    # The sweeps after which a draw is kept: evenly spaced, the last one among them.
    thinned = {(d + 1) * config.samples // config.draws - 1: d for d in range(config.draws)}
    inner = [threads(max(1, n_threads // len(chains))) for _ in chains]

    def keep(number: int, sample_number: int) -> None:
        chain, draw = chains[number], number * config.draws + thinned[sample_number]
        noise[draw] = chain.noise_precision
        for side, other, store, recorder in (
            (chain.users, chain.items, kept[0], recorders[0]),
            (chain.items, chain.users, kept[1], recorders[1]),
        ):
            weights = side.regression.weights(side.rng)
            if side is chain.users and rated_weights is not None:
                rated_weights[:, draw] = weights[1 : 1 + len(rated_weights)]
            store.keep(draw, side.values(weights), side.regression.alpha)
            recorder.keep(draw, weights, other.rated_values.astype(np.float64))

    with threads(min(n_threads, len(chains))) as outer:
        pools = [context.__enter__() for context in inner]
        try:
            for sweep in range(-config.burn_in, config.samples):

                def step(number: int, sweep: int = sweep) -> None:
                    chain = chains[number]
                    chain.sweep(pools[number])
                    if sweep < 0:
                        return
                    noise_trace[number, sweep] = chain.noise_precision
                    traces[number, sweep] = chain.pairs(*watched)
                    if sweep in thinned:
                        keep(number, sweep)

                outer.run(step, len(chains))
                if on_sweep is not None:
                    number = done + sweep + config.burn_in + 1
                    on_sweep(number, starts[0].bound_trace[-1], chains[0].noise_precision ** -0.5)
        finally:
            for context in inner:
                context.__exit__(None, None, None)
    draws = Draws(kept[0], kept[1], noise, rated_weights)
    convergence = Convergence(noise_trace, split_rhat(traces), effective_size(traces))
    return Sampled(draws, recorders[0].effects, recorders[1].effects, convergence)


def _watched(order: Order, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Users and items of some training ratings."""
    n = len(order.index)
    places = np.sort(stream(seed, "gibbs", "watched").choice(n, min(n, WATCHED), replace=False))
    return np.searchsorted(order.indptr, places, side="right") - 1, order.index[places]
