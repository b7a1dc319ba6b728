"""Checks canonical rankings against the contract; rankings that break it stop the flow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from predilect.data_contracts import rules, runner
from predilect.models.errors import DataError
from predilect.models.ids import UNKNOWN, IdMap
from predilect.tasks.canonical_ballots import BALLOTS, ITEMS, MANIFEST, codes_of
from predilect.tasks.contract_check import CONTRACT, DATA_DOCS, broken_message, contract_draft, outcome_of, publish
from predilect.tasks.parameters_rankings import RankingsParameters
from predilect.tasks.runs import read_json, write_json

Json = dict[str, Any]
ADVICE = {"items": "bring more ballots, or lower min_item_ballots or min_item_share"}
SHOWN = 12  # items of a ballot that a message shows


def validate_rankings(folder: Path, out_dir: Path, parameters: RankingsParameters) -> tuple[Json, Json]:
    """Check the canonical folder; writes `contract.json` and `data_docs/`, returns the former and the manifest.

    Raises DataError when the contract is broken; both are written then too.
    """
    try:
        manifest = read_json(folder / MANIFEST)
        ballots, items = pq.read_table(folder / BALLOTS), pq.read_table(folder / ITEMS)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f"{folder} is not a folder of canonical rankings ({error}); ingest the data again.") from error
    values = {
        "min_item_ballots": parameters.min_item_ballots,
        "min_item_share": parameters.min_item_share or None,
    }
    with contract_draft(out_dir) as draft:
        tables = contract_tables(ballots, items)
        found = runner.run(rules.load("rankings"), ballots.schema, tables, values, docs=draft / DATA_DOCS)
        outcome = outcome_of(found, len(ballots))
        write_json(draft / CONTRACT, outcome)
        publish(draft, out_dir)
    broken = [rule for rule in found if not rule.success]
    if broken:
        raise DataError(broken_message(manifest["name"], len(ballots), broken, "rankings", ADVICE))
    return outcome, manifest


def contract_tables(ballots: pa.Table, items: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """What the contract speaks of, each made when it is asked for."""
    column = items["item"].combine_chunks()
    ids = IdMap(np.unique(column.drop_null().to_numpy(zero_copy_only=False)))
    lists = ballots["items"].combine_chunks()
    codes, offsets = codes_of(lists.fill_null([]) if lists.null_count else lists, ids)
    lengths = np.diff(offsets)
    row, known = np.repeat(np.arange(len(lengths)), lengths), codes != UNKNOWN
    # Every item of every ballot once, as (ballot, item).
    ballot, item = np.divmod(np.unique(row[known] * len(ids) + codes[known]), max(len(ids), 1))
    unknown = np.bincount(row[~known], minlength=len(lengths))
    text = pc.list_slice(lists, 0, SHOWN).cast(pa.list_(pa.string()))
    table = {
        "items": pc.binary_join(text, " > "),
        "length": lengths,
        "repeated": lengths - np.bincount(ballot, minlength=len(lengths)) - unknown,
        "unknown": unknown,
        "count": ballots["count"],
        "weight": ballots["weight"],
    }
    yield "rankings", pa.table(table)
    counts = ballots["count"].fill_null(0).to_numpy()
    on = np.append(np.bincount(item, counts[ballot], len(ids)), 0).astype(np.int64)
    place = np.full(len(column), len(ids))
    place[column.is_valid().to_numpy(zero_copy_only=False)] = ids.encode(
        column.drop_null().to_numpy(zero_copy_only=False)
    )
    listed = np.bincount(place, minlength=len(ids) + 1)[place]
    yield "items", pa.table({"item": column, "name": items["name"], "listed": listed, "ballots": on[place]})
