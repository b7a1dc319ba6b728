"""How numbers, dates and metrics are written for people: the same on the page, in Markdown and in the terminal."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

NOTHING = "–"
MINUS = "\u2212"
SPACE = "\u00a0"  # never breaks between a number and its unit


@dataclass(frozen=True)
class Metric:
    """What a metric is called, what it means, and which way is better: "lower", "higher", or "" where neither is."""

    label: str
    meaning: str
    better: str = ""
    is_share: bool = False
    nominal: float | None = None


METRICS: dict[str, Metric] = {
    "mae_rounded": Metric("MAE, rounded", "mean absolute error of guesses rounded to a legal rating", "lower"),
    "mae": Metric("MAE", "mean absolute error", "lower"),
    "rmse": Metric("RMSE", "root mean squared error", "lower"),
    "rmse_new_users": Metric("RMSE, new users", "of users with five training ratings or fewer", "lower"),
    "rmse_new_items": Metric("RMSE, new items", "of items with five training ratings or fewer", "lower"),
    "log_predictive_density": Metric("Log predictive density", "mean log density of a rating, in nats", "higher"),
    "coverage_50": Metric("50 % coverage", "ratings inside their 50 % interval", is_share=True, nominal=0.5),
    "coverage_80": Metric("80 % coverage", "ratings inside their 80 % interval", is_share=True, nominal=0.8),
    "coverage_90": Metric("90 % coverage", "ratings inside their 90 % interval", is_share=True, nominal=0.9),
    "coverage_95": Metric("95 % coverage", "ratings inside their 95 % interval", is_share=True, nominal=0.95),
    "interval_width_90": Metric("90 % interval width", "mean width, in rating points"),
    "ndcg_10": Metric("NDCG@10", "are the ten best suggestions in good order?", "higher"),
    "recall_10": Metric("Recall@10", "share of liked items among ten suggestions", "higher"),
    "heldout_log_likelihood_ballot": Metric(
        "Log-likelihood a held-out ballot", "mean, in nats: how little an unseen ballot surprises", "higher"
    ),
    "heldout_log_likelihood_choice": Metric(
        "Log-likelihood a held-out choice", "a ballot is a choice a place; mean, in nats", "higher"
    ),
    "pair_accuracy": Metric(
        "Pairs ordered right", "of the pairs that held-out ballots compare", "higher", is_share=True
    ),
    "log_likelihood_row": Metric("Log-likelihood a row", "of a held-out row's click count; mean, in nats", "higher"),
    "log_likelihood_impression": Metric(
        "Log-likelihood an impression", "each impression on its own; mean, in nats", "higher"
    ),
    "auc": Metric("AUC", "chance that a click is placed above a pass", "higher"),
    "sauc": Metric("SAUC", "the same, clicks on what a user has not picked before counting more", "higher"),
    "log_likelihood": Metric("Log-likelihood", "of all ballots fitted on, in nats", "higher"),
    "bic": Metric("BIC", "Bayesian information criterion of the fit", "lower"),
}


# What the same metric means of another family.
MEANINGS = {("clicks", "coverage_90"): "held-out click counts inside their 90 % interval"}


def metric_of(name: str, family: str = "") -> Metric:
    """The metric called `name`, as it is meant of a family; one nobody described keeps its own name as label."""
    metric = METRICS.get(name) or Metric(name.replace("_", " "), "")
    return replace(metric, meaning=MEANINGS.get((family, name), metric.meaning))


def in_order(names: Sequence[str]) -> list[str]:
    """Metric names in the order people read them; unknown ones last, as they came."""
    return [name for name in METRICS if name in names] + [name for name in names if name not in METRICS]


def is_number(x: object) -> bool:
    """Whether `x` is a finite number (a truth value is not)."""
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def decimals_for(value: float, spread: float = 0.0) -> int:
    """Decimals that show a value of this size; more when its interval's half-width `spread` needs them."""
    size = abs(value)
    usual = 3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0
    finer = math.ceil(-math.log10(spread)) if spread > 0 else 0
    return max(usual, finer) if finer <= usual + 2 else usual  # an interval of no width needs none


def number(x: Any, decimals: int | None = None) -> str:
    """`0.669`, `−1,234.5`; a dash for what is missing or not finite."""
    if not is_number(x):
        return NOTHING
    text = f"{x:,.{decimals_for(x) if decimals is None else decimals}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text.replace("-", MINUS)


def compact(x: float) -> str:
    """As few digits as say it: `3`, `3.5`, `−10`."""
    return f"{x:g}".replace("-", MINUS)


