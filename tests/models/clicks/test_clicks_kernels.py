"""-log of the beta-binomial, its derivatives and its Fisher information against reference values."""

import clicks_oracles as oracles
import numpy as np
import pytest
from scipy import special, stats

from predilect.models.clicks.fisher import fisher_information
from predilect.models.clicks.kernels import ROWS_PER_CHUNK, negative_log_likelihood
from predilect.models.compiled import threads


def evaluate(v, n, zeta, eta, n_threads=1):
    """Rows of f (by one-row calls), gradient and Hessian."""
    counts = np.asarray(v, np.int32), np.asarray(n, np.int32)
    logits = np.array([zeta, eta], float)
    with threads(n_threads) as pool:
        total, gradient, hessian = negative_log_likelihood(*counts, logits, pool, second=True)
        f = [
            negative_log_likelihood(counts[0][[r]], counts[1][[r]], logits[:, [r]].copy(), pool, second=False)[0]
            for r in range(len(counts[0]) if n_threads == 1 else 0)
        ]
    return total, np.array(f), gradient, hessian


def test_derivatives_agree_with_60_digit_values():
    table = np.array(oracles.DERIVATIVES)
    total, f, gradient, hessian = evaluate(*table[:, :4].T)
    found = np.column_stack([f, gradient.T, hessian.T])
    allowed = 1e-9 * np.maximum(1.0, np.abs(table[:, 4:]))
    assert (np.abs(found - table[:, 4:]) <= allowed).all()
    assert total == pytest.approx(table[:, 4].sum(), rel=1e-10)


def test_derivatives_are_finite_and_consistent_over_the_whole_range_of_eta():
    rng = np.random.default_rng(0)
    n = rng.integers(2, 10_000, 4000)
    v = rng.binomial(n, rng.beta(0.3, 0.5, 4000))
    zeta, eta = rng.uniform(-8, 4, 4000), rng.uniform(-700, 300, 4000)
    _, f, gradient, hessian = evaluate(v, n, zeta, eta)
    for values in (f, gradient, hessian):
        assert np.isfinite(values).all()
    near = (np.abs(eta) < 30) & (n < 3000)
    assert near.sum() > 50
    step = 1e-4
    for side in (0, 1):
        shift = np.array([step if side == 0 else 0.0, step if side == 1 else 0.0])
        up = evaluate(v[near], n[near], zeta[near] + shift[0], eta[near] + shift[1])
        down = evaluate(v[near], n[near], zeta[near] - shift[0], eta[near] - shift[1])
        slope = (up[1] - down[1]) / (2 * step)
        bend = (up[2] - down[2]) / (2 * step)
        np.testing.assert_allclose(gradient[side, near], slope, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(hessian[[side, side + 1]][:, near], bend, rtol=1e-5, atol=1e-5)


def test_rows_of_one_impression_say_nothing_of_the_dispersion_and_empty_rows_nothing_at_all():
    _, f, gradient, hessian = evaluate([0, 1, 0], [1, 1, 0], [-2.0, -2.0, 3.0], [0.7, -5.0, 1.0])
    assert (gradient[1, :2] == 0).all()
    assert (hessian[1:, :2] == 0).all()
    assert f[2] == 0
    assert (gradient[:, 2] == 0).all()
    assert (hessian[:, 2] == 0).all()


def test_rows_are_not_to_be_merged():
    one = evaluate([1], [2], [-2.0], [0.0])[0]
    two = evaluate([1, 0], [1, 1], [-2.0, -2.0], [0.0, 0.0])[0]
    assert one == pytest.approx(oracles.ONE_ROW, abs=1e-5)
    assert two == pytest.approx(oracles.TWO_ROWS, abs=1e-5)


def test_likelihood_is_bit_identical_for_any_number_of_threads():
    rng = np.random.default_rng(1)
    size = 2 * ROWS_PER_CHUNK + 17
    n = rng.integers(0, 40, size)
    v = rng.binomial(n, 0.2)
    zeta, eta = rng.normal(-1, 1, size), rng.normal(1, 2, size)
    totals = {evaluate(v, n, zeta, eta, n_threads)[0] for n_threads in (2, 3, 4)}
    assert len(totals) == 1
    information = []
    for n_threads in (1, 3):
        with threads(n_threads) as pool:
            information.append(fisher_information(n.astype(np.int32), np.array([zeta, eta]), pool))
    assert np.array_equal(*information)


def test_binomial_is_logistic_regression():
    rng = np.random.default_rng(2)
    n = rng.integers(0, 30, 50).astype(np.int32)
    v = rng.binomial(n, 0.3).astype(np.int32)
    zeta = rng.normal(0, 3, (1, 50))
    with threads(1) as pool:
        total, gradient, hessian = negative_log_likelihood(v, n, zeta, pool, second=True)
        information = fisher_information(n, zeta, pool)
    p = special.expit(zeta)
    assert total == pytest.approx(-(v * np.log(p) + (n - v) * np.log1p(-p)).sum(), rel=1e-12)
    np.testing.assert_allclose(gradient, n * p - v, atol=1e-12)
    np.testing.assert_allclose(hessian, n * p * (1 - p), atol=1e-12)
    np.testing.assert_allclose(information, hessian, atol=1e-12)


def test_fisher_information_agrees_with_full_enumeration():
    table = np.array(oracles.FISHER)
    with threads(1) as pool:
        found = fisher_information(table[:, 0].astype(np.int32), table[:, 1:3].T.copy(), pool).T
    np.testing.assert_allclose(found, table[:, 3:], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("zeta", "eta"), [(-3.0, 1.0), (2.0, 4.0), (0.3, 8.0), (3.0, -1.5), (0.0, -3.0), (-2.0, 14.0)])
def test_fisher_information_is_the_expected_hessian(zeta, eta):
    n = 400
    v = np.arange(n + 1)
    mass = stats.betabinom.pmf(v, n, np.exp(zeta + eta), np.exp(eta))
    _, _, _, hessian = evaluate(v, np.full(n + 1, n), np.full(n + 1, zeta), np.full(n + 1, eta))
    with threads(1) as pool:
        found = fisher_information(np.array([n], np.int32), np.array([[zeta], [eta]]), pool)[:, 0]
    np.testing.assert_allclose(found, hessian @ mass, rtol=1e-6, atol=1e-9)


def test_fisher_information_is_finite_and_not_negative_at_the_extremes():
    eta = np.linspace(-700, 300, 201)
    logits = np.array([np.tile([-8.0, 0.0, 4.0], 201), np.repeat(eta, 3)])
    with threads(1) as pool:
        information = fisher_information(np.full(603, 900, np.int32), logits, pool)
    assert np.isfinite(information).all()
    assert (information[[0, 2]] >= 0).all()
