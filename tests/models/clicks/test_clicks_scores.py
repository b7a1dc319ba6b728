"""Scores against reference values and against what defines them."""

import clicks_oracles as oracles
import numpy as np
import pytest
from scipy import special, stats

from predilect.models.clicks import scores
from predilect.models.clicks.kernels import ETA_HIGH
from predilect.models.clicks.prediction import Prediction
from predilect.models.errors import ParameterError


def reference():
    table = oracles.SCORES
    prediction = Prediction(*(np.array(table[name], float) for name in ("zeta", "sigma_beta", "eta", "sigma_rho")))
    first = special.ndtri((np.arange(8) + 0.5) / 8)
    return prediction, np.stack([first, first[(3 * np.arange(8)) % 8]], axis=1)


def many(n_rows=300, seed=0, zeta=(-8, 3), eta=(-4, 12)):
    rng = np.random.default_rng(seed)
    return Prediction(
        rng.uniform(*zeta, n_rows), rng.uniform(0, 1.5, n_rows), rng.uniform(*eta, n_rows), rng.uniform(0, 1, n_rows)
    )


def test_scores_agree_with_reference_values():
    prediction, points = reference()
    for name, found in (
        ("UCBE", scores.ucbe(prediction, points)),
        ("UCQE", scores.ucqe(prediction)),
        ("EUQ", scores.euq(prediction, points)),
        ("UCQUQ", scores.ucquq(prediction, points, 0.95, 0.75)),
        ("UQP", scores.uqp(prediction, points)),
    ):
        np.testing.assert_allclose(found, oracles.SCORES[name], atol=1e-6, err_msg=name)


def test_beta_quantiles_are_right_where_scipy_errs():
    found = scores.beta_quantile(0.95, np.log([1e3 / 1e9]), np.log([1e9]))
    assert found[0] == pytest.approx(1.052576e-6, rel=1e-6)
    a, b = np.exp(np.linspace(-3, 14, 60)), np.exp(np.linspace(14, -3, 60)[::-1] + 3)
    quantiles = scores.beta_quantile(0.9, np.log(a / b), np.log(b))
    np.testing.assert_allclose(special.betainc(a, b, quantiles), 0.9, atol=1e-8)


def test_nearly_certain_probabilities_have_normal_quantiles():
    p, total = 0.02, np.array([1e11, 1e16, np.exp(ETA_HIGH)])
    found = scores.beta_quantile(0.95, np.full(3, special.logit(p)), np.log(total * (1 - p)))
    np.testing.assert_allclose(found, p + 1.6448536 * np.sqrt(p * (1 - p) / total), rtol=1e-9)


def test_uqp_is_the_quantile_of_the_mixture():
    prediction, points = many(), scores.normal_points(64)
    found = scores.uqp(prediction, points, 0.8)
    zeta = prediction.zeta[:, None] + prediction.zeta_sd[:, None] * points[:, 0]
    eta = prediction.eta[:, None] + prediction.eta_sd[:, None] * points[:, 1]
    covered = stats.beta.cdf(found[:, None], np.exp(zeta + eta), np.exp(eta)).mean(axis=1)
    inside = (found > 1e-290) & (found < 1 - 1e-12)  # elsewhere the quantile is beyond double precision
    assert inside.mean() > 0.8
    np.testing.assert_allclose(covered[inside], 0.8, atol=1e-7)


def test_without_uncertainty_scores_coincide():
    sure = Prediction(np.array([-2.0, 0.5]), np.zeros(2), np.array([1.0, 3.0]), np.zeros(2))
    points = scores.normal_points(16)
    p = special.expit(sure.zeta)
    for found in (scores.mean(sure, points), scores.ucbe(sure, points), scores.ucqe(sure)):
        np.testing.assert_allclose(found, p, atol=1e-12)
    quantile = stats.beta.ppf(0.95, np.exp(sure.zeta + sure.eta), np.exp(sure.eta))
    for found in (scores.euq(sure, points), scores.ucquq(sure, points), scores.uqp(sure, points)):
        np.testing.assert_allclose(found, quantile, rtol=1e-6)


def test_without_risk_the_predictive_quantile_is_that_of_the_expectation():
    rows = many(zeta=(-6, 0))
    log = Prediction(rows.zeta, rows.zeta_sd, np.full(300, ETA_HIGH), np.zeros(300))
    np.testing.assert_allclose(scores.uqp(log, scores.normal_points(64)), scores.ucqe(log), rtol=1e-12)


def test_more_risk_raises_quantiles_and_not_the_expectation():
    points = scores.normal_points(64)
    calm = Prediction(np.full(1, -3.0), np.full(1, 0.2), np.full(1, 6.0), np.full(1, 0.1))
    wild = Prediction(calm.zeta, calm.zeta_sd, np.full(1, 1.0), calm.eta_sd)
    assert scores.mean(wild, points) == pytest.approx(scores.mean(calm, points))
    assert scores.ucqe(wild) == pytest.approx(scores.ucqe(calm))
    for score in (scores.euq, scores.ucquq, scores.uqp):
        assert score(wild, points)[0] > 1.5 * score(calm, points)[0]


def test_sobol_points_are_standard_normal_and_repeatable():
    points = scores.normal_points(256, seed=3)
    assert np.array_equal(points, scores.normal_points(256, seed=3))
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=5e-3)
    np.testing.assert_allclose(points.std(axis=0), 1.0, atol=2e-2)
    p = special.expit(-2 + 0.8 * points[:, 0]).mean()
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    assert p == pytest.approx((weights * special.expit(-2 + 0.8 * nodes)).sum() / weights.sum(), abs=5e-4)


def test_blocks_do_not_change_scores(monkeypatch):
    prediction, points = many(), scores.normal_points(16)
    whole = scores.uqp(prediction, points)
    monkeypatch.setattr(scores, "_BLOCK_ROWS", 7)
    np.testing.assert_allclose(scores.uqp(prediction, points), whole, rtol=1e-9)
    assert len(scores.uqp(prediction.take(slice(0, 0)), points)) == 0


@pytest.mark.parametrize("nu", [0.0, 1.0, 1.5, float("nan")])
def test_impossible_probabilities_are_named(nu):
    prediction, points = reference()
    for score in (scores.ucbe, scores.euq, scores.ucquq, scores.uqp):
        with pytest.raises(ParameterError, match="give a probability between 0 and 1"):
            score(prediction, points, nu)
    with pytest.raises(ParameterError, match="give a probability between 0 and 1"):
        scores.ucqe(prediction, nu)


@pytest.mark.parametrize("n_points", [0, 1, 48])
def test_points_must_be_a_power_of_two(n_points):
    with pytest.raises(ParameterError, match=f"n_points is {n_points}; give a power of two"):
        scores.normal_points(n_points)
