"""What validation of every family shares: its outcome as JSON, its one sentence, and files that appear all at once."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from predilect.data_contracts.runner import RuleResult
from predilect.tasks.output import cannot_write

Json = dict[str, Any]

CONTRACT, DATA_DOCS = "contract.json", "data_docs"


def outcome_of(found: Sequence[RuleResult], rows: int) -> Json:
    """What `contract.json` holds when nothing is set aside."""
    return {
        "success": all(rule.success for rule in found),
        "rows": rows,
        "rules": [asdict(rule) for rule in found],
        "quarantined": 0,
        "quarantine": None,
        "data_docs": f"{DATA_DOCS}/index.html",
    }


def broken_message(name: str, rows: int, broken: Sequence[RuleResult], main: str, advice: Mapping[str, str]) -> str:
    """One sentence that names each broken expectation, how often, a few rows, and what to do.

    main: the table that has `rows` rows. advice: what to do, by table; that of `main` is for rules on its rows.
    """
    said = {
        advice[rule.table] if rule.table in advice and (rule.sample_rows or rule.table != main) else "correct the data"
        for rule in broken
    }
    parts = "; ".join(_finding(rule, rows, main) for rule in broken)
    return f"{name} breaks the data contract: {parts}; {', and '.join(sorted(said))}."


def _finding(rule: RuleResult, rows: int, main: str) -> str:
    said = f"“{rule.rule}” ({rule.expectation}{_limits(rule.limits)})"
    if not rule.sample_rows:
        return f"{said}: found {rule.observed}"
    shown = ", ".join(_record(record) for record in rule.sample_rows[:3])
    of = f"{rows:,} rows" if rule.table == main else f"{rule.observed.split()[-1]} {rule.table}"
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
def contract_draft(out_dir: Path) -> Iterator[Path]:
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


def publish(draft: Path, out_dir: Path, others: Sequence[str] = ()) -> None:
    """Replace what an earlier run left by the draft; `contract.json` goes first and comes last.

    others: names of files and folders beside `contract.json` and `data_docs/`.
    """
    (out_dir / CONTRACT).unlink(missing_ok=True)
    for name in (DATA_DOCS, *others):
        if (out_dir / name).is_dir():
            shutil.rmtree(out_dir / name, ignore_errors=True)
        else:
            (out_dir / name).unlink(missing_ok=True)
    for name in (DATA_DOCS, *others, CONTRACT):
        if (draft / name).exists():
            (draft / name).rename(out_dir / name)
