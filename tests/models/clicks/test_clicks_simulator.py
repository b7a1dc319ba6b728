"""Simulated logs, and whether the whole model recovers the truth behind them."""

import numpy as np
import pytest
from scipy import special

from predilect.models.clicks import scores
from predilect.models.clicks.clusters import UserClusters
from predilect.models.clicks.config import ClicksConfig
from predilect.models.clicks.metrics import auc
from predilect.models.clicks.model import ClicksModel
from predilect.models.clicks.simulator import SimulationConfig, expected_click_probability, simulate
from predilect.models.errors import ParameterError

SMALL = SimulationConfig(
    n_users=800, n_items=500, n_words=200, words_per_item=10, n_clusters=4, n_rows=60_000, dispersion_intercept=0.3
)


@pytest.fixture(scope="module")
def log():
    return simulate(SMALL, seed=1)


def test_the_log_is_what_it_says(log):
    pairs = log.users.astype(np.int64) * SMALL.n_items + log.items
    assert len(np.unique(pairs)) == len(pairs)
    assert (log.clicks <= log.impressions).all()
    assert (log.impressions >= 1).all()
    assert ((log.time >= 0) & (log.time < 1)).all()
    np.testing.assert_allclose(log.features.multiply(log.features).sum(axis=1), 1.0)
    mean = special.expit(log.zeta)
    assert log.theta.mean() == pytest.approx(mean.mean(), abs=0.005)
    spread = mean * (1 - mean) / (1 + np.exp(log.eta) * (1 + np.exp(log.zeta)))
    assert np.square(log.theta - mean).mean() == pytest.approx(spread.mean(), rel=0.05)
    assert log.clicks.sum() / log.impressions.sum() == pytest.approx(log.theta.mean(), rel=0.05)


def test_simulations_repeat(log):
    again = simulate(SMALL, seed=1)
    assert np.array_equal(again.clicks, log.clicks)
    assert not np.array_equal(simulate(SMALL, seed=2).clicks[:100], log.clicks[:100])


def test_clusters_are_found_from_the_history(log):
    found = UserClusters.fit(log.history_users, log.history_items, 4, seed=0).encode(np.arange(SMALL.n_users))
    warm = found >= 0
    assert 0.02 < (~warm).mean() < 0.1
    table = np.zeros((4, 4))
    np.add.at(table, (found[warm], log.clusters[warm]), 1)
    assert table.max(axis=1).sum() / warm.sum() > 0.95


def test_the_model_recovers_the_truth(log):
    held_out = np.random.default_rng(0).random(len(log.users)) < 0.2
    design = log.design(log.clusters, SMALL.n_clusters)
    train = ~held_out
    fitted = ClicksModel.fit(design.take(train), log.impressions[train], log.clicks[train], ClicksConfig())
    assert fitted.precisions["mean.features"] == pytest.approx(SMALL.mean_precision, rel=0.3)
    assert fitted.precisions["mean.clusters"] == pytest.approx(SMALL.mean_precision, rel=0.3)
    prediction = fitted.predict(design.take(held_out))
    points = scores.normal_points(64)
    low, high = (scores.uqp(prediction, points, nu) for nu in (0.05, 0.95))
    theta = log.theta[held_out]
    assert 0.87 <= ((theta >= low) & (theta <= high)).mean() <= 0.93
    v, n = log.clicks[held_out], log.impressions[held_out]
    found = auc(scores.mean(prediction, points), v, n - v)
    best = auc(expected_click_probability(log)[held_out], v, n - v)
    assert found > 0.5 + 0.6 * (best - 0.5)


def test_impossible_sizes_are_named():
    with pytest.raises(ParameterError, match="n_users is 0"):
        SimulationConfig(n_users=0)
