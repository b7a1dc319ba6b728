"""The comparison of the clicks paper on any data: all models under all scores, five resamples by group, paired gaps."""

import csv
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from predilect.tasks.canonical_clicks import ClicksTable
from predilect.tasks.clicks_evaluate import judge, score_areas, scored_rows, test_rows
from predilect.tasks.clicks_fit import Parts, fit_model
from predilect.tasks.clicks_metrics import FOLDS, estimates, gaps, measure
from predilect.tasks.compute import Workers, spread_on, workers_of
from predilect.tasks.parameters_clicks import NO_CONTEXT, ClicksParameters, GroupEffectName
from predilect.tasks.parameters_reproduce_clicks import ReproduceClicksParameters
from predilect.tasks.ratings_reproduce import Cell, Cells
from predilect.tasks.runs import write_json
from predilect.tasks.search_journal import journal_for
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import Tracker

Json = dict[str, Any]
VERSION = 1
"""Raised when the same cell gives other figures: cells of older journals are then not reused."""
NOT_DECIDING = {"models", "group_effects", "name", "threads", "compute", "scheduler", "workers", "data", "data_dir"}


def study_clicks(dataset: Path, run: Path, parameters: ReproduceClicksParameters) -> Json:
    """Fit and judge every model with every group effect; its `rows`, a row a cell, and how many cells were resumed.

    What is finished is kept in a journal, so the same study started again goes on from there. Cells are child runs in
    MLflow. Also in `comparison.csv`, and `study.json` with the resamples.
    """
    table, parts = ClicksTable.read(dataset), Parts.read(run)
    effects = parameters.group_effects if table.groups is not None else [GroupEffectName.none]
    decides = ["reproduce-clicks", VERSION, table.manifest["digest"]]
    decides.append(parameters.model_dump(mode="json", exclude=NOT_DECIDING))
    cells = Cells(journal_for(Settings(), decides), 1)  # a fit uses all threads itself
    n_before = len(cells.done)
    with workers_of(parameters) as workers:
        todo = {
            (name, effect): Cell(
                f"{name} group {effect}", _later(table, parts, parameters.of_cell(effect), name, workers)
            )
            for effect in effects
            for name in parameters.models
        }
        cells.run(todo.values())
    found = {key: cells.done[cell.key] for key, cell in todo.items()}
    tracker = Tracker(run, Settings())
    rows = []
    for (name, effect), cell in found.items():
        reference = _reference(parameters.models)
        row = _row(name, effect.value, cell, reference, found[reference, effect])
        rows.append(row)
        metrics = {metric: each["value"] for metric, each in row["metrics"].items()}
        metrics |= {f"{metric}_{end}": each[end] for metric, each in row["metrics"].items() for end in ("low", "high")}
        tracker.child(
            f"{name} group {effect.value}",
            {"model": name, "group_effect": effect.value},
            metrics | {"seconds": row["seconds"]},
            {"predilect.family": "clicks", "predilect.part": "reproduction"},
        )
    study = {
        "rows": rows,
        "reference": _reference(parameters.models),
        "unit_name": next(iter(found.values()))["unit_name"],
        "n_units": next(iter(found.values()))["n_units"],
        "cells_run": cells.n_run,
        "cells_resumed": n_before,
    }
    write_json(run / "study.json", study)
    _write_csv(run / "comparison.csv", rows)
    return study


def _later(
    table: ClicksTable, parts: Parts, parameters: ClicksParameters, name: str, workers: Workers | None
) -> Callable[[], Json]:
    return lambda: _cell(table, parts, parameters, name, workers)


def _cell(table: ClicksTable, parts: Parts, parameters: ClicksParameters, name: str, workers: Workers | None) -> Json:
    """The figures of one model: each metric's value and resamples, and AUC and SAUC by score in five resamples."""
    start = time.perf_counter()
    model = fit_model(table, parts, parameters, name, "cells", workers)
    seconds = time.perf_counter() - start
    rows, _ = test_rows(model, table, parts, parameters)
    _, found, _ = judge(model, table, parts.test, parameters)
    values, draws = measure(found, rows, spread_on(workers, parameters.threads))
    areas: Json = {}
    if name != NO_CONTEXT:
        some = scored_rows(parts.test, parameters.seed)
        for score, by_metric in score_areas(model, table, rows, parts.test, some, parameters).items():
            areas[score] = {
                metric: {"value": value, "folds": drawn.tolist()}
                for metric, (value, drawn) in by_metric.items()
                if np.isfinite([value, *drawn]).all()
            }
    return {
        "values": values,
        "draws": {metric: drawn.tolist() for metric, drawn in draws.items()},
        "areas": areas,
        "precisions": model.precisions,
        "converged": bool(model.report.evidence_converged),
        "gradient_norm": model.report.gradient_norm,
        "seconds": seconds,
        "unit_name": rows.unit_name,
        "n_units": int(rows.units.max(initial=-1)) + 1,
    }


def _reference(models: list[str]) -> str:
    """The model that the others are compared with: the paper's own, else the first."""
    return "l-prop" if "l-prop" in models else models[0]


def _row(name: str, effect: str, cell: Json, reference: str, other: Json) -> Json:
    draws, theirs = ({metric: np.array(drawn) for metric, drawn in each["draws"].items()} for each in (cell, other))
    return {
        "model": name,
        "group_effect": effect,
        "metrics": estimates(cell["values"], draws),
        "against": {} if name == reference else gaps(cell["values"], draws, other["values"], theirs),
        "folds": {metric: drawn[:FOLDS] for metric, drawn in cell["draws"].items()},
        "areas": cell["areas"],
        "precisions": cell["precisions"],
        "converged": cell["converged"],
        "gradient_norm": cell["gradient_norm"],
        "seconds": cell["seconds"],
    }


def _write_csv(path: Path, rows: list[Json]) -> None:
    """A line a model, group effect, score and metric; "" is the score of what does not depend on one."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ["model", "group_effect", "score", "metric", "value", "low", "high"]
    writer.writerow([*head, *(f"resample_{number}" for number in range(1, FOLDS + 1))])
    for row in rows:
        who = [row["model"], row["group_effect"]]
        for metric, each in row["metrics"].items():
            writer.writerow([*who, "", metric, each["value"], each["low"], each["high"], *row["folds"][metric]])
        for score, by_metric in row["areas"].items():
            for metric, each in by_metric.items():
                writer.writerow([*who, score, metric, each["value"], "", "", *each["folds"]])
    draft = path.with_name(f".{path.name}.part")
    draft.write_text(out.getvalue(), encoding="utf-8")
    draft.rename(path)
