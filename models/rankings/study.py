"""The paper's comparison of algorithms from common starts: recovery of planted mixtures, and held-out real ballots."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads, threads
from predilect.models.random import stream
from predilect.models.rankings.ascent import Ascent
from predilect.models.rankings.ballots import Ballots
from predilect.models.rankings.comparators import Comparator, compare
from predilect.models.rankings.config import RankingsConfig
from predilect.models.rankings.em import climb_from
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.model import RankingsModel
from predilect.models.rankings.objective import Mixture, Objective
from predilect.models.rankings.resampling import distance
from predilect.models.rankings.simulate import draw_mixture, simulate
from predilect.models.rankings.solvers import maximise
from predilect.models.rankings.spectral import spectral_start

# accelerated: accelerated EM from the same start; fit: a whole fit with its own search of starts.
Method = Literal["em-lsr", "emm", "em-cml", "em-gmm", "stochastic", "accelerated", "fit"]
Start = Literal["spectral", "random"]
METHODS: tuple[Method, ...] = get_args(Method)
STOCHASTIC_ITERATIONS = 50


@dataclass(frozen=True)
class Setting:
    """One cell of the synthetic grid: n, L, K, m."""

    n_items: int
    n_informative: int
    n_components: int
    n_ballots: int


@dataclass(frozen=True)
class Outcome:
    """How one method ended. start: "spectral", "random" or "own" (a whole fit, and the true-label estimate).

    error: Frobenius distance of the centred log-worths to the truth, up to the order of components (NaN for real data).
    log_likelihood: of the ballots fitted on. held_out: mean a held-out ballot (NaN without any). seconds: without the
    start's own time. iterations: accepted steps.
    """

    method: str
    start: str
    error: float
    log_likelihood: float
    held_out: float
    seconds: float
    iterations: int
    converged: bool


def recovery(
    setting: Setting,
    methods: Sequence[Method],
    starts: Sequence[Start],
    *,
    seed: int,
    tolerance: float,
    max_iterations: int,
    on_method: Callable[[str], None] = lambda name: None,
) -> list[Outcome]:
    """Every method from every start on one planted mixture, the starts themselves, and the fit with the true labels."""
    truth = draw_mixture(setting.n_items, setting.n_components, seed=seed, n_informative=setting.n_informative)
    ballots, labels = simulate(truth, setting.n_ballots, seed=seed)
    with threads(1) as pool:
        began = time.perf_counter()
        known = _with_labels(Layout(ballots), labels, setting.n_components, pool)
        seconds = time.perf_counter() - began
        objective = Objective(Layout(ballots.collapse()[0]), pool)
        found = [Outcome("true labels", "own", distance(known, truth), objective.at(known).value, float("nan"),
                         seconds, 0, True)]  # fmt: skip
        found += _all(objective, ballots, None, methods, starts, seed, tolerance, max_iterations, on_method, truth)
    return found


def on_real(
    train: Ballots,
    test: Ballots,
    n_components: int,
    methods: Sequence[Method],
    starts: Sequence[Start],
    *,
    seed: int,
    tolerance: float,
    max_iterations: int,
    on_method: Callable[[str], None] = lambda name: None,
) -> list[Outcome]:
    """Every method from every start, fitted to `train` and scored on `test`, and the starts themselves."""
    with threads(1) as pool:
        objective = Objective(Layout(train.collapse()[0]), pool)
        return _all(objective, train, test, methods, starts, seed, tolerance, max_iterations, on_method,
                    None, n_components)  # fmt: skip


def _all(
    objective: Objective,
    ballots: Ballots,
    test: Ballots | None,
    methods: Sequence[Method],
    starts: Sequence[Start],
    seed: int,
    tolerance: float,
    max_iterations: int,
    on_method: Callable[[str], None],
    truth: Mixture | None,
    n_components: int | None = None,
) -> list[Outcome]:
    held_out = Layout(test) if test is not None else None
    k = truth.n_components if truth is not None else n_components or 1

    def outcome(method: str, start: str, mixture: Mixture, seconds: float, iterations: int, done: bool) -> Outcome:
        return Outcome(
            method,
            start,
            distance(mixture, truth) if truth is not None else float("nan"),
            objective.at(mixture).counts.log_likelihood,
            _held_out(held_out, mixture) if held_out is not None else float("nan"),
            seconds,
            iterations,
            done,
        )

    found = []
    for start in starts:
        began = time.perf_counter()
        first = _start(objective, k, start, seed)
        found.append(outcome(f"{start} start", start, first, time.perf_counter() - began, 0, True))
        for method in methods:
            if method == "fit":
                continue
            on_method(f"{method} from a {start} start")
            began = time.perf_counter()
            end = _climb(objective, first, method, seed, tolerance, max_iterations)
            seconds = time.perf_counter() - began
            found.append(outcome(method, start, end.point.mixture, seconds, len(end.trace) - 1, end.converged))
    if "fit" in methods:
        on_method("fit")
        began = time.perf_counter()
        model = RankingsModel.fit(ballots, RankingsConfig(k, tolerance=tolerance), seed=seed, n_threads=1)
        seconds = time.perf_counter() - began
        found.append(outcome("fit", "own", model.mixture, seconds, len(model.trace) - 1, model.converged))
    return found


def _climb(
    objective: Objective, start: Mixture, method: Method, seed: int, tolerance: float, max_iterations: int
) -> Ascent:
    if method == "accelerated":
        return climb_from(objective, start, "auto", tolerance, max_iterations * 10)
    limit = min(max_iterations, STOCHASTIC_ITERATIONS) if method == "stochastic" else max_iterations
    comparator: Comparator = method  # type: ignore[assignment]
    return compare(objective, start, comparator, tolerance=tolerance, max_iterations=limit, seed=seed)


def _start(objective: Objective, n_components: int, kind: Start, seed: int) -> Mixture:
    if kind == "spectral":
        return spectral_start(objective.layout, n_components, stream(seed, "spectral"))[0]
    noise = stream(seed, "start").standard_normal((objective.layout.n_items, n_components))
    return Mixture(noise - noise.mean(axis=0), np.full(n_components, 1 / n_components))


def _with_labels(layout: Layout, labels: NDArray[np.int64], n_components: int, pool: Threads) -> Mixture:
    """The maximum-likelihood worths of every component from its own ballots."""
    log_worths = np.empty((layout.n_items, n_components))
    shares = np.bincount(labels, minlength=n_components) / len(labels)
    for k in range(n_components):
        part = Objective(layout.reweighted(np.where(labels == k, layout.weights, 0.0)), pool)
        start = Mixture.single(np.zeros(layout.n_items))
        log_worths[:, k] = maximise(part, start, "auto", 1e-8, 2_000).point.mixture.log_worths[:, 0]
    return Mixture(log_worths, np.maximum(shares, 1e-12))


def _held_out(layout: Layout, mixture: Mixture) -> float:
    each = np.empty(len(layout))
    layout.run(Threads(1), mixture.log_worths, mixture.shares, log_likelihoods=each)
    return float(layout.weights @ each / layout.weights.sum())
