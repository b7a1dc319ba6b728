"""The reproduced figures as rows of text, as CSV, and as a plot."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from predilect.tasks.formatting import number
from predilect.tasks.plot_style import ACCENT, INK, MODEL, MUTED, inline_svg

Json = dict[str, Any]
HEADS = {
    "table": [
        "set",
        "method",
        "published",
        "ours",
        "95 % interval",
        "difference",
        "verdict",
        "folds",
        "seconds",
        "chosen",
    ],
    "figure2": ["set", "s", "t", "MF, s", "EM, s", "EM / MF", "MAE of MF", "MAE of EM"],
    "figure3": ["set", "method", "ratings kept", "efficiency", "95 % interval", "published", "MAE", "fits"],
}


def kind(experiment: str) -> str:
    """Which of the forms an experiment takes."""
    return "table" if experiment.startswith("table") else experiment


def cells(experiment: str, rows: Sequence[Json], missing: Sequence[Json]) -> list[list[str]]:
    """The rows of the table, missing sets last; the heads are `HEADS[kind(experiment)]`."""
    form = {"table": _table_row, "figure2": _time_row, "figure3": _efficiency_row}[kind(experiment)]
    width = len(HEADS[kind(experiment)])
    return [form(row) for row in rows] + [[one["dataset"], "missing", *["–"] * (width - 2)] for one in missing]


def notes(missing: Sequence[Json]) -> list[str]:
    """A sentence a missing set."""
    return [f"{one['dataset']} is missing: {one['said']}." for one in missing]


def write_csv(path: Path, heads: Sequence[str], table: Sequence[Sequence[str]]) -> None:
    """Write the table, beside `path` first."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    with open(draft, "w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([heads, *table])
    draft.replace(path)


def markdown(heads: Sequence[str], table: Sequence[Sequence[str]], said: Sequence[str]) -> str:
    """The table for Prefect and MLflow, and what is said below it."""
    lines = ["| " + " | ".join(row) + " |" for row in [heads, *table]]
    return "\n".join([lines[0], "|" + " --- |" * len(heads), *lines[1:], *(f"\n{one}" for one in said)]) + "\n"


def plots(experiment: str, rows: Sequence[Json]) -> list[tuple[str, str]]:
    """(caption, inline SVG) of each plot."""
    if not rows:
        return []
    if experiment == "figure2":
        return [("Seconds a fit, one thread, log-log: EM against mean field", _times(rows))]
    if experiment == "figure3":
        return [("Efficiency by ratings kept of a new user", _efficiencies(rows))]
    names = dict.fromkeys(row["dataset"] for row in rows)
    return [
        (f"{name}: MAE, published (○) and ours (●)", _maes(name, [row for row in rows if row["dataset"] == name]))
        for name in names
    ]


def _table_row(row: Json) -> list[str]:
    known = row["published"] is not None
    return [
        row["dataset"], row["method"], f"{row['published']:.4f}" if known else "–", f"{row['value']:.4f}",
        f"{row['low']:.4f} to {row['high']:.4f}", f"{row['difference']:+.4f}" if known else "–", row["verdict"],
        " ".join(row["folds"]), f"{row['seconds']:.1f}", row["chosen"],
    ]  # fmt: skip


def _time_row(row: Json) -> list[str]:
    mf, em = row.get("mf_seconds"), row.get("em_seconds")
    return [
        row["dataset"], str(row["s"]), str(row["t"]), *(number(x) if x is not None else "–" for x in (mf, em)),
        f"{em / mf:.0f}" if mf and em else "–",
        *(f"{row[name]:.4f}" if name in row else "–" for name in ("mf_mae", "em_mae")),
    ]  # fmt: skip


def _efficiency_row(row: Json) -> list[str]:
    least = row["published_at_least"]
    return [
        row["dataset"], row["method"], str(row["kappa"]), f"{row['value']:.3f}",
        f"{row['low']:.3f} to {row['high']:.3f}",
        f"above {least:g}" if least is not None else "–", f"{row['mae']:.4f}", str(row["fits"]),
    ]  # fmt: skip


def _maes(name: str, rows: Sequence[Json]) -> str:
    def draw(axes: Any) -> None:
        for y, row in enumerate(rows):
            axes.plot([row["low"], row["high"]], [y, y], color=MODEL, linewidth=2.4)
            axes.plot([row["value"]], [y], "o", color=MODEL, markersize=6)
            if row["published"] is not None:
                axes.plot([row["published"]], [y], "o", color="none", markeredgecolor=ACCENT, markeredgewidth=1.6)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), [row["method"] for row in rows])
        axes.grid(False, axis="y")
        axes.grid(True, axis="x")
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlabel("MAE")

    said = "; ".join(f"{row['method']} {row['value']:.4f}" for row in rows)
    return inline_svg(f"mae-{name}", f"MAE on {name}: {said}.", draw, height=60 + 24 * len(rows))


def _times(rows: Sequence[Json]) -> str:
    both = [row for row in rows if "mf_seconds" in row and "em_seconds" in row]

    def draw(axes: Any) -> None:
        axes.loglog([row["em_seconds"] for row in both], [row["mf_seconds"] for row in both], "o", color=MODEL)
        ends = [min(row["mf_seconds"] for row in both), max(row["em_seconds"] for row in both)] if both else [1, 10]
        axes.plot(ends, ends, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.set_xlabel("EM, seconds")
        axes.set_ylabel("MF, seconds")

    said = "; ".join(f"s {row['s']}, t {row['t']}: {row['em_seconds'] / row['mf_seconds']:.0f}" for row in both)
    return inline_svg("times", f"Seconds of EM over those of MF: {said or 'not measured'}.", draw, height=260)


def _efficiencies(rows: Sequence[Json]) -> str:
    styles = [(MODEL, "-", "o"), (ACCENT, "--", "x"), (INK, ":", "s")]
    methods = list(dict.fromkeys(row["method"] for row in rows))

    def draw(axes: Any) -> None:
        for method, (color, line, marker) in zip(methods, styles * len(methods), strict=False):
            mine = [row for row in rows if row["method"] == method]
            kappas = [row["kappa"] for row in mine]
            axes.fill_between(
                kappas, [row["low"] for row in mine], [row["high"] for row in mine], color=color, alpha=0.12
            )
            axes.plot(kappas, [row["value"] for row in mine], color=color, linestyle=line, marker=marker, label=method)
        axes.legend(frameon=False, loc="lower right")
        axes.set_xlabel("ratings kept")
        axes.set_ylabel("efficiency")

    said = "; ".join(f"{row['method']} κ {row['kappa']}: {row['value']:.3f}" for row in rows)
    return inline_svg("efficiency", f"Efficiency: {said}.", draw, height=270)
