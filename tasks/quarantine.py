"""Splits canonical ratings into the rows that keep the contract and those set aside, each with its reasons."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.data_contracts.rules import Rule, broken_rows
from predilect.models.errors import DataError
from predilect.tasks.canonical import CanonicalRatings, Coded
from predilect.tasks.runs import CLEAN, MANIFEST

Json = dict[str, Any]

TABLE = "ratings.parquet"
QUARANTINE = "quarantine.parquet"


def set_aside(ratings_folder: Path, manifest: Json, broken: Sequence[Rule], max_share: float, out_dir: Path) -> Json:
    """Write the rows that break a rule to `out_dir/quarantine.parquet` and the others to `out_dir/clean/`.

    broken: the rules on rows that do not hold. Returns rows and share set aside, reasons (how many rows break each
    rule; a row that breaks several counts under each) and the file's name.
    Raises DataError, and writes nothing, when more than `max_share` of the rows or all of them would be set aside.
    """
    table = pq.read_table(ratings_folder / TABLE)
    masks = {rule.name: mask for rule in broken if (mask := broken_rows(rule, table)) is not None}
    aside = np.zeros(len(table), bool)
    for mask in masks.values():
        aside |= mask
    n_aside, share = int(aside.sum()), float(aside.mean())
    reasons = {name: int(mask.sum()) for name, mask in masks.items()}
    said = ", ".join(f"“{name}” {count:,}" for name, count in reasons.items())
    if share > max_share or n_aside == len(table):
        raise DataError(
            f"{manifest['name']}: {n_aside:,} of {len(table):,} rows ({share:.2%}) break the data contract ({said}), "
            + (f"more than max_quarantine_share = {max_share} lets aside" if share > max_share else "so none is left")
            + "; correct the data"
            + (" or raise max_quarantine_share." if n_aside < len(table) else ".")
        )
    rows = np.flatnonzero(aside)
    why = ["; ".join(name for name, mask in masks.items() if mask[row]) for row in rows]
    left = table.take(pa.array(rows)).append_column("row", pa.array(rows)).append_column("reason", pa.array(why))
    pq.write_table(left, out_dir / QUARANTINE)
    facts = {"rows": n_aside, "share": share, "reasons": reasons, "file": QUARANTINE}
    kept = _canonical(table.filter(pa.array(~aside)))
    (out_dir / CLEAN).mkdir()
    kept.write(out_dir / CLEAN / TABLE)
    cleaned = _manifest(manifest, kept, facts, said)
    (out_dir / CLEAN / MANIFEST).write_text(json.dumps(cleaned, indent=2, ensure_ascii=False), encoding="utf-8")
    return facts


def _canonical(table: pa.Table) -> CanonicalRatings:
    columns = table.column_names
    return CanonicalRatings(
        users=Coded.of(table["user"], infer_integers=False),
        items=Coded.of(table["item"], infer_integers=False),
        ratings=table["rating"].to_numpy().astype(np.float64),
        timestamps=table["timestamp"].to_numpy() if "timestamp" in columns else None,
        folds=Coded.of(table["fold"], infer_integers=False) if "fold" in columns else None,
    )


def _manifest(manifest: Mapping[str, Any], kept: CanonicalRatings, facts: Json, said: str) -> Json:
    """The manifest of the rows kept; what was set aside is among those left out, and warned of."""
    times: NDArray[np.int64] | None = kept.timestamps
    earlier = manifest.get("left_out") or {"count": 0, "reason": ""}
    reason = f"set aside by the data contract: {said}"
    return {
        **manifest,
        "digest": kept.digest(),
        "rows": len(kept),
        "n_users": len(kept.users.names),
        "n_items": len(kept.items.names),
        "time_span": None if times is None else [int(times.min()), int(times.max())],
        "folds": None if kept.folds is None else kept.folds.names.to_pylist(),
        "left_out": {
            "count": earlier["count"] + facts["rows"],
            "reason": "; ".join(filter(None, (earlier["reason"], reason))),
        },
        "warnings": [*manifest.get("warnings", []), f"{facts['rows']:,} rows were {reason}; see {QUARANTINE}."],
    }
