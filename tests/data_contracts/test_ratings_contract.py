"""The ratings contract: every rule breaks on data made to break it, alone or with those it implies, and on no other."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from predilect.data_contracts import rules, runner

NAN, INF = float("nan"), float("inf")
PARAMETERS = {
    "scale_low": 1.0,
    "scale_high": 5.0,
    "scale_levels": [1.0, 2.0, 3.0, 4.0, 5.0],
    "min_user_ratings": 3,
    "min_user_share": 0.75,
    "min_item_ratings": 3,
    "min_item_share": 0.75,
}


def good() -> dict[str, list[Any]]:
    """Four users who all rated four items."""
    return {
        "user": [user for user in (1, 2, 3, 2**53 + 1) for _ in range(4)],
        "item": ["a", "b", "c", " d"] * 4,
        "rating": [1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, 2.0] * 2,
        "timestamp": [880_000_000 + second for second in range(16)],
        "fold": ["u1", None] * 8,
    }


def put(column: str, value: Any, *rows: int) -> Callable[[dict[str, list[Any]]], None]:
    def change(data: dict[str, list[Any]]) -> None:
        for row in rows or range(len(data[column])):
            data[column][row] = value

    return change


def drop(column: str) -> Callable[[dict[str, list[Any]]], None]:
    def change(data: dict[str, list[Any]]) -> None:
        del data[column]

    return change


def keep(*rows: int) -> Callable[[dict[str, list[Any]]], None]:
    def change(data: dict[str, list[Any]]) -> None:
        for column in data:
            data[column] = [data[column][row] for row in rows]

    return change


def text(column: str) -> Callable[[dict[str, list[Any]]], None]:
    def change(data: dict[str, list[Any]]) -> None:
        data[column] = [str(value) for value in data[column]]

    return change


def number(column: str) -> Callable[[dict[str, list[Any]]], None]:
    def change(data: dict[str, list[Any]]) -> None:
        data[column] = [0.5] * len(data[column])

    return change


ONE = {"ratings differ", "enough users", "enough items", "enough ratings a user", "enough ratings an item"}

# rule: (what to do to good data, rows or entities that break it, other rules that then break too)
BREAKS: dict[str, tuple[Callable[[dict[str, list[Any]]], None], int, set[str]]] = {
    "user column": (drop("user"), 0, set()),
    "item column": (drop("item"), 0, set()),
    "rating column": (drop("rating"), 0, set()),
    "user type": (number("user"), 0, set()),
    "item type": (number("item"), 0, set()),
    "rating type": (text("rating"), 0, set()),
    "timestamp type": (text("timestamp"), 0, set()),
    "fold type": (number("fold"), 0, set()),
    "user given": (put("user", None, 15), 1, set()),
    "item given": (put("item", None, 3, 7), 2, set()),
    "rating given": (put("rating", None, 0, 1), 2, set()),
    "rating finite": (put("rating", INF, 2), 1, {"rating within the scale", "rating a level of the scale"}),
    "rating within the scale": (put("rating", 6.0, 2, 3, 4), 3, {"rating a level of the scale"}),
    "rating a level of the scale": (put("rating", 3.5, 2), 1, set()),
    "timestamp given": (put("timestamp", None, 2), 1, set()),
    "timestamp in seconds, 1970 to 2100": (put("timestamp", 880_000_000_000, 2, 3), 2, set()),
    "one rating a user and item": (put("item", "a", 1, 2), 3, set()),
    "enough ratings": (keep(0), 0, ONE),
    "ratings differ": (put("rating", 3.0), 0, set()),
    "enough users": (keep(0, 1, 2, 3), 0, {"enough ratings an item"}),
    "enough items": (keep(0, 4, 8, 12), 0, {"enough ratings a user"}),
    "enough ratings a user": (keep(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13), 2, {"enough ratings an item"}),
    "enough ratings an item": (keep(0, 1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 13), 2, set()),
}  # fmt: skip


def tables(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    yield "ratings", table
    yield "users", rules.count_by(table, "user", "ratings")
    yield "items", rules.count_by(table, "item", "ratings")


def run(data: dict[str, Any], **parameters: Any) -> dict[str, runner.RuleResult]:
    table = pa.table(data)
    found = runner.run(rules.load("ratings"), table.schema, tables(table), PARAMETERS | parameters)
    return {result.rule: result for result in found}


def broken(found: dict[str, runner.RuleResult]) -> set[str]:
    return {name for name, result in found.items() if not result.success}


def test_good_data_keep_every_rule() -> None:
    found = run(good())
    assert list(found) == [entry["meta"]["rule"] for entry in rules.load("ratings")["expectations"]]
    assert broken(found) == set()
    assert {result.unexpected_count for result in found.values()} == {0}


@pytest.mark.parametrize("rule", BREAKS)
def test_each_rule_breaks(rule: str) -> None:
    change, count, implied = BREAKS[rule]
    data = good()
    change(data)
    found = run(data)
    assert broken(found) == {rule} | implied
    assert found[rule].unexpected_count == count
    assert len(found[rule].sample_rows) == count


def test_every_rule_has_its_breaking_data() -> None:
    assert set(BREAKS) == {entry["meta"]["rule"] for entry in rules.load("ratings")["expectations"]}


def test_nan_is_no_rating() -> None:
    data = good()
    data["rating"][5] = NAN
    found = run(data)
    assert broken(found) == {"rating given"}
    assert found["rating given"].sample_rows == [
        {"row": 5, "user": 2, "item": "b", "rating": "nan", "timestamp": 880_000_005, "fold": None}
    ]


def test_wrong_types_stop_before_the_table_is_read() -> None:
    def unread() -> Iterator[tuple[str, pa.Table]]:
        raise AssertionError("the table was asked for")
        yield

    schema = pa.schema({"user": pa.int64(), "rating": pa.string()})
    found = runner.run(rules.load("ratings"), schema, unread(), PARAMETERS)
    assert {result.rule for result in found if not result.success} == {"item column", "rating type"}
    assert {result.table for result in found} == {"types"}
    assert {result.rule: result.observed for result in found}["rating type"] == "string"


def test_optional_columns_and_continuous_scales_drop_their_rules() -> None:
    data = good()
    del data["timestamp"], data["fold"]
    data["rating"][0] = 1.25
    found = run(data, scale_levels=None)
    assert broken(found) == set()
    assert not {"timestamp given", "timestamp type", "fold type", "rating a level of the scale"} & set(found)


@pytest.mark.parametrize("kind", ["integers", "text"])
@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()])
def test_great_expectations_counts_what_broken_rows_marks(kind: str, dtype: pa.DataType) -> None:
    rng = np.random.default_rng(7)
    n = 3000

    def dirty(values: list[Any]) -> list[Any]:
        return [None if u < 0.02 else value for u, value in zip(rng.random(n), values, strict=True)]

    made = {name: rng.integers(0, 100, n).tolist() for name in ("user", "item")}
    if kind == "text":
        made = {name: [f"{name} {code}" for code in codes] for name, codes in made.items()}
    ratings = dirty(rng.choice([1, 2, 3.5, 4, 5, 0.5, 7, NAN, INF, -INF], n).tolist())
    stamps = dirty(rng.choice([0, 1, 880_000_000, -1, 10**13], n).tolist())
    table = pa.table(
        {
            "user": pa.array(dirty(made["user"])),
            "item": pa.array(dirty(made["item"])),
            "rating": pa.array(ratings, dtype),
            "timestamp": pa.array(stamps),
        }
    )
    found = {
        result.rule: result for result in runner.run(rules.load("ratings"), table.schema, tables(table), PARAMETERS)
    }
    ours = {}
    for rule in rules.fill(rules.load("ratings"), PARAMETERS, table.column_names):
        if rule.table == "ratings" and rule.is_about_rows:
            marked = rules.broken_rows(rule, table)
            assert marked is not None
            ours[rule.name] = int(marked.sum())
            assert not found[rule.name].success
    assert min(ours.values()) > 0
    assert ours == {name: found[name].unexpected_count for name in ours}


def test_repeated_pairs_are_all_marked_and_incomplete_ones_not() -> None:
    table = pa.table({"user": [1, 1, 2, None, None, 1], "item": ["a", "a", "a", "a", "a", "b"]})
    rule = rules.Rule("pairs", "expect_compound_columns_to_be_unique", "t", {"column_list": ["user", "item"]})
    marked = rules.broken_rows(rule, table)
    assert marked is not None
    assert marked.tolist() == [True, True, False, False, False, False]


def test_64_bit_ids_are_told_apart_even_beside_a_missing_one() -> None:
    data = good()
    data["user"] = [2**53] * 4 + [2**53 + 1] * 4 + [2**53 + 2] * 4 + [None] * 4
    found = run(data, min_item_share=0.1)
    assert broken(found) == {"user given"}
