"""Checks canonical clicks against the contract; clicks that break it stop the flow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from predilect.data_contracts import rules, runner
from predilect.models.errors import DataError
from predilect.tasks.canonical_clicks import CLICKS, MANIFEST
from predilect.tasks.contract_check import CONTRACT, DATA_DOCS, broken_message, contract_draft, outcome_of, publish
from predilect.tasks.runs import read_json, write_json

Json = dict[str, Any]
ADVICE = {"clicks": "correct or drop the rows", "table": "give rows that were shown"}


def validate_clicks(folder: Path, out_dir: Path) -> tuple[Json, Json]:
    """Check the canonical folder; writes `contract.json` and `data_docs/`, returns the former and the manifest.

    Raises DataError when the contract is broken; both are written then too.
    """
    try:
        manifest, table = read_json(folder / MANIFEST), pq.read_table(folder / CLICKS)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{folder} is not a folder of canonical clicks ({error}); ingest the data again.") from error
    with contract_draft(out_dir) as draft:
        found = runner.run(rules.load("clicks"), table.schema, contract_tables(table), {}, docs=draft / DATA_DOCS)
        outcome = outcome_of(found, len(table))
        write_json(draft / CONTRACT, outcome)
        publish(draft, out_dir)
    broken = [rule for rule in found if not rule.success]
    if broken:
        raise DataError(broken_message(manifest["name"], len(table), broken, "clicks", ADVICE))
    return outcome, manifest


def contract_tables(clicks: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """What the contract speaks of, each made when it is asked for."""
    ids = {name: clicks[name] for name in ("user", "item", "group") if name in clicks.column_names}
    counts = {name: clicks[name].to_numpy().astype(np.float64) for name in ("impressions", "clicks")}
    with np.errstate(invalid="ignore"):
        off = sum(np.nan_to_num(np.abs(values - np.floor(values))) for values in counts.values())
        over = np.nan_to_num(counts["clicks"] - counts["impressions"], posinf=np.inf, neginf=-np.inf)
    given = {name: pa.array(values, from_pandas=True) for name, values in counts.items()}
    yield "clicks", pa.table(ids | given | {"fraction": off, "over": over})
    shown = float(np.nansum(counts["impressions"]))
    yield "table", pa.table({"impressions": [shown], "clicks": [float(np.nansum(counts["clicks"]))]})
