"""What the segments of a mixture are: sizes, worths and ranks with intervals, what sets them apart, the leaderboard."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.errors import ParameterError
from predilect.models.fan_out import Spread
from predilect.models.random import stream
from predilect.models.rankings import Ballots, Mixture, RankingsModel
from predilect.models.rankings.prediction import first_probabilities, win_matrix
from predilect.models.rankings.resampling import ranks
from predilect.models.rankings.uncertainty import Uncertainty, quasi_variances
from predilect.tasks.parameters_rankings import RankingsParameters

Json = dict[str, Any]
Floats = NDArray[np.float64]

LEAST_DRAWS = 20  # fewer do not make an interval
NORMAL_DRAWS = 400
MOST_ITEMS = 60  # of the win matrix in the results
MOST_QUASI = 150  # items, beyond which quasi-variances take longer than the fit
TELLING = 4


@dataclass(frozen=True)
class Draws:
    """Worths as uncertain as they are: log-worths (B, n, K) and shares (B, K); B = 0 when nothing is known of that.

    kind: "bootstrap", "information" (normal draws) or "none".
    """

    log_worths: Floats
    shares: Floats
    kind: str
    warnings: list[str]
    refits: int = 0
    disconnected: int = 0
    emptied: int = 0

    def interval(self, values: Floats, of_draws: Floats) -> list[Any]:
        """{value, low, high} in the shape of `values`, of_draws having one axis more, the first."""
        if len(of_draws):
            low, high = np.quantile(of_draws, [0.025, 0.975], axis=0)
        else:
            low = high = np.full(values.shape, np.nan)
        made: list[Any] = _estimates(values, low, high)
        return made


def describe_segments(
    model: RankingsModel, train: Ballots, parameters: RankingsParameters, spread: Spread
) -> tuple[Json, Draws]:
    """Everything about the segments, by component, largest first; and the draws that its intervals are of.

    shares [K] and, by segment then item, log_worths, worths (P first in the segment), ranks, each {value, low, high};
    standard_errors and quasi_variances by segment then item, null where the ballots do not determine them.
    """
    errors, said = _uncertainty(model, train)
    draws = _draws(model, train, errors, parameters, spread)
    log_worths = model.log_worths
    posterior = model.responsibilities(train, spread.n_threads)
    expected = train.counts @ posterior
    surest = float(train.counts @ posterior.max(axis=1) / train.counts.sum())
    quasi = [_quasi(errors, k) for k in range(model.n_components)]
    segments = {
        "n": model.n_components,
        "intervals": {
            "kind": draws.kind,
            "draws": len(draws.log_worths),
            "refits": draws.refits,
            "disconnected": draws.disconnected,
            "emptied": draws.emptied,
        },
        "shares": draws.interval(model.shares, draws.shares),
        "share_errors": _numbers(errors.share_errors) if errors else [None] * model.n_components,
        "ballots": expected.tolist(),
        "assigned": np.bincount(posterior.argmax(axis=1), train.counts, model.n_components).tolist(),
        "certainty": surest,
        "log_worths": draws.interval(log_worths.T, draws.log_worths.transpose(0, 2, 1)),
        "worths": draws.interval(model.worths.T, _worths(draws.log_worths).transpose(0, 2, 1)),
        "ranks": draws.interval(
            ranks(log_worths).T.astype(np.float64), ranks(draws.log_worths).transpose(0, 2, 1).astype(np.float64)
        ),
        "standard_errors": [_numbers(errors.standard_errors[:, k]) if errors else None
                            for k in range(model.n_components)],
        "quasi_variances": [values for values, _ in quasi],
        "quasi_worst_error": [worst for _, worst in quasi],
        "telling": [telling(model.mixture, k) for k in range(model.n_components)],
    }  # fmt: skip
    segments["warnings"] = said + draws.warnings
    return segments, draws


def telling(mixture: Mixture, k: int) -> Json:
    """Items (codes) that segment k likes most, and those it likes more, and less, than the other segments do.

    "Than the others do": log-worths against the others' mean by share, as {item, by}; by is a ratio of odds, e^|gap|.
    """
    theta = mixture.log_worths
    top = np.argsort(-theta[:, k], kind="stable")[:TELLING].tolist()
    if mixture.n_components == 1:
        return {"top": top, "more": [], "less": []}
    others = np.delete(mixture.shares, k)
    gap = theta[:, k] - np.delete(theta, k, axis=1) @ (others / others.sum())
    order = np.argsort(-gap, kind="stable")
    more = [{"item": int(i), "by": float(np.exp(gap[i]))} for i in order[:TELLING] if gap[i] > 0]
    less = [{"item": int(i), "by": float(np.exp(-gap[i]))} for i in order[::-1][:TELLING] if gap[i] < 0]
    return {"top": top, "more": more, "less": less}


def overall(model: RankingsModel, draws: Draws, train: Ballots) -> Json:
    """All segments together: rank, chance to win a comparison, chance to be first, by item code; and the win matrix.

    `wins` is P(i before j) averaged over all other items j. order: items by it, best first. Of many items the matrix
    holds the first MOST_ITEMS.
    """
    mixture = model.mixture
    matrix = win_matrix(mixture)
    n_items = len(matrix)
    drawn = [Mixture(theta, shares) for theta, shares in zip(draws.log_worths, draws.shares, strict=True)]
    wins = _mean_wins(matrix)
    wins_drawn = np.array([_mean_wins(win_matrix(each)) for each in drawn]).reshape(-1, n_items)
    first_drawn = np.array([first_probabilities(each) for each in drawn]).reshape(-1, n_items)
    order = np.argsort(-wins, kind="stable")
    shown = order[:MOST_ITEMS]
    on = np.bincount(train.items, np.repeat(train.counts, train.lengths), n_items)
    return {
        "order": order.tolist(),
        "ranks": draws.interval(
            ranks(wins[:, None])[:, 0].astype(float), ranks(wins_drawn[:, :, None])[:, :, 0].astype(float)
        ),
        "wins": draws.interval(wins, wins_drawn),
        "first": draws.interval(first_probabilities(mixture), first_drawn),
        "ballots": on.astype(np.int64).tolist(),
        "matrix": {"items": shown.tolist(), "chance": matrix[np.ix_(shown, shown)].tolist()},
    }


def _mean_wins(matrix: Floats) -> Floats:
    mean: Floats = (matrix.sum(axis=1) - 0.5) / (len(matrix) - 1)
    return mean


def _uncertainty(model: RankingsModel, train: Ballots) -> tuple[Uncertainty | None, list[str]]:
    try:
        found = model.uncertainty(train)
    except ParameterError as error:
        return None, [str(error)]
    if found.singular:
        return None, [
            "The ballots do not determine every worth in every segment (the observed information is singular), so "
            "there are no standard errors; fewer segments or nu above 0 would mend that."
        ]
    return found, []


def _draws(
    model: RankingsModel, train: Ballots, errors: Uncertainty | None, parameters: RankingsParameters, spread: Spread
) -> Draws:
    n_items, n_components = model.log_worths.shape
    said = []
    if parameters.refits:
        found = model.bootstrap(
            train,
            n_resamples=parameters.refits,
            seed=parameters.seed,
            n_threads=spread.n_threads,
            elsewhere=spread.elsewhere,
        )
        lost = found.n_degenerate
        if lost:
            said.append(
                f"{lost} of {parameters.refits} bootstrap refits are not in the intervals: in {found.n_disconnected} "
                f"some worths had no finite value, in {found.n_emptied} a segment ran empty; the ballots are few."
            )
        if len(found.shares) >= LEAST_DRAWS:
            counted = (parameters.refits, found.n_disconnected, found.n_emptied)
            return Draws(found.log_worths, found.shares, "bootstrap", said, *counted)
        said.append(f"{len(found.shares)} bootstrap refits are too few for intervals; they are of the information.")
    if errors is None:
        return Draws(np.empty((0, n_items, n_components)), np.empty((0, n_components)), "none", said)
    generator = stream(parameters.seed, "normal draws")
    theta = np.empty((NORMAL_DRAWS, n_items, n_components))
    for k in range(n_components):
        values, vectors = np.linalg.eigh(errors.covariance[k])
        root = vectors * np.sqrt(np.maximum(values, 0))
        theta[:, :, k] = model.log_worths[:, k] + generator.standard_normal((NORMAL_DRAWS, n_items)) @ root.T
    shares = model.shares + generator.standard_normal((NORMAL_DRAWS, n_components)) * errors.share_errors
    shares = np.maximum(shares, 1e-9)
    return Draws(theta, shares / shares.sum(axis=1, keepdims=True), "information", said)


def _quasi(errors: Uncertainty | None, k: int) -> tuple[list[float | None] | None, float | None]:
    if errors is None or len(errors.standard_errors) > MOST_QUASI:
        return None, None
    found = quasi_variances(errors.covariance[k])
    return _numbers(found.values), found.worst_error


def _worths(log_worths: Floats) -> Floats:
    """e^θ, each component summing to 1 over the items (the last axis but one)."""
    if not len(log_worths):
        return log_worths
    worths = np.exp(log_worths - log_worths.max(axis=-2, keepdims=True))
    normalised: Floats = worths / worths.sum(axis=-2, keepdims=True)
    return normalised


def _estimates(value: Any, low: Any, high: Any) -> Any:
    if np.ndim(value):
        return [_estimates(*each) for each in zip(value, low, high, strict=True)]
    return {"value": float(value), "low": _number(low), "high": _number(high)}


def _numbers(values: Floats) -> list[float | None]:
    return [_number(value) for value in values]


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
