"""Checks canonical ratings against the contract; rows that break it stop the flow or are set aside."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from predilect.data_contracts import rules, runner
from predilect.data_contracts.rules import Rule
from predilect.data_contracts.runner import RuleResult
from predilect.models.errors import DataError
from predilect.tasks.contract_check import CONTRACT, DATA_DOCS, broken_message, contract_draft, outcome_of, publish
from predilect.tasks.parameters import RatingsData, RatingsParameters
from predilect.tasks.quarantine import QUARANTINE, TABLE, set_aside
from predilect.tasks.runs import CLEAN, MANIFEST, read_json, write_json

Json = dict[str, Any]

CHECKED = ("user", "item", "rating", "timestamp")
ADVICE = {
    "ratings": "correct the rows, or choose quarantine=true to set them aside",
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
    values = contract_values(manifest, schema, parameters)

    def run(path: Path, docs: Path | None = None) -> list[RuleResult]:
        return runner.run(contract, schema, _tables(path, schema), values, docs=docs)

    with contract_draft(out_dir) as draft:
        found = run(table, draft / DATA_DOCS)
        broken = [rule for rule in found if not rule.success]
        outcome = outcome_of(found, pq.read_metadata(table).num_rows)
        result = ContractResult(outcome, ratings_folder, manifest)
        error: DataError | None = None
        of_rows = [rule for rule in rules.fill(contract, values, schema.names) if _breaks_rows(rule, broken)]
        if broken:
            try:
                if not (parameters.quarantine and of_rows):
                    raise DataError(broken_message(manifest["name"], outcome["rows"], broken, "ratings", ADVICE))
                facts = set_aside(ratings_folder, manifest, of_rows, parameters.max_quarantine_share, draft)
                cleaned, rest, _ = _read(draft / CLEAN)
                if remaining := [rule for rule in run(rest) if not rule.success]:
                    name = f"{manifest['name']}, {facts['rows']:,} rows set aside,"
                    raise DataError(broken_message(name, cleaned["rows"], remaining, "ratings", ADVICE))
                outcome |= {"quarantined": facts.pop("rows"), "quarantine": facts}
                result = ContractResult(outcome, out_dir / CLEAN, cleaned)
            except DataError as mistake:
                error = mistake
                shutil.rmtree(draft / CLEAN, ignore_errors=True)
                (draft / QUARANTINE).unlink(missing_ok=True)
        write_json(draft / CONTRACT, outcome)
        publish(draft, out_dir, (QUARANTINE, CLEAN))
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


def contract_values(manifest: Json, schema: pa.Schema, parameters: RatingsData) -> Json:
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
