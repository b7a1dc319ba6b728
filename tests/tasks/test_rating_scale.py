"""The scale that is inferred from ratings, and what makes one look wrong."""

import numpy as np
import pytest

from predilect.tasks import rating_scale
from predilect.tasks.rating_scale import all_kept, distinct, distinct_of_parts, doubts, infer_step, on_scale
from predilect.tasks.readers.base import Scale


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ([1, 5], [1, 2, 3, 4, 5]),
        ([0, 1], [0, 1]),
        ([0.5, 1, 2, 3.5, 4, 5], [0.5 * k for k in range(1, 11)]),
        ([0, 10, 30, 40, 60, 100], [10 * k for k in range(11)]),
        (list(range(101)), list(range(101))),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]),
        ([-2, -1, 1, 2], [-2, -1, 0, 1, 2]),
        ([-9.81, -3.2, 0, 4.45, 9.9], None),
        ([1, 2.25, 7], None),
        ([3, 500, 70_000], None),
        ([10.0**17, 3 * 10.0**17], None),
    ],
)
def test_inferred_levels(values: list[float], levels: list[float] | None) -> None:
    low, high = float(values[0]), float(values[-1])
    found = Scale(low, high, infer_step(np.array(values, float), low, high)).levels()
    assert found == levels
    assert on_scale(np.array(values, float), Scale(low, high, infer_step(np.array(values, float), low, high))).all()


@pytest.mark.parametrize(
    ("values", "counts", "doubt"),
    [
        (np.arange(1000.0) * 77, np.ones(1000), "1,000 different whole numbers from 0 to 76923: they look like ids"),
        (np.array([0.5, 900.25, 7e5]), np.ones(3), "that is wide for a scale"),
        (np.array([1.0, 5.0]), np.array([3, 4]), "no rating is 2, 3, 4, though the inferred scale has it"),
        (np.array([4.0, 5.0]), np.array([1, 999]), "99.9% of the ratings are 5: there is little to learn"),
    ],
)
def test_doubts_about_a_scale(values: np.ndarray, counts: np.ndarray, doubt: str) -> None:
    low, high = float(values[0]), float(values[-1])
    found = doubts(values, counts.astype(np.int64), int(counts.sum()), Scale(low, high, infer_step(values, low, high)))
    assert any(doubt in text for text in found)


def test_no_doubts_about_stars() -> None:
    assert doubts(np.arange(1.0, 6), np.array([5, 9, 30, 40, 20]), 104, Scale(1, 5, 1)) == []


@pytest.mark.parametrize("most", [50, 2**20])
def test_different_ratings_of_parts(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(rating_scale, "MOST_DISTINCT", most)
    rng = np.random.default_rng(4)
    ratings = np.where(rng.random(3000) < 0.5, rng.integers(1, 6, 3000), np.round(rng.normal(3, 5, 3000), 1)) + 0.0
    values, counts = distinct_of_parts(np.array_split(ratings, 7))
    all_values, all_counts = distinct(ratings)
    assert len(all_values) > 100
    assert all_kept(values) == (most > 100)
    if all_kept(values):
        np.testing.assert_array_equal(values, all_values)
        np.testing.assert_array_equal(counts, all_counts)
        return
    assert len(values) == most
    assert (values[0], values[-1]) == (all_values[0], all_values[-1])
    assert (np.diff(values) > 0).all()
    stars = np.isin(all_values, range(1, 6))
    np.testing.assert_array_equal(counts[np.isin(values, range(1, 6))], all_counts[stars])
