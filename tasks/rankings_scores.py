"""Scores of a mixture on ballots, ballot by ballot, for the bootstrap."""

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import threads
from predilect.models.evaluation.bootstrap import Estimate, Total, resample
from predilect.models.evaluation.bootstrap import interval as percentiles
from predilect.models.fan_out import Spread
from predilect.models.rankings import Ballots, Mixture, RankingsModel
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.prediction import win_matrix

# Beyond this many pairs of places the order of pairs is not scored: it would take longer than the fit.
MOST_PLACE_PAIRS = 5e9
BLOCK = 1 << 16


def ballot_scores(mixture: Mixture, ballots: Ballots, n_threads: int) -> dict[str, Total]:
    """Held-out metrics by ballot: a row that stands for several gives several entries.

    Log-likelihood a ballot and a choice; share of the pairs that a ballot compares which the mixture orders as it does.
    """
    layout = Layout(ballots)
    each = np.empty(len(ballots))
    with threads(n_threads) as pool:
        layout.run(pool, mixture.log_worths, mixture.shares, log_likelihoods=each)
    row = np.repeat(np.arange(len(ballots)), ballots.counts)
    weight = (ballots.weights / ballots.counts)[row]
    totals = {
        "heldout_log_likelihood_ballot": Total(weight * each[row], weight),
        "heldout_log_likelihood_choice": Total(weight * each[row], weight * ballots.stages[row]),
    }
    if float((ballots.lengths.astype(np.float64) ** 2).sum()) <= MOST_PLACE_PAIRS:
        right, pairs = _pairs_in_order(win_matrix(mixture), ballots)
        totals["pair_accuracy"] = Total(weight * right[row], weight * pairs[row])
    return totals


def fit_scores(model: RankingsModel, train: Ballots, seed: int, resamples: int, spread: Spread) -> dict[str, Estimate]:
    """Log-likelihood of all ballots fitted on and BIC, with intervals over ballots for fixed worths."""
    each = model.log_likelihoods(train, spread.n_threads)
    row = np.repeat(np.arange(len(train)), train.counts)
    weight = (train.weights / train.counts)[row]
    total = Total(weight * each[row], np.ones(len(row)))
    _, draws = resample({"mean": total}, seed=seed, resamples=resamples, spread=spread)
    drawn = draws["mean"] * len(row)
    fine = model.n_parameters * float(np.log(model.n_ballots))
    return {
        "log_likelihood": percentiles(model.log_likelihood, drawn),
        "bic": percentiles(model.bic, fine - 2 * drawn),
    }


def _pairs_in_order(chance: NDArray[np.float64], ballots: Ballots) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each ballot: how many of the pairs that it compares have P(i before j) > ½, a tie being half; and how many.

    chance: (n, n). Under menu "all", items not named come after those named.
    """
    n_items = len(chance)
    before = (chance > 0.5) + 0.5 * (chance == 0.5)
    np.fill_diagonal(before, 0.0)
    against_all = before.sum(axis=1)
    lengths = ballots.lengths
    right, pairs = np.zeros(len(ballots)), np.zeros(len(ballots))
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        behind = n_items - length if ballots.menu == "all" else 0
        pairs[rows] = length * (length - 1) / 2 + length * behind
        for first in range(0, len(rows), max(1, BLOCK // length)):
            some = rows[first : first + max(1, BLOCK // length)]
            items = ballots.items[ballots.offsets[some][:, None] + np.arange(length)]
            for place in range(length):
                better = items[:, place]
                right[some] += before[better[:, None], items[:, place + 1 :]].sum(axis=1)
                if behind:
                    right[some] += against_all[better] - before[better[:, None], items].sum(axis=1)
    return right, pairs
