"""Search over model structures by the loss on held-out folds; the same for every model family.

Pure logic around a `score(structure)` callable. Structures that are one model are fitted once, fits are counted
against a budget, every candidate is handed to a callback as it finishes, and a search that is given the
candidates of an interrupted one walks the same path without fitting any of them again.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from predilect.models.errors import NotConvergedError, ParameterError

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Candidate(Generic[S]):
    """One structure with its held-out losses."""

    step: int
    """Place in the order in which structures were asked for, from 0."""
    structure: S
    fold_losses: tuple[float, ...]
    """Held-out loss of each fold; lower is better."""
    shared_with: int | None = None
    """Step of the equivalent structure whose fits these are; None when it was fitted for itself."""
    resumed: bool = False
    """The losses come from the interrupted search, not from fits of this one."""

    @property
    def loss(self) -> float:
        """Mean over the folds."""
        return math.fsum(self.fold_losses) / len(self.fold_losses)


class BudgetSpent(Exception):
    """The next candidate would need more fits than are left; drivers catch it and return the best so far."""


class StructureSearch(Generic[S]):
    """Scores structures, once each."""

    def __init__(
        self,
        score: Callable[[S], Sequence[float]],
        n_folds: int,
        *,
        key: Callable[[S], Hashable] = lambda structure: structure,
        budget: int | None = None,
        finished: Mapping[S, Sequence[float]] | None = None,
        on_candidate: Callable[[Candidate[S]], None] | None = None,
    ) -> None:
        """score: the held-out loss of each of `n_folds` folds (n_folds fits). key: equal for structures that are one
        model. budget: fits allowed, those of an interrupted search included; None = no limit. finished: fold losses
        of candidates finished before, of the same data, folds, seed and settings. on_candidate: called with every
        candidate, in order, in this thread.

        Raises ParameterError when the budget does not cover one candidate or a finished one has other folds.
        """
        if budget is not None and budget < n_folds:
            raise ParameterError(f"search budget is {budget} fits, but one candidate needs {n_folds}; give more.")
        self._score, self._key, self._budget, self._on_candidate = score, key, budget, on_candidate
        self._finished: dict[Hashable, tuple[float, ...]] = {}
        for structure, losses in (finished or {}).items():
            if len(losses) != n_folds or not all(map(math.isfinite, losses)):
                raise ParameterError(
                    f"the finished candidate {structure} has fold losses {list(losses)}, but {n_folds} finite ones are "
                    "needed; remove it from the search journal."
                )
            self._finished[key(structure)] = tuple(losses)
        self.n_folds = n_folds
        self.n_fits = 0
        self.candidates: list[Candidate[S]] = []
        self._by_key: dict[Hashable, Candidate[S]] = {}

    def evaluate(self, structure: S) -> Candidate[S]:
        """The candidate of `structure`. Raises BudgetSpent instead of starting fits beyond the budget."""
        for earlier in self.candidates:
            if earlier.structure == structure:
                return earlier
        key = self._key(structure)
        step = len(self.candidates)
        if key in self._by_key:
            twin = self._by_key[key]
            candidate = Candidate(step, structure, twin.fold_losses, twin.step, twin.resumed)
        else:
            if self._budget is not None and self.n_fits + self.n_folds > self._budget:
                raise BudgetSpent
            self.n_fits += self.n_folds
            resumed = key in self._finished
            losses = self._finished[key] if resumed else self._scored(structure)
            candidate = self._by_key[key] = Candidate(step, structure, losses, None, resumed)
        self.candidates.append(candidate)
        if self._on_candidate is not None:
            self._on_candidate(candidate)
        return candidate

    def climb(self, structures: Iterable[S], patience: int = 1) -> Candidate[S]:
        """The best of `structures`, asked for in turn until `patience` of them in a row do not improve on it."""
        best: Candidate[S] | None = None
        misses = 0
        for structure in structures:
            candidate = self.evaluate(structure)
            if best is None or candidate.loss < best.loss:
                best, misses = candidate, 0
            else:
                misses += 1
                if misses == patience:
                    break
        if best is None:
            raise ParameterError("there is no structure to search; give at least one.")
        return best

    @property
    def best(self) -> Candidate[S]:
        """The candidate with the smallest loss so far, the earliest of equals."""
        return min(self.candidates, key=lambda candidate: candidate.loss)

    def _scored(self, structure: S) -> tuple[float, ...]:
        losses = tuple(float(loss) for loss in self._score(structure))
        if len(losses) != self.n_folds or not all(map(math.isfinite, losses)):
            raise NotConvergedError(
                f"{structure} has held-out losses {list(losses)}, but {self.n_folds} finite ones are needed; "
                "leave it out of the search or change the data."
            )
        return losses
