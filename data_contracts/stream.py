"""The rules of a contract that can be counted, over a table that comes in parts: exact, however large it is."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from predilect.data_contracts.rules import Rule, broken_rows, sample
from predilect.data_contracts.runner import RuleResult

UNIQUE = "expect_compound_columns_to_be_unique"
"""The one rule on rows that needs the table as a whole."""
N_ROWS, N_VALUES = "expect_table_row_count_to_be_between", "expect_column_unique_value_count_to_be_between"
SHOWN = 5


def count_broken(rules: Sequence[Rule], parts: Iterable[pa.Table]) -> dict[str, RuleResult]:
    """The results of those `rules` of one table that can be counted, by name, from its parts.

    Numbers of distinct values are counted for columns of numbers.
    """
    counted = [rule for rule in rules if rule.is_about_rows and rule.expectation != UNIQUE]
    broken = {rule.name: 0 for rule in counted}
    shown: dict[str, list[dict[str, object]]] = {rule.name: [] for rule in counted}
    distinct = {rule.column: np.empty(0) for rule in rules if rule.expectation == N_VALUES}
    n_rows = 0
    for part in parts:
        for rule in counted:
            mask = broken_rows(rule, part)
            found = 0 if mask is None else int(np.count_nonzero(mask))
            broken[rule.name] += found
            if found and len(shown[rule.name]) < SHOWN:
                more = sample(rule, part, SHOWN - len(shown[rule.name]))
                shown[rule.name] += [{**record, "row": n_rows + record["row"]} for record in more]
        distinct = {
            column: np.union1d(values, part[column].drop_null().unique().to_numpy())
            for column, values in distinct.items()
        }
        n_rows += part.num_rows
    results = {}
    for rule in counted:
        count = broken[rule.name]
        results[rule.name] = _result(rule, count == 0, f"{count} of {n_rows}", count, n_rows, shown[rule.name])
    for rule in rules:
        if rule.expectation in (N_ROWS, N_VALUES):
            found = n_rows if rule.expectation == N_ROWS else len(distinct[rule.column])
            within = rule.kwargs.get("min_value", found) <= found <= rule.kwargs.get("max_value", found)
            results[rule.name] = _result(rule, within, found, 0, n_rows, [])
    return results


def known_unique(rules: Sequence[Rule], n_rows: int) -> dict[str, RuleResult]:
    """The results of rules of uniqueness over rows that are known, from elsewhere, to be unique."""
    return {rule.name: _result(rule, True, f"0 of {n_rows}", 0, n_rows, []) for rule in rules
            if rule.expectation == UNIQUE}  # fmt: skip


def _result(
    rule: Rule, success: bool, observed: object, count: int, n_rows: int, shown: Sequence[Mapping[str, object]]
) -> RuleResult:
    return RuleResult(
        rule.name,
        rule.expectation,
        rule.table,
        rule.column,
        rule.limits,
        success,
        observed,
        count,
        count / n_rows if n_rows else 0.0,
        [dict(record) for record in shown],
    )
