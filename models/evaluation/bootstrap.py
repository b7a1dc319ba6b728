"""Bootstrap intervals by user, for every metric at once and paired between models.

Users, not rows, are drawn with replacement: the ratings of one user are correlated. A metric that is a ratio
of sums over users needs only each user's sum and count; a resample is a vector of multinomial weights, and all
resamples of all metrics are one matrix product. The weights depend on the seed and the number of users alone, so
two models evaluated on the same users see the same resamples, and their differences are paired.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import exact_kernel
from predilect.models.errors import DataError
from predilect.models.fan_out import Spread
from predilect.models.random import stream

RESAMPLES = 1000
LEVEL = 0.95
_BLOCK_CELLS = 4_000_000  # weights of one job: 32 MB
HERE = Spread()


class Total(NamedTuple):
    """One metric's parts by user (or by group, ballot, test: whatever is resampled)."""

    sums: NDArray[np.float64]
    """Sum of the losses of each user's rows, shape (U,)."""
    counts: NDArray[np.float64]
    """Number (or weight) of those rows, shape (U,); 0 where the metric does not apply to the user."""
    root: bool = False
    """The metric is the square root of the ratio, as RMSE is."""


class Estimate(TypedDict):
    """A metric and its percentile interval."""

    value: float
    low: float
    high: float


def estimates(
    totals: Mapping[str, Total], *, seed: int, resamples: int = RESAMPLES, spread: Spread = HERE
) -> dict[str, Estimate]:
    """Each metric with its 95 % percentile interval.

    A metric that applies to no user is left out. Resamples in which it applies to no drawn user do not count. spread:
    where resamples are drawn; the same bits for any. Raises DataError when the totals are not over the same users.
    """
    values, draws = resample(totals, seed=seed, resamples=resamples, spread=spread)
    return {name: interval(values[name], draws[name]) for name in values}


def differences(
    model: Mapping[str, Total],
    other: Mapping[str, Total],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    spread: Spread = HERE,
) -> dict[str, Estimate]:
    """Model minus other for each metric that both have, with the paired 95 % percentile interval.

    Both must hold the same users in the same order.
    """
    both = {f"model {name}": total for name, total in model.items() if name in other}
    both |= {f"other {name}": other[name] for name in model if name in other}
    values, draws = resample(both, seed=seed, resamples=resamples, spread=spread)
    names = [name for name in model if f"model {name}" in values and f"other {name}" in values]
    return {
        name: interval(
            values[f"model {name}"] - values[f"other {name}"], draws[f"model {name}"] - draws[f"other {name}"]
        )
        for name in names
    }


def interval(value: float, draws: NDArray[np.float64]) -> Estimate:
    """The value with the percentiles of its resamples, shape (R,), NaN ones left out."""
    tail = (1 - LEVEL) / 2
    low, high = np.nanquantile(draws, [tail, 1 - tail])
    return {"value": float(value), "low": float(low), "high": float(high)}


def resample(
    totals: Mapping[str, Total], *, seed: int, resamples: int = RESAMPLES, spread: Spread = HERE
) -> tuple[dict[str, float], dict[str, NDArray[np.float64]]]:
    """Each metric's value and its value in every resample, shape (R,); NaN where no drawn user has the metric."""
    totals = {name: total for name, total in totals.items() if total.counts.any()}
    if not totals:
        return {}, {}
    columns = [column for total in totals.values() for column in (total.sums, total.counts)]
    if len({len(column) for column in columns}) != 1:
        raise DataError(
            "metrics over different users cannot be resampled together; compute them on the same test part."
        )
    table = np.column_stack(columns)
    drawn = _weights_times(table, seed, resamples, spread)
    values, draws = {}, {}
    for place, (name, total) in enumerate(totals.items()):
        values[name] = float(_ratio(table[:, 2 * place].sum(), table[:, 2 * place + 1].sum(), total.root))
        draws[name] = _ratio(drawn[:, 2 * place], drawn[:, 2 * place + 1], total.root)
    return values, draws


def weights(n_users: int, *, seed: int, first: int, last: int) -> NDArray[np.float64]:
    """How often each user is drawn in resamples first..last-1, shape (last - first, n_users); rows sum to n_users."""
    drawn = np.zeros((last - first, n_users))
    for row in range(first, last):
        _count(drawn_users(n_users, seed, row), drawn[row - first])
    return drawn


def drawn_users(n_users: int, seed: int, number: int) -> NDArray[np.int64]:
    """The users that a resample draws, one after the other, shape (n_users,)."""
    return stream(seed, "bootstrap", number).integers(0, n_users, n_users)


@exact_kernel
def _count(drawn: NDArray[np.int64], times: NDArray[np.float64]) -> None:
    """Add to `times` how often each user was drawn."""
    for user in drawn:
        times[user] += 1.0


def _weights_times(table: NDArray[np.float64], seed: int, resamples: int, spread: Spread) -> NDArray[np.float64]:
    n_users = len(table)
    block = max(1, _BLOCK_CELLS // n_users)

    def work(job: int) -> NDArray[np.float64]:
        first = job * block
        product: NDArray[np.float64] = (
            weights(n_users, seed=seed, first=first, last=min(first + block, resamples)) @ table
        )
        return product

    n_jobs = -(-resamples // block)
    with closing(spread.of(float(resamples) * n_users)(work, n_jobs)) as found:
        products = dict(found)
    return np.concatenate([products[job] for job in range(n_jobs)])


def _ratio(sums: NDArray[np.float64], counts: NDArray[np.float64], root: bool) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(counts > 0, sums / counts, np.nan)
    return np.sqrt(ratio) if root else ratio
