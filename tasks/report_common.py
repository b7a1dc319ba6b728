"""What every run's page shows, whatever the family: headline, metrics beside baselines, contract, time, settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from predilect.tasks import formatting, plots
from predilect.tasks.formatting import count, duration, is_number, metric_of, number, share
from predilect.tasks.summaries import contract_line, fit_line, metric_rows, notices, ranked_baselines, sentences

MOST_ROWS = 200  # of a table that grows with the run; all of it is in the files beside the page


def common(
    results: Mapping[str, Any], strip: Sequence[str], panels: Sequence[str], rows: str, units: str
) -> dict[str, Any]:
    """The variables of run.html.j2.

    strip: metrics shown large; panels: those with a plot against the baselines. rows: what the data are called; units:
    what the bootstrap draws.
    """
    parts = ("run", "dataset", "split", "fit", "search", "parameters")
    return {
        **{part: results.get(part) or {} for part in parts},
        "contract": results.get("contract"),
        "baselines": list(ranked_baselines(results)),
        "sentences": sentences(results),
        "notices": notices(results),
        "contract_line": contract_line(results.get("contract")),
        "fit_line": fit_line(results),
        "metric_rows": metric_rows(results),
        "has_differences": bool(results.get("differences")),
        "strip": _strip(results, strip),
        "timings": _timings(results.get("timings") or {}),
        "panels": _panels(results, panels),
        "most_rows": MOST_ROWS,
        "row_name": rows,
        "unit_name": units,
        "measured_on": "Measured on the held-out part",
    }


def _strip(results: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """The few metrics shown large, each with the best baseline or what was promised."""
    metrics, baselines = results.get("metrics") or {}, ranked_baselines(results)
    tiles = []
    for name in (name for name in names if is_number((metrics.get(name) or {}).get("value"))):
        metric = metric_of(name)
        value, ends = formatting.bracket(metrics[name], metric.is_share)
        values = {who: other[name]["value"] for who, other in baselines.items() if other.get(name)}
        beside = ""
        if metric.nominal is not None:
            beside = f"{share(metric.nominal, 0)} promised"
        elif values:
            best = (max if metric.better == "higher" else min)(values, key=lambda who: values[who])
            beside = f"{share(values[best]) if metric.is_share else number(values[best])} {best}"
        tiles.append({"label": metric.label, "value": value, "interval": ends, "beside": beside})
    return tiles


def _timings(seconds: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    """(stage, time, its share of the slowest stage)."""
    longest = max([value for value in seconds.values() if is_number(value)], default=0) or 1
    return [(stage, duration(value), value / longest if is_number(value) else 0.0) for stage, value in seconds.items()]


def _panels(results: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """A small plot a metric: the model's interval above the baselines'. None without baselines."""
    metrics, baselines = results.get("metrics") or {}, ranked_baselines(results)
    panels = []
    for name in (name for name in names if is_number((metrics.get(name) or {}).get("value"))):
        metric = metric_of(name)
        rows = [("model", metrics[name])]
        rows += [(who, other[name]) for who, other in baselines.items() if other.get(name)]
        if len(rows) > 1:
            plot = plots.intervals(f"panel-{name}", metric.label, rows, metric.is_share)
            panels.append({"metric": metric, "plot": Markup(plot)})
    return panels


def files(source: Any) -> str:
    """A file name, or the first of several and how many more."""
    names = source if isinstance(source, list) else str(source or "").split(", ")
    more = f" and {count(len(names) - 2)} more" if len(names) > 2 else ""
    return ", ".join(map(str, names[:2])) + more


def options_line(options: Mapping[str, Any]) -> str:
    """The options that were set: `columns user = member, item = film; duplicates last`."""
    said = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            said += [f"{name} {', '.join(f'{key} = {part}' for key, part in value.items())}"] if value else []
        elif value not in (None, False, "", "auto"):
            said.append(f"{name} {formatting.plain_value(value)}")
    return formatting.plain_value("; ".join(said), 600)


def all_numbers(values: Sequence[Any] | None, at_least: int = 1) -> bool:
    """Whether there are at least so many values and all are finite."""
    return values is not None and len(values) >= at_least and all(is_number(value) for value in values)
