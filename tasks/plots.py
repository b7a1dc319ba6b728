"""The plots of the report pages: each a function from plain numbers to an inline SVG."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from predilect.tasks.formatting import compact, interval, is_number, number, share
from predilect.tasks.plot_style import ACCENT, INK, MODEL, MUTED, PAPER, RULE, inline_svg

MOST_POINTS = 500  # of a scatter; of more, evenly spaced ones are drawn
Estimate = Mapping[str, Any]  # {value, low, high}


def intervals(name: str, title: str, rows: Sequence[tuple[str, Estimate]], is_share: bool = False) -> str:
    """Estimates with their intervals, one under the other: first the model, then what it is held against."""
    rows = [(label, row) for label, row in rows if is_number(row.get("value"))]

    def draw(axes: Any) -> None:
        for y, (_, row) in enumerate(rows):
            color = MODEL if y == 0 else MUTED
            low, high = (row[end] if is_number(row.get(end)) else row["value"] for end in ("low", "high"))
            axes.plot([low, high], [y, y], color=color, linewidth=2.6)
            axes.plot([row["value"]], [y], "o", color=color, markersize=7)
            axes.text(
                row["value"], y - 0.28, share(row["value"]) if is_share else number(row["value"]),
                ha="center", va="bottom", color=INK if y == 0 else MUTED, weight="bold" if y == 0 else "normal",
            )  # fmt: skip
        axes.set_ylim(len(rows) - 0.5, -0.85)
        axes.set_yticks(range(len(rows)), [label if len(label) <= 16 else label[:15] + "…" for label, _ in rows])
        axes.grid(False, axis="y")
        axes.grid(True, axis="x")
        axes.margins(x=0.15)
        axes.locator_params(axis="x", nbins=4)
        if is_share:
            axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.3g} %")

    said = "; ".join(f"{label} {interval(row, is_share)}" for label, row in rows)
    return inline_svg(name, f"{title}: {said}.", draw, height=58 + 34 * len(rows))


def bound(values: Sequence[float], n_ratings: int | None) -> str:
    """The evidence lower bound by sweep, the early sweeps given room; marks where 90 and 99 % of the gain was made."""
    scale = n_ratings or 1
    heights = [value / scale for value in values]
    sweeps = list(range(1, len(heights) + 1))
    marks = {part: gained_by(values, part) for part in (0.9, 0.99)}

    def draw(axes: Any) -> None:
        axes.plot(sweeps, heights, color=MODEL, marker="o", markersize=3.5 if len(sweeps) <= 40 else 0)
        # Below the end of a curve that never falls there is room for words.
        for row, (sweep, part) in enumerate({sweep: part for part, sweep in marks.items() if sweep > 1}.items()):
            fill = ACCENT if part > 0.95 else PAPER
            axes.plot([sweep], [heights[sweep - 1]], "o", color=fill, markeredgecolor=ACCENT, markeredgewidth=1.8)
            axes.annotate(
                f"{'●' if part > 0.95 else '○'} {100 * part:g} % of the gain by sweep {sweep}", (1, 0),
                (-2, 26 - 17 * row), xycoords="axes fraction", textcoords="offset points", ha="right", color=ACCENT,
                bbox={"facecolor": PAPER, "pad": 1, "linewidth": 0},
            )  # fmt: skip
        _sweep_axis(axes, len(sweeps))
        axes.set_ylabel("bound a rating, nats" if n_ratings else "bound, nats")

    said = f"Bound by sweep, from {number(heights[0])} to {number(heights[-1])} in {len(sweeps)} sweeps"
    said += "; " + ", ".join(f"{100 * part:g} % of the gain by sweep {sweep}" for part, sweep in marks.items())
    return inline_svg("bound", said + ".", draw, height=230)


def noise(values: Sequence[float]) -> str:
    """The noise's standard deviation by sweep, in rating points."""

    def draw(axes: Any) -> None:
        axes.plot(
            range(1, len(values) + 1), values, color=MODEL, marker="o", markersize=3.5 if len(values) <= 40 else 0
        )
        axes.annotate(
            number(values[-1]), (len(values), values[-1]), (0, 8), textcoords="offset points", ha="right", weight="bold"
        )
        _sweep_axis(axes, len(values))
        axes.set_ylabel("noise sd, rating points")
        axes.margins(y=0.12)

    said = f"Noise standard deviation by sweep, from {number(values[0])} to {number(values[-1])} rating points."
    return inline_svg("noise", said, draw, height=230)


