"""Checks canonical ratings against the contract; rows that break it stop the flow or are set aside."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from predilect.data_contracts import rules, runner
from predilect.data_contracts.rules import Rule
from predilect.data_contracts.runner import RuleResult
from predilect.models.errors import DataError
from predilect.tasks.output import cannot_write
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.quarantine import CLEAN, MANIFEST, QUARANTINE, TABLE, set_aside
from predilect.tasks.runs import read_json, write_json

Json = dict[str, Any]

CONTRACT, DATA_DOCS = "contract.json", "data_docs"
CHECKED = ("user", "item", "rating", "timestamp")
ADVICE = {
    "users": "bring more data, or lower min_user_ratings or min_user_share",
    "items": "bring more data, or lower min_item_ratings or min_item_share",
}


class ContractResult(NamedTuple):
    """contract: what `contract.json` holds. folder: the canonical ratings to go on with. manifest: theirs."""

    contract: Json
    folder: Path
    manifest: Json


def validate(ratings_folder: Path, out_dir: Path, parameters: RatingsParameters) -> ContractResult:
    """Check `ratings_folder` against the ratings contract; write `contract.json` and `data_docs/` into `out_dir`.

    When rows break it and `parameters.quarantine` is set, they go to `quarantine.parquet` with `row` (their number in
    the table, from 0) and `reason`, and the rest becomes a canonical folder `clean/`, checked like the first.
    `contract["success"]` says whether the data passed as they came.
    Raises DataError when the data break the contract and nothing may be set aside, when more than
    `max_quarantine_share` would be, or when the rest still breaks it: `contract.json` and `data_docs/` are then
    written, the other files not.
    """
    manifest, table, schema = _read(ratings_folder)
    contract = rules.load("ratings")
    values = _values(manifest, schema, parameters)

    def run(path: Path, docs: Path | None = None) -> list[RuleResult]:
        return runner.run(contract, schema, _tables(path, schema), values, docs=docs)

    with _draft(out_dir) as draft:
        found = run(table, draft / DATA_DOCS)
        broken = [rule for rule in found if not rule.success]
        outcome: Json = {
            "success": not broken,
            "rows": pq.read_metadata(table).num_rows,
            "rules": [asdict(rule) for rule in found],
            "quarantined": 0,
            "quarantine": None,
            "data_docs": f"{DATA_DOCS}/index.html",
        }
        result = ContractResult(outcome, ratings_folder, manifest)
        error: DataError | None = None
        of_rows = [rule for rule in rules.fill(contract, values, schema.names) if _breaks_rows(rule, broken)]
        if broken:
            try:
                if not (parameters.quarantine and of_rows):
                    raise DataError(_message(manifest["name"], outcome["rows"], broken))
                facts = set_aside(ratings_folder, manifest, of_rows, parameters.max_quarantine_share, draft)
                cleaned, rest, _ = _read(draft / CLEAN)
                if remaining := [rule for rule in run(rest) if not rule.success]:
                    name = f"{manifest['name']}, {facts['rows']:,} rows set aside,"
                    raise DataError(_message(name, cleaned["rows"], remaining))
                outcome |= {"quarantined": facts.pop("rows"), "quarantine": facts}
                result = ContractResult(outcome, out_dir / CLEAN, cleaned)
            except DataError as mistake:
                error = mistake
                shutil.rmtree(draft / CLEAN, ignore_errors=True)
                (draft / QUARANTINE).unlink(missing_ok=True)
        write_json(draft / CONTRACT, outcome)
        _publish(draft, out_dir)
    if error is not None:
        raise error
    return result


def _read(folder: Path) -> tuple[Json, Path, pa.Schema]:
    """The manifest, the table's path and its types."""
    table = folder / TABLE
    try:
        return read_json(folder / MANIFEST), table, pq.read_schema(table)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{folder} is not a folder of canonical ratings ({error}); ingest the data again.") from error