def count(n: Any) -> str:
    """`100,000`."""
    return f"{int(n):,}".replace("-", MINUS) if is_number(n) else NOTHING


def share(x: Any, decimals: int = 1) -> str:
    """`89.6 %` of a share between 0 and 1."""
    return f"{number(100 * x, decimals)}{SPACE}%" if is_number(x) else NOTHING


def bracket(estimate: Mapping[str, Any] | None, is_share: bool = False, signed: bool = False) -> tuple[str, str]:
    """The two halves of an estimate {value, low, high}: ("0.669", "[0.661, 0.677]"); "" where there is no interval."""
    if not estimate or not is_number(estimate.get("value")):
        return NOTHING, ""
    scale = 100 if is_share else 1
    value = estimate["value"] * scale
    ends = [estimate[end] * scale for end in ("low", "high") if is_number(estimate.get(end))]
    if is_share:
        decimals = 1
    else:
        decimals = decimals_for(value, (ends[1] - ends[0]) / 2 if len(ends) == 2 else 0.0)
    plus = "+" if signed and value > 0 and number(value, decimals) != number(0, decimals) else ""
    text = plus + number(value, decimals) + (f"{SPACE}{'pp' if signed else '%'}" if is_share else "")
    return text, f"[{number(ends[0], decimals)}, {number(ends[1], decimals)}]" if len(ends) == 2 else ""


def interval(estimate: Mapping[str, Any] | None, is_share: bool = False, signed: bool = False) -> str:
    """`0.669 [0.661, 0.677]` of {value, low, high}; `89.6 % [89.0, 90.2]` of shares.

    signed: for a difference; a plus before a gain, and shares differ by percentage points (pp).
    """
    return " ".join(bracket(estimate, is_share, signed)).strip()


def verdict(name: str, difference: Mapping[str, Any] | None) -> str:
    """Better, worse or no clear difference: does the paired 95 % interval leave out zero? "" where nobody knows."""
    better = metric_of(name).better
    if not better or not difference or not (is_number(difference.get("low")) and is_number(difference.get("high"))):
        return ""
    if difference["low"] <= 0 <= difference["high"]:
        return "no clear difference"
    return "better" if (difference["high"] < 0) == (better == "lower") else "worse"


def duration(seconds: Any) -> str:
    """`0.42 s`, `12.3 s`, `3 min 05 s`, `1 h 02 min`."""
    if not is_number(seconds):
        return NOTHING
    if seconds < 59.95:
        return f"{seconds:.2f}{SPACE}s" if seconds < 9.995 else f"{seconds:.1f}{SPACE}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{SPACE}min {rest:02d}{SPACE}s"
    return f"{minutes // 60}{SPACE}h {minutes % 60:02d}{SPACE}min"


def day(unix_seconds: Any) -> str:
    """`20 September 1997` (UTC); a dash for seconds no calendar holds."""
    try:
        moment_ = datetime.fromtimestamp(unix_seconds, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return NOTHING
    return f"{moment_.day} {moment_:%B %Y}"


def time_span(span: Sequence[Any] | None) -> str:
    """`20 September 1997 to 22 April 1998`, one day when both ends are the same, "" when there is none."""
    if not span or len(span) != 2 or NOTHING in (ends := [day(end) for end in span]):
        return ""
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def moment(iso: Any) -> str:
    """`22 April 1998, 23:10 UTC` of an ISO time or unix seconds; other text is kept as it is."""
    try:
        when = datetime.fromtimestamp(iso, UTC) if is_number(iso) else datetime.fromisoformat(str(iso))
    except (ValueError, OverflowError, OSError):
        return str(iso)
    if when.tzinfo is not None:
        when = when.astimezone(UTC)
    return f"{when.day} {when:%B %Y, %H:%M}" + (" UTC" if when.tzinfo else "")


def plain_value(value: Any, limit: int = 300) -> str:
    """A parameter or observed value as short text: `100`, `1e-05`, `true`, `["a", "b"]`; cut at `limit` characters."""
    if value is None:
        text = NOTHING
    elif isinstance(value, str):
        text = value
    elif isinstance(value, float):
        text = f"{value:.6g}"
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def scale_range(scale: Mapping[str, Any] | None) -> str:
    """`1 to 5` of {low, high}."""
    if not scale or not (is_number(scale.get("low")) and is_number(scale.get("high"))):
        return ""
    return f"{compact(scale['low'])} to {compact(scale['high'])}"


def plain(value: Any) -> Any:
    """The same results as plain JSON values: NumPy unwrapped, and what is not finite made None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
