"""The page of a reproduction of the rankings paper: tables and plots of errors, times and held-out log-likelihoods."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from predilect.tasks.formatting import count, is_number, number
from predilect.tasks.plot_style import ACCENT, MODEL, MUTED, inline_svg
from predilect.tasks.rankings_reproduce import summarise
from predilect.tasks.report_common import common

Json = Mapping[str, Any]
TEMPLATE = "report_reproduction.html.j2"
OURS = ("fit", "accelerated")
CELL = ("n_items", "n_informative", "n_components", "n_ballots")


def page(results: dict[str, Any]) -> dict[str, Any]:
    """The template's variables."""
    synthetic, real = results.get("synthetic") or [], results.get("real") or []
    means = summarise(synthetic, CELL, ("error", "ratio", "log_likelihood", "seconds", "iterations"))
    sets = summarise(real, ("set", "n_components"), ("held_out", "log_likelihood", "seconds", "iterations"))
    figures = {}
    if synthetic:
        methods = _methods(means)
        figures["ratio"] = _dots(
            "ratio", "Error over that with true labels", methods, means, "ratio", "error ÷ error with true labels", 1.0
        )
        figures["seconds"] = _dots("seconds", "Seconds", methods, means, "seconds", "seconds, one thread", None)
    for number_, name in enumerate(dict.fromkeys(row["set"] for row in sets)):
        mine = [row for row in sets if row["set"] == name]
        figures[f"real_{number_}"] = _held_out(number_, name, mine)
    return {
        **common(results, (), (), "ballots", "trials"),
        "figures": {name: Markup(svg) for name, svg in figures.items()},
        "sets": list(dict.fromkeys(row["set"] for row in sets)),
        "tables": {
            "synthetic": [_synthetic_row(row) for row in means],
            "real": [
                [row["set"], count(row["n_components"]), _who(row), number(row["held_out"], 4),
                 number(row["log_likelihood"], 2), number(row["seconds"], 3), count(row["iterations"])]
                for row in sets
            ],
        },
    }  # fmt: skip


def _synthetic_row(row: Json) -> list[str]:
    cell = ", ".join(count(row[key]) for key in CELL)
    figures = [number(row["error"]), number(row["ratio"], 2), number(row["log_likelihood"], 2)]
    return [cell, _who(row), *figures, number(row["seconds"], 3), count(row["iterations"])]


def _who(row: Json) -> str:
    own = row["start"] == "own" or row["method"].endswith("start")
    return row["method"] if own else f"{row['method']}, {row['start']}"


def _methods(rows: Sequence[Json]) -> list[str]:
    return [who for who in dict.fromkeys(_who(row) for row in rows) if who != "true labels"]


def _dots(
    name: str, title: str, methods: Sequence[str], rows: Sequence[Json], figure: str, label: str, mark: float | None
) -> str:
    """A row a method, a dot a setting, on a logarithmic axis; ours in colour."""
    values = {who: [row[figure] for row in rows if _who(row) == who and is_number(row[figure])] for who in methods}

    def draw(axes: Any) -> None:
        if mark is not None:
            axes.axvline(mark, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for y, who in enumerate(methods):
            axes.plot(values[who], [y] * len(values[who]), "o", color=_color(who), markersize=6, alpha=0.75)
        if mark is None:
            axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.3g}")
        axes.set_yticks(range(len(methods)), methods)
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.grid(False, axis="y")
        axes.grid(True, axis="x")
        axes.set_xlabel(label)

    said = "; ".join(f"{who} {', '.join(number(value) for value in values[who])}" for who in methods)
    return inline_svg(name, f"{title}, a dot a setting: {said}.", draw, height=60 + 20 * len(methods))


def _held_out(at: int, name: str, rows: Sequence[Json]) -> str:
    """Held-out log-likelihood a ballot by method, a dot a K, labelled by it."""
    methods = [who for who in dict.fromkeys(_who(row) for row in rows)]

    def draw(axes: Any) -> None:
        for y, who in enumerate(methods):
            for row in rows:
                if _who(row) == who and is_number(row["held_out"]):
                    axes.text(row["held_out"], y, f"{row['n_components']}", ha="center", va="center",
                              color=_color(who), weight="bold")  # fmt: skip
        known = [row["held_out"] for row in rows if is_number(row["held_out"])]
        margin = 0.06 * (max(known) - min(known)) + 1e-3
        axes.set_xlim(min(known) - margin, max(known) + margin)
        axes.set_yticks(range(len(methods)), methods)
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.grid(False, axis="y")
        axes.grid(True, axis="x")
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlabel("held-out nats a ballot; each number is a K")

    said = "; ".join(f"{_who(row)} K={row['n_components']} {number(row['held_out'], 4)}" for row in rows)
    return inline_svg(f"real-{at}", f"{name}: {said}.", draw, height=60 + 20 * len(methods))


def _color(who: str) -> str:
    return MODEL if who.startswith(OURS) else ACCENT if who.startswith("em-lsr") else MUTED
