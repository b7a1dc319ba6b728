"""The search for the best local maximum: spectral and random starts, screened, then components moved where they pay.

EM only finds the hill it starts on, and neither the spectral start nor random ones are safe alone. So: a few passes
from every start, more from the best few, and from the best of those, moves that take one component away and split
another.
Large data are searched on a sample of ballots; the winner is then climbed on all of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads
from predilect.models.random import stream
from predilect.models.rankings.ascent import Ascent, begin, squarem
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Mixture, Objective
from predilect.models.rankings.spectral import Link, embed, spectral_start

# Short climbs end early at this certificate: what is left to gain no longer decides between hills.
TOLERANCE = 1e-5
SCREEN_PASSES = 12
SECOND_PASSES = 40
FINALISTS = 3
SPLIT_PASSES = 20
MOVES_TRIED = 3
MAX_MOVES = 10
# In nats, for ballots of weight 1: a move must promise more than the first to be tried, and gain the second to be made.
PROMISE = -2.0
GAIN = 0.05
SEARCH_PLACES = 300_000
EMPTY_SHARE = 1e-6


@dataclass(frozen=True)
class StartRecord:
    """One start: its kind, the objective after screening, and whether a component ran empty on the way.

    kind: "spectral", "random", "given" or "moved". value is of the searched ballots: a sample when they are many. note:
    of the spectral start, how the ballots were embedded and at which rank.
    """

    kind: str
    value: float
    emptied: bool
    note: str = ""


def search(
    layout: Layout,
    pool: Threads,
    n_components: int,
    n_random: int,
    seed: int,
    *,
    nu: float = 0.0,
    link: Link = "logit",
    use_spectral: bool = True,
    given: Mixture | None = None,
) -> tuple[Mixture, list[StartRecord]]:
    """The most promising mixture of K ≥ 2 components to climb from, and what became of every start.

    A start whose screening runs a component empty is followed by one more random start. A single start, whatever its
    kind, is only screened: no moves are made from it.
    """
    sample = sample_layout(layout, n_components, seed)
    objective = Objective(sample, pool, nu)
    starts: list[tuple[str, Mixture]] = []
    if given is not None:
        starts.append(("given", given))
    notes = {}
    if use_spectral:
        begin_at, clusters = spectral_start(sample, n_components, stream(seed, "spectral"), link)
        notes["spectral"] = f"{clusters.embedding} at rank {clusters.rank}"
        starts.append(("spectral", begin_at))
    for number in range(n_random):
        starts.append(("random", random_start(objective, n_components, number, seed)))
    climbs = _each(pool, sample, nu, [start for _, start in starts], SCREEN_PASSES)
    kinds = [kind for kind, _ in starts]
    again = [number for number, climb in enumerate(climbs) if emptied(climb.point.mixture)]
    if again:
        fresh = [random_start(objective, n_components, n_random + number, seed) for number in again]
        climbs += _each(pool, sample, nu, fresh, SCREEN_PASSES)
        kinds += ["random"] * len(fresh)
    records = [
        StartRecord(kind, climb.point.value, emptied(climb.point.mixture), notes.get(kind, ""))
        for kind, climb in zip(kinds, climbs, strict=True)
    ]
    ranked = sorted(climbs, key=lambda climb: -climb.point.value)[: max(FINALISTS, n_random // 4)]
    if len(starts) == 1:
        return ranked[0].point.mixture, records
    finals = _each(pool, sample, nu, [climb.point.mixture for climb in ranked], SECOND_PASSES)
    best = max(finals, key=lambda climb: climb.point.value)
    unit = objective.weight / len(sample)
    for _ in range(MAX_MOVES):
        moved = _best_move(objective, best.point.mixture, seed)
        if moved is None or moved.point.value <= best.point.value + GAIN * unit:
            break
        best = moved
        records.append(StartRecord("moved", best.point.value, emptied(best.point.mixture)))
    return best.point.mixture, records


def random_start(objective: Objective, n_components: int, number: int, seed: int) -> Mixture:
    """Normal log-worths: of spread 1 about 0 in even starts, of spread ½ about the one-component fit in odd ones.

    The first kind finds rare components, the second common ones that differ little.
    """
    n_items = objective.layout.n_items
    noise = stream(seed, "start", number).standard_normal((n_items, n_components))
    shares = np.full(n_components, 1 / n_components)
    if number % 2 == 0:
        return Mixture(noise, shares)
    single = begin(objective, Mixture(np.zeros((n_items, 1)), np.ones(1)))
    squarem(objective, single, 1e-3, SCREEN_PASSES)
    return Mixture(single.point.mixture.log_worths + 0.5 * noise, shares)


def emptied(mixture: Mixture) -> bool:
    """Whether a component has no ballots to speak of."""
    return bool(mixture.shares.min() < EMPTY_SHARE)


def sample_layout(layout: Layout, n_components: int, seed: int) -> Layout:
    """The layout itself, or when it is large, ballots drawn from it without replacement: at least 200 a component."""
    places = int(layout.offsets[-1])
    if places <= 2 * SEARCH_PLACES:
        return layout
    wanted = max(int(len(layout) * SEARCH_PLACES / places), 200 * n_components)
    if wanted >= len(layout):
        return layout
    rows = np.sort(stream(seed, "sample").choice(len(layout), wanted, replace=False))
    return layout.take(rows)


def _each(pool: Threads, layout: Layout, nu: float, starts: list[Mixture], n_passes: int) -> list[Ascent]:
    """A short climb from every start, at once where a pass is a single chunk (then it cannot use the pool itself)."""
    climbs: list[Ascent | None] = [None] * len(starts)
    alone = Threads(1)
    apart = len(layout.chunks) == 2

    def climb(number: int) -> None:
        objective = Objective(layout, alone if apart else pool, nu)
        climbs[number] = squarem(objective, begin(objective, starts[number]), TOLERANCE, n_passes)

    (pool if apart else alone).run(climb, len(starts))
    return [done for done in climbs if done is not None]


def _best_move(objective: Objective, mixture: Mixture, seed: int) -> Ascent | None:
    """The best short climb after taking one component away and splitting another, of the most promising combinations.

    The promise of a combination is what the split gains with K + 1 components plus what the removal loses with K − 1;
    the gain is seldom far from it. None when no combination promises enough.
    """
    n_components = mixture.n_components
    layout, pool, nu = objective.layout, objective.pool, objective.nu
    posterior = np.empty((len(layout), n_components))
    value = layout.run(pool, mixture.log_worths, mixture.shares, responsibilities=posterior).log_likelihood
    value += objective.log_prior(mixture.log_worths)
    less = _each(pool, layout, nu, [_without(mixture, k) for k in range(n_components)], SCREEN_PASSES)
    halves = [_split(objective, mixture, posterior[:, k], k, seed) for k in range(n_components)]
    more = [objective.at(_with(mixture, k, halves[k])).value for k in range(n_components)]
    promise = [
        (less[out].point.value + more[split] - 2 * value, out, split)
        for out in range(n_components)
        for split in range(n_components)
        if out != split
    ]
    least = PROMISE * objective.weight / len(layout)
    promise = sorted((entry for entry in promise if entry[0] > least), reverse=True)
    if not promise:
        return None
    tried = [
        _with(less[out].point.mixture, split - (split > out), halves[split]) for _, out, split in promise[:MOVES_TRIED]
    ]
    climbs = _each(pool, layout, nu, tried, SECOND_PASSES)
    return max(climbs, key=lambda climb: climb.point.value)


def _without(mixture: Mixture, out: int) -> Mixture:
    shares = np.delete(mixture.shares, out)
    return Mixture(np.delete(mixture.log_worths, out, axis=1), shares / shares.sum())


def _with(mixture: Mixture, split: int, halves: Mixture) -> Mixture:
    """The mixture with component `split` replaced by two halves of it."""
    log_worths = np.column_stack([np.delete(mixture.log_worths, split, axis=1), halves.log_worths])
    shares = np.append(np.delete(mixture.shares, split), mixture.shares[split] * halves.shares)
    return Mixture(log_worths, shares)


def _split(objective: Objective, mixture: Mixture, posterior: NDArray[np.float64], k: int, seed: int) -> Mixture:
    """Two components fitted to the ballots of component k, as its responsibilities (m,) weigh them; the best of two."""
    layout = objective.layout
    part = layout.reweighted(layout.weights * posterior)
    centre = mixture.log_worths[:, k]
    noise = stream(seed, "split", k).standard_normal(len(centre))
    starts = [_two(centre, noise), _two(centre, _principal_direction(part))]
    climbs = _each(objective.pool, part, objective.nu, starts, SPLIT_PASSES)
    return max(climbs, key=lambda climb: climb.point.value).point.mixture


def _two(centre: NDArray[np.float64], direction: NDArray[np.float64]) -> Mixture:
    return Mixture(np.column_stack([centre + direction, centre - direction]), np.full(2, 0.5))


def _principal_direction(layout: Layout) -> NDArray[np.float64]:
    """The direction (n,) in which the centred positions of weighted ballots vary most, of root mean square 1."""
    rows = embed(layout, "positions").astype(np.float64)
    weights = layout.weights / max(layout.weights.sum(), np.finfo(float).tiny)
    rows -= weights @ rows
    _, vectors = np.linalg.eigh((rows.T * weights) @ rows)
    direction: NDArray[np.float64] = vectors[:, -1] * np.sqrt(layout.n_items)
    return direction
