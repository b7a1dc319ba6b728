"""Rating scales, and configurations that are refused."""

from typing import Any

import numpy as np
import pytest

from predilect.models.errors import ParameterError
from predilect.models.ratings import RatingScale, VBConfig

STARS = RatingScale(0.5, 5, tuple(np.arange(1, 11) / 2))


def test_ratings_are_rounded_to_the_nearest_level_after_clipping() -> None:
    np.testing.assert_array_equal(STARS.round([-3, 0.74, 0.75, 1.2, 4.9, 9]), [0.5, 0.5, 1, 1, 5, 5])
    uneven = RatingScale(0, 10, (1, 2, 9))
    np.testing.assert_array_equal(uneven.round([0, 1.49, 5.4, 5.6, 10]), [1, 1, 2, 9, 9])


def test_a_continuous_scale_only_clips() -> None:
    np.testing.assert_array_equal(RatingScale(-10, 10).round([-11, 0.123, 12]), [-10, 0.123, 10])


def test_shapes_are_kept() -> None:
    assert STARS.round(np.zeros((2, 3))).shape == STARS.clip(np.zeros((2, 3))).shape == (2, 3)
    assert STARS.round(3.3) == 3.5


def test_the_midpoint() -> None:
    assert STARS.midpoint == 2.75


@pytest.mark.parametrize("scale", [STARS, RatingScale(-10, 10)])
def test_a_scale_goes_to_facts_and_back(scale: RatingScale) -> None:
    assert RatingScale.from_facts(scale.to_facts()) == scale


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((5, 1), "low < high"),
        ((1, 1), "low < high"),
        ((0, float("inf")), "low < high"),
        ((1, 5, (1, 3, 2)), "rising"),
        ((1, 5, (1, 1, 2)), "rising"),
        ((1, 5, (0, 3)), "1 … 5"),
        ((1, 5, (3,)), "two or more"),
    ],
)
def test_scales_that_are_none_are_refused(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        RatingScale(*arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_user_latents", -1),
        ("n_item_latents", -1),
        ("tau", 0),
        ("tau", float("nan")),
        ("precisions", "learned"),
        ("max_sweeps", 0),
        ("tolerance", 0),
        ("restarts", 0),
    ],
)
def test_impossible_values_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        VBConfig(**{name: value})
