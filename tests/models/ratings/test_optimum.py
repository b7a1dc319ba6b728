"""What the ascent reaches is an optimum of the bound, and structures that are one model reach the same."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from predilect.models.compiled import threads
from predilect.models.ratings import VBConfig
from predilect.models.ratings.fit import Ascent, Fit
from predilect.models.ratings.orders import by_user_and_item
from predilect.models.ratings.sweep import HalfSweep

from . import reference
from .build import SCALE, fit, planted, rounded, to_state
from .reference import Plain, Ratings, State

TIGHT = VBConfig(n_user_latents=1, n_item_latents=1, tau=2.0, precisions="fixed", tolerance=1e-15, max_sweeps=3000)


def ascend(data: Ratings, n_users: int, n_items: int, config: VBConfig, seed: int = 0) -> Fit:
    """One float64 fit from a random start."""
    orders = by_user_and_item(data.user, data.item, data.value.astype(np.float32), n_users, n_items)
    ascent = Ascent(*map(HalfSweep, orders), SCALE.midpoint, config)
    with threads(1) as pool:
        return ascent.run(ascent.random_start(seed, 0, np.float64), pool)


def unpack(parameters: NDArray[np.float64], template: State, n_ratings: int, data: Ratings) -> State:
    """A state with these means and log variances; the noise at its optimum."""
    sides, at = [], 0
    for side in (template.users, template.items):
        n = side.mean.size
        mean, log_variance = parameters[at : at + n], parameters[at + n : at + 2 * n]
        at += 2 * n
        shape = side.mean.shape
        sides.append(
            Plain(mean.reshape(shape), np.exp(log_variance).reshape(shape), side.prior_mean, side.prior_precision)
        )
    state = State(sides[0], sides[1], 1.0, 1.0)
    return replace(state, shape=1 + n_ratings / 2, rate=1 + reference.expected_squares(state, data) / 2)


def packed(state: State) -> NDArray[np.float64]:
    parts = [part for side in (state.users, state.items) for part in (side.mean.ravel(), np.log(side.variance).ravel())]
    return np.concatenate(parts)


def test_every_derivative_of_the_bound_is_zero_at_convergence() -> None:
    data, _ = planted(12, 10, 1, 0.7, 0.5, seed=1)
    data = rounded(data)
    reached = ascend(data, 12, 10, TIGHT)
    state = to_state(reached.users, reached.items, reached.noise)
    point, step = packed(state), 1e-4

    def bound(parameters: NDArray[np.float64]) -> float:
        return reference.bound(unpack(parameters, state, len(data.value), data), data)

    assert bound(point) == pytest.approx(reached.bound_trace[-1], rel=1e-9)
    rng = np.random.default_rng(0)
    for k, direction in enumerate(np.eye(len(point))):
        derivative = (bound(point + step * direction) - bound(point - step * direction)) / (2 * step)
        assert abs(derivative) < 1e-3, k
    # The same test sees a point that is no optimum.
    away = point + 0.05 * rng.standard_normal(len(point))
    slopes = [(bound(away + step * d) - bound(away - step * d)) / (2 * step) for d in np.eye(len(point))]
    assert max(map(abs, slopes)) > 0.5


def test_a_general_optimiser_reaches_the_same_bound() -> None:
    data, _ = planted(4, 3, 1, 0.9, 0.3, seed=2)
    data = rounded(data)
    config = replace(TIGHT, n_item_latents=0)
    ours = max((ascend(data, 4, 3, config, seed) for seed in range(5)), key=lambda reached: reached.bound_trace[-1])
    template = to_state(ours.users, ours.items, ours.noise)

    def loss(parameters: NDArray[np.float64]) -> float:
        return -reference.bound(unpack(parameters, template, len(data.value), data), data)

    rng = np.random.default_rng(3)
    starts = rng.normal(0, 0.5, (6, len(packed(template))))
    best = min(minimize(loss, start, method="L-BFGS-B", options={"maxfun": 50_000}).fun for start in starts)
    assert ours.bound_trace[-1] == pytest.approx(-best, abs=1e-4)


def test_only_the_sum_of_the_latents_matters() -> None:
    data, _ = planted(30, 25, 2, 0.5, 0.5, seed=4)
    structures = [(0, 3), (1, 2), (3, 0)]
    configs = [
        VBConfig(n_user_latents=t, n_item_latents=s, tau=7.0, precisions="fixed", max_sweeps=30, tolerance=1e-12)
        for t, s in structures
    ]
    exact = [ascend(data, 30, 25, config) for config in configs]
    for other in exact[1:]:
        np.testing.assert_allclose(other.bound_trace, exact[0].bound_trace, rtol=1e-9)
        np.testing.assert_allclose(other.users.offsets, exact[0].users.offsets, rtol=1e-6, atol=1e-9)
    # The factors themselves differ, by a fourth root of τ each way.
    ratio = exact[2].items.means / exact[0].items.means
    np.testing.assert_allclose(ratio, 7.0**-0.5, rtol=1e-5)
    first, *others = [fit(data, 30, 25, config).predict(data.user, data.item) for config in configs]
    for prediction in others:
        np.testing.assert_allclose(prediction.mean, first.mean, atol=2e-3)
        np.testing.assert_allclose(prediction.variance, first.variance, rtol=2e-3)


def test_another_sum_is_another_model() -> None:
    data, _ = planted(30, 25, 2, 0.5, 0.5, seed=4)
    bounds = [ascend(data, 30, 25, replace(TIGHT, n_item_latents=s)).bound_trace[-1] for s in (0, 1)]
    assert abs(bounds[0] - bounds[1]) > 1


def test_the_bound_rises_with_learned_priors_to_convergence() -> None:
    data, _ = planted(60, 50, 2, 0.4, 0.7, seed=5)
    config = replace(TIGHT, n_user_latents=3, precisions="empirical_bayes", tolerance=1e-9)
    trace = np.array(ascend(data, 60, 50, config).bound_trace)
    assert len(trace) > 20
    assert np.all(np.diff(trace) > -1e-9 * np.abs(trace[:-1]))
    fixed = np.array(ascend(data, 60, 50, replace(config, precisions="fixed")).bound_trace)
    assert trace[-1] > fixed[-1]
