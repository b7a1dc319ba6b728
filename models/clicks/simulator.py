"""Simulated user-level click logs with known truth, by default of the paper's size (paper Table 1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from predilect.models.clicks.design import Design
from predilect.models.errors import ParameterError
from predilect.models.random import stream

Array = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class SimulationConfig:
    """What to simulate; precisions are those of the prior from which the true coefficients are drawn."""

    n_users: int = 10_000
    n_items: int = 5_000
    n_words: int = 1_500
    words_per_item: int = 18
    n_clusters: int = 64
    n_rows: int = 1_400_000
    """User-item pairs, about; each is shown 1.43 times on average."""
    mean_precision: float = 4.0
    dispersion_precision: float = 8.0
    mean_intercept: float = -2.2
    dispersion_intercept: float = 0.7
    history_picks: int = 20
    """Items a user picked before the training period, on average."""
    cold_users: float = 0.05
    """Share of users without history."""

    def __post_init__(self) -> None:
        for name in ("n_users", "n_items", "n_words", "words_per_item", "n_clusters", "n_rows"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} is {getattr(self, name)}; give a whole number of at least 1.")


@dataclass(frozen=True)
class Simulation:
    """A click log, one row a (user, item) pair, and the truth behind it."""

    features: Any
    """CSR (n_items, n_words), unit-norm rows."""
    users: Codes
    items: Codes
    time: Array
    """(n_rows,) in [0, 1); an item is shown only after it is published."""
    impressions: Codes
    clicks: Codes
    history_users: Codes
    history_items: Codes
    """Picks before the training period, of other items."""
    clusters: Codes
    """(n_users,) the true cluster."""
    zeta: Array
    eta: Array
    theta: Array
    """(n_rows,) the true click probability."""

    def design(self, clusters: Codes, n_clusters: int) -> Design:
        """The design of all rows with the given cluster of every user (the true one or a learned one)."""
        return Design.of(self.features, lines=self.items, clusters=clusters[self.users], n_clusters=n_clusters)


def simulate(config: SimulationConfig | None = None, *, seed: int = 0) -> Simulation:
    """Draw coefficients from the prior, θ from the beta distribution of each pair, clicks from the binomial."""
    config = config or SimulationConfig()
    features = _items(config, stream(seed, "items"))
    clusters = stream(seed, "clusters").integers(config.n_clusters, size=config.n_users).astype(np.int32)
    history_users, history_items = _history(config, clusters, stream(seed, "history"))

    rng = stream(seed, "pairs")
    activity = rng.lognormal(0.0, 0.7, config.n_users)
    popularity = rng.lognormal(0.0, 1.0, config.n_items)
    drawn_users = rng.choice(config.n_users, size=config.n_rows, p=activity / activity.sum())
    drawn_items = rng.choice(config.n_items, size=config.n_rows, p=popularity / popularity.sum())
    pairs = np.unique(drawn_users.astype(np.int64) * config.n_items + drawn_items)
    users, items = (part.astype(np.int32) for part in np.divmod(pairs, config.n_items))
    published = rng.random(config.n_items) - 0.3
    earliest = np.maximum(published, 0.0)[items]
    time = earliest + (1.0 - earliest) * rng.random(len(items)) ** 1.5

    rng = stream(seed, "truth")
    zeta, eta = (
        intercept + _linear(features, users, items, clusters, config, precision, rng)
        for intercept, precision in (
            (config.mean_intercept, config.mean_precision),
            (config.dispersion_intercept, config.dispersion_precision),
        )
    )
    rng = stream(seed, "clicks")
    impressions = rng.geometric(0.7, len(items)).astype(np.int32)
    theta = rng.beta(np.exp(zeta + eta), np.exp(eta))
    clicks = rng.binomial(impressions, theta).astype(np.int32)
    return Simulation(
        features, users, items, time, impressions, clicks, history_users, history_items, clusters, zeta, eta, theta
    )


def expected_click_probability(simulation: Simulation) -> Array:
    """σ(ζ), the best possible prediction of every row."""
    best: Array = special.expit(simulation.zeta)
    return best


def _items(config: SimulationConfig, rng: np.random.Generator) -> Any:
    """Unit-norm rows: words by Zipf's law, weighted by their rarity."""
    frequency = 1.0 / (np.arange(config.n_words) + 10.0)
    frequency /= frequency.sum()
    words = rng.choice(config.n_words, size=(config.n_items, config.words_per_item), p=frequency)
    lines = np.repeat(np.arange(config.n_items), config.words_per_item)
    counts = sparse.csr_matrix((np.ones(words.size), (lines, words.ravel())), shape=(config.n_items, config.n_words))
    weighted = counts @ sparse.diags(1.0 - np.log(frequency * config.n_words) / 4.0)
    norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return (sparse.diags(1.0 / norms) @ weighted).tocsr()


def _history(config: SimulationConfig, clusters: Codes, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Every cluster likes its own tenth of the older items; a fifth of the picks are anything."""
    n_older = max(config.n_items // 2, 10)
    picks = rng.poisson(config.history_picks, config.n_users)
    picks[rng.random(config.n_users) < config.cold_users] = 0
    users = np.repeat(np.arange(config.n_users), picks).astype(np.int32)
    liked = np.stack([rng.permutation(n_older)[: max(n_older // 10, 1)] for _ in range(config.n_clusters)])
    own = liked[clusters[users], rng.integers(liked.shape[1], size=len(users))]
    items = np.where(rng.random(len(users)) < 0.2, rng.integers(n_older, size=len(users)), own)
    return users, items.astype(np.int32)


def _linear(
    features: Any,
    users: Codes,
    items: Codes,
    clusters: Codes,
    config: SimulationConfig,
    precision: float,
    rng: np.random.Generator,
) -> Array:
    """x·w without intercept, w ~ N(0, 1/precision) for the shared copy and every cluster's copy."""
    weights = rng.standard_normal((config.n_words, 1 + config.n_clusters)) / np.sqrt(precision)
    table = features @ weights
    linear: Array = table[items, 0] + table[items, 1 + clusters[users]]
    return linear
