"""The paper's other algorithms: their M-steps against reference values, and what they reach."""

import numpy as np
import pytest
from rankings_oracles import C, c_ballots, c_start

from predilect.models.compiled import Threads
from predilect.models.rankings.comparators import compare, composite_likelihood, moments
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Objective
from predilect.models.rankings.resampling import distance
from predilect.models.rankings.simulate import draw_mixture, simulate
from predilect.models.rankings.spectral import pair_wins

POOL = Threads(1)


@pytest.mark.parametrize(("step", "name"), [(composite_likelihood, "composite_likelihood"), (moments, "moments")])
def test_m_step_oracles(step, name):
    wins = pair_wins(Layout(c_ballots()))
    np.testing.assert_allclose(step(wins, np.zeros(5)), C[name], atol=1e-8)
    np.testing.assert_allclose(step(wins, np.linspace(3, -3, 5)), C[name], atol=1e-8)


@pytest.mark.parametrize("method", ["em-lsr", "emm"])
def test_likelihood_methods_reach_the_maximum(method):
    climb = compare(Objective(Layout(c_ballots()), POOL), c_start(), method, tolerance=1e-9, max_iterations=100, seed=0)
    assert climb.point.value == pytest.approx(C["converged"]["log_likelihood"], rel=1e-11)


@pytest.mark.parametrize("method", ["em-cml", "em-gmm", "stochastic"])
def test_surrogates_come_near_but_not_above(method):
    climb = compare(Objective(Layout(c_ballots()), POOL), c_start(), method, tolerance=1e-8, max_iterations=60, seed=0)
    assert C["converged"]["log_likelihood"] - 3 < climb.point.value <= C["converged"]["log_likelihood"] + 1e-9
    assert climb.converged == (method != "stochastic")


def test_maximum_likelihood_beats_surrogates_on_synthetic_ballots():
    truth = draw_mixture(12, 2, seed=3)
    ballots, _ = simulate(truth, 1500, seed=4)
    error = {}
    for method in ("em-lsr", "em-cml", "em-gmm"):
        objective = Objective(Layout(ballots), POOL)
        climb = compare(objective, truth, method, tolerance=1e-5, max_iterations=200, seed=0)
        error[method] = distance(climb.point.mixture, truth)
    assert error["em-lsr"] < error["em-cml"]
    assert error["em-lsr"] < error["em-gmm"]


def test_stochastic_em_follows_its_seed():
    ballots, _ = simulate(draw_mixture(5, 2, seed=1, spread=0.5), 100, seed=2)

    def run(seed):
        objective = Objective(Layout(ballots.collapse()[0]), POOL)
        return compare(objective, c_start(), "stochastic", tolerance=1e-8, max_iterations=5, seed=seed).trace

    assert run(1) == run(1)
    assert run(1) != run(2)
