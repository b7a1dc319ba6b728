"""The plots of a rankings report: worths, ranks, pairs, K curve, likelihood and calibration, each an inline SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

from predilect.tasks.formatting import count, is_number, number, share
from predilect.tasks.plot_style import ACCENT, INK, MODEL, MUTED, PAPER, inline_svg

Estimate = Mapping[str, Any]
ROW = 19  # height of a row of items, in the plot's units
LONGEST_NAME = 22


def short(name: str, limit: int = LONGEST_NAME) -> str:
    """A name cut to fit beside a plot."""
    return name if len(name) <= limit else name[: limit - 1] + "…"


def worths(segment: int, rows: Sequence[tuple[str, Estimate]], limits: tuple[float, float]) -> str:
    """Log-worths of one segment with their intervals, best first. limits: of the axis, the same for all segments."""

    def draw(axes: Any) -> None:
        axes.axvline(0, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for y, (_, row) in enumerate(rows):
            if is_number(row.get("low")) and is_number(row.get("high")):
                axes.plot([row["low"], row["high"]], [y, y], color=MODEL, linewidth=2.4)
            axes.plot([row["value"]], [y], "o", color=MODEL, markersize=5.5)
        axes.set_yticks(range(len(rows)), [short(name) for name, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(*limits)
        axes.grid(False, axis="y")
        axes.grid(True, axis="x")
        axes.locator_params(axis="x", nbins=6)
        axes.set_xlabel("log-worth; 0 is the average item")

    said = "; ".join(f"{name} {number(row['value'], 2)}" for name, row in rows)
    return inline_svg(
        f"worths-{segment}", f"Log-worths in segment {segment}: {said}.", draw, height=52 + ROW * len(rows)
    )


def heat(
    name: str, said: str, rows: Sequence[str], columns: Sequence[str],
    texts: Sequence[Sequence[str]], strength: Sequence[Sequence[float]],
) -> str:  # fmt: skip
    """A table of shaded cells. strength: 0..1, how strongly a cell is shaded; below 0 in the other colour."""
    n_rows, n_columns = len(rows), len(columns)
    turned = max(map(len, columns)) > max(60 // n_columns, 3)

    def draw(axes: Any) -> None:
        for y in range(n_rows):
            for x in range(n_columns):
                shade = strength[y][x]
                color = MODEL if shade >= 0 else ACCENT
                axes.bar(
                    [x], [0.94], bottom=y - 0.47, width=0.95, color=color, alpha=round(min(abs(shade), 1) * 0.85, 3)
                )
                if texts[y][x]:
                    axes.text(x, y, texts[y][x], ha="center", va="center", fontsize=10 if n_columns <= 8 else 8,
                              color=PAPER if abs(shade) > 0.62 else INK)  # fmt: skip
        axes.set_xlim(-0.5, n_columns - 0.5)
        axes.set_ylim(n_rows - 0.5, -0.5)
        axes.set_yticks(range(n_rows), [short(row, 18) for row in rows])
        axes.xaxis.tick_top()
        axes.set_xticks(range(n_columns), [short(column, 14) for column in columns],
                        rotation=90 if turned else 0)  # fmt: skip
        axes.tick_params(length=0)
        axes.grid(False)
        axes.spines[:].set_visible(False)

    return inline_svg(name, said, draw, height=(100 if turned else 40) + ROW * n_rows)


def k_curve(candidates: Sequence[Mapping[str, Any]], chosen: int | None) -> str:
    """Held-out log-likelihood a ballot by number of segments, with twice the standard error between folds."""
    ks = [candidate["k"] for candidate in candidates]
    values = [candidate["held_out"] for candidate in candidates]

    def draw(axes: Any) -> None:
        for candidate in candidates:
            for value in candidate["fold_held_out"]:
                axes.plot([candidate["k"]], [value], "_", color=MUTED, markersize=9, alpha=0.6)
        axes.plot(ks, values, color=MODEL, marker="o", markersize=5.5)
        for k, value in zip(ks, values, strict=True):
            axes.annotate(number(value), (k, value), (0, 6), textcoords="offset points", ha="center", fontsize=10)
        if chosen is not None and chosen in ks:
            _ring(axes, chosen, values[ks.index(chosen)])
        _k_axis(axes, ks)
        axes.set_ylabel("held-out nats a ballot")
        axes.margins(y=0.16)

    said = ", ".join(f"K = {k} {number(value)}" for k, value in zip(ks, values, strict=True))
    return inline_svg("k-curve", f"Held-out log-likelihood a ballot by number of segments: {said}.", draw, height=250)


def bic_curve(candidates: Sequence[Mapping[str, Any]], chosen: int | None) -> str:
    """BIC above the lowest, by number of segments."""
    ks = [candidate["k"] for candidate in candidates]
    least = min(candidate["bic"] for candidate in candidates)
    gaps = [candidate["bic"] - least for candidate in candidates]

    def draw(axes: Any) -> None:
        axes.plot(ks, gaps, color=MODEL, marker="o", markersize=5.5)
        for k, gap in zip(ks, gaps, strict=True):
            axes.annotate(number(gap, 0), (k, gap), (0, 6), textcoords="offset points", ha="center", fontsize=10)
        if chosen is not None and chosen in ks:
            _ring(axes, chosen, gaps[ks.index(chosen)])
        _k_axis(axes, ks)
        axes.set_ylabel("BIC above the lowest")
        axes.margins(y=0.16)

    said = ", ".join(f"K = {k} {number(gap, 0)}" for k, gap in zip(ks, gaps, strict=True))
    return inline_svg("bic-curve", f"BIC above the lowest by number of segments: {said}.", draw, height=250)


def likelihood(trace: Sequence[float]) -> str:
    """What the climb still lacked of its final log-likelihood after each accepted step, on a logarithmic axis."""
    missing = [trace[-1] - value for value in trace[:-1]]
    least = max(abs(trace[-1]) * 1e-14, 1e-9)
    steps = range(1, len(missing) + 1)

    def draw(axes: Any) -> None:
        axes.plot(steps, [max(gap, least) for gap in missing], color=MODEL, marker="o",
                  markersize=3.5 if len(missing) <= 40 else 0)  # fmt: skip
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:.0e}" if y < 0.01 else f"{y:g}")
        axes.minorticks_off()
        axes.set_xlabel("accepted step of the final climb")
        axes.set_ylabel("nats below the end")
        axes.xaxis.get_major_locator().set_params(integer=True)

    said = f"Log-likelihood from {number(trace[0], 2)} to {number(trace[-1], 2)} in {count(len(trace) - 1)} steps."
    return inline_svg("likelihood", said, draw, height=230)


def starts(records: Sequence[Mapping[str, Any]]) -> str:
    """How far every start, after its first few passes, was below the best of them, by kind."""
    kinds = [kind for kind in ("spectral", "random", "given", "moved") if any(r["kind"] == kind for r in records)]
    best = max(record["value"] for record in records)
    gaps = {kind: [best - record["value"] for record in records if record["kind"] == kind] for kind in kinds}

    def draw(axes: Any) -> None:
        for y, kind in enumerate(kinds):
            axes.plot(gaps[kind], [y] * len(gaps[kind]), "o", color=MODEL, markersize=7, alpha=0.55)
        axes.set_yticks(range(len(kinds)), kinds)
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.invert_xaxis()
        axes.grid(False, axis="y")
        axes.grid(True, axis="x")
        axes.margins(x=0.08)
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlabel("nats below the best start")

    said = "; ".join(f"{kind} {', '.join(number(gap, 1) for gap in gaps[kind])}" for kind in kinds)
    return inline_svg("starts", f"Nats below the best start: {said}.", draw, height=58 + 30 * len(kinds))


def calibration(predicted: Sequence[float], observed: Sequence[float], weight: Sequence[float]) -> str:
    """Share of comparisons that the favourite won, by what was predicted; on the line is honest."""
    most = max(weight)

    def draw(axes: Any) -> None:
        axes.plot([0.5, 1], [0.5, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot(predicted, observed, color=MODEL, linewidth=1.2, alpha=0.6)
        for x, y, size in zip(predicted, observed, weight, strict=True):
            axes.plot([x], [y], "o", color=MODEL, markersize=3.5 + 7 * (size / most) ** 0.5)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda x, _: f"{100 * x:.3g} %")
        axes.set_xlim(0.49, 1.01)
        axes.set_ylim(min(0.47, *observed) - 0.01, max(1.01, *observed))
        axes.set_xlabel("predicted chance of the favourite")
        axes.set_ylabel("how often it came first")

    pairs = (f"{share(p)} predicted, {share(o)} seen" for p, o in zip(predicted, observed, strict=True))
    return inline_svg("pair-calibration", f"Pairs: {'; '.join(pairs)}.", draw, height=260)


def _ring(axes: Any, x: float, y: float) -> None:
    axes.plot([x], [y], "o", color="none", markeredgecolor=ACCENT, markeredgewidth=2, markersize=12)


def _k_axis(axes: Any, ks: Sequence[int]) -> None:
    axes.set_xticks(ks)
    axes.set_xlim(min(ks) - 0.5, max(ks) + 0.5)
    axes.set_xlabel("segments K")
