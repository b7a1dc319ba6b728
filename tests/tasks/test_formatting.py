"""Numbers as people read them."""

import math
from typing import Any

import pytest

from predilect.tasks.formatting import (
    day,
    duration,
    interval,
    metric_of,
    moment,
    number,
    plain,
    plain_value,
    time_span,
    verdict,
)


def estimate(value: float, low: float, high: float) -> dict[str, float]:
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        (estimate(0.669, 0.661, 0.677), {}, "0.669 [0.661, 0.677]"),
        (estimate(3.08012, 3.05, 3.11), {}, "3.080 [3.050, 3.110]"),
        (estimate(-0.00042, -0.00091, 0.00012), {}, "−0.0004 [−0.0009, 0.0001]"),  # as many decimals as its width needs
        (estimate(3.679727, 3.679727, 3.679727), {}, "3.680 [3.680, 3.680]"),  # none for an interval without width
        (estimate(12_345.6, 12_000.2, 12_700.9), {}, "12,346 [12,000, 12,701]"),
        (estimate(0.8961, 0.8899, 0.9021), {"is_share": True}, "89.6\u00a0% [89.0, 90.2]"),
        (estimate(0.012, 0.001, 0.023), {"signed": True}, "+0.012 [0.001, 0.023]"),
        (estimate(-0.0042, -0.0063, 0.00004), {"is_share": True, "signed": True}, "−0.4\u00a0pp [−0.6, 0.0]"),
        ({"value": 0.5}, {}, "0.500"),
        (None, {}, "–"),
        ({"value": None, "low": 1.0, "high": 2.0}, {}, "–"),
    ],
)
def test_interval(given: Any, options: dict[str, bool], text: str) -> None:
    assert interval(given, **options) == text


@pytest.mark.parametrize(
    ("x", "text"), [(-0.0001, "0.000"), (-1.5, "−1.500"), (math.nan, "–"), (True, "–"), (1234.5, "1,234"), (None, "–")]
)
def test_number(x: Any, text: str) -> None:
    assert number(x) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.416, "0.42 s"),
        (12.34, "12.3 s"),
        (59.97, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3725, "1 h 02 min"),
        (None, "–"),
    ],
)
def test_duration(seconds: Any, text: str) -> None:
    assert duration(seconds).replace("\u00a0", " ") == text


def test_dates() -> None:
    assert day(0) == "1 January 1970"
    assert day(1e30) == day(None) == "–"
    assert time_span([0, 10]) == "1 January 1970"
    assert time_span([0, None]) == time_span(None) == ""
    assert moment("2025-03-14T03:00:11+01:00") == "14 March 2025, 02:00 UTC"
    assert moment("yesterday") == "yesterday"


@pytest.mark.parametrize(
    ("metric", "low", "high", "word"),
    [
        ("rmse", -0.2, -0.1, "better"),
        ("rmse", 0.1, 0.2, "worse"),
        ("rmse", -0.1, 0.2, "no clear difference"),
        ("ndcg_10", 0.1, 0.2, "better"),
        ("ndcg_10", -0.2, -0.1, "worse"),
        ("coverage_90", 0.1, 0.2, ""),  # neither way is better
        ("rmse", None, 0.2, ""),
    ],
)
def test_verdict(metric: str, low: float | None, high: float, word: str) -> None:
    assert verdict(metric, {"value": 0.0, "low": low, "high": high}) == word


def test_values_of_any_kind() -> None:
    shown = [plain_value(value) for value in (None, True, 1e-5, 100, "text", ["ü", 1], "x" * 400)]
    assert shown == ["–", "true", "1e-05", "100", "text", '["ü", 1]', "x" * 299 + "…"]
    assert plain({"a": (1, math.inf, {"b": math.nan})}) == {"a": [1, None, {"b": None}]}


def test_coverage_is_of_what_the_family_predicts() -> None:
    assert metric_of("coverage_90").meaning == "ratings inside their 90 % interval"
    assert metric_of("coverage_90", "clicks").meaning == "held-out click counts inside their 90 % interval"
    assert metric_of("auc", "clicks") == metric_of("auc")
