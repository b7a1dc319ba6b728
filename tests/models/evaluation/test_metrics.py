"""Metrics against hand-computed cases and scikit-learn."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from predilect.models.errors import DataError
from predilect.models.evaluation import metrics
from predilect.models.evaluation.bootstrap import estimates
from predilect.models.evaluation.metrics import ranking_totals, relevance_threshold, row_losses, row_totals
from predilect.models.ratings.scale import RatingScale

STARS = RatingScale(1, 5, (1.0, 2.0, 3.0, 4.0, 5.0))


def values(totals: Any) -> dict[str, float]:
    return {name: estimate["value"] for name, estimate in estimates(totals, seed=0, resamples=20).items()}


def test_by_hand() -> None:
    ratings = np.array([4.0, 1.0], np.float32)
    mean, variance = np.array([3.4, -1.0]), np.array([0.25, 4.0])
    losses = row_losses(ratings, mean, variance, STARS)
    np.testing.assert_allclose(losses["mae"], [0.6, 0.0])
    np.testing.assert_allclose(losses["mae_rounded"], [1.0, 0.0])
    np.testing.assert_allclose(losses["rmse"], [0.36, 0.0], atol=1e-15)
    # deviations 1.2 and 1.0 standard deviations: 50 % reaches to .674, 80 % to 1.28
    assert losses["coverage_50"].tolist() == [0, 0]
    assert losses["coverage_80"].tolist() == [1, 1]
    np.testing.assert_allclose(losses["interval_width_90"], [2 * 1.6448536 * 0.5, 2 * 1.6448536 * 2], rtol=1e-7)
    np.testing.assert_allclose(
        losses["log_predictive_density"], stats.norm.logpdf(ratings, mean, np.sqrt(variance)), rtol=1e-13
    )


def test_against_scikit_learn_on_random_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    ratings = rng.integers(1, 6, 5000).astype(np.float32)
    mean, variance = ratings + rng.normal(0, 1.2, 5000), rng.uniform(0.5, 2, 5000)
    users = rng.integers(0, 200, 5000)
    monkeypatch.setattr(metrics, "_BLOCK_ROWS", 700)  # several blocks, the last one short
    found = values(row_totals(users, 200, ratings, mean, variance, STARS))
    clipped = np.clip(mean, 1, 5)
    assert found["mae"] == pytest.approx(sklearn_metrics.mean_absolute_error(ratings, clipped), rel=1e-12)
    assert found["rmse"] == pytest.approx(sklearn_metrics.root_mean_squared_error(ratings, clipped), rel=1e-12)
    assert found["mae_rounded"] == pytest.approx(np.abs(ratings - np.floor(clipped + 0.5)).mean(), rel=1e-12)
    for level in (50, 80, 90, 95):
        low, high = stats.norm.interval(level / 100, mean, np.sqrt(variance))
        assert found[f"coverage_{level}"] == pytest.approx(np.mean((ratings >= low) & (ratings <= high)))


def test_a_continuous_scale_is_clipped_only() -> None:
    scale = RatingScale(-10, 10)
    losses = row_losses(np.array([3.25]), np.array([3.0]), np.array([1.0]), scale)
    assert losses["mae_rounded"] == losses["mae"] == 0.25


def test_impossible_predictions_and_no_rows_are_errors() -> None:
    users, ratings = np.array([0, 0]), np.array([1.0, 2.0])
    with pytest.raises(DataError, match="row 1"):
        row_totals(users, 1, ratings, np.array([1.0, np.nan]), np.ones(2), STARS)
    with pytest.raises(DataError, match="variance"):
        row_totals(users, 1, ratings, np.ones(2), np.array([0.0, 1.0]), STARS)
    with pytest.raises(DataError, match="no test rows"):
        row_totals(users[:0], 0, ratings[:0], ratings[:0], ratings[:0], STARS)


def test_four_of_five_stars_is_relevant() -> None:
    assert relevance_threshold(STARS) == 4.0
    assert relevance_threshold(RatingScale(-10, 10)) == 5.0


def test_ranking_by_hand() -> None:
    top = np.array([[7, 3, 5], [1, 2, -1], [4, 5, 6]], np.int32)
    users, items = np.array([0, 0, 0, 1, 1, 2]), np.array([3, 9, 8, 2, -1, 4])
    relevant = np.array([True, True, False, True, True, False])
    totals = ranking_totals(top, users, items, relevant)
    third = 1 / np.log2(3)
    np.testing.assert_allclose(totals["ndcg_10"].sums, [third / (1 + third), third / (1 + third), 0])
    np.testing.assert_allclose(totals["recall_10"].sums, [0.5, 0.5, 0])
    assert totals["ndcg_10"].counts.tolist() == [1, 1, 0]


def test_ranking_against_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    n_users, n_items = 40, 60
    scores = rng.normal(size=(n_users, n_items))
    relevant = rng.random((n_users, n_items)) < rng.uniform(0.02, 0.4, (n_users, 1))
    top = np.argsort(-scores, axis=1)[:, :10]
    users, items = np.nonzero(np.ones_like(relevant))
    monkeypatch.setattr(metrics, "_BLOCK_ROWS", 101)
    totals = ranking_totals(top, users, items, relevant.ravel())
    for user in range(n_users):
        if relevant[user].any():
            expected = sklearn_metrics.ndcg_score(relevant[[user]], scores[[user]], k=10)
            assert totals["ndcg_10"].sums[user] == pytest.approx(expected, abs=1e-12)
            hits = relevant[user, top[user]].sum()
            assert totals["recall_10"].sums[user] == pytest.approx(hits / relevant[user].sum())
    assert (totals["ndcg_10"].counts == relevant.any(axis=1)).all()
