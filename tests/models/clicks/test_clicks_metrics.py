"""AUC, serendipity, likelihoods and coverage against definitions and reference values."""

import clicks_oracles as oracles
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from predilect.models.clicks import metrics


def test_sauc_agrees_with_reference_values():
    features = sparse.csr_matrix(np.array(oracles.POSITIVES + oracles.TESTS, float))
    reward = metrics.serendipity_reward(
        np.array([0, 1]), np.array([0, 0]), np.array([2, 3, 4, 5]), np.zeros(4, int), features, np.ones(4)
    )
    np.testing.assert_allclose(reward, oracles.REWARD, atol=1e-12)
    labels, scores, ones = np.array(oracles.LABELS, float), np.array(oracles.LABEL_SCORES), np.ones(4)
    assert metrics.auc(scores, labels, 1 - labels) == oracles.AUC
    assert metrics.sauc(scores, labels, ones, reward) == pytest.approx(oracles.SAUC_POSITIVES, abs=1e-6)
    assert metrics.sauc(scores, labels, ones, reward, on="negatives") == pytest.approx(oracles.SAUC_NEGATIVES, abs=1e-6)


def test_auc_of_counts_is_that_of_single_impressions():
    rng = np.random.default_rng(0)
    n = rng.integers(0, 6, 200)
    v = rng.binomial(n, 0.3)
    scores = np.round(rng.random(200), 1)  # many ties
    labels = np.concatenate([np.ones(v.sum()), np.zeros((n - v).sum())])
    repeated = np.concatenate([np.repeat(scores, v), np.repeat(scores, n - v)])
    assert metrics.auc(scores, v, n - v) == pytest.approx(roc_auc_score(labels, repeated), abs=1e-12)


def test_auc_without_one_of_the_classes_is_undefined():
    assert np.isnan(metrics.auc(np.array([0.1, 0.2]), np.zeros(2), np.ones(2)))
    assert np.isnan(metrics.auc(np.zeros(0), np.zeros(0), np.zeros(0)))


def test_rewards_equal_the_determinants_of_the_paper():
    rng = np.random.default_rng(1)
    features = sparse.random(30, 12, 0.4, random_state=1, format="csr")
    users = np.array([0, 0, 0, 2, 2, 0])
    picked = np.array([3, 5, 3, 7, 8, 9])  # line 3 twice: one context
    test_users = rng.integers(-1, 3, 40)
    test_lines = rng.integers(30, size=40)
    copies = np.where(test_users == 0, 2.0, 1.0)
    found = metrics.serendipity_reward(picked, users, test_lines, test_users, features, copies)
    dense = features.toarray()
    for r in range(40):
        mine = np.unique(picked[users == test_users[r]])
        scale = np.sqrt(copies[r])
        history = scale * dense[mine]
        joined = np.vstack([history, scale * dense[[test_lines[r]]]])
        after = np.linalg.det(np.eye(len(joined)) + joined @ joined.T)
        assert found[r] == pytest.approx(after / np.linalg.det(np.eye(len(mine)) + history @ history.T), rel=1e-9)


def test_rewards_of_no_rows_and_no_clicks():
    features = sparse.eye(2, format="csr")
    nobody = np.zeros(0, np.int64)
    assert len(metrics.serendipity_reward(nobody, nobody, nobody, nobody, features, np.zeros(0))) == 0
    alone = metrics.serendipity_reward(nobody, nobody, np.array([0, 1]), np.array([0, -1]), features, np.ones(2))
    np.testing.assert_allclose(alone, 2.0)


def test_log_likelihood_of_impressions_judges_each_on_its_own():
    n, v, p = np.array([3, 1, 0]), np.array([1, 1, 0]), np.array([0.2, 0.5, 0.9])
    expected = (np.log(0.2) + 2 * np.log(0.8) + np.log(0.5)) / 4
    assert metrics.log_likelihood_impression(p, n, v) == pytest.approx(expected)
    twice = metrics.log_likelihood_impression(p, n, v, weights=np.array([2.0, 0.0, 1.0]))
    assert twice == pytest.approx((np.log(0.2) + 2 * np.log(0.8)) / 3)


def test_coverage_counts_the_ends():
    intervals = np.array([[1, 3], [1, 3], [1, 3], [0, 0]])
    assert metrics.covered(intervals, np.array([1, 3, 4, 0])).tolist() == [True, True, False, True]
