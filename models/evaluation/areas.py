"""Areas under ROC curves with their bootstrap: rows are sorted once, and a resample is one pass over them."""

from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import exact_kernel
from predilect.models.evaluation.bootstrap import HERE, drawn_users
from predilect.models.fan_out import Spread

Array = NDArray[np.float64]
_JOB_CELLS = 8_000_000  # rows times resamples of one job: some hundredths of a second


def areas(
    scores: Array,
    positives: Array,
    negatives: Array,
    units: NDArray[np.int64],
    *,
    seed: int,
    resamples: int,
    spread: Spread = HERE,
) -> tuple[Array, Array]:
    """The area under the ROC curve of each kind of positives, (K,), and its value in every resample, (K, R).

    scores: (n_rows,), ties count half; positives: (K, n_rows) and negatives: (n_rows,), weights ≥ 0; units: (n_rows,)
    what is drawn with replacement, 0 to the largest, as by `bootstrap.weights`. NaN without positives or without
    negatives. spread: where resamples are drawn; the same bits for any.
    """
    order = np.argsort(scores, kind="stable")
    order = order[(negatives[order] > 0) | (positives[:, order] > 0).any(axis=0)]
    n_units = int(units.max(initial=-1)) + 1
    ordered = scores[order]
    last = np.ones(len(order), np.bool_)  # of those of equal score
    last[:-1] = ordered[1:] != ordered[:-1]
    rows = units[order].astype(np.int32), last, np.ascontiguousarray(positives[:, order].T), negatives[order]

    def once(drawn: NDArray[np.int64]) -> Array:
        area = np.empty(len(positives))
        _area(drawn, np.zeros(n_units, np.int32), *rows, area)
        return area

    block = max(1, _JOB_CELLS // max(len(order) + n_units, 1))

    def work(job: int) -> Array:
        numbers = range(job * block, min((job + 1) * block, resamples))
        return np.array([once(drawn_users(n_units, seed, number)) for number in numbers])

    n_jobs = -(-resamples // block)
    with closing(spread.of(float(resamples) * (len(order) + n_units))(work, n_jobs)) as found:
        drawn = dict(found)
    return once(np.arange(n_units)), np.concatenate([drawn[job] for job in range(n_jobs)]).T


@exact_kernel
def _area(
    drawn: NDArray[np.int64],
    times: NDArray[np.int32],
    units: NDArray[np.int32],
    last: NDArray[np.bool_],
    positives: Array,
    negatives: Array,
    area: Array,
) -> None:
    """Fill `area` (K,). Rows by rising score; last: whether the next row's is higher; times: zeros, one a unit."""
    n_kinds = len(area)
    for unit in drawn:
        times[unit] += 1
    all_positive, at_positive = np.zeros(n_kinds), np.zeros(n_kinds)
    area[:] = 0.0
    below, at_negative = 0.0, 0.0
    for row in range(len(units)):
        weight = float(times[units[row]])
        at_negative += weight * negatives[row]
        for kind in range(n_kinds):
            at_positive[kind] += weight * positives[row, kind]
        if last[row]:
            for kind in range(n_kinds):
                area[kind] += at_positive[kind] * (below + 0.5 * at_negative)
                all_positive[kind] += at_positive[kind]
                at_positive[kind] = 0.0
            below += at_negative
            at_negative = 0.0
    for kind in range(n_kinds):
        pairs = all_positive[kind] * below
        area[kind] = area[kind] / pairs if pairs > 0 else np.nan
