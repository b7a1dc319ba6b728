"""Standard errors, quasi-variances and the bootstrap."""

import numpy as np
import pytest
from rankings_oracles import A, a_ballots, c_ballots

from predilect.models.compiled import Threads
from predilect.models.errors import ParameterError
from predilect.models.rankings import Ballots, Mixture, RankingsConfig, RankingsModel, uncertainty
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Objective
from predilect.models.rankings.resampling import bootstrap, distance, match, ranks
from predilect.models.rankings.simulate import draw_mixture, simulate
from predilect.models.rankings.uncertainty import observed_information, quasi_variances

POOL = Threads(1)


def test_standard_errors_oracle():
    model = RankingsModel.fit(a_ballots(), RankingsConfig(), seed=0)
    errors = model.uncertainty(a_ballots()).standard_errors[:, 0]
    np.testing.assert_allclose(errors, A["standard_errors"], atol=2e-8)


@pytest.mark.parametrize("nu", [0.0, 0.4])
def test_observed_information_of_a_mixture_against_differences(nu):
    generator = np.random.default_rng(2)
    rows = [generator.permutation(5)[: generator.integers(1, 6)].tolist() for _ in range(40)]
    objective = Objective(Layout(Ballots.from_rows(rows, 5, "all", weights=generator.random(40) + 0.5)), POOL, nu)
    here = np.concatenate([generator.normal(size=10), [-0.5, -1.2]])

    def gradient(vector):
        shares = np.exp(vector[10:]) / np.exp(vector[10:]).sum()
        point = objective.at(Mixture(np.ascontiguousarray(vector[:10].reshape(2, 5).T), shares))
        return np.concatenate([point.gradient.T.ravel(), point.counts.mass - shares * objective.weight])

    shares = np.exp(here[10:]) / np.exp(here[10:]).sum()
    information = observed_information(objective, Mixture(here[:10].reshape(2, 5).T.copy(), shares))
    for number, unit in enumerate(np.eye(12)):
        slope = (gradient(here + 1e-5 * unit) - gradient(here - 1e-5 * unit)) / 2e-5
        np.testing.assert_allclose(information[number], -slope, atol=1e-6)


def test_errors_and_bootstrap_agree_with_repeated_samples():
    truth = Mixture(draw_mixture(6, 2, seed=3, spread=1.5).log_worths, np.array([0.6, 0.4]))
    fits = []
    for seed in range(60):
        ballots, _ = simulate(truth, 800, seed=seed)
        fits.append(match(RankingsModel.fit(ballots, RankingsConfig(2), seed=0, start=truth).mixture, truth))
    spread = np.std([fit.log_worths for fit in fits], axis=0)
    model = RankingsModel.fit(ballots, RankingsConfig(2), seed=0, start=truth)
    asymptotic = model.uncertainty(ballots)
    assert not asymptotic.singular
    np.testing.assert_allclose(asymptotic.standard_errors, spread, rtol=0.45)
    assert asymptotic.share_errors[0] == pytest.approx(np.std([fit.shares[0] for fit in fits]), rel=0.45)
    draws = model.bootstrap(ballots, n_resamples=60, seed=1)
    assert draws.n_degenerate == 0
    np.testing.assert_allclose(np.std(draws.log_worths, axis=0), spread, rtol=0.45)


def test_singular_information_is_said_not_hidden():
    ballots = c_ballots()
    twice = Mixture(np.tile(np.linspace(1, -1, 5)[:, None], 2), np.full(2, 0.5))  # two components that are one
    found = uncertainty.uncertainty(Objective(Layout(ballots), POOL), twice)
    assert found.singular
    assert np.isnan(found.standard_errors).all()


def test_too_many_parameters_are_refused(monkeypatch):
    monkeypatch.setattr(uncertainty, "MAX_PARAMETERS", 10)
    with pytest.raises(ParameterError, match="use the bootstrap"):
        observed_information(Objective(Layout(c_ballots()), POOL), Mixture(np.zeros((5, 2)), np.full(2, 0.5)))


def test_quasi_variances_are_exact_where_they_can_be():
    q = np.array([0.3, 0.1, 0.5, 0.2])
    centre = np.eye(4) - 0.25
    found = quasi_variances(centre @ np.diag(q) @ centre)
    np.testing.assert_allclose(found.values, q, rtol=1e-5)
    assert found.worst_error < 1e-5
    two = quasi_variances(np.array([[0.2, -0.2], [-0.2, 0.2]]))
    assert two.values.tolist() == pytest.approx([0.4, 0.4])


def test_quasi_variances_are_close_on_real_covariances():
    model = RankingsModel.fit(c_ballots(), RankingsConfig(), seed=0)
    assert quasi_variances(model.uncertainty(c_ballots()).covariance[0]).worst_error < 0.15


def test_degenerate_resamples_are_counted():
    ballots = Ballots.from_rows([[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]], 3, "all")
    model = RankingsModel.fit(ballots, RankingsConfig(), seed=0)
    draws = model.bootstrap(ballots, n_resamples=200, seed=0)
    assert draws.n_disconnected > 20
    assert len(draws.log_worths) + draws.n_degenerate == 200
    assert np.abs(draws.log_worths).max() < 20
    held = RankingsModel.fit(ballots, RankingsConfig(nu=0.5), seed=0).bootstrap(ballots, n_resamples=200, seed=0)
    assert held.n_degenerate == 0


def test_bootstrap_does_not_depend_on_threads_and_counts_ballots_once_each():
    ballots, _ = simulate(draw_mixture(5, 2, seed=1, spread=1.5), 500, seed=1)
    distinct = ballots.collapse()[0]
    mixture = RankingsModel.fit(ballots, RankingsConfig(2), seed=0).mixture
    one = bootstrap(distinct, mixture, n_resamples=8, seed=4, n_threads=1)
    two = bootstrap(distinct, mixture, n_resamples=8, seed=4, n_threads=2)
    assert np.array_equal(one.log_worths, two.log_worths)


def test_rank_intervals_hold_the_ranks():
    log_worths = np.array([[[3.0], [2.0], [1.0]], [[3.0], [1.0], [2.0]], [[2.0], [3.0], [1.0]]])
    assert ranks(log_worths)[:, :, 0].tolist() == [[1, 2, 3], [1, 3, 2], [2, 1, 3]]
    ballots = Ballots.from_rows([[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1]], 3, "all", counts=[50, 10, 10, 20])
    draws = RankingsModel.fit(ballots, RankingsConfig(), seed=0).bootstrap(ballots, n_resamples=100, seed=0)
    low, high = draws.rank_interval()
    assert low[0, 0] == high[0, 0] == 1
    assert np.all(low <= high)


def test_distance_ignores_order_and_level_of_components():
    truth = draw_mixture(8, 3, seed=0)
    shuffled = Mixture(truth.log_worths[:, [2, 0, 1]] + 5.0, truth.shares)
    assert distance(shuffled, truth) == pytest.approx(0, abs=1e-12)
