"""What is said of a reproduction of the clicks paper, in sentences."""

from collections.abc import Mapping
from typing import Any

from predilect.tasks.formatting import count, is_number, number

Results = Mapping[str, Any]
HEADLINE: tuple[str, ...] = ()
FIGURES: tuple[str, ...] = ()


def label(row: Mapping[str, Any]) -> str:
    """`L-PROP` or `L-PROP, group in the mean`."""
    where = {"none": "", "mean": ", group in the mean", "both": ", group in mean and variability"}
    return f"{name_of(row['model'])}{where.get(row['group_effect'], '')}"


def name_of(model: str) -> str:
    """`L-PROP`, as the paper writes it."""
    return model.upper() if model != "no-context" else "no context"


def learned(results: Results) -> str:
    """What was compared on what."""
    rows, data = (results.get("study") or {}).get("rows") or [], results.get("dataset") or {}
    scores = {score for row in rows for score in row.get("areas") or {}}
    return (
        f"Predilect compared {count(len(rows))} fits of {count(len({row['model'] for row in rows}))} models under "
        f"{count(len(scores))} scores on {count(data.get('rows'))} rows of {data.get('name') or 'an unnamed set'}."
    )


def how_good(results: Results, against: str) -> str:
    """Which fit predicts click counts best, and how far logistic regression is behind."""
    rows = [row for row in (results.get("study") or {}).get("rows") or [] if is_number(_row_value(row))]
    if not rows:
        return "No row of the test part was shown."
    best = max(rows, key=_row_value)
    said = f"Held-out click counts are most likely under {label(best)}: {number(_row_value(best))} a row"
    logs = {row["model"]: row for row in rows if row["group_effect"] == "none"}
    if "l-log" in logs and "l-bbl" in logs:
        gap = _row_value(logs["l-bbl"]) - _row_value(logs["l-log"])
        side = "above" if gap > 0 else "below"
        said += f"; without group effects L-BBL is {number(abs(gap), 2)} {side} L-LOG"
    return f"{said}."


def fit_line(results: Results) -> str:
    """Nothing is kept of the fits but their figures."""
    return "every fit's figures are in comparison.csv and study.json."


def _row_value(row: Mapping[str, Any]) -> float:
    value: float = (row["metrics"].get("log_likelihood_row") or {}).get("value", float("nan"))
    return value
