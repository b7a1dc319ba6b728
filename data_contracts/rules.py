"""The rules of a contract: read from its JSON, filled with parameters, and which rows break them."""

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

FOLDER = Path(__file__).parent


class ContractError(Exception):
    """The contract itself cannot be run: a parameter is missing, an expectation is unknown or failed to compute."""


@dataclass(frozen=True)
class Rule:
    """One expectation with its parameters filled in.

    name: short, unique in the contract. expectation: the type in Great Expectations. table: the table it is about.
    kwargs: as Great Expectations takes them.
    """

    name: str
    expectation: str
    table: str
    kwargs: Mapping[str, Any]

    @property
    def column(self) -> str | None:
        """The column or columns it is about, None for the table as a whole."""
        columns = self.kwargs.get("column") or self.kwargs.get("column_list")
        return ", ".join(columns) if isinstance(columns, list) else columns

    @property
    def is_about_rows(self) -> bool:
        """Whether single rows break it, so that `broken_rows` knows which."""
        return self.expectation in ROW_CHECKS

    @property
    def limits(self) -> dict[str, Any]:
        """The keyword arguments that say what is allowed."""
        return {
            name: self.kwargs[name] for name in ("min_value", "max_value", "value_set", "mostly") if name in self.kwargs
        }


def load(family: str) -> dict[str, Any]:
    """The contract of a family ("ratings", …): what `ExpectationSuite(**contract)` takes, without any id."""
    contract: dict[str, Any] = json.loads((FOLDER / f"{family}.json").read_text(encoding="utf-8"))
    return contract


def fill(contract: Mapping[str, Any], parameters: Mapping[str, Any], columns: Collection[str]) -> list[Rule]:
    """The rules to ask of a table with `columns`: optional columns that are absent and parameters of None drop theirs.

    Raises ContractError when a parameter is not given or two rules share a name.
    """
    rules = []
    for entry in contract["expectations"]:
        kwargs, meta = dict(entry["kwargs"]), entry["meta"]
        if meta.get("optional") and kwargs["column"] not in columns:
            continue
        for key, value in kwargs.items():
            if isinstance(value, dict):
                name = value["$PARAMETER"]
                if name not in parameters:
                    raise ContractError(f"the {contract['name']} contract needs the parameter {name}")
                kwargs[key] = parameters[name]
        if None not in kwargs.values():
            rules.append(Rule(meta["rule"], entry["type"], meta["table"], kwargs))
    if len({rule.name for rule in rules}) < len(rules):
        raise ContractError(f"two rules of the {contract['name']} contract have the same name")
    return rules


def broken_rows(rule: Rule, table: pa.Table) -> NDArray[np.bool_] | None:
    """Which rows of `table` break `rule` (N,); None when it is a rule about the table as a whole.

    Counts what Great Expectations counts: a null or NaN breaks only the rule that forbids nulls, and every row of a
    repeated combination breaks uniqueness.
    """
    check = ROW_CHECKS.get(rule.expectation)
    return None if check is None else check(rule.kwargs, table)


def _null(kwargs: Mapping[str, Any], table: pa.Table) -> NDArray[np.bool_]:
    return _mask(pc.is_null(table[kwargs["column"]], nan_is_null=True))


def _outside(kwargs: Mapping[str, Any], table: pa.Table) -> NDArray[np.bool_]:
    column = table[kwargs["column"]]
    outside = np.zeros(len(table), bool)
    if "min_value" in kwargs:
        outside |= _mask(pc.less(column, kwargs["min_value"]))
    if "max_value" in kwargs:
        outside |= _mask(pc.greater(column, kwargs["max_value"]))
    return outside


def _not_in_set(kwargs: Mapping[str, Any], table: pa.Table) -> NDArray[np.bool_]:
    column = table[kwargs["column"]]
    allowed = pc.is_in(column, value_set=pa.array(kwargs["value_set"], column.type))
    return ~_mask(allowed) & ~_null(kwargs, table)


def _repeated(kwargs: Mapping[str, Any], table: pa.Table) -> NDArray[np.bool_]:
    complete = np.ones(len(table), bool)
    key = np.zeros(len(table), np.int64)
    for name in kwargs["column_list"]:
        complete &= ~_mask(pc.is_null(table[name]))
        encoded = table[name].dictionary_encode().combine_chunks()
        key = key * max(len(encoded.dictionary), 1) + encoded.indices.fill_null(0).to_numpy()
    rows = np.flatnonzero(complete)
    rows = rows[np.argsort(key[rows], kind="stable")]
    same = key[rows[1:]] == key[rows[:-1]]
    repeated = np.zeros(len(table), bool)
    repeated[rows[1:][same]] = True
    repeated[rows[:-1][same]] = True
    return repeated


def _mask(values: pa.ChunkedArray | pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = pc.fill_null(values, False).to_numpy()
    return mask


ROW_CHECKS: dict[str, Callable[[Mapping[str, Any], pa.Table], NDArray[np.bool_]]] = {
    "expect_column_values_to_not_be_null": _null,
    "expect_column_values_to_be_between": _outside,
    "expect_column_values_to_be_in_set": _not_in_set,
    "expect_compound_columns_to_be_unique": _repeated,
}


def count_by(table: pa.Table, column: str, counted: str) -> pa.Table:
    """One row for each value of `column` (nulls left out) with its number of rows as `counted`."""
    given = table.select([column]).filter(pc.is_valid(table[column]))
    counts = given.group_by(column).aggregate([([], "count_all")])
    return counts.rename_columns([column, counted])


def types_of(schema: pa.Schema) -> pa.Table:
    """One row that holds the Arrow type of each column by name; of a dictionary, the type of its values."""
    types = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema]
    return pa.table({name: [str(kind)] for name, kind in zip(schema.names, types, strict=True)})


def sample(rule: Rule, table: pa.Table, n: int = 5, *, numbered: bool = True) -> list[dict[str, Any]]:
    """The first `n` rows that break a rule on rows; none for other rules.

    numbered: with `row`, their number in the table from 0. NaN and infinity are given as text, for JSON.
    """
    broken = broken_rows(rule, table)
    if broken is None:
        return []
    rows = np.flatnonzero(broken)[:n]
    records = []
    for row, record in zip(rows, table.take(pa.array(rows)).to_pylist(), strict=True):
        shown = {name: str(x) if isinstance(x, float) and not math.isfinite(x) else x for name, x in record.items()}
        records.append({"row": int(row), **shown} if numbered else shown)
    return records
