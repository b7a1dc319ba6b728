"""Mixtures from a given start: the exact iteration, what each algorithm converges to, and that none of them falls."""

import numpy as np
import pytest
from rankings_oracles import C, c_ballots, c_start

from predilect.models.compiled import Threads
from predilect.models.rankings import Mixture
from predilect.models.rankings.em import climb_from, em_iteration
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Objective
from predilect.models.rankings.simulate import draw_mixture, simulate

POOL = Threads(1)


@pytest.mark.parametrize("solver", ["lsr", "mm", "newton", "auto"])
def test_one_exact_iteration_oracle(solver):
    objective = Objective(Layout(c_ballots()), POOL)
    mixture = em_iteration(objective, c_start(), solver, 1e-13)
    expected = C["after_one_iteration"]
    assert objective.at(mixture).value == pytest.approx(expected["log_likelihood"], rel=1e-12)
    assert mixture.shares[0] == pytest.approx(expected["share"], abs=1e-10)
    np.testing.assert_allclose(mixture.log_worths[:, 0], expected["theta"], atol=1e-9)


@pytest.mark.parametrize("solver", ["lsr", "mm", "newton", "squarem", "auto"])
def test_converged_oracle(solver):
    objective = Objective(Layout(c_ballots()), POOL)
    climb = climb_from(objective, c_start(), solver, 1e-9, 20_000)
    assert climb.converged
    assert climb.point.value == pytest.approx(C["converged"]["log_likelihood"], rel=1e-11)
    assert climb.point.mixture.shares[0] == pytest.approx(C["converged"]["share"], abs=1e-8)
    assert np.diff(climb.trace).min() >= -1e-12 * abs(climb.point.value)


@pytest.mark.parametrize("solver", ["auto", "squarem", "lsr"])
@pytest.mark.parametrize("nu", [0.0, 0.5])
def test_the_value_never_falls_on_overlapping_components(solver, nu):
    ballots, _ = simulate(draw_mixture(6, 3, seed=2, spread=0.7), 400, seed=3, length=4)
    objective = Objective(Layout(ballots.collapse()[0]), POOL, nu)
    generator = np.random.default_rng(9)
    for _ in range(3):
        start = Mixture(generator.normal(size=(6, 3)), np.full(3, 1 / 3))
        climb = climb_from(objective, start, solver, 1e-7, 600)
        assert len(climb.trace) > 20
        assert np.diff(climb.trace).min() >= -1e-12 * abs(climb.point.value)


def test_automatic_second_stage_finishes_what_squarem_does_not():
    ballots, _ = simulate(draw_mixture(5, 4, seed=5, spread=0.6), 3000, seed=6)  # n <= 2K - 1: a long flat ridge
    layout = Layout(ballots.collapse()[0])
    start = Mixture(np.random.default_rng(1).normal(size=(5, 4)), np.full(4, 0.25))
    slow = climb_from(Objective(layout, POOL), start, "squarem", 1e-8, 400)
    fast = climb_from(Objective(layout, POOL), start, "auto", 1e-8, 400)
    assert fast.converged
    assert fast.point.certificate < slow.point.certificate


def test_passes_are_reported():
    seen = []
    objective = Objective(Layout(c_ballots()), POOL)
    climb_from(objective, c_start(), "auto", 1e-9, 1000, lambda n, point: seen.append((n, point.value)))
    assert len(seen) > 5
    assert [n for n, _ in seen] == sorted(n for n, _ in seen)
    assert seen[-1][1] == pytest.approx(C["converged"]["log_likelihood"], rel=1e-11)
