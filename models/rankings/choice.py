"""How many components: log-likelihood of held-out ballots on folds, and BIC."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.random import stream
from predilect.models.rankings.ballots import Ballots
from predilect.models.rankings.config import RankingsConfig
from predilect.models.rankings.model import RankingsModel


@dataclass(frozen=True)
class ComponentScore:
    """How K components do. held_out (folds,): mean log-likelihood a held-out ballot of each fold; higher is better."""

    n_components: int
    held_out: tuple[float, ...]
    bic: float
    log_likelihood: float
    converged: bool

    @property
    def mean_held_out(self) -> float:
        """Mean over the folds."""
        return float(np.mean(self.held_out))

    @property
    def standard_error(self) -> float:
        """Of that mean, from the spread between folds."""
        folds = len(self.held_out)
        return float(np.std(self.held_out, ddof=1) / np.sqrt(folds)) if folds > 1 else float("nan")


def folds(ballots: Ballots, n_folds: int, seed: int) -> NDArray[np.int64]:
    """How many ballots of each row fall in each fold (m, n_folds); raises ParameterError below two folds."""
    total = int(ballots.counts.sum())
    if not 2 <= n_folds <= total:
        raise ParameterError(f"n_folds is {n_folds}; give 2 to {total}, the number of ballots.")
    return ballots.split(n_folds, stream(seed, "folds"))


def hold_out(ballots: Ballots, parts: NDArray[np.int64], fold: int) -> tuple[Ballots, Ballots]:
    """The ballots outside and inside a fold of `folds`."""
    return ballots.with_counts(parts.sum(axis=1) - parts[:, fold]), ballots.with_counts(parts[:, fold])


def held_out_log_likelihood(
    ballots: Ballots,
    parts: NDArray[np.int64],
    fold: int,
    config: RankingsConfig,
    *,
    seed: int,
    n_threads: int | None = None,
    item_ids: IdMap | None = None,
) -> float:
    """Mean log-likelihood a ballot of one fold under a fit to the others. item_ids: for messages.

    Raises DataError, naming the fold and the items, when the others have no finite worths and ν = 0.
    """
    train, test = hold_out(ballots, parts, fold)
    try:
        model = RankingsModel.fit(train, config, item_ids=item_ids, seed=seed, n_threads=n_threads)
    except DataError as error:
        raise DataError(f"Without fold {fold + 1}: {error}") from error
    return float(test.weights @ model.log_likelihoods(test) / test.weights.sum())


def score_components(
    ballots: Ballots, config: RankingsConfig, n_folds: int, *, seed: int, n_threads: int | None = None
) -> ComponentScore:
    """The held-out log-likelihood on every fold and the BIC of a fit to all ballots; raises as its parts do."""
    parts = folds(ballots, n_folds, seed)
    held_out = [
        held_out_log_likelihood(ballots, parts, fold, config, seed=seed, n_threads=n_threads) for fold in range(n_folds)
    ]
    model = RankingsModel.fit(ballots, config, seed=seed, n_threads=n_threads)
    return ComponentScore(config.n_components, tuple(held_out), model.bic, model.log_likelihood, model.converged)


def choose_components(
    ballots: Ballots,
    candidates: Sequence[int],
    config: RankingsConfig,
    *,
    n_folds: int = 4,
    seed: int,
    n_threads: int | None = None,
) -> list[ComponentScore]:
    """The scores of each candidate number of components, in the order given."""
    return [
        score_components(ballots, replace(config, n_components=k), n_folds, seed=seed, n_threads=n_threads)
        for k in candidates
    ]


def best_held_out(scores: Sequence[ComponentScore]) -> ComponentScore:
    """The highest held-out log-likelihood, the fewest components of equals."""
    return max(scores, key=lambda score: (score.mean_held_out, -score.n_components))


def best_bic(scores: Sequence[ComponentScore]) -> ComponentScore:
    """The lowest BIC, the fewest components of equals."""
    return min(scores, key=lambda score: (score.bic, score.n_components))
