"""How good are predictions for people who have rated κ things only? Langseth and Nielsen (2015), section 4.5.

The users are split in groups; in turn each group's users keep κ training ratings only, drawn anew in each repeat, the
model is fitted again, and the group's test ratings are predicted. Efficiency(κ) = MAE(all training ratings) / MAE(κ).
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.models.evaluation.bootstrap import Total, interval, resample
from predilect.models.evaluation.metrics import Scale
from predilect.models.fan_out import FanOut, fan_out
from predilect.models.random import stream

KAPPAS = (1, 2, 3, 5, 10, 15, 20)
REPEATS, GROUPS = 5, 5

Rows = NDArray[np.int64]
ErrorSums = dict[tuple[int | None, int], NDArray[np.float64]]
"""Absolute errors of all fits by user, added up by (kappa, repeat)."""
FitPredict = Callable[[Rows, Rows], NDArray[np.float64]]
"""(training rows, test rows) → predicted mean of each test row. Called from several threads at once."""


@dataclass(frozen=True)
class Job:
    """One fit of the protocol."""

    kappa: int | None
    """Training ratings kept of each user in the group; None = the fit on all training rows."""
    repeat: int = 0
    group: int = 0


@dataclass(frozen=True)
class Progress:
    """A fit that has just ended."""

    job: Job
    mae: float
    """Of this fit's test rows, rounded predictions."""
    done: int
    of: int


class ColdStart(TypedDict):
    """The curve: one entry a κ. MAE is of predictions rounded to legal ratings; 95 % intervals by user."""

    kappa: list[int]
    mae: list[float]
    low: list[float]
    high: list[float]
    efficiency: list[float]
    efficiency_low: list[float]
    efficiency_high: list[float]
    full_mae: float
    repeats: int
    groups: int


class Gain(TypedDict):
    """MAE of one study minus that of another over the same plan, an entry a κ; 95 % intervals, paired by user."""

    kappa: list[int]
    mae_of_other: list[float]
    difference: list[float]
    low: list[float]
    high: list[float]


