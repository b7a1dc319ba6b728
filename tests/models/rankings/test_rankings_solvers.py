"""One component: every solver finds the same worths, and the automatic one also where MM creeps."""

import numpy as np
import pytest
from rankings_oracles import A, B, C, a_ballots, c_ballots
from scipy.optimize import minimize

from predilect.models.compiled import Threads
from predilect.models.rankings import Ballots, Mixture
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Objective
from predilect.models.rankings.simulate import draw_mixture, simulate
from predilect.models.rankings.solvers import component_flows, component_information, lsr_direction, maximise

POOL = Threads(1)
SOLVERS = ["auto", "squarem", "mm", "lsr", "newton"]


def solve(ballots, solver="auto", nu=0.0, tolerance=1e-12, max_passes=5000):
    objective = Objective(Layout(ballots), POOL, nu)
    start = Mixture.single(np.zeros(ballots.n_items))
    return maximise(objective, start, solver, tolerance, max_passes), objective


@pytest.mark.parametrize("solver", SOLVERS)
def test_full_weighted_oracle(solver):
    climb, _ = solve(a_ballots(), solver)
    assert climb.converged
    assert climb.point.certificate <= 1e-12
    np.testing.assert_allclose(climb.point.mixture.log_worths[:, 0], A["theta"], atol=1e-10)
    assert climb.point.value == pytest.approx(A["log_likelihood"], rel=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("menu", ["all", "ranked"])
def test_top_l_oracles(solver, menu):
    theta, log_likelihood = B[menu]
    climb, _ = solve(Ballots.from_rows(B["rankings"], 4, menu, weights=B["weights"]), solver)
    np.testing.assert_allclose(climb.point.mixture.log_worths[:, 0], theta, atol=1e-9)
    assert climb.point.value == pytest.approx(log_likelihood, rel=1e-10)


def test_counted_ballots_oracle():
    climb, _ = solve(c_ballots())
    np.testing.assert_allclose(climb.point.mixture.log_worths[:, 0], C["plackett_luce"], atol=1e-8)


def test_luce_spectral_ranking_flows_and_first_step():
    objective = Objective(Layout(a_ballots()), POOL)
    np.testing.assert_allclose(component_flows(objective, np.zeros(4)), A["flows_at_zero"], atol=1e-10)
    step = lsr_direction(objective, objective.at(Mixture.single(np.zeros(4))))
    np.testing.assert_allclose(step, A["lsr_step_from_zero"], atol=1e-11)


@pytest.mark.parametrize("solver", ["lsr", "newton", "auto"])
def test_a_ladder_of_neighbours(solver):
    n_items, odds = 100, np.log(7 / 3)
    rows = [pair for item in range(n_items - 1) for pair in ([item, item + 1], [item + 1, item])]
    ballots = Ballots.from_rows(rows, n_items, "ranked", weights=[7.0, 3.0] * (n_items - 1))
    truth = -odds * np.arange(n_items)
    climb, objective = solve(ballots, solver)
    theta = climb.point.mixture.log_worths[:, 0]
    np.testing.assert_allclose(theta - theta.mean(), truth - truth.mean(), atol=1e-7)
    assert objective.n_passes <= 100


def test_a_ladder_steeper_than_floating_point():
    n_items, odds = 300, np.log(99.0)  # worths spread over e^1374
    rows = [pair for item in range(n_items - 1) for pair in ([item, item + 1], [item + 1, item])]
    ballots = Ballots.from_rows(rows, n_items, "ranked", weights=[0.99, 0.01] * (n_items - 1))
    climb, _ = solve(ballots, tolerance=1e-13)
    theta = climb.point.mixture.log_worths[:, 0]
    np.testing.assert_allclose(np.diff(theta), -odds, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_prior_makes_islands_solvable_and_all_solvers_agree(solver):
    ballots = Ballots.from_rows([[0, 1], [2, 3, 4]], 6, "ranked")
    nu = 0.5
    climb, objective = solve(ballots, solver, nu)
    found = minimize(
        lambda theta: -objective.at(Mixture.single(theta)).value,
        np.zeros(6),
        jac=lambda theta: -objective.at(Mixture.single(theta)).gradient[:, 0],
        options={"gtol": 1e-11},
    )
    np.testing.assert_allclose(climb.point.mixture.log_worths[:, 0], found.x, atol=1e-8)
    assert climb.point.mixture.log_worths[5, 0] == pytest.approx(0, abs=1e-10)  # never seen: worth of the ghost


def test_information_against_differences_of_the_gradient():
    generator = np.random.default_rng(1)
    rows = [generator.permutation(7)[: generator.integers(1, 8)].tolist() for _ in range(60)]
    for menu in ("all", "ranked"):
        objective = Objective(Layout(Ballots.from_rows(rows, 7, menu)), POOL, 0.3)
        theta = generator.normal(size=7)
        information = component_information(objective, theta)
        for item in range(7):
            step = np.eye(7)[item] * 1e-5
            up, down = (objective.at(Mixture.single(theta + sign * step)).gradient[:, 0] for sign in (1, -1))
            np.testing.assert_allclose(information[item], -(up - down) / 2e-5, atol=1e-6)


def test_agrees_with_choix_on_partial_rankings():
    choix = pytest.importorskip("choix", reason="the benchmark extra is not installed")
    truth = draw_mixture(12, 1, seed=1)
    ballots, _ = simulate(truth, 300, seed=2, length=5, menu="ranked")
    expected = choix.ilsr_rankings(12, [ballots.row(ballot).tolist() for ballot in range(300)], tol=1e-12)
    climb, _ = solve(ballots, tolerance=1e-10)
    np.testing.assert_allclose(climb.point.mixture.log_worths[:, 0], expected - expected.mean(), atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_value_never_falls(solver):
    generator = np.random.default_rng(4)
    rows = [generator.permutation(15)[: generator.integers(1, 4)].tolist() for _ in range(80)]
    climb, _ = solve(Ballots.from_rows(rows, 15, "all"), solver, 0.1, 1e-10)
    assert climb.converged
    assert np.diff(climb.trace).min() >= -1e-12 * abs(climb.point.value)
