"""Probabilities of a mixture and their calibration."""

import numpy as np
import pytest

from predilect.models.rankings import Ballots, Mixture
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.prediction import (
    first_probabilities,
    mean_log_likelihood,
    pair_calibration,
    win_matrix,
)
from predilect.models.rankings.simulate import draw_mixture, simulate
from predilect.models.rankings.spectral import pair_wins

MIXTURE = Mixture(draw_mixture(5, 2, seed=8, spread=1.5).log_worths, np.array([0.7, 0.3]))


def test_probabilities_match_simulated_frequencies():
    ballots, labels = simulate(MIXTURE, 40_000, seed=1)
    assert np.mean(labels == 0) == pytest.approx(0.7, abs=0.01)
    wins = pair_wins(Layout(ballots)) / 40_000
    np.testing.assert_allclose(wins[~np.eye(5, dtype=bool)], win_matrix(MIXTURE)[~np.eye(5, dtype=bool)], atol=0.012)
    first = np.bincount(ballots.items[ballots.offsets[:-1]], minlength=5) / 40_000
    np.testing.assert_allclose(first, first_probabilities(MIXTURE), atol=0.012)


def test_probabilities_add_up():
    chance = win_matrix(MIXTURE)
    np.testing.assert_allclose(chance + chance.T, 1)
    assert first_probabilities(MIXTURE, np.array([3, 1])).sum() == pytest.approx(1)
    pair = first_probabilities(MIXTURE, np.array([3, 1]))
    assert pair[0] == pytest.approx(chance[3, 1])


def test_top_l_and_ranked_simulation():
    top, _ = simulate(MIXTURE, 200, seed=2, length=2)
    assert top.lengths.tolist() == [2] * 200
    some, _ = simulate(MIXTURE, 20_000, seed=3, length=2, menu="ranked")
    share = pair_wins(Layout(some))
    met = share + share.T
    np.testing.assert_allclose(met[~np.eye(5, dtype=bool)], 2000, rtol=0.15)
    np.testing.assert_allclose((share / np.maximum(met, 1))[0, 1:], win_matrix(MIXTURE)[0, 1:], atol=0.04)


def test_the_true_model_is_calibrated_and_an_overconfident_one_is_not():
    ballots, _ = simulate(draw_mixture(8, 1, seed=4), 4000, seed=5)
    truth = draw_mixture(8, 1, seed=4)
    right = pair_calibration(truth, Layout(ballots))
    wrong = pair_calibration(Mixture(truth.log_worths * 2, truth.shares), Layout(ballots))
    assert right.weight.sum() == 4000 * 28
    assert right.expected_error < 0.01
    assert wrong.expected_error > 0.05


def test_mean_log_likelihood_and_its_interval():
    each, weights = np.array([-1.0, -2.0, -4.0]), np.array([2.0, 1.0, 1.0])
    found = mean_log_likelihood(each, weights)
    repeated = np.array([-1.0, -1.0, -2.0, -4.0])
    assert found.value == pytest.approx(repeated.mean())
    assert found.high - found.value == pytest.approx(1.96 * repeated.std(ddof=1) / 2, rel=1e-3)
    assert mean_log_likelihood(each[:1], np.ones(1)) == (-1.0, -1.0, -1.0)


def test_calibration_of_ballots_without_pairs_is_empty():
    ballots = Ballots.from_rows([[0]], 3, "ranked")
    assert len(pair_calibration(Mixture(np.zeros((3, 1)), np.ones(1)), Layout(ballots)).weight) == 0