class Plan:
    """The fits of a study and what each is trained and tested on; fixed by the rows, parameters and seed.

    The groups are the same in every repeat. A user's kept ratings are the first κ of a random order, a new one each
    repeat: those of a smaller κ are among those of a larger one, so the points of the curve differ by their κ only.
    """

    def __init__(
        self,
        users: NDArray[np.integer[Any]],
        test: NDArray[np.bool_],
        *,
        kappas: Sequence[int] = KAPPAS,
        repeats: int = REPEATS,
        groups: int = GROUPS,
        seed: int,
    ) -> None:
        """users: codes over the whole data, shape (N,). test: mask of the test part, shape (N,).

        Raises ParameterError for an impossible parameter, DataError when there are fewer users than groups.
        """
        if not kappas or min(kappas) < 0 or len(set(kappas)) < len(kappas):
            raise ParameterError(f"cold-start kappas are {list(kappas)}; give different whole numbers of 0 or more.")
        if repeats < 1 or groups < 2:
            raise ParameterError(
                f"cold start has {repeats} repeats and {groups} groups; give 1 repeat and 2 groups or more."
            )
        people = np.unique(users)
        if len(people) < groups:
            raise DataError(f"{len(people)} users cannot be split in {groups} cold-start groups; give fewer groups.")
        self.kappas, self.repeats, self.groups, self.seed = tuple(sorted(kappas)), repeats, groups, seed
        self._users, self._test = users, test
        self.group_of: NDArray[np.int32] = np.zeros(int(people[-1]) + 1, np.int32)
        """(users,): the group of each user's code."""
        shuffled = stream(seed, "cold start", "groups").permutation(people)
        self.group_of[shuffled] = np.arange(len(people)) % groups
        self.jobs = [Job(None)] + [
            Job(kappa, repeat, group)
            for repeat in range(repeats)
            for group in np.unique(self.group_of[users[test]]).tolist()
            for kappa in self.kappas
        ]

    def rows(self, job: Job) -> tuple[Rows, Rows]:
        """The training and the test rows of a fit, both ascending."""
        if job.kappa is None:
            return np.flatnonzero(~self._test), np.flatnonzero(self._test)
        in_group = self.group_of[self._users] == job.group
        theirs = np.flatnonzero(in_group & ~self._test)
        theirs = stream(self.seed, "cold start", "kept", job.repeat, job.group).permutation(theirs)
        theirs = theirs[np.argsort(self._users[theirs], kind="stable")]
        _, first, place = np.unique(self._users[theirs], return_index=True, return_inverse=True)
        kept = theirs[np.arange(len(theirs)) - first[place] < job.kappa]
        train = np.flatnonzero(~in_group & ~self._test)
        return np.sort(np.concatenate([train, kept])), np.flatnonzero(in_group & self._test)

    def errors_by_user(self, test_rows: Rows, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of the absolute errors of a fit's test rows by user, over the users' codes."""
        return np.bincount(self._users[test_rows], errors, len(self.group_of)).astype(np.float64, copy=False)

    def summarise(self, sums: ErrorSums) -> ColdStart:
        """The curve.

        A user is in one group only, so the order in which the groups of a repeat are added does not matter.
        """
        values, draws = resample(self._totals(sums, ""), seed=self.seed)
        mae = [interval(values[str(kappa)], draws[str(kappa)]) for kappa in self.kappas]
        efficiency = [
            interval(values["None"] / values[str(kappa)], draws["None"] / draws[str(kappa)]) for kappa in self.kappas
        ]
        return {
            "kappa": list(self.kappas),
            "mae": [point["value"] for point in mae],
            "low": [point["low"] for point in mae],
            "high": [point["high"] for point in mae],
            "efficiency": [point["value"] for point in efficiency],
            "efficiency_low": [point["low"] for point in efficiency],
            "efficiency_high": [point["high"] for point in efficiency],
            "full_mae": values["None"],
            "repeats": self.repeats,
            "groups": self.groups,
        }

    def compare(self, sums: ErrorSums, others: ErrorSums) -> Gain:
        """How much lower (below 0) or higher the errors are than the others at each κ."""
        values, draws = resample(self._totals(sums, "") | self._totals(others, "other "), seed=self.seed)
        gaps = [
            interval(values[k] - values[f"other {k}"], draws[k] - draws[f"other {k}"]) for k in map(str, self.kappas)
        ]
        return {
            "kappa": list(self.kappas),
            "mae_of_other": [values[f"other {kappa}"] for kappa in self.kappas],
            "difference": [gap["value"] for gap in gaps],
            "low": [gap["low"] for gap in gaps],
            "high": [gap["high"] for gap in gaps],
        }

    def _totals(self, sums: ErrorSums, prefix: str) -> dict[str, Total]:
        tested = np.bincount(self._users[self._test], minlength=len(self.group_of))
        who = np.flatnonzero(tested)
        counts = tested[who].astype(np.float64)
        totals = {f"{prefix}None": Total(sums[None, 0][who], counts)}
        for kappa in self.kappas:
            of_kappa = sum(sums[kappa, repeat][who] for repeat in range(self.repeats))
            totals[f"{prefix}{kappa}"] = Total(np.asarray(of_kappa), counts * self.repeats)
        return totals


def cold_start(
    plan: Plan,
    ratings: NDArray[np.floating[Any]],
    scale: Scale,
    fit_predict: FitPredict,
    *,
    n_threads: int = 1,
    on_fit: Callable[[Progress], None] | None = None,
) -> ColdStart:
    """Run every fit of the plan and return the curve; arguments as for `cold_start_errors`."""
    return plan.summarise(cold_start_errors(plan, ratings, scale, fit_predict, n_threads=n_threads, on_fit=on_fit))


def cold_start_errors(
    plan: Plan,
    ratings: NDArray[np.floating[Any]],
    scale: Scale,
    fit_predict: FitPredict,
    *,
    n_threads: int = 1,
    on_fit: Callable[[Progress], None] | None = None,
    elsewhere: FanOut | None = None,
) -> ErrorSums:
    """Run every fit of the plan, `n_threads` at a time (each should use one thread): its errors by user.

    ratings: of the whole data, shape (N,). fit_predict: fits with the structure found on the full data. on_fit: called
    in this thread after each fit, in the order of their ends. elsewhere: where the fits are run, if not on threads.
    The result does not depend on n_threads.
    """
    observed = np.asarray(ratings, np.float64)

    def errors_of(place: int) -> tuple[NDArray[np.float64], float]:
        train, test = plan.rows(plan.jobs[place])
        errors = np.abs(observed[test] - scale.round(fit_predict(train, test)))
        return plan.errors_by_user(test, errors), float(errors.mean())

    sums: ErrorSums = {}
    run = elsewhere or partial(fan_out, n_threads=n_threads)
    with closing(run(errors_of, len(plan.jobs))) as fits:
        for done, (place, (by_user, mae)) in enumerate(fits, start=1):
            job = plan.jobs[place]
            key = job.kappa, job.repeat
            sums[key] = sums[key] + by_user if key in sums else by_user
            if on_fit is not None:
                on_fit(Progress(job, mae, done, len(plan.jobs)))
    return sums
