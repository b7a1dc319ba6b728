"""Baselines: exact means, recovery of planted offsets, honest variances."""

import numpy as np
import pytest
from scipy import optimize

from predilect.models.errors import DataError
from predilect.models.ids import IdMap
from predilect.models.ratings.baselines import BiasOnly, GlobalMean
from predilect.models.ratings.scale import RatingScale

SCALE = RatingScale(1, 5, (1.0, 2.0, 3.0, 4.0, 5.0))


def ids(n: int) -> IdMap:
    return IdMap(np.arange(n))


def planted(n_users: int = 300, n_items: int = 200, n_rows: int = 12_000, seed: int = 0):
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, n_users, n_rows), rng.integers(0, n_items, n_rows)
    user_offsets, item_offsets = rng.normal(0, 0.4, n_users), rng.normal(0, 0.6, n_items)
    exact = 3.4 + user_offsets[users] + item_offsets[items]
    return users, items, exact + rng.normal(0, 0.9, n_rows), exact


def test_global_mean() -> None:
    ratings = np.array([1, 2, 5], np.float32)
    model = GlobalMean.fit(np.arange(3), np.arange(3), ratings, SCALE, user_ids=ids(3), item_ids=ids(3))
    prediction = model.predict(np.array([0, -1]), np.array([2, -1]))
    np.testing.assert_allclose(prediction.mean, 8 / 3)
    np.testing.assert_allclose(prediction.variance, ratings.astype(float).var())


def test_bias_only_recovers_planted_offsets_and_spreads() -> None:
    users, items, ratings, exact = planted()
    model = BiasOnly.fit(users, items, ratings, SCALE, user_ids=ids(300), item_ids=ids(200))
    predicted = model.predict(users, items)
    assert np.sqrt(np.mean((predicted.mean - exact) ** 2)) < 0.2
    assert model.noise_variance == pytest.approx(0.81, rel=0.04)
    assert np.sqrt(model.user_spread) == pytest.approx(0.4, rel=0.15)
    assert np.sqrt(model.item_spread) == pytest.approx(0.6, rel=0.15)


def test_bias_only_offsets_solve_the_ridge_problem() -> None:
    """At its learned variances the offsets minimise the penalised squares: checked with a general optimiser."""
    users, items, ratings, _ = planted(12, 9, 60)
    model = BiasOnly.fit(users, items, ratings, SCALE, user_ids=ids(12), item_ids=ids(9))

    def loss(x: np.ndarray) -> float:
        error = ratings - model.mean - x[:12][users] - x[12:][items]
        return (
            error @ error / model.noise_variance
            + x[:12] @ x[:12] / model.user_spread
            + x[12:] @ x[12:] / model.item_spread
        )

    best = optimize.minimize(loss, np.zeros(21), tol=1e-12).x
    np.testing.assert_allclose(np.concatenate([model.user_offsets, model.item_offsets]), best, atol=2e-4)


def test_intervals_of_bias_only_cover_new_ratings_also_of_unknown_users() -> None:
    users, items, ratings, _ = planted(n_rows=14_000)
    train = (users < 250) & (np.arange(14_000) % 4 != 0)
    model = BiasOnly.fit(users[train], items[train], ratings[train], SCALE, user_ids=ids(300), item_ids=ids(200))
    for rows in (~train & (users < 250), users >= 250):
        mean, variance = model.predict(users[rows], items[rows])
        assert np.mean(np.abs(ratings[rows] - mean) < 1.645 * np.sqrt(variance)) == pytest.approx(0.9, abs=0.02)
    known, never_seen, unknown = (model.predict(np.array([user]), np.array([3])) for user in (0, 299, -1))
    assert known.variance < never_seen.variance
    assert never_seen == unknown
    assert model.predict(np.array([-1]), np.array([-1])).mean == model.mean


def test_equal_ratings_and_a_single_one_leave_finite_positive_variances() -> None:
    for n in (1, 50):
        users, items = np.arange(n) % 7, np.arange(n) % 5
        for baseline in (GlobalMean, BiasOnly):
            model = baseline.fit(users, items, np.full(n, 4.0, np.float32), SCALE, user_ids=ids(7), item_ids=ids(5))
            mean, variance = model.predict(np.array([0, -1]), np.array([0, -1]))
            np.testing.assert_allclose(mean, 4, atol=1e-6)
            assert (variance > 0).all()
            assert np.isfinite(variance).all()


def test_no_ratings() -> None:
    none = np.zeros(0, np.int32)
    for baseline in (GlobalMean, BiasOnly):
        with pytest.raises(DataError, match="no ratings"):
            baseline.fit(none, none, np.zeros(0, np.float32), SCALE, user_ids=ids(0), item_ids=ids(0))


def test_recommendations_leave_out_what_was_seen() -> None:
    users, items, ratings, _ = planted(20, 15, 200)
    model = BiasOnly.fit(users, items, ratings, SCALE, user_ids=ids(20), item_ids=ids(15))
    best = np.argsort(-model.item_offsets)
    np.testing.assert_array_equal(model.recommend_codes(np.array([0, -1]), 4), [best[:4], best[:4]])
    seen = (np.array([0, 2, *[2 + 14] * 19]), np.concatenate([best[[0, 2]], best[:14]]).astype(np.int32))
    np.testing.assert_array_equal(
        model.recommend_codes(np.array([1, 0]), 3, seen), [[best[14], -1, -1], [best[1], best[3], best[4]]]
    )
