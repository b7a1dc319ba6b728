"""The page of a reproduction of the clicks paper: Figure 1 on the data at hand, and every model beside the others."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from predilect.tasks import plots_clicks
from predilect.tasks.formatting import count, duration, interval, metric_of, number
from predilect.tasks.report_clicks import SCORE_MEANINGS
from predilect.tasks.report_common import common
from predilect.tasks.words_clicks_reproduction import name_of

Json = Mapping[str, Any]
TEMPLATE = "report_clicks_reproduction.html.j2"
METRICS = ("log_likelihood_row", "log_likelihood_impression", "auc", "coverage_90")
"""Of the table; SAUC is in the plots and in the table of scores."""
EFFECTS = {
    "none": "No group effect, as in the paper",
    "mean": "Rows of a group share a shift of the mean",
    "both": "Rows of a group share a shift of mean and variability",
}


def page(results: dict[str, Any]) -> dict[str, Any]:
    """The template's variables."""
    study = results.get("study") or {}
    rows = study.get("rows") or []
    reference = study.get("reference") or ""
    first = sorted(rows, key=lambda row: row["model"] != reference)  # the plots show the first in the other colour
    effects = list(dict.fromkeys(row["group_effect"] for row in rows))
    return {
        **common(results, (), (), "rows", study.get("unit_name") or "rows"),
        "sections": [_section(effect, [row for row in first if row["group_effect"] == effect]) for effect in effects],
        "reference": name_of(reference),
        "heads": ["Model", *(metric_of(metric).label for metric in METRICS), "Fit"],
        "n_units": count(study.get("n_units")),
        "meanings": [(name if name == "mean" else name.upper(), said) for name, said in SCORE_MEANINGS.items()],
    }


def _section(effect: str, rows: list[Json]) -> dict[str, Any]:
    """Figure 1 and the tables of the fits with one group effect."""
    folds = {row["model"]: row["folds"] for row in rows}
    areas = {
        row["model"]: {
            score: {metric: (by.get(metric) or {}).get("value") for metric in ("auc", "sauc")}
            for score, by in row["areas"].items()
        }
        for row in rows
        if any(row["areas"].values())
    }
    figures = []
    for metric, said in (
        ("log_likelihood_row", "Log-likelihood of a row's click count"),
        ("log_likelihood_impression", "Log-likelihood of an impression"),
    ):
        if any(each.get(metric) for each in folds.values()):
            plot = plots_clicks.folds(folds, metric, metric_of(metric).label, name=f"folds-{effect}-{metric}")
            figures.append((said, Markup(plot)))
    for metric in ("auc", "sauc") if areas else ():
        plot = plots_clicks.by_score(areas, metric, metric.upper(), name=f"scores-{effect}-{metric}")
        figures.append((f"{metric.upper()} by model and score", Markup(plot)))
    return {
        "id": f"group-{effect}",
        "title": EFFECTS[effect],
        "figures": figures,
        "table": [_line(row) for row in rows],
        "scores": [
            [name_of(row["model"]), score if score == "mean" else score.upper(), *map(_with_range, by.values())]
            for row in rows
            for score, by in row["areas"].items()
            if by
        ],
    }


def _line(row: Json) -> dict[str, Any]:
    cells = []
    for metric in METRICS:
        share = metric_of(metric).is_share
        gap = row["against"].get(metric)
        cells.append(
            {
                "value": interval(row["metrics"].get(metric), share),
                "gap": interval(gap, share, signed=True) if gap else "",
            }
        )
    return {"name": name_of(row["model"]), "cells": cells, "seconds": duration(row["seconds"])}


def _with_range(found: Json) -> str:
    """The value, and the range of its five resamples."""
    low, high = min(found["folds"]), max(found["folds"])
    return f"{number(found['value'], 4)} [{number(low, 4)}, {number(high, 4)}]"
