"""Calibration of distributions known to be right and known to be wrong."""

import json

import numpy as np
import pytest

from predilect.models.evaluation.calibration import NOMINAL, calibration, residuals


def test_right_distributions_are_calibrated() -> None:
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(3, 1, 100_000), rng.uniform(0.5, 2, 100_000)
    found = calibration(rng.normal(mean, sd), mean, sd**2)
    np.testing.assert_allclose(found["covered"], NOMINAL, atol=0.006)
    np.testing.assert_allclose(found["pit"], 0.1, atol=0.004)
    json.dumps(found)


def test_too_narrow_and_shifted_ones_are_not() -> None:
    rng = np.random.default_rng(1)
    ratings = rng.normal(0, 1, 20_000)
    narrow = calibration(ratings, np.zeros(20_000), np.full(20_000, 0.25))
    assert narrow["covered"][NOMINAL.index(0.9)] == pytest.approx(0.589, abs=0.01)  # P(|z| < 1.645 / 2)
    assert narrow["pit"][0] > 0.2
    assert narrow["pit"][-1] > 0.2
    low = calibration(ratings, np.full(20_000, -3.0), np.ones(20_000))
    assert low["pit"][-1] > 0.9
    assert sum(low["pit"]) == pytest.approx(1)


def test_residuals_by_level() -> None:
    rng = np.random.default_rng(2)
    ratings = rng.choice([1.0, 2.0, 4.0], 900).astype(np.float32)
    mean = rng.normal(2, 1, 900)
    table = residuals(ratings, mean, low=1, high=4, levels=(1.0, 2.0, 3.0, 4.0))
    assert [row["rating"] for row in table] == [1.0, 2.0, 4.0]
    for row in table:
        at = row["rating"] - mean[ratings == row["rating"]]
        assert row["n"] == len(at)
        assert row["mean"] == pytest.approx(at.mean())
        assert row["q05"] == pytest.approx(np.percentile(at, 5))
        assert row["q75"] == pytest.approx(np.percentile(at, 75))


def test_residuals_of_a_continuous_scale_are_binned() -> None:
    ratings = np.array([-10.0, -8.1, 0.0, 9.9, 10.0])
    table = residuals(ratings, np.zeros(5), low=-10, high=10, levels=None)
    assert [(row["rating"], row["n"]) for row in table] == [(-9.0, 2), (1.0, 1), (9.0, 2)]
