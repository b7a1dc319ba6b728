"""Runs a contract with Great Expectations: nothing of its own is kept on disk, no progress bars, no network."""

import gc
import itertools
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from predilect.data_contracts.data_docs import write_data_docs
from predilect.data_contracts.rules import ContractError, Rule, fill, sample, types_of

TYPES, EXISTS = "types", "expect_column_to_exist"
_one_at_a_time = threading.Lock()  # the context of Great Expectations is global to the process


@dataclass(frozen=True)
class RuleResult:
    """What one rule found.

    rule: its name; expectation, table, column, limits: what was asked. observed: the value found, or "3 of 1000" for a
    rule on rows. unexpected_count, unexpected_share: rows that break it, 0 for a rule about a whole table.
    sample_rows: a few of them; with `row`, the number from 0, when they are of the table named as the contract.
    """

    rule: str
    expectation: str
    table: str
    column: str | None
    limits: dict[str, Any]
    success: bool
    observed: Any
    unexpected_count: int = 0
    unexpected_share: float = 0.0
    sample_rows: list[dict[str, Any]] = field(default_factory=list)


def load() -> None:
    """Load Great Expectations, which takes seconds; else the first `run` does."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations  # noqa: F401


def run(
    contract: Mapping[str, Any],
    schema: pa.Schema,
    tables: Iterable[tuple[str, pa.Table]],
    parameters: Mapping[str, Any],
    *,
    docs: Path | None = None,
    exact: Mapping[str, RuleResult] | None = None,
) -> list[RuleResult]:
    """Ask every rule of `contract` and return one result each, in the contract's order.

    schema: the types to check. They come first, and when one is wrong the other rules would mean nothing: they are not
    asked, and `tables` is not read. tables: (name as in the contract's `meta.table`, table) pairs, taken one at a time.
    parameters: values of the contract's $PARAMETERs; None drops the rules that use it. docs: a new folder for the Data
    Docs page, `index.html`. exact: results known otherwise, by rule, where a table is a sample; they count instead.
    Raises ContractError when a rule cannot be run.
    """
    with _one_at_a_time:
        rules = fill(contract, parameters, schema.names)
        results, pages = _ask(rules, str(contract["name"]), schema, tables)
        results |= {name: result for name, result in (exact or {}).items() if name in results}
        ordered = [results[rule.name] for rule in rules if rule.name in results]
        if docs is not None:
            write_data_docs(docs, str(contract["name"]), [asdict(result) for result in ordered], pages)
        # The global context holds the tables until another takes its place, and then they are in reference cycles.
        del pages
        _new_context()
        gc.collect()
    return ordered


def _ask(
    rules: Sequence[Rule], main: str, schema: pa.Schema, tables: Iterable[tuple[str, pa.Table]]
) -> tuple[dict[str, RuleResult], list[tuple[str, Any]]]:
    """The results by rule, and what Great Expectations found in each table. main: the table whose rows are numbered."""
    context = _new_context()
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_pandas("tables")
    results: dict[str, RuleResult] = {}
    pages: list[tuple[str, Any]] = []
    for name, table in itertools.chain([(TYPES, types_of(schema))], tables):
        asked = [rule for rule in rules if rule.table == name]
        if name == TYPES:  # the type of a missing column cannot be asked for
            asked = [rule for rule in asked if rule.expectation == EXISTS or rule.kwargs["column"] in schema.names]
        page = _validate(source, name, table, asked)
        pages.append((name, page))
        found = {result.expectation_config.meta["rule"]: result for result in page.results}
        results |= {rule.name: _result(rule, table, found[rule.name], numbered=name == main) for rule in asked}
        if name == TYPES and not all(result.success for result in results.values()):
            return results, pages
    if unasked := [rule.name for rule in rules if rule.name not in results]:
        raise ContractError(f"no table was given for these rules of the contract: {', '.join(unasked)}")
    return results, pages


def _new_context() -> Any:
    """A context of Great Expectations that lives in memory and takes the place of the one before."""
    load()
    import great_expectations as gx

    # Errors are raised here; and the import has given some of its loggers a level of their own.
    for name in ("great_expectations", "great_expectations.data_context.types.base"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return gx.get_context(mode="ephemeral")


def _validate(source: Any, name: str, table: pa.Table, rules: Sequence[Rule]) -> Any:
    """The validation result of Great Expectations for one table."""
    import great_expectations as gx
    import pandas as pd

    # Nullable integers: 64-bit ids must not turn into floats because one of them is missing.
    frame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    suite = gx.ExpectationSuite(name=name, expectations=[_expectation(rule) for rule in rules])
    batch = (
        source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    )
    # Samples come from `broken_rows`, with their row numbers; GX would put them into its page unescaped.
    return batch.validate(suite, result_format={"result_format": "SUMMARY", "partial_unexpected_count": 0})


def _expectation(rule: Rule) -> Any:
    import great_expectations as gx

    entry = {"type": rule.expectation, "kwargs": dict(rule.kwargs), "meta": {"rule": rule.name}}
    try:
        made = gx.ExpectationSuite(name="one", expectations=[entry]).expectations
    except ValueError as error:  # pydantic's
        raise ContractError(f"Great Expectations does not accept the rule “{rule.name}”: {error}") from error
    if not made:  # GX drops what it does not know
        raise ContractError(f"Great Expectations does not know the expectation {rule.expectation} of “{rule.name}”")
    return made[0]


def _result(rule: Rule, table: pa.Table, found: Any, *, numbered: bool) -> RuleResult:
    failure = found.exception_info
    if failure.get("raised_exception", True):  # without that key it holds one such entry a metric
        first = failure if "exception_message" in failure else next(iter(failure.values()))
        raise ContractError(f"the rule “{rule.name}” cannot be computed: {first['exception_message']}")
    count, rows = int(found.result.get("unexpected_count", 0)), int(found.result.get("element_count", 0))
    if rule.table == TYPES:
        observed = table[rule.column][0].as_py() if rule.column in table.column_names else "absent"
        return RuleResult(rule.name, rule.expectation, TYPES, rule.column, rule.limits, bool(found.success), observed)
    return RuleResult(
        rule.name,
        rule.expectation,
        rule.table,
        rule.column,
        rule.limits,
        bool(found.success),
        found.result.get("observed_value", f"{count} of {rows}"),
        count,
        count / rows if rows else 0.0,
        [] if found.success else sample(rule, table, numbered=numbered),
    )
