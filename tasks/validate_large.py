"""Checks ratings that are in files against the ratings contract: a part at a time, and a sample for the page.

Every rule is exact: those on rows and values are counted over all parts, those on users and items over all of them,
and that no pair is rated twice was established when the orders were made. Great Expectations' own page shows a sample
of whole users.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.data_contracts import rules, runner, stream
from predilect.data_contracts.schemas import ratings_schema
from predilect.models.errors import DataError
from predilect.models.random import stream as random_stream
from predilect.tasks import progress
from predilect.tasks.contract_check import CONTRACT, DATA_DOCS, broken_message, contract_draft, outcome_of, publish
from predilect.tasks.ingest_large import ORDERS, open_parts
from predilect.tasks.order_files import part_path
from predilect.tasks.parameters_large import LargeRatingsParameters
from predilect.tasks.parts import SIDES, Parts
from predilect.tasks.runs import read_json, write_json
from predilect.tasks.validate import ADVICE, contract_values

SAMPLE_ROWS = 200_000
"""About how many ratings the sample has."""


def validate_large(folder: Path, out_dir: Path, parameters: LargeRatingsParameters) -> dict[str, Any]:
    """Check what `ingest_large` made; write `contract.json` and `data_docs/` into `out_dir`, and return the former.

    Raises DataError when the data break the contract.
    """
    manifest, parts = read_json(folder / "manifest.json"), open_parts(folder)
    counts = {side: np.diff(np.load(part_path(folder / ORDERS, f"by_{side}", "indptr"))) for side in SIDES}
    schema = ratings_schema(*(parts.names[side].type for side in SIDES), timestamp=parts.timed, fold=False)
    contract, values = rules.load("ratings"), contract_values(manifest, schema, parameters)
    asked = [rule for rule in rules.fill(contract, values, schema.names) if rule.table == "ratings"]
    exact = stream.count_broken(asked, _tables(parts, schema)) | stream.known_unique(asked, parts.n_rows)
    sample = _sample(parts, schema, counts["user"], parameters.seed)

    def tables() -> Iterator[tuple[str, pa.Table]]:
        yield "ratings", sample
        for side in SIDES:
            yield f"{side}s", pa.table({side: parts.names[side], "ratings": counts[side]})

    with contract_draft(out_dir) as draft:
        found = runner.run(contract, schema, tables(), values, docs=draft / DATA_DOCS, exact=exact)
        outcome = outcome_of(found, parts.n_rows)
        outcome["sample"] = {"rows": sample.num_rows, "of": "all ratings of users drawn at random, for the page"}
        write_json(draft / CONTRACT, outcome)
        publish(draft, out_dir)
    if broken := [rule for rule in found if not rule.success]:
        raise DataError(broken_message(manifest["name"], parts.n_rows, broken, "ratings", ADVICE))
    return outcome


def _tables(parts: Parts, schema: pa.Schema) -> Iterator[pa.Table]:
    """All ratings, a part at a time, with ids as dictionaries."""
    for number in range(len(parts.files)):
        progress.report("validate", number / len(parts.files))
        yield _table(parts, number, slice(None), schema)


def _sample(parts: Parts, schema: pa.Schema, counts: NDArray[np.int64], seed: int) -> pa.Table:
    """All ratings of some users."""
    order = random_stream(seed, "contract").permutation(len(counts))
    enough = int(np.searchsorted(np.cumsum(counts[order]), min(SAMPLE_ROWS, int(counts.sum())))) + 1
    chosen = np.zeros(len(counts), np.bool_)
    chosen[order[:enough]] = True
    tables = [
        _table(parts, number, np.flatnonzero(chosen[users]), schema)
        for number, users in enumerate(parts.column("user"))
    ]
    return pa.concat_tables(tables).cast(schema)


def _table(parts: Parts, number: int, rows: Any, schema: pa.Schema) -> pa.Table:
    part = parts.read(number)
    columns: dict[str, Any] = {
        side: pa.DictionaryArray.from_arrays(codes[rows], parts.names[side])
        for side, codes in zip(SIDES, (part.users, part.items), strict=True)
    }
    columns["rating"] = part.ratings[rows]
    if part.timestamps is not None:
        columns["timestamp"] = part.timestamps[rows]
    return pa.table({name: columns[name] for name in schema.names})