def _values(manifest: Json, schema: pa.Schema, parameters: RatingsParameters) -> Json:
    """The parameters of the contract; None where a rule is not asked."""
    scale = manifest["scale"]
    # A level of 0.1 is another number in float32: compare as stored.
    stored = np.float32 if "rating" in schema.names and schema.field("rating").type == pa.float32() else np.float64
    levels = scale["levels"]
    return {
        "scale_low": float(stored(scale["low"])),
        "scale_high": float(stored(scale["high"])),
        "scale_levels": None if levels is None else [float(stored(level)) for level in levels],
        "min_user_ratings": parameters.min_user_ratings,
        "min_user_share": parameters.min_user_share or None,
        "min_item_ratings": parameters.min_item_ratings,
        "min_item_share": parameters.min_item_share or None,
    }


def _tables(path: Path, schema: pa.Schema) -> Iterator[tuple[str, pa.Table]]:
    """What the contract speaks of, each made when it is asked for."""
    ratings = pq.read_table(path, columns=[name for name in CHECKED if name in schema.names])
    yield "ratings", ratings
    for column in ("user", "item"):
        yield f"{column}s", rules.count_by(ratings, column, "ratings")


def _breaks_rows(rule: Rule, broken: Sequence[RuleResult]) -> bool:
    """Whether the rule is among the broken ones and says which ratings break it."""
    return rule.table == "ratings" and rule.is_about_rows and rule.name in {result.rule for result in broken}


def _message(name: str, rows: int, broken: Sequence[RuleResult]) -> str:
    """One sentence that names each broken expectation, how often, a few rows, and what to do."""
    advice = {
        ADVICE.get(rule.table, "correct the data") for rule in broken if not rule.sample_rows or rule.table in ADVICE
    }
    if any(rule.sample_rows and rule.table == "ratings" for rule in broken):
        advice.add("correct the rows, or choose quarantine=true to set them aside")
    parts = "; ".join(_finding(rule, rows) for rule in broken)
    return f"{name} breaks the data contract: {parts}; {', and '.join(sorted(advice))}."


def _finding(rule: RuleResult, rows: int) -> str:
    said = f"“{rule.rule}” ({rule.expectation}{_limits(rule.limits)})"
    if not rule.sample_rows:
        return f"{said}: found {rule.observed}"
    shown = ", ".join(_record(record) for record in rule.sample_rows[:3])
    of = f"{rows:,} rows" if rule.table == "ratings" else f"{rule.observed.split()[-1]} {rule.table}"
    return f"{said} fails for {rule.unexpected_count:,} of {of}, such as {shown}"


def _record(record: Json) -> str:
    """A row for people: "row 17 (user 5, item 9, rating 7.0)"."""
    values = ", ".join(f"{name} {'missing' if x is None else x}" for name, x in record.items() if name != "row")
    return f"row {record['row']} ({values})" if "row" in record else values


def _limits(limits: Json) -> str:
    """What an expectation allows, for people."""
    low, high = limits.get("min_value"), limits.get("max_value")
    said = ""
    if low is not None and high is not None:
        said = f", {low} to {high}"
    elif low is not None or high is not None:
        said = f", at least {low}" if low is not None else f", at most {high}"
    if "value_set" in limits:
        values = [str(value) for value in limits["value_set"]]
        said = f", one of {', '.join(values[:10])}{', …' if len(values) > 10 else ''}"
    return said + (f" for {limits['mostly']:.0%} or more" if "mostly" in limits else "")


@contextmanager
def _draft(out_dir: Path) -> Iterator[Path]:
    """A folder inside `out_dir` to write into, gone afterwards; an OSError becomes a DataError that names `out_dir`."""
    draft = out_dir / f".contract.{os.getpid()}.part"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        yield draft
    except OSError as error:
        raise cannot_write(out_dir, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _publish(draft: Path, out_dir: Path) -> None:
    """Replace what an earlier run left by the draft; `contract.json` goes first and comes last."""
    (out_dir / CONTRACT).unlink(missing_ok=True)
    (out_dir / QUARANTINE).unlink(missing_ok=True)
    for folder in (DATA_DOCS, CLEAN):
        shutil.rmtree(out_dir / folder, ignore_errors=True)
    for name in (DATA_DOCS, QUARANTINE, CLEAN, CONTRACT):
        if (draft / name).exists():
            (draft / name).rename(out_dir / name)
