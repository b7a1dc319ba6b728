"""The plots of a clicks report: calibration, words, risk beside uncertainty, scores, drift; each an inline SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

from predilect.tasks.formatting import count, number, share
from predilect.tasks.plot_style import ACCENT, MODEL, MUTED, inline_svg
from predilect.tasks.plots_rankings import ROW, short

Json = Mapping[str, Any]
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def _percent(axis: Any) -> None:
    axis.set_major_formatter(lambda x, _: f"{100 * x:.3g} %")


def calibration(found: Json) -> str:
    """Click share seen, by what was expected, of tenths of the impressions."""
    expected, seen = found["expected"], found["seen"]

    def draw(axes: Any) -> None:
        ends = (min(expected + seen), max(expected + seen))
        axes.plot(ends, ends, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot(expected, seen, color=MODEL, marker="o", markersize=6, linewidth=1.2)
        _percent(axes.xaxis)
        _percent(axes.yaxis)
        axes.set_xlabel("expected click share")
        axes.set_ylabel("seen")
        axes.locator_params(axis="x", nbins=6)

    pairs = "; ".join(f"{share(p, 2)} expected, {share(o, 2)} seen" for p, o in zip(expected, seen, strict=True))
    return inline_svg("click-calibration", f"Click share by tenth of the impressions: {pairs}.", draw, height=250)


def effects(name: str, said: str, label: str, rows: Sequence[Json]) -> str:
    """Effects of words with their intervals."""

    def draw(axes: Any) -> None:
        axes.axvline(0, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for y, row in enumerate(rows):
            sure = row["low"] > 0 or row["high"] < 0
            color = ACCENT if row["value"] < 0 else MODEL
            axes.plot([row["low"], row["high"]], [y, y], color=color, linewidth=2.4, alpha=1 if sure else 0.45)
            axes.plot([row["value"]], [y], "o", color=color, markersize=5.5, alpha=1 if sure else 0.45)
        axes.set_yticks(range(len(rows)), [short(row["name"]) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(False, axis="y")
        axes.grid(True, axis="x")
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel(label)

    told = "; ".join(f"{row['name']} {number(row['value'], 2)}" for row in rows)
    return inline_svg(name, f"{said}: {told}.", draw, height=52 + ROW * len(rows))


def risk(found: Json, what: str) -> str:
    """Contexts by their mean and their `variability` or `error`, on logarithmic axes."""
    values = found[what]

    def draw(axes: Any) -> None:
        axes.plot(found["mean"], values, "o", color=MODEL if what == "variability" else ACCENT, markersize=4, alpha=0.5)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(_ticks())
            axis.set_minor_formatter(lambda *_: "")
            _percent(axis)
        axes.set_xlabel("expected click share")
        axes.set_ylabel("risk (sd)" if what == "variability" else "estimation error (sd)")

    said = f"{count(len(values))} contexts: {what} from {share(min(values), 3)} to {share(max(values), 3)}"
    return inline_svg(f"risk-{what}", f"{said}.", draw, height=250)


def _ticks() -> Any:
    from matplotlib.ticker import LogLocator

    return LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=6)


def by_score(found: Json, metric: str, label: str, name: str | None = None) -> str:
    """A ranking area of every model (markers) under every score (rows), as in the paper's Figure 1."""
    models = list(found)
    scores = list(dict.fromkeys(name for each in found.values() for name in each))

    def draw(axes: Any) -> None:
        for place, model in enumerate(models):
            points = [(each[metric], y) for y, name in enumerate(scores) if (each := found[model].get(name))]
            points = [(x, y) for x, y in points if x is not None]
            offset = 0.5 * (place / max(len(models) - 1, 1) - 0.5) if len(models) > 1 else 0.0
            axes.plot([x for x, _ in points], [y + offset for _, y in points], MARKERS[place % len(MARKERS)],
                      color=ACCENT if place == 0 else MODEL, markersize=6, alpha=1 if place == 0 else 0.65,
                      label=model.upper())  # fmt: skip
        axes.set_yticks(range(len(scores)), [name.upper() if name != "mean" else "mean" for name in scores])
        axes.set_ylim(len(scores) - 0.4, -0.6)
        axes.grid(True, axis="x")
        axes.grid(False, axis="y")
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlabel(label)
        axes.legend(fontsize=9, ncols=3, loc="lower center", bbox_to_anchor=(0.45, 1.0), frameon=False,
                    handletextpad=0.2, columnspacing=1)  # fmt: skip

    told = "; ".join(
        f"{model} " + ", ".join(f"{name} {number(each[metric])}" for name, each in found[model].items())
        for model in models
    )
    return inline_svg(
        name or f"scores-{metric}", f"{label} by model and score: {told}.", draw, height=70 + 26 * len(scores)
    )


def folds(found: Json, metric: str, label: str, name: str | None = None) -> str:
    """A metric in five bootstrap resamples, a row a model, as in the paper's Figure 1."""
    models = [model for model in found if found[model].get(metric)]

    def draw(axes: Any) -> None:
        for y, model in enumerate(models):
            values = found[model][metric]
            axes.plot(values, [y] * len(values), "|", color=MUTED, markersize=11)
            axes.plot([sum(values) / len(values)], [y], "o", color=ACCENT if y == 0 else MODEL, markersize=7)
        axes.set_yticks(range(len(models)), [model.upper() for model in models])
        axes.set_ylim(len(models) - 0.4, -0.6)
        axes.grid(True, axis="x")
        axes.grid(False, axis="y")
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlabel(label)

    means = {model: sum(found[model][metric]) / len(found[model][metric]) for model in models}
    told = "; ".join(f"{model} {number(value, 5)}" for model, value in means.items())
    return inline_svg(
        name or f"folds-{metric}", f"{label}, means of five resamples: {told}.", draw, height=60 + 26 * len(models)
    )


def drift(found: Json) -> str:
    """Click share over time; steps that are mostly held out in the other colour."""
    steps = found["steps"]
    rates = [step["rate"] for step in steps]

    def draw(axes: Any) -> None:
        axes.plot(range(len(steps)), rates, color=MUTED, linewidth=1)
        for x, step in enumerate(steps):
            axes.plot([x], [step["rate"]], "o", color=ACCENT if step["test_share"] > 0.5 else MODEL, markersize=6)
        _percent(axes.yaxis)
        axes.set_ylim(0, 1.1 * max(rates) or 1)
        axes.set_xticks([0, len(steps) - 1], ["earliest", "latest"])
        axes.set_ylabel("click share")

    told = ", ".join(share(rate, 2) for rate in rates)
    return inline_svg("drift", f"Click share from the earliest to the latest rows: {told}.", draw, height=210)
