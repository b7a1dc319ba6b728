"""Runs side by side: the same metrics in the same rows, paired intervals where the test rows are the same."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from predilect.models.errors import ParameterError
from predilect.models.evaluation.bootstrap import Estimate, differences
from predilect.models.evaluation.metrics import row_totals
from predilect.models.ratings.scale import RatingScale
from predilect.tasks.formatting import in_order, interval, metric_of, plain_value, verdict
from predilect.tasks.report import page_of
from predilect.tasks.runs import RESULTS, mlflow_id, read_json
from predilect.tasks.settings import Settings

Json = dict[str, Any]
PREDICTIONS, TEMPLATE = "predictions.parquet", "compare.html.j2"
TOO_MANY = 12


def compare(folders: Sequence[Path]) -> Json:
    """The runs' facts, metrics and differing parameters; each run's metrics less the first run's, paired.

    `unpaired` says of each run why its intervals are not paired with the first's, None where they are. Raises
    ParameterError for fewer than two runs, too many, and a run that did not finish.
    """
    if not 2 <= len(folders) <= TOO_MANY or len(set(folders)) != len(folders):
        raise ParameterError(f"RUN: {len(set(folders))} different runs; give 2 to {TOO_MANY}.")
    for folder in folders:
        if not (folder / RESULTS).is_file():
            raise ParameterError(f"RUN = {folder.name!r}: it did not finish; choose runs that `predilect runs` lists.")
    found = [read_json(folder / RESULTS) for folder in folders]
    gaps: list[dict[str, Estimate]] = [{}]
    unpaired: list[str | None] = [None]
    for folder, results in zip(folders[1:], found[1:], strict=True):
        gap, why = _paired(folders[0], found[0], folder, results)
        gaps.append(gap)
        unpaired.append(why)
    return {
        "runs": [
            {
                "name": folder.name,
                "run_id": mlflow_id(folder),
                "family": results["run"]["family"],
                "created": results["run"].get("created"),
                "git": results["run"].get("git_revision"),
                "flow_run_id": results["run"].get("prefect_flow_run_id"),
                "mlflow_url": results["run"].get("mlflow_url"),
                "data": results["dataset"]["name"],
                "digest": results["dataset"]["digest"],
                "split": results["split"]["kind"],
                "metrics": results["metrics"],
                "unpaired": why,
                "differences": gap,
            }
            for folder, results, gap, why in zip(folders, found, gaps, unpaired, strict=True)
        ],
        "parameters": _differing([results["parameters"] for results in found]),
    }


def rows(facts: Json) -> list[Json]:
    """For tables, a row a metric: its name, each run's estimate, the difference from the first run and its verdict."""
    names = in_order(list(dict.fromkeys(name for run in facts["runs"] for name in run["metrics"])))
    made = []
    for name in names:
        metric = metric_of(name)
        cells = []
        for run in facts["runs"]:
            gap = run["differences"].get(name)
            cells.append(
                {
                    "value": interval(run["metrics"].get(name), metric.is_share) if run["metrics"].get(name) else "–",
                    "gap": interval(gap, metric.is_share, signed=True) if gap else "",
                    "verdict": verdict(name, gap),
                }
            )
        made.append({"label": metric.label, "better": metric.better, "cells": cells})
    return made


def write_page(facts: Json, settings: Settings) -> Path:
    """The side-by-side page, in the state folder, under the runs' names."""
    names = "|".join(run["name"] for run in facts["runs"])
    out = settings.state / "compare" / f"{hashlib.sha256(names.encode()).hexdigest()[:12]}.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.{os.getpid()}.part")
    draft.write_text(page_of(TEMPLATE, {**facts, "rows": rows(facts)}), encoding="utf-8")
    draft.replace(out)
    return out


def _paired(
    first: Path, first_results: Json, other: Path, other_results: Json
) -> tuple[dict[str, Estimate], str | None]:
    """The other's metrics less the first's on the same test rows, resampled together; or why that cannot be."""
    for folder in (first, other):
        if not (folder / PREDICTIONS).is_file() or "sd" not in pq.read_schema(folder / PREDICTIONS).names:
            return {}, f"{folder.name} keeps no predicted ratings of its test part"
    tables = [_sorted(pq.read_table(folder / PREDICTIONS)) for folder in (first, other)]
    same = len(tables[0]) == len(tables[1]) and all(
        tables[0][name].equals(tables[1][name]) for name in ("user", "item", "rating")
    )
    if not same:
        return {}, f"its test rows are not those of {first.name}: give both the same data, split and seed"
    scales = [RatingScale.from_facts(results["dataset"]["scale"]) for results in (first_results, other_results)]
    people, person = np.unique(tables[0]["user"].to_numpy(), return_inverse=True)
    totals = [
        row_totals(
            person,
            len(people),
            table["rating"].to_numpy(),
            table["mean"].to_numpy().astype(np.float64),
            table["sd"].to_numpy().astype(np.float64) ** 2,
            scale,
        )
        for table, scale in zip(tables, scales, strict=True)
    ]
    asked = first_results["parameters"]
    return differences(totals[1], totals[0], seed=asked["seed"], resamples=asked["resamples"]), None


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by([("user", "ascending"), ("item", "ascending")]).combine_chunks()


def _differing(parameters: Sequence[Json]) -> list[Json]:
    names = list(dict.fromkeys(name for each in parameters for name in each if name not in ("name", "data_dir")))
    return [
        {"name": name, "values": [plain_value(each.get(name, "–")) for each in parameters]}
        for name in names
        if len({str(each.get(name)) for each in parameters}) > 1
    ]
