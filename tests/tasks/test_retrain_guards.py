"""What retraining refuses, check by check: new data unlike the old ones, and challengers that guards hold back."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from predilect.models.errors import DataError
from predilect.tasks import retrain_clicks, retrain_family, retrain_rankings, retrain_ratings
from predilect.tasks.parameters_retrain import (
    RetrainClicksParameters,
    RetrainRankingsParameters,
    RetrainRatingsParameters,
)
from predilect.tasks.promotion import decide
from predilect.tasks.retrain_family import Comparison

SURE = {"value": 0.0, "low": -0.001, "high": 0.001}


def _estimates(**values: float) -> dict[str, Any]:
    return {name: {"value": value, "low": value - 0.01, "high": value + 0.01} for name, value in values.items()}


def _gap(value: float, half: float = 0.001) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def _failed(checks: list[retrain_family.Check]) -> list[str]:
    return [check.name for check in checks if not check.ok]


RATINGS = RetrainRatingsParameters(data="x")
RANKINGS = RetrainRankingsParameters(data="x", menu="all")
CLICKS = RetrainClicksParameters(data="x")


@pytest.mark.parametrize(
    ("ours", "gaps", "failed"),
    [
        ({}, {}, []),
        ({"coverage_90": 0.93}, {}, []),  # as far from 0.9 as the champion's
        ({"coverage_90": 0.84}, {}, ["90 % coverage"]),
        ({"coverage_90": 0.96}, {}, ["90 % coverage"]),
        ({"rmse_new_users": 1.05}, {"rmse_new_users": _gap(0.05)}, ["RMSE of new users"]),
        ({"rmse_new_users": 1.05}, {"rmse_new_users": _gap(0.05, 0.2)}, []),  # of very few rows: nothing is shown
        ({"rmse_new_items": 1.05}, {"rmse_new_items": _gap(0.05)}, ["RMSE of new items"]),
    ],
)
def test_guards_of_ratings(ours: dict[str, float], gaps: dict[str, Any], failed: list[str]) -> None:
    theirs = {"coverage_90": 0.87, "rmse_new_users": 1.0, "rmse_new_items": 1.0}
    found = retrain_ratings.guards(
        _estimates(**(theirs | {"coverage_90": 0.9} | ours)), _estimates(**theirs),
        {"rmse_new_users": SURE, "rmse_new_items": SURE} | gaps, RATINGS,
    )  # fmt: skip
    assert _failed(found) == failed
    assert len(found) == 3


def test_new_users_and_items_are_those_rarely_trained_on() -> None:
    trained = np.repeat([0, 1, 2], [6, 5, 1])
    tested = np.array([0, 1, 2, 3, -1])
    assert retrain_ratings._newcomers(trained, tested, 4).tolist() == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("errors", "gap", "failed"),
    [
        ([0.03, 0.02], 0.0, []),
        ([0.05, 0.02], 0.0, ["calibration error of pairs"]),
        ([0.02, 0.02], -0.03, ["pair accuracy"]),
        ([0.02, 0.02], -0.01, []),
    ],
)
def test_guards_of_rankings(errors: list[float], gap: float, failed: list[str]) -> None:
    ours, theirs = _estimates(pair_accuracy=0.7 + gap), _estimates(pair_accuracy=0.7)
    found = retrain_rankings.guards(ours, theirs, {"pair_accuracy": _gap(gap)}, errors, RANKINGS)  # type: ignore[arg-type]
    assert _failed(found) == failed


@pytest.mark.parametrize(
    ("coverage", "gap", "failed"),
    [
        (0.9, 0.0, []),
        (0.86, 0.0, ["90 % intervals of click counts that hold"]),
        (0.9, -0.05, ["AUC"]),
        (0.9, 0.05, []),
    ],
)
def test_guards_of_clicks(coverage: float, gap: float, failed: list[str]) -> None:
    ours, theirs = _estimates(coverage_90=coverage, auc=0.7 + gap), _estimates(coverage_90=0.91, auc=0.7)
    assert _failed(retrain_clicks.guards(ours, theirs, {"auc": _gap(gap)}, CLICKS)) == failed  # type: ignore[dict-item]


def test_time_and_size_are_guarded(tmp_path: Path) -> None:
    slow, quick = (lambda n=n: np.sort(np.arange(n)[::-1].astype(float)) for n in (3_000_000, 10_000))
    assert _failed([retrain_family.time_check([slow, quick], 2.0)]) == ["prediction time"]
    assert _failed([retrain_family.time_check([quick, slow], 2.0)]) == []
    for name, size in (("large", 3000), ("small", 1000)):
        (tmp_path / name / "inside").mkdir(parents=True)
        (tmp_path / name / "inside" / "arrays.npz").write_bytes(b"x" * size)
    assert _failed([retrain_family.size_check(tmp_path / "large", tmp_path / "small", 2.0)]) == ["model size"]
    assert _failed([retrain_family.size_check(tmp_path / "large", tmp_path / "small", 3.0)]) == []


def test_a_better_challenger_is_refused_by_a_guard() -> None:
    guard = retrain_family.Check("model size", "9 MB, the champion 3", "at most 2 times that", False)
    better = {"rmse": _gap(-0.1)}
    comparison = Comparison(_estimates(rmse=0.9), _estimates(rmse=1.0), better, 100, [guard])  # type: ignore[arg-type]
    refused = decide(retrain_ratings.STEPS, comparison, RATINGS)
    assert refused.outcome == "refuse"
    assert refused.reasons == ["Guard: model size is 9 MB, the champion 3; allowed is at most 2 times that."]
    fine = Comparison(comparison.challenger, comparison.champion, better, 100, [])  # type: ignore[arg-type]
    assert decide(retrain_ratings.STEPS, fine, RATINGS).outcome == "promote"


def test_one_model_is_not_compared_with_another_of_other_held_out_rows() -> None:
    from predilect.flows.retrain import _judge

    ours, theirs = (
        SimpleNamespace(tags={"predilect.split": "stable:0.2", "predilect.seed": "0", "predilect.unit": unit})
        for unit in ("rows of the same user and item", "whole groups (test)")
    )
    found = _judge(retrain_clicks.STEPS, CLICKS, None, ours, theirs)  # type: ignore[arg-type]
    assert found.outcome == "refuse"
    assert "may know the held-out rows; give both the same unit" in found.reasons[0]


def _clicks(n: int = 2000, *, rate: float = 0.1, words: str = "alpha beta gamma delta", seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    shown = rng.integers(50, 150, n)
    each = words.split()
    return pa.table(
        {
            "impressions": shown,
            "clicks": rng.binomial(shown, rate),
            "user": [f"u{k}" for k in rng.integers(0, 300, n)],
            "text.title": [" ".join(rng.permutation(each)[:2]) for _ in range(n)],
            "category.place": rng.choice(["front", "side"], n),
            "number.age": rng.normal(size=n),
        }
    )


def _changed(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def test_new_clicks_are_checked_against_the_previous() -> None:
    before = retrain_clicks.profile(_clicks())
    new = _clicks(500, seed=1)

    def failed(table: pa.Table) -> list[str]:
        return _failed(retrain_clicks.check(table, before, CLICKS))

    assert failed(new) == []
    assert failed(_clicks(500, seed=1, rate=0.3)) == ["click rate"]
    assert failed(_clicks(500, seed=1, rate=0.03)) == ["click rate"]
    assert failed(_clicks(500, seed=1, words="???? !!!!")) == ["PSI of words of title"]
    assert failed(_changed(new, "category.place", ["front"] * 500)) == ["PSI of place"]
    assert failed(_changed(new, "number.age", np.full(500, 3.0))) == ["PSI of age"]
    assert failed(_changed(new, "impressions", np.full(500, 1000))) == ["click rate", "PSI of impressions a row"]
    assert failed(_changed(new, "user", [f"new{k}" for k in range(500)])) == ["rows of new users"]
    assert failed(new.drop_columns("category.place")) == ["column category.place"]
    assert failed(_changed(new, "number.age", ["x"] * 500)) == ["column number.age"]


def test_few_new_clicks_are_not_refused_by_chance() -> None:
    """Of 5 clicks instead of 15 nothing is known."""
    assert retrain_clicks.rate_check((2, 150), (10_000, 100_000), 2.0).ok
    assert not retrain_clicks.rate_check((200, 15_000), (10_000, 100_000), 2.0).ok


def test_all_clicks_are_trained_on_under_the_users_own_names() -> None:
    asked = RetrainClicksParameters(data="x", columns="user:visitor", texts="title", categories="place", numbers="age")
    table, source = retrain_clicks.plain(_clicks(), asked)
    assert table.column_names == ["impressions", "clicks", "visitor", "title", "place", "age"]
    assert source["columns"] == {"user": "visitor", "impressions": "impressions", "clicks": "clicks"}
    assert (source["texts"], source["categories"], source["numbers"]) == (["title"], ["place"], ["age"])
    assert (source["reader"], source["group"]) == ("table", "none")
    twice = _clicks().rename_columns(
        ["impressions", "clicks", "user", "text.user", "category.place", "number.age"]
    )  # fmt: skip
    with pytest.raises(DataError, match="'user' would be two things at once"):
        retrain_clicks.plain(twice, CLICKS)
    with pytest.raises(DataError, match="reads one folder, which cannot grow by files"):
        retrain_clicks.read(Path("behaviors.tsv"), RetrainClicksParameters(data="x", reader="mind"))
