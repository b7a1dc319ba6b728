"""The greedy wrapper of Langseth and Nielsen (2015), section 4.1: (|U|, |M|, τ) by four folds of the training part."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import dropwhile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import default_threads
from predilect.models.errors import ParameterError
from predilect.models.evaluation.splits import k_folds
from predilect.models.fan_out import FanOut, fan_out
from predilect.models.ids import IdMap
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.scale import RatingScale
from predilect.models.structure_search import BudgetSpent, Candidate, StructureSearch

N_FOLDS = 4
TAU_LADDER = tuple(float(step * 10**power) for power in range(7) for step in (1, 2, 5))
"""1, 2, 5, 10, …, 5,000,000; the latents are gone well before its end."""


@dataclass(frozen=True)
class Structure:
    """What the wrapper chooses."""

    n_user_latents: int
    """|U| = t."""
    n_item_latents: int
    """|M| = s."""
    tau: float
    """Prior precision τ of the weights."""

    @property
    def key(self) -> tuple[int, float]:
        """Equal for structures that are one model: with v' = τ^¼ v, m' = τ^-¼ m only K = s + t and τ are left."""
        return self.n_user_latents + self.n_item_latents, self.tau

    def configure(self, config: VBConfig) -> VBConfig:
        """`config` with this structure, fixed."""
        return replace(
            config,
            n_user_latents=self.n_user_latents,
            n_item_latents=self.n_item_latents,
            tau=self.tau,
            precisions="fixed",
        )


@dataclass(frozen=True)
class SearchResult:
    """The path of a search and where it ended."""

    candidates: tuple[Candidate[Structure], ...]
    chosen: Candidate[Structure]
    n_fits: int
    budget: int | None
    stopped_by: str
    """"no improvement" or "budget"."""

    def to_facts(self) -> dict[str, Any]:
        """The `search` part of results.json."""
        return {
            "kind": "greedy",
            "budget": self.budget,
            "n_fits": self.n_fits,
            "stopped_by": self.stopped_by,
            "candidates": [record(candidate, chosen=candidate is self.chosen) for candidate in self.candidates],
            "chosen": record(self.chosen, chosen=True),
        }


def record(candidate: Candidate[Structure], *, chosen: bool = False) -> dict[str, Any]:
    """A candidate as JSON: a line of the search journal, an entry of results.json."""
    return {
        "step": candidate.step,
        "n_user_latents": candidate.structure.n_user_latents,
        "n_item_latents": candidate.structure.n_item_latents,
        "tau": candidate.structure.tau,
        "fold_mae": list(candidate.fold_losses),
        "mae": candidate.loss,
        "shared_with": candidate.shared_with,
        "chosen": chosen,
    }


def finished_candidates(records: Iterable[Mapping[str, Any]]) -> dict[Structure, list[float]]:
    """The inverse of `record` for a journal's lines. Raises ParameterError when a line is not one."""
    finished: dict[Structure, list[float]] = {}
    for place, line in enumerate(records):
        try:
            structure = Structure(int(line["n_user_latents"]), int(line["n_item_latents"]), float(line["tau"]))
            finished[structure] = [float(loss) for loss in line["fold_mae"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ParameterError(
                f"entry {place + 1} of the search journal is no candidate ({error!r}); remove the journal to restart."
            ) from error
    return finished


def greedy(
    score: Callable[[Structure], list[float]],
    *,
    n_folds: int = N_FOLDS,
    budget: int | None = None,
    finished: Mapping[Structure, list[float]] | None = None,
    on_candidate: Callable[[Candidate[Structure]], None] | None = None,
) -> SearchResult:
    """The paper's wrapper: from |U| = |M| = 1 and τ = 1, raise τ until the loss gets worse; then try one more latent
    on either side, each with its own climb of τ from where it stands, and move while that improves.

    score: fold MAEs of a structure, see `FoldScorer`. budget: fits (a candidate takes n_folds) at most. finished and
    on_candidate: see `StructureSearch`. The result depends on the losses only, so a resumed search ends where the
    uninterrupted one does. Raises ParameterError when the budget does not cover one candidate.
    """
    search = StructureSearch(
        score, n_folds, key=lambda structure: structure.key, budget=budget, finished=finished, on_candidate=on_candidate
    )
    stopped_by = "no improvement"
    try:
        here = search.climb(_climb_of_tau(1, 1, TAU_LADDER[0]))
        while True:
            at = here.structure
            neighbours = [
                search.climb(_climb_of_tau(at.n_user_latents + more_user, at.n_item_latents + more_item, at.tau))
                for more_user, more_item in ((0, 1), (1, 0))
            ]
            best = min(neighbours, key=lambda candidate: candidate.loss)
            if best.loss >= here.loss:
                break
            here = best
    except BudgetSpent:
        stopped_by = "budget"
    return SearchResult(tuple(search.candidates), search.best, search.n_fits, budget, stopped_by)


def _climb_of_tau(n_user_latents: int, n_item_latents: int, tau: float) -> Iterator[Structure]:
    for step in dropwhile(lambda step: step < tau, TAU_LADDER):
        yield Structure(n_user_latents, n_item_latents, step)


@dataclass(frozen=True)
class FoldScorer:
    """Rounded MAE of a structure on each fold of the training part."""

    users: NDArray[np.int32]
    """Codes of the training part, shape (N,); so are items and ratings."""
    items: NDArray[np.int32]
    ratings: NDArray[np.float32]
    scale: RatingScale
    config: VBConfig
    """Stopping rule and priors; the structure, `fixed` and one start are put in."""
    user_ids: IdMap
    item_ids: IdMap
    folds: NDArray[np.int8]
    """The fold of each row, shape (N,)."""
    seed: int
    n_threads: int
    elsewhere: FanOut | None = None
    """Where the folds are fitted; None: on threads of this process."""

    @classmethod
    def of(
        cls,
        users: NDArray[np.int32],
        items: NDArray[np.int32],
        ratings: NDArray[np.float32],
        scale: RatingScale,
        config: VBConfig,
        *,
        user_ids: IdMap,
        item_ids: IdMap,
        seed: int,
        n_folds: int = N_FOLDS,
        n_threads: int | None = None,
        elsewhere: FanOut | None = None,
    ) -> Self:
        """Draw the folds from the rows given, which must be of the training part only."""
        folds = k_folds(len(ratings), n_folds, seed)
        n_threads = default_threads() if n_threads is None else n_threads
        return cls(users, items, ratings, scale, config, user_ids, item_ids, folds, seed, n_threads, elsewhere)

    @property
    def n_folds(self) -> int:
        return int(self.folds.max()) + 1

    def __call__(self, structure: Structure) -> list[float]:
        """The rounded MAE of each fold; the same for any number of threads or workers."""
        config = replace(structure.configure(self.config), restarts=1)
        inner = 1 if self.elsewhere else max(1, self.n_threads // self.n_folds)
        data = replace(self, elsewhere=None)  # which may travel

        def fold_mae(fold: int) -> float:
            return data._fold_mae(config, fold, inner)

        run = self.elsewhere or partial(fan_out, n_threads=self.n_threads)
        losses = dict(run(fold_mae, self.n_folds))
        return [losses[fold] for fold in range(self.n_folds)]

    def _fold_mae(self, config: VBConfig, fold: int, n_threads: int) -> float:
        train = self.folds != fold
        model = RatingsModel.fit(
            self.users[train],
            self.items[train],
            self.ratings[train],
            self.scale,
            config,
            user_ids=self.user_ids,
            item_ids=self.item_ids,
            seed=self.seed,
            n_threads=n_threads,
        )
        test = ~train
        predicted = self.scale.round(model.predict(self.users[test], self.items[test]).mean)
        return float(np.mean(np.abs(self.ratings[test].astype(np.float64) - predicted)))
