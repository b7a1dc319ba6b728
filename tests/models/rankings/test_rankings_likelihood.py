"""Log-likelihood, responsibilities and gradient: reference values, brute force, and all passes alike."""

import numpy as np
import pytest
from rankings_oracles import D_LOG_LIKELIHOOD, A, C, a_ballots, c_ballots, c_start

from predilect.models.compiled import Threads
from predilect.models.rankings import Ballots, Mixture, layout
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Objective

POOL = Threads(1)


def by_hand(row, theta, menu):
    """log P(π | θ) straight from the definition."""
    left = list(range(len(theta))) if menu == "all" else list(row)
    total = 0.0
    for item in row:
        total += theta[item] - np.log(np.sum(np.exp(theta[left])))
        left.remove(item)
    return total


def ragged(generator, n_ballots, n_items):
    return [generator.permutation(n_items)[: generator.integers(1, n_items + 1)].tolist() for _ in range(n_ballots)]


def test_weighted_full_rankings_oracle():
    value = Layout(a_ballots()).run(POOL, A["theta"][:, None], np.ones(1)).log_likelihood
    assert value == pytest.approx(A["log_likelihood"], rel=1e-12)


def test_mixture_oracle():
    start = c_start()
    value = Layout(c_ballots()).run(POOL, start.log_worths, start.shares).log_likelihood
    assert value == pytest.approx(C["log_likelihood_at_start"], rel=1e-12)


def test_thousands_of_items_far_apart_do_not_underflow():
    ballots = Ballots.from_rows([range(2000)], 2000, "all")
    value = Layout(ballots).run(POOL, np.linspace(0, -3000, 2000)[:, None], np.ones(1)).log_likelihood
    assert value == pytest.approx(D_LOG_LIKELIHOOD, rel=1e-9)


@pytest.mark.parametrize("menu", ["all", "ranked"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 15.0])
def test_every_ballot_against_the_definition(menu, spread):
    generator = np.random.default_rng(5)
    rows = ragged(generator, 60, 13)
    mixture = Mixture(generator.normal(size=(13, 3)) * spread, np.array([0.2, 0.3, 0.5]))
    parts = np.array([[by_hand(row, theta, menu) for theta in mixture.log_worths.T] for row in rows])
    joint = parts + np.log(mixture.shares)
    expected = np.logaddexp.reduce(joint, axis=1)
    each, posterior = np.empty(60), np.empty((60, 3))
    Layout(Ballots.from_rows(rows, 13, menu)).run(
        POOL, mixture.log_worths, mixture.shares, responsibilities=posterior, log_likelihoods=each
    )
    np.testing.assert_allclose(each, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(posterior, np.exp(joint - expected[:, None]), atol=1e-11)


@pytest.mark.parametrize("menu", ["all", "ranked"])
@pytest.mark.parametrize("n_components", [1, 3])
def test_linear_and_logarithmic_passes_agree(menu, n_components, monkeypatch):
    generator = np.random.default_rng(6)
    rows = ragged(generator, 200, 40)
    ballots = Layout(Ballots.from_rows(rows, 40, menu, weights=generator.random(200) + 0.1))
    assert menu == "ranked" or not ballots.tails_stored  # the difference formula is among what is compared
    log_worths = 3 * generator.normal(size=(40, n_components))
    shares = generator.dirichlet(np.ones(n_components))
    linear = ballots.run(POOL, log_worths, shares)
    monkeypatch.setattr(layout, "LINEAR_RANGE", -1.0)
    logarithmic = ballots.run(POOL, log_worths, shares)
    assert linear.log_likelihood == pytest.approx(logarithmic.log_likelihood, rel=1e-13)
    for name in ("wins", "expected", "mass"):
        np.testing.assert_allclose(getattr(linear, name), getattr(logarithmic, name), rtol=1e-9, atol=1e-10)


def test_a_tail_that_cancels_is_added_up_anew():
    log_worths = np.zeros((30, 2))
    log_worths[:3] = 40.0  # the ballots' items outweigh the tail by e^40
    each = np.empty(1)
    ballots = Layout(Ballots.from_rows([[0, 1, 2]], 30, "all"))
    assert not ballots.tails_stored
    ballots.run(POOL, log_worths, np.full(2, 0.5), log_likelihoods=each)
    assert each[0] == pytest.approx(by_hand([0, 1, 2], log_worths[:, 0], "all"), rel=1e-12)


@pytest.mark.parametrize("nu", [0.0, 0.7])
def test_gradient_against_differences(nu):
    generator = np.random.default_rng(7)
    ballots = Ballots.from_rows(ragged(generator, 50, 6), 6, "all", weights=generator.random(50) + 0.5)
    objective = Objective(Layout(ballots), POOL, nu)
    mixture = Mixture(generator.normal(size=(6, 2)), np.array([0.3, 0.7]))
    gradient = objective.at(mixture).gradient
    for item in range(6):
        for k in range(2):
            step = np.zeros((6, 2))
            step[item, k] = 1e-5
            up = objective.at(Mixture(mixture.log_worths + step, mixture.shares)).value
            down = objective.at(Mixture(mixture.log_worths - step, mixture.shares)).value
            assert gradient[item, k] == pytest.approx((up - down) / 2e-5, abs=2e-6)


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(layout, "CHUNK_PLACES", 200)
    generator = np.random.default_rng(8)
    ballots = Layout(Ballots.from_rows(ragged(generator, 500, 12), 12, "all"))
    assert len(ballots.chunks) > 5
    mixture = Mixture(generator.normal(size=(12, 3)), np.full(3, 1 / 3))
    one = ballots.run(POOL, mixture.log_worths, mixture.shares)
    pool = Threads(3)
    several = ballots.run(pool, mixture.log_worths, mixture.shares)
    pool.close()
    assert one.log_likelihood == several.log_likelihood
    assert np.array_equal(one.wins, several.wins)
    assert np.array_equal(one.expected, several.expected)
