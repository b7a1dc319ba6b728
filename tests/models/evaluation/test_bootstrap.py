"""The bootstrap against a loop over rows with the same weights, and against theory."""

import json
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

from predilect.models import fan_out
from predilect.models.errors import DataError
from predilect.models.evaluation import bootstrap
from predilect.models.evaluation.areas import areas
from predilect.models.evaluation.bootstrap import Total, differences, estimates, resample, weights
from predilect.models.fan_out import Spread

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


def _area(scores: np.ndarray, positives: np.ndarray, negatives: np.ndarray) -> float:
    """Of every pair of a positive and a negative row, how much of its weight is in the right order."""
    right = np.sign(scores[:, None] - scores[None]) / 2 + 0.5
    return float(positives @ right @ negatives / (positives.sum() * negatives.sum()))


def test_areas_against_all_pairs() -> None:
    scores = np.round(RNG.normal(size=300), 1)  # many ties
    clicks, shown = RNG.integers(0, 3, 300).astype(float), RNG.integers(0, 4, 300).astype(float)  # some rows of neither
    positives = np.array([clicks, clicks * RNG.random(300)])
    values, drawn = areas(scores, positives, shown, USERS, seed=3, resamples=50)
    times = weights(N_USERS, seed=3, first=0, last=50)[:, USERS]
    for kind in range(2):
        assert values[kind] == pytest.approx(_area(scores, positives[kind], shown), rel=1e-12)
        expected = [_area(scores, positives[kind] * time, shown * time) for time in times]
        np.testing.assert_allclose(drawn[kind], expected, rtol=1e-12)


def test_areas_without_positives_or_rows() -> None:
    values, drawn = areas(np.arange(3.0), np.zeros((1, 3)), np.ones(3), np.arange(3), seed=0, resamples=4)
    assert np.isnan(values).all()
    assert np.isnan(drawn).all()
    assert drawn.shape == (1, 4)
    values, drawn = areas(np.zeros(0), np.zeros((2, 0)), np.zeros(0), np.zeros(0, int), seed=0, resamples=4)
    assert np.isnan(values).all()
    assert drawn.shape == (2, 4)


def test_resamples_are_the_same_bits_wherever_they_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[int] = []

    def elsewhere(work: Callable[[int], Any], n_jobs: int) -> Generator[tuple[int, Any]]:
        for job in np.random.default_rng(n_jobs).permutation(n_jobs).tolist():
            jobs.append(job)
            yield job, work(job)

    monkeypatch.setattr(bootstrap, "_BLOCK_CELLS", 7 * N_USERS)
    monkeypatch.setattr("predilect.models.evaluation.areas._JOB_CELLS", 7 * (300 + N_USERS))
    totals = {"mae": total(ERRORS), "rmse": total(ERRORS**2, root=True)}

    def draws(spread: Spread) -> list[np.ndarray]:
        found = resample(totals, seed=5, resamples=100, spread=spread)[1]
        area = areas(ERRORS, np.ones((1, 300)), OTHER, USERS, seed=5, resamples=100, spread=spread)[1]
        return [*found.values(), area]

    here = draws(Spread())
    assert [found.tobytes() for found in draws(Spread(3))] == [found.tobytes() for found in here]
    draws(Spread(2, elsewhere))
    assert jobs == []  # too little to be sent anywhere
    monkeypatch.setattr(fan_out, "WORTHWHILE", 1.0)
    assert [found.tobytes() for found in draws(Spread(2, elsewhere))] == [found.tobytes() for found in here]
    assert sorted(jobs) == sorted([*range(15)] * 2)
