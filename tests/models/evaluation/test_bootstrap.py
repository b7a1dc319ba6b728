"""The bootstrap against a loop over rows with the same weights, and against theory."""

import json

import numpy as np
import pytest

from predilect.models.errors import DataError
from predilect.models.evaluation import bootstrap
from predilect.models.evaluation.bootstrap import Total, differences, estimates, resample, weights

RNG = np.random.default_rng(11)
N_USERS = 23
USERS = RNG.integers(0, N_USERS, 300)
ERRORS, OTHER = RNG.gamma(2.0, size=300), RNG.gamma(2.2, size=300)


def total(errors: np.ndarray, *, root: bool = False) -> Total:
    counts = np.bincount(USERS, minlength=N_USERS).astype(float)
    return Total(np.bincount(USERS, errors, N_USERS), counts, root)


def by_rows(errors: np.ndarray, times: np.ndarray) -> float:
    """The metric of one resample with the rows of each drawn user written out."""
    rows = np.concatenate([np.flatnonzero(user == USERS) for user in np.repeat(np.arange(N_USERS), times.astype(int))])
    return float(errors[rows].mean())


@pytest.mark.parametrize("block", [10**7, 5 * N_USERS])
def test_against_rows_written_out(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_BLOCK_CELLS", block)
    drawn = weights(N_USERS, seed=4, first=0, last=200)
    expected = np.array([by_rows(ERRORS, times) for times in drawn])
    squares = np.array([by_rows(ERRORS**2, times) for times in drawn])
    found = estimates({"mae": total(ERRORS), "rmse": total(ERRORS**2, root=True)}, seed=4, resamples=200)
    low, high = np.percentile(expected, [2.5, 97.5])
    assert found["mae"] == pytest.approx({"value": ERRORS.mean(), "low": low, "high": high}, rel=1e-12)
    low, high = np.percentile(np.sqrt(squares), [2.5, 97.5])
    assert found["rmse"] == pytest.approx({"value": np.sqrt((ERRORS**2).mean()), "low": low, "high": high}, rel=1e-12)
    json.dumps(found)


def test_differences_are_paired() -> None:
    drawn = weights(N_USERS, seed=1, first=0, last=100)
    gaps = [by_rows(ERRORS, times) - by_rows(OTHER, times) for times in drawn]
    model, other = {"mae": total(ERRORS), "only here": total(ERRORS)}, {"mae": total(OTHER)}
    found = differences(model, other, seed=1, resamples=100)
    low, high = np.percentile(gaps, [2.5, 97.5])
    assert set(found) == {"mae"}
    assert found["mae"] == pytest.approx({"value": (ERRORS - OTHER).mean(), "low": low, "high": high}, rel=1e-11)
    itself = differences(model, model, seed=1, resamples=100)["mae"]
    assert itself == pytest.approx({"value": 0, "low": 0, "high": 0}, abs=1e-12)


def test_weights_are_multinomial() -> None:
    drawn = weights(50, seed=0, first=0, last=4000)
    assert (drawn.sum(axis=1) == 50).all()
    np.testing.assert_allclose(drawn.mean(), 1)
    assert drawn.var() == pytest.approx(49 / 50, rel=0.02)
    np.testing.assert_array_equal(weights(50, seed=0, first=100, last=110), drawn[100:110])


def test_interval_agrees_with_the_central_limit() -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(0.7, 0.2, 3000)
    found = estimates({"mae": Total(means, np.ones(3000))}, seed=0)["mae"]
    half = 1.96 * means.std() / np.sqrt(3000)
    assert (found["high"] - found["low"]) / 2 == pytest.approx(half, rel=0.1)


def test_metrics_of_few_or_no_users() -> None:
    nobody, somebody = Total(np.zeros(3), np.zeros(3)), Total(np.array([0.0, 0.25, 0.0]), np.array([0.0, 1.0, 0.0]))
    found = estimates({"ndcg_10": nobody, "recall_10": somebody}, seed=0, resamples=100)
    assert found == {"recall_10": {"value": 0.25, "low": 0.25, "high": 0.25}}
    _, draws = resample({"recall_10": somebody}, seed=0, resamples=100)
    assert np.isnan(draws["recall_10"]).any()  # resamples without that user
    assert estimates({}, seed=0) == {}


def test_totals_over_other_users_are_refused() -> None:
    with pytest.raises(DataError, match="different users"):
        estimates({"a": Total(np.ones(3), np.ones(3)), "b": Total(np.ones(4), np.ones(4))}, seed=0)