def dimensions(sds: Sequence[float], n_effective: int | None) -> str:
    """How far each dimension moves a rating (sd in rating points), largest first; those that count in colour."""
    ordered = sorted(sds, reverse=True)
    n_kept = len(ordered) if n_effective is None else n_effective

    def draw(axes: Any) -> None:
        places = range(1, len(ordered) + 1)
        axes.bar(places, ordered, width=0.62, color=[MODEL if k <= n_kept else RULE for k in places])
        if len(ordered) <= 10:
            for place, sd in zip(places, ordered[:n_kept], strict=False):
                axes.annotate(number(sd, 2), (place, sd), (0, 3), textcoords="offset points", ha="center")
        axes.set_xlim(0.4, max(len(ordered), 5) + 0.6)
        if len(ordered) <= 12:
            axes.set_xticks(places)
        axes.set_xlabel("dimension, largest first")
        axes.set_ylabel("sd, rating points")
        axes.margins(y=0.12)

    said = f"{n_kept} of {len(ordered)} dimensions count; the largest moves a rating by {number(ordered[0], 2)} (sd)."
    return inline_svg("dimensions", said, draw, height=230)


def coverage(nominal: Sequence[float], covered: Sequence[float]) -> str:
    """Share of test ratings inside the intervals, by what the intervals promise; on the line is honest."""
    ticks = [0, 0.25, 0.5, 0.75, 1]
    said_levels = [k for k, promised in enumerate(nominal) if round(promised, 6) in (0.5, 0.8, 0.9)]

    def draw(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot(nominal, covered, color=MODEL, marker="o", markersize=5)
        for k in said_levels:
            axes.annotate(
                number(100 * covered[k], 1), (nominal[k], covered[k]), (8, -3), textcoords="offset points", va="top"
            )
        for axis, text in ((axes.xaxis, "promised by the interval, %"), (axes.yaxis, "held by it, %")):
            axis.set_ticks(ticks, [f"{100 * tick:g}" for tick in ticks])
            axis.set_label_text(text)
        axes.set_xlim(0, 1.13)
        axes.set_ylim(0, 1.04)

    pairs = (f"{share(p, 0)} intervals hold {share(c)}" for p, c in zip(nominal, covered, strict=True))
    return inline_svg("coverage", f"Coverage: {', '.join(pairs)}.", draw, height=260)


def pit(shares: Sequence[float]) -> str:
    """Histogram of the probability integral transform; flat is honest."""
    n_bins = len(shares)

    def draw(axes: Any) -> None:
        axes.bar([(k + 0.5) / n_bins for k in range(n_bins)], shares, width=0.88 / n_bins, color=MODEL)
        axes.axhline(1 / n_bins, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.yaxis.set_major_formatter(lambda x, _: f"{100 * x:.3g} %")
        axes.set_ylim(0, max([*shares, 1 / n_bins]) * 1.2)
        axes.set_xlabel("predicted probability of a lower rating")
        axes.set_ylabel("share of test ratings")

    said = f"Where test ratings fall in their predicted distributions, {n_bins} equal parts: "
    return inline_svg("pit", said + ", ".join(share(x) for x in shares) + ".", draw, height=260)


def residuals(groups: Sequence[Mapping[str, Any]]) -> str:
    """Boxes (quartiles), whiskers (5 and 95 %), median and mean of rating minus prediction, for each rating."""

    def draw(axes: Any) -> None:
        axes.axhline(0, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for x, group in enumerate(groups):
            low, high = group["q25"], group["q75"]
            axes.plot([x, x], [group["q05"], group["q95"]], color=MODEL, linewidth=1.6)
            axes.bar([x], [high - low], bottom=low, width=0.56, color=PAPER, zorder=3)
            axes.bar([x], [high - low], bottom=low, width=0.56, color=MODEL, alpha=0.25, zorder=3)
            axes.plot([x - 0.28, x + 0.28], [group["q50"]] * 2, color=MODEL, lw=2.4, solid_capstyle="butt", zorder=4)
            axes.plot([x], [group["mean"]], "D", color=ACCENT, markeredgecolor=PAPER, markersize=6, zorder=5)
        axes.set_xlim(-0.6, max(len(groups) - 0.4, 1.6))
        step = -(-len(groups) // 11)
        axes.set_xticks(range(0, len(groups), step), [compact(group["rating"]) for group in groups[::step]])
        axes.set_xlabel("rating given")
        axes.set_ylabel("rating − prediction")

    said = "; ".join(f"rating {compact(group['rating'])}: median {number(group['q50'], 2)}" for group in groups)
    return inline_svg("residuals", f"Rating minus prediction by rating. {said}.", draw, height=280)


def search_path(candidates: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any] | None) -> str:
    """Fold-averaged MAE of every candidate as tried, the best so far as a line, the chosen one marked."""
    maes = [candidate["mae"] for candidate in candidates]
    best = list(accumulate(maes, min))
    k_chosen = chosen_index(candidates, chosen)
    step = -(-len(maes) // MOST_POINTS)

    def draw(axes: Any) -> None:
        tries = range(1, len(maes) + 1)
        axes.plot(tries, best, color=MODEL, linewidth=1.4, drawstyle="steps-post", alpha=0.6)
        for shared in (True, False):
            spots = [(k + 1, maes[k]) for k in range(0, len(maes), step) if is_shared(candidates[k]) == shared]
            if spots:
                axes.plot(
                    *zip(*spots, strict=True),
                    "o",
                    color=PAPER if shared else MODEL,
                    markeredgecolor=MODEL,
                    markersize=5,
                )
        if k_chosen is not None:
            axes.plot(
                [k_chosen + 1],
                [maes[k_chosen]],
                "o",
                color="none",
                markeredgecolor=ACCENT,
                markeredgewidth=2,
                markersize=12,
            )
            side = ("left", "center", "right")[min(3 * k_chosen // len(maes), 2)]
            axes.annotate(
                f"{structure(candidates[k_chosen])}: {number(maes[k_chosen], 4)}", (k_chosen + 1, maes[k_chosen]),
                (0, -11), textcoords="offset points", ha=side, va="top", color=ACCENT, weight="bold",
            )  # fmt: skip
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("candidate, in the order tried")
        axes.set_ylabel("MAE, mean over folds")
        axes.set_xlim(max(0.5 - 0.015 * len(maes), 0.05), 0.6 + 1.02 * len(maes))
        axes.set_ylim(
            min(maes) - 0.2 * (max(maes) - min(maes)) - 1e-4, max(maes) + 0.06 * (max(maes) - min(maes)) + 1e-4
        )

    said = f"MAE of {len(maes)} candidates as tried, from {number(maes[0], 4)}, best {number(min(maes), 4)}"
    said += f"; chosen {structure(candidates[k_chosen])}." if k_chosen is not None else "."
    return inline_svg("search", said, draw, height=260)


def cold_start(study: Mapping[str, Any]) -> str:
    """MAE for people with κ ratings, with its interval, against people with all of theirs."""
    kappas, maes = study["kappa"], study["mae"]
    low, high, efficiency = (study.get(key) for key in ("low", "high", "efficiency"))
    folded = (study.get("fold_in") or {}).get("mae")
    places = range(len(kappas))

    def draw(axes: Any) -> None:
        if is_number(study.get("full_mae")):
            axes.axhline(study["full_mae"], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(
                f"all ratings: {number(study['full_mae'])}", (len(kappas) - 1, study["full_mae"]), (0, -5),
                textcoords="offset points", ha="right", va="top", color=MUTED,
                bbox={"facecolor": PAPER, "pad": 1, "linewidth": 0},
            )  # fmt: skip
        if low and high:
            axes.fill_between(places, low, high, color=MODEL, alpha=0.2)
        axes.plot(places, maes, color=MODEL, marker="o", markersize=5)
        if folded:
            axes.plot(places, folded, color=ACCENT, marker="x", markersize=5, linewidth=1.2, linestyle=(0, (2, 2)))
            axes.annotate("× folded in, not fitted again", (0, 0), (4, 6), xycoords="axes fraction",
                          textcoords="offset points", color=ACCENT)  # fmt: skip
        for x, y, part in zip(places, high or maes, efficiency or [], strict=False):
            axes.annotate(share(part, 0), (x, y), (0, 5), textcoords="offset points", ha="center")
        axes.set_xticks(places, [f"{kappa:g}" for kappa in kappas])
        axes.set_xlim(-0.4, len(kappas) - 0.6)
        axes.set_xlabel("ratings known of a new person")
        axes.set_ylabel("MAE")
        axes.margins(y=0.15)

    said = ", ".join(f"{kappa:g} ratings {number(mae)}" for kappa, mae in zip(kappas, maes, strict=True))
    said += "; folded in " + ", ".join(map(number, folded)) if folded else ""
    return inline_svg("cold-start", f"MAE by number of known ratings: {said}.", draw, height=260)


def gained_by(bound_trace: Sequence[float], part: float) -> int:
    """The first sweep by which the bound has made `part` of its whole gain."""
    goal = bound_trace[0] + part * (bound_trace[-1] - bound_trace[0])
    return next((sweep for sweep, value in enumerate(bound_trace, 1) if value >= goal), len(bound_trace))


def is_shared(candidate: Mapping[str, Any]) -> bool:
    """Whether an equivalent structure had been fitted already, so that this one cost nothing."""
    return candidate.get("shared_with") is not None


def chosen_index(candidates: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any] | None) -> int | None:
    """Which candidate won: the one equal to `chosen`, else the last one marked as chosen."""
    keys = ("n_user_latents", "n_item_latents", "tau")
    for k, candidate in enumerate(candidates):
        if chosen and all(candidate.get(key) == chosen.get(key) for key in keys):
            return k
    return max((k for k, candidate in enumerate(candidates) if candidate.get("chosen") is True), default=None)


def structure(candidate: Mapping[str, Any]) -> str:
    """`(2, 4), τ 100`."""
    tau = candidate.get("tau")
    latents = f"({candidate.get('n_user_latents')}, {candidate.get('n_item_latents')})"
    return f"{latents}, τ {tau:g}" if is_number(tau) else latents


def _sweep_axis(axes: Any, n_sweeps: int) -> None:
    """A logarithmic sweep axis with plain numbers: most of the gain is made in the first few sweeps."""
    axes.set_xscale("log")
    ticks = [k for k in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000) if k <= n_sweeps]
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(0.92, max(n_sweeps, 2) * 1.09)
    axes.set_xlabel("sweep")
