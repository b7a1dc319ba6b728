"""What is said of a ratings run, in sentences."""

from collections.abc import Mapping
from typing import Any

from predilect.tasks.formatting import count, duration, interval, is_number, number, scale_range, share, time_span

Results = Mapping[str, Any]
HEADLINE = {
    "mae_rounded": "its guesses, rounded to a legal rating, miss by {} on average",
    "mae": "its guesses miss by {} on average",
    "rmse": "its guesses miss by {} (root mean square)",
}
FIGURES = ("mae_rounded", "rmse", "coverage_90")


def learned(results: Results) -> str:
    """What was learned from what data."""
    data, split = results.get("dataset") or {}, results.get("split") or {}
    whose = f"how {count(data['n_users'])} users rate {count(data['n_items'])} items" if _sized(data) else "preferences"
    ratings = f"the {count(data.get('rows'))} ratings"
    if is_number(split.get("train_rows")) and split["train_rows"] != data.get("rows"):
        ratings = f"{count(split['train_rows'])} of {ratings}"
    facts = [scale_range(data.get("scale")), time_span(data.get("time_span"))]
    aside = f" ({', '.join(fact for fact in facts if fact)})" if any(facts) else ""
    return f"Predilect learned {whose} from {ratings} in {data.get('name') or 'an unnamed set'}{aside}."


def _sized(data: Results) -> bool:
    return is_number(data.get("n_users")) and is_number(data.get("n_items"))


def how_good(results: Results, against: str) -> str:
    """How far off its guesses are. against: what is to be said of the strongest baseline."""
    metrics = results.get("metrics") or {}
    name = next((name for name in HEADLINE if is_number((metrics.get(name) or {}).get("value"))), None)
    if name is None:
        return "No ratings were held out, so how well it predicts is not known."
    unseen = (results.get("split") or {}).get("test_rows")
    said = f"On {f'the {count(unseen)} ratings' if is_number(unseen) else 'ratings'} it did not see, "
    said += HEADLINE[name].format(interval(metrics[name]))
    said += against
    covered = (metrics.get("coverage_90") or {}).get("value")
    return said + (f"; its 90\u00a0% intervals hold {share(covered)} of them." if is_number(covered) else ".")


def fit_line(results: Results) -> str:
    """`converged in 63 sweeps; 5 of 10 dimensions count; noise sd 0.890; 1.28 s.`"""
    fit = results.get("fit")
    if not fit:
        return "not recorded."
    said = []
    if is_number(fit.get("n_sweeps")):
        said.append(
            f"{'did not converge' if fit.get('converged') is False else 'converged'} in {count(fit['n_sweeps'])} sweeps"
        )
    if is_number(fit.get("effective_dimensions")):
        of = f" of {len(fit['dimension_sd'])}" if fit.get("dimension_sd") else ""
        said.append(f"{fit['effective_dimensions']:g}{of} dimensions count")
    if fit.get("noise_sd"):
        said.append(f"noise sd {number(fit['noise_sd'][-1])}")
    if is_number(fit.get("seconds")):
        said.append(duration(fit["seconds"]))
    return "; ".join(said) + "."
