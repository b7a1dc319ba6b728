"""What is said of a rankings run, in sentences."""

from collections.abc import Mapping
from typing import Any

from predilect.tasks.formatting import count, duration, interval, is_number, number, share

Results = Mapping[str, Any]
HEADLINE = ("heldout_log_likelihood_ballot", "log_likelihood")
FIGURES = ("heldout_log_likelihood_ballot", "log_likelihood", "bic")
MENUS = {"all": "all items on offer on every ballot", "ranked": "only the ranked items on offer"}


def learned(results: Results) -> str:
    """What was learned from what data."""
    data, split = results.get("dataset") or {}, results.get("split") or {}
    n_segments = (results.get("segments") or {}).get("n")
    whom = {None: "preferences", 1: "one set of worths"}.get(n_segments, f"{count(n_segments)} segments of voters")
    ballots = f"the {count(data.get('n_ballots'))} ballots"
    if is_number(split.get("train_rows")) and split["train_rows"] != data.get("n_ballots"):
        ballots = f"{count(split['train_rows'])} of {ballots}"
    menu = MENUS.get((results.get("parameters") or {}).get("menu", ""), "")
    aside = f" ({menu})" if menu else ""
    return f"Predilect learned {whom} over {count(data.get('n_items'))} items from {ballots} in " + (
        f"{data.get('name') or 'an unnamed set'}{aside}."
    )


def how_good(results: Results, against: str) -> str:
    """How well held-out ballots are predicted. against: what is to be said of the strongest baseline."""
    metrics, split = results.get("metrics") or {}, results.get("split") or {}
    held_out = metrics.get("heldout_log_likelihood_ballot")
    if not is_number((held_out or {}).get("value")):
        said = f"The log-likelihood of all of them is {number((metrics.get('log_likelihood') or {}).get('value'), 2)}"
        return f"{said}; none were held out, so how well it predicts is not known."
    said = (
        f"The {count(split.get('test_rows'))} ballots it did not see have a mean log-likelihood of {interval(held_out)}"
    )
    pairs = (metrics.get("pair_accuracy") or {}).get("value")
    return said + against + (f"; it orders {share(pairs)} of their pairs right." if is_number(pairs) else ".")


def fit_line(results: Results) -> str:
    """`2 segments, 9 parameters; converged in 63 passes (certificate 8.1e-09); best of 13 starts; 1.28 s.`"""
    fit = results.get("fit")
    if not fit:
        return "not recorded."
    said = []
    if is_number(fit.get("n_components")):
        n_segments, n_parameters = fit["n_components"], fit.get("n_parameters")
        said.append(f"{count(n_segments)} segment{'s' * (n_segments != 1)}, {count(n_parameters)} parameters")
    if is_number(fit.get("n_passes")):
        how = "did not converge" if fit.get("converged") is False else "converged"
        certificate = f" (certificate {fit['certificate']:.1e})" if is_number(fit.get("certificate")) else ""
        said.append(f"{how} in {count(fit['n_passes'])} passes{certificate}")
    if len(fit.get("starts") or []) > 1:
        said.append(f"best of {count(len(fit['starts']))} starts")
    if is_number(fit.get("seconds")):
        said.append(duration(fit["seconds"]))
    return "; ".join(said) + "."
