"""Metrics of clicks models on held-out rows, with bootstrap intervals by group and paired differences."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.metrics import covered, serendipity_reward
from predilect.models.evaluation.areas import areas
from predilect.models.evaluation.bootstrap import HERE, Estimate, Total, interval, resample
from predilect.models.fan_out import Spread
from predilect.tasks.canonical_clicks import ClicksTable
from predilect.tasks.clicks_fit import Rows

Array = NDArray[np.float64]
MOST_CELLS = 2e9  # rows times resamples of the ranking areas; beyond it, fewer resamples
FOLDS = 5  # resamples shown one by one, as in the paper


@dataclass(frozen=True)
class RowScores:
    """What one model says of the test rows: log-likelihoods, whether its 90 % interval holds, and its ranking."""

    log_likelihood: Array
    """Of the row's click count, binomial coefficient included."""
    impression_total: Array
    """Σ of the row's impressions, each judged on its own at the expected click probability."""
    covered: NDArray[np.bool_]
    ranking: Array

    @classmethod
    def of(cls, log_likelihood: Array, mean: Array, intervals: Any, impressions: Any, clicks: Any) -> "RowScores":
        """From each row's expected click probability and the interval of its click count, (n_rows, 2)."""
        p, n, v = np.clip(mean, 1e-300, 1 - 1e-16), np.asarray(impressions), np.asarray(clicks)
        return cls(log_likelihood, v * np.log(p) + (n - v) * np.log1p(-p), covered(intervals, v), mean)


@dataclass(frozen=True)
class TestRows:
    """The test part: counts, SAUC's reward, and the unit that the bootstrap draws."""

    impressions: Array
    clicks: Array
    reward: Array
    units: NDArray[np.int64]
    unit_name: str
    seed: int
    resamples: int

    def select(self, mask: NDArray[np.bool_]) -> "TestRows":
        """Some of the rows."""
        units = np.unique(self.units[mask], return_inverse=True)[1]
        return replace(
            self,
            impressions=self.impressions[mask],
            clicks=self.clicks[mask],
            reward=self.reward[mask],
            units=units.astype(np.int64),
        )


def bootstrap_units(table: ClicksTable, rows: Rows) -> tuple[NDArray[np.int64], str]:
    """The code of each row's group, else user, else itself, and what that is called."""
    for coded, name in ((table.groups, "groups"), (table.users, "users")):
        if coded is not None:
            return np.unique(coded.codes[rows], return_inverse=True)[1].astype(np.int64), name
    return np.arange(len(rows)), "rows"


def rewards(table: ClicksTable, train: Rows, test: Rows, features: Any, lines: Any, clusters: Any) -> Array:
    """SAUC's reward of every test row (paper eq. 8), from what its user picked in training.

    features, lines: of a design over train rows, then test rows; clusters: of the test rows.
    """
    copies: Array = np.where(np.asarray(clusters) >= 0, 2.0, 1.0)
    train_lines, test_lines = lines[: len(train)], lines[len(train) :]
    if table.users is None:
        none = np.zeros(0, np.int64)
        return serendipity_reward(none, none, test_lines, np.full(len(test), -1), features, copies)
    picked = table.clicks[train] > 0
    users = table.users.codes
    return serendipity_reward(
        train_lines[picked].astype(np.int64),
        users[train][picked].astype(np.int64),
        test_lines,
        users[test],
        features,
        copies,
    )


def measure(found: RowScores, rows: TestRows, spread: Spread = HERE) -> tuple[dict[str, float], dict[str, Array]]:
    """Each metric's value, and its value in every resample (the same resamples for every model)."""
    n_units = int(rows.units.max(initial=-1)) + 1

    def by_unit(values: Array) -> Array:
        totals: Array = np.bincount(rows.units, weights=values, minlength=n_units).astype(np.float64)
        return totals

    shown = (rows.impressions > 0).astype(np.float64)
    totals = {
        "log_likelihood_row": Total(by_unit(found.log_likelihood * shown), by_unit(shown)),
        "log_likelihood_impression": Total(by_unit(found.impression_total), by_unit(rows.impressions)),
        "coverage_90": Total(by_unit(found.covered * shown), by_unit(shown)),
    }
    values, draws = resample(totals, seed=rows.seed, resamples=rows.resamples, spread=spread)
    for name, (value, drawn) in ranking_areas(found.ranking, rows, spread).items():
        if np.isfinite(value):
            values[name], draws[name] = value, drawn
    return values, draws


def ranking_areas(ranking: Array, rows: TestRows, spread: Spread = HERE) -> dict[str, tuple[float, Array]]:
    """AUC over single impressions, and SAUC, whose positives weigh their reward; each with its resamples."""
    kinds = {"auc": rows.clicks, "sauc": rows.clicks * rows.reward}
    n_draws = int(min(rows.resamples, max(100, MOST_CELLS // max(len(ranking), 1))))
    values, drawn = areas(
        ranking, np.array(list(kinds.values())), rows.impressions - rows.clicks, rows.units,
        seed=rows.seed, resamples=n_draws, spread=spread,
    )  # fmt: skip
    return {name: (float(values[kind]), drawn[kind]) for kind, name in enumerate(kinds)}


def estimates(values: dict[str, float], draws: dict[str, Array]) -> dict[str, Estimate]:
    """Each metric with its 95 % interval; where no resample has it, the interval is the value alone."""
    return {name: _interval(value, draws[name]) for name, value in values.items()}


def gaps(
    values: dict[str, float], draws: dict[str, Array], other: dict[str, float], others: dict[str, Array]
) -> dict[str, Estimate]:
    """Model minus other, paired by resample."""
    return {name: _interval(values[name] - other[name], draws[name] - others[name]) for name in values if name in other}


def _interval(value: float, draws: Array) -> Estimate:
    if not np.isfinite(draws).any():
        return {"value": value, "low": value, "high": value}
    return interval(value, draws)
