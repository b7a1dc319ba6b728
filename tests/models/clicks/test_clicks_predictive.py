"""Predicted log probabilities and intervals of counts against brute force."""

import numpy as np
import pytest
from scipy import special, stats

from predilect.models.clicks.kernels import ETA_HIGH
from predilect.models.clicks.prediction import Prediction
from predilect.models.clicks.predictive import count_intervals, log_predictive


def counts(*values):
    return np.array(values, np.int32)


def brute(prediction, n, v, nodes=200):
    """A fine product rule over ±8 standard deviations of ζ and η."""
    grid = np.linspace(-8, 8, nodes)
    weights = np.exp(-0.5 * grid**2)
    weights /= weights.sum()
    out = []
    for r in range(len(prediction)):
        zeta = prediction.zeta[r] + prediction.zeta_sd[r] * grid[:, None]
        eta = np.clip(prediction.eta[r] + prediction.eta_sd[r] * grid[None, ::4], -300, 300)
        log_mass = stats.betabinom.logpmf(v[r], n[r], np.exp(zeta + eta), np.exp(eta))
        inner = weights[::4] / weights[::4].sum()
        out.append(special.logsumexp(log_mass, b=weights[:, None] * inner))
    return np.array(out)


def test_log_predictive_agrees_with_a_fine_grid():
    prediction = Prediction(
        np.array([-4.0, -4.0, -1.0, 0.5, -3.0, 1.0]),
        np.array([0.6, 0.65, 0.3, 1.0, 0.2, 0.0]),
        np.array([5.0, 9.0, 2.0, 0.0, -1.0, 2.0]),
        np.array([0.3, 0.0, 0.5, 0.8, 1.0, 0.0]),
    )
    n, v = counts(3500, 3000, 40, 7, 1, 9), counts(160, 20, 39, 0, 1, 4)
    np.testing.assert_allclose(log_predictive(prediction, n, v), brute(prediction, n, v), atol=1e-4)


def test_a_narrow_likelihood_under_a_wide_posterior_is_integrated():
    prediction = Prediction(np.array([-4.3]), np.array([0.67]), np.array([ETA_HIGH]), np.zeros(1))
    n, v = counts(25_000), counts(900)
    grid = np.linspace(-8, 8, 200_001)
    zeta = -4.3 + 0.67 * grid
    log_mass = stats.binom.logpmf(900, 25_000, special.expit(zeta)) + stats.norm.logpdf(grid)
    expected = special.logsumexp(log_mass) + np.log(grid[1] - grid[0])
    assert log_predictive(prediction, n, v)[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("zeta_sd", [0.0, 0.7])
def test_probabilities_of_all_counts_add_up_to_one(zeta_sd):
    one = Prediction(np.full(41, -1.0), np.full(41, zeta_sd), np.full(41, 1.0), np.full(41, 0.5))
    mass = np.exp(log_predictive(one, np.full(41, 40, np.int32), np.arange(41, dtype=np.int32)))
    assert mass.sum() == pytest.approx(1.0, abs=1e-4)


def test_rows_without_impressions_have_probability_one():
    one = Prediction(np.array([-1.0]), np.array([0.5]), np.array([1.0]), np.array([0.5]))
    assert log_predictive(one, counts(0), counts(0))[0] == pytest.approx(0.0, abs=1e-9)
    assert count_intervals(one, counts(0)).tolist() == [[0, 0]]


def test_intervals_of_one_beta_binomial_are_its_quantiles():
    n = counts(1, 5, 60, 4000, 4000, 900)
    zeta, eta = np.array([-1.0, 2.0, -2.0, -4.0, 0.5, -3.0]), np.array([0.0, 1.0, 2.0, 5.0, 9.0, -2.0])
    sure = Prediction(zeta, np.zeros(6), eta, np.zeros(6))
    found = count_intervals(sure, n, level=0.9)
    a, b = np.exp(zeta + eta), np.exp(eta)
    np.testing.assert_array_equal(found[:, 0], stats.betabinom.ppf(0.05, n, a, b))
    np.testing.assert_array_equal(found[:, 1], stats.betabinom.ppf(0.95, n, a, b))


def test_intervals_of_a_mixture_cover_what_they_say():
    rng = np.random.default_rng(0)
    size = 3000
    prediction = Prediction(
        rng.normal(-3, 0.5, size), rng.uniform(0.2, 0.8, size), rng.normal(4, 1, size), rng.uniform(0.1, 0.6, size)
    )
    n = rng.integers(500, 3000, size).astype(np.int32)
    zeta = rng.normal(prediction.zeta, prediction.zeta_sd)
    eta = rng.normal(prediction.eta, prediction.eta_sd)
    v = rng.binomial(n, rng.beta(np.exp(zeta + eta), np.exp(eta)))
    for level in (0.5, 0.9):
        interval = count_intervals(prediction, n, level)
        covered = ((v >= interval[:, 0]) & (v <= interval[:, 1])).mean()
        assert covered == pytest.approx(level, abs=0.03)


def test_results_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(1)
    size = 1300
    prediction = Prediction(rng.normal(-3, 1, size), np.full(size, 0.4), rng.normal(3, 1, size), np.full(size, 0.4))
    n = rng.integers(0, 300, size).astype(np.int32)
    v = rng.binomial(n, 0.05).astype(np.int32)
    assert np.array_equal(log_predictive(prediction, n, v, n_threads=1), log_predictive(prediction, n, v, n_threads=3))
    assert np.array_equal(count_intervals(prediction, n, n_threads=1), count_intervals(prediction, n, n_threads=3))
