"""What is said of a clicks run, in sentences."""

from collections.abc import Mapping
from typing import Any

from predilect.tasks.formatting import count, duration, interval, is_number, number, share

Results = Mapping[str, Any]
HEADLINE = ("log_likelihood_row", "log_likelihood_impression")
FIGURES = ("log_likelihood_row", "auc", "coverage_90")
MODELS = {
    "log": "logistic regression",
    "bbl": "a beta-binomial with one variability",
    "prop": "a beta-binomial whose mean and variability depend on the context",
}


def learned(results: Results) -> str:
    """What was learned from what data."""
    data, split, fit = (results.get(part) or {} for part in ("dataset", "split", "fit"))
    kind = MODELS.get(str(fit.get("model", ""))[2:], "click probabilities")
    rows = f"the {count(data.get('rows'))} rows"
    if is_number(split.get("train_rows")) and split["train_rows"] != data.get("rows"):
        rows = f"{count(split['train_rows'])} of {rows}"
    shown = split.get("train_impressions", data.get("n_impressions"))
    return (
        f"Predilect learned {kind} from {rows} in {data.get('name') or 'an unnamed set'}, which stand for "
        f"{count(shown)} impressions."
    )


def how_good(results: Results, against: str) -> str:
    """How well held-out click counts are predicted. against: what is to be said of the strongest baseline."""
    metrics, split = results.get("metrics") or {}, results.get("split") or {}
    held_out = metrics.get("log_likelihood_row")
    if not is_number((held_out or {}).get("value")):
        return "No rows were held out, so how well it predicts is not known."
    said = f"The {count(split.get('test_rows'))} rows it did not see have a mean log-likelihood of {interval(held_out)}"
    covered = (metrics.get("coverage_90") or {}).get("value")
    return (
        said
        + against
        + (f"; its 90\u00a0% intervals hold {share(covered)} of their click counts." if is_number(covered) else ".")
    )


def fit_line(results: Results) -> str:
    """`2,530 coefficients in 6 blocks; precisions settled in 5 rounds, 21 Newton steps (largest slope 2e-06); 4 s.`"""
    fit = results.get("fit")
    if not fit:
        return "not recorded."
    said = []
    if is_number(fit.get("n_coefficients")):
        said.append(f"{count(fit['n_coefficients'])} coefficients in {count(len(fit.get('blocks') or {}))} blocks")
    if is_number(fit.get("n_rounds")):
        how = "did not settle" if fit.get("converged") is False else "settled"
        slope = f" (largest slope {fit['gradient_norm']:.0e})" if is_number(fit.get("gradient_norm")) else ""
        said.append(f"precisions {how} in {count(fit['n_rounds'])} rounds, {count(fit.get('n_iterations'))} Newton "
                    f"steps{slope}")  # fmt: skip
    if is_number(fit.get("seconds")):
        said.append(duration(fit["seconds"]))
    return "; ".join(said) + "."


def precision_text(value: float) -> str:
    """A prior precision, to three digits."""
    return number(value, 3 if value < 1 else 2 if value < 100 else 0)
