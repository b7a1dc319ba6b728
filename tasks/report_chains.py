"""What the report of a sampled fit shows besides: whether its chains mixed, and which features matter."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from predilect.tasks import plots
from predilect.tasks.formatting import count, interval, is_number, number, plain_value
from predilect.tasks.plot_style import MODEL, MUTED, inline_svg

MOST_FEATURES = 20


def chains(fit: Mapping[str, Any]) -> dict[str, Any] | None:
    """The diagnostics of the chains; None when nothing was sampled."""
    found = fit.get("sampling")
    if not found:
        return None
    worst = max((found[key] for key in ("noise_rhat", "prediction_rhat_max") if is_number(found[key])), default=None)
    mixed = worst is not None and worst < found["good_rhat"]
    says = f"{count(found['chains'])} chains of {count(found['sweeps'])} sweeps each, of which {count(found['draws'])} "
    says += "draws are kept: predictions are averages over them. "
    if mixed:
        says += f"R̂ is {number(worst, 3)} at most: they agree."
    else:
        says += f"R̂ reaches {number(worst, 3)}, above {found['good_rhat']}: longer chains (samples, burn_in) are safer."
    facts = [
        ("R̂ of the noise", number(found["noise_rhat"], 3)),
        ("Effective draws of the noise", count(round(found["noise_ess"] or 0))),
        ("Largest R̂ of a prediction", number(found["prediction_rhat_max"], 3)),
        ("Median R̂ of a prediction", number(found["prediction_rhat_median"], 3)),
        ("Effective draws of a prediction", f"{count(round(found['prediction_ess_median'] or 0))} (median)"),
        ("Predictions followed", count(found["watched"])),
    ]
    title = "The chains agree" if mixed else "The chains do not quite agree"
    return {"says": says, "title": title, "facts": facts, "plot": Markup(_traces(found["noise_sd"]))}


def features(fit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A part a side whose features were sampled: groups as a plot, single features as rows."""
    parts = []
    for side, effects in (fit.get("effects") or {}).items():
        groups = sorted(effects["groups"], key=lambda group: -group["sd"]["value"])
        rows = [
            {
                "name": plain_value(row["name"], 60),
                "shift": number(row["shift"]["value"], 2),
                "interval": f"{number(row['shift']['low'], 2)} … {number(row['shift']['high'], 2)}",
                "spread": number(row["spread"]["value"], 2),
            }
            for row in effects["features"][:MOST_FEATURES]
        ]
        plot = plots.intervals(f"features-{side}", "Features", [(group["name"], group["sd"]) for group in groups])
        title = f"{groups[0]['name']}: {interval(groups[0]['sd'])}"
        more = effects["n_features"] - len(rows)
        parts.append({"name": side, "title": title, "plot": Markup(plot), "rows": rows, "more": more})
    return parts


def _traces(series: Sequence[Sequence[float]]) -> str:
    """The noise's standard deviation by sweep, a line a chain."""

    def draw(axes: Any) -> None:
        for number_of, values in enumerate(series):
            axes.plot(
                range(1, len(values) + 1), values, color=MODEL if number_of == 0 else MUTED, linewidth=0.9, alpha=0.8
            )
        axes.set_xlabel("sweep")
        axes.set_ylabel("noise sd, rating points")

    last = ", ".join(number(values[-1]) for values in series)
    return inline_svg("chains", f"Noise by sweep for {len(series)} chains, ending at {last}.", draw, height=220)
