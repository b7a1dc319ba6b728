"""Runs side by side: the same metrics in the same rows, paired intervals where the test rows are the same."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.models.errors import ParameterError
from predilect.models.evaluation.bootstrap import Estimate, resample
from predilect.tasks.clicks_metrics import RowScores, TestRows, gaps, measure
from predilect.tasks.formatting import in_order, interval, metric_of, plain_value, verdict
from predilect.tasks.report import page_of
from predilect.tasks.runs import RESULTS, mlflow_id, read_json
from predilect.tasks.settings import Settings
from predilect.tasks.unit_totals import TOTALS, read_totals

Json = dict[str, Any]
Draw = Callable[[int, int], tuple[dict[str, float], dict[str, NDArray[np.float64]]]]
Scored = tuple[list[NDArray[Any]], Draw]
"""What tells the held-out rows of a run from others; and of a seed and a number of resamples, each metric's value and
that in every resample."""
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
    family, others = (results["run"]["family"] for results in (first_results, other_results))
    if family != others:
        return {}, f"it is a run on {others}, {first.name} one on {family}"
    scored = []
    for folder in (first, other):
        found = _scored_rows(folder) if family == "clicks" else _scored_units(folder)
        if found is None:
            return {}, f"{folder.name} keeps no scores of held-out rows; train it again, with rows held out"
        scored.append(found)
    (rows, draw), (other_rows, other_draw) = scored
    if len(rows) != len(other_rows) or not all(map(np.array_equal, rows, other_rows)):
        return {}, _why(first, first_results, other_results)
    asked = first_results["parameters"]
    drawn = asked["seed"], asked["resamples"]
    return gaps(*other_draw(*drawn), *draw(*drawn)), None


def _scored_units(run: Path) -> Scored | None:
    """The scores of a run by user or ballot; None when it keeps none."""
    if not (run / TOTALS).is_file():
        return None
    units, totals, rows = read_totals(run)
    return [units, np.array(rows)], lambda seed, resamples: resample(totals, seed=seed, resamples=resamples)


def _scored_rows(run: Path) -> Scored | None:
    """The scores of a run on clicks, row by row, as AUC needs them; None when it keeps none."""
    if not (run / PREDICTIONS).is_file():
        return None
    table = pq.read_table(run / PREDICTIONS)
    if "unit" not in table.column_names:
        return None
    column = {name: table[name].to_numpy() for name in table.column_names}
    shown, clicks = (column[name].astype(np.float64) for name in ("impressions", "clicks"))
    intervals = np.stack([column["clicks_low"], column["clicks_high"]], axis=1)
    scores = RowScores.of(column["log_likelihood"], column["mean"], intervals, shown, clicks)
    names = [name for name in ("row", "unit", "impressions", "clicks", "user", "item", "group") if name in column]
    return [column[name] for name in names], lambda seed, resamples: measure(
        scores, TestRows(shown, clicks, column["reward"], column["unit"], "", seed, resamples)
    )


def _why(first: Path, first_results: Json, other_results: Json) -> str:
    """Why the test rows are not the same."""
    found = []
    for results in (first_results, other_results):
        data, asked = results["dataset"], results["parameters"]
        found.append(
            {
                "data": f"{data['name']} ({data['digest'][:12]})",
                "split": results["split"]["kind"],
                "seed": asked["seed"],
                "menu": asked.get("menu"),
                "group": asked.get("group"),
            }
        )
    said = [
        f"its {name} is {found[1][name]}, not {value}" for name, value in found[0].items() if found[1][name] != value
    ]
    return f"its test rows are not those of {first.name}" + (f": {', '.join(said)}" if said else "")


def _differing(parameters: Sequence[Json]) -> list[Json]:
    names = list(dict.fromkeys(name for each in parameters for name in each if name not in ("name", "data_dir")))
    return [
        {"name": name, "values": [plain_value(each.get(name, "–")) for each in parameters]}
        for name in names
        if len({str(each.get(name)) for each in parameters}) > 1
    ]
