"""Retraining of ratings: how files are read, what is watched in them, and how two models are compared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.models.evaluation.bootstrap import Total, differences, estimates
from predilect.models.evaluation.metrics import row_totals
from predilect.models.ratings.model import RatingsModel
from predilect.tasks.canonical import Coded
from predilect.tasks.fit import config_of, test_rows
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.parameters_retrain import RetrainRatingsParameters
from predilect.tasks.ratings_table import parts
from predilect.tasks.readers import choose
from predilect.tasks.readers.base import gather
from predilect.tasks.readers.source import Source
from predilect.tasks.recommend import data_of
from predilect.tasks.retrain_family import (
    Check,
    Comparison,
    Estimates,
    Json,
    Steps,
    coverage_check,
    in_cells,
    kinds,
    loss_check,
    new_share,
    psi_check,
    quantile_edges,
    share_check,
    size_check,
    time_check,
    type_checks,
)
from predilect.tasks.settings import Settings
from predilect.tasks.side_tables import read_side_tables

NEWCOMER = 5
"""Users and items with so few training ratings, or fewer, are new."""
MOST_LEVELS = 101
"""Ratings of more distinct values are counted in cells."""
TIMED_PAIRS, TIMED_USERS = 20_000, 50


def read(path: Path, parameters: RetrainRatingsParameters) -> pa.Table:
    """user, item, rating and, where there is one, timestamp of every row of a file."""
    found, member, reader = choose(Source(path), parameters.reader, by_columns=bool(parameters.columns))
    reading = reader.read(found, member, parameters.columns)
    table = gather(reading.chunks).table
    if not table.num_rows:
        raise DataError(f"{path.name} holds no ratings; remove it or write it again.")
    columns = {}
    for name in ("user", "item"):
        coded = Coded.of(table[name], infer_integers=not reading.typed_ids)
        columns[name] = coded.decode(coded.codes)
    columns["rating"] = table["rating"]
    if "timestamp" in table.column_names:
        columns["timestamp"] = table["timestamp"]
    return pa.table(columns)


def profile(table: pa.Table) -> Json:
    """Rows, kinds of columns, users, items and the distribution of the ratings."""
    values = table["rating"].to_numpy()
    distinct = np.unique(values)
    is_discrete = len(distinct) <= MOST_LEVELS
    edges = distinct.tolist() if is_discrete else quantile_edges(values)
    return {
        "rows": len(table),
        "kinds": kinds(table),
        "users": table["user"].unique().to_pylist(),
        "items": table["item"].unique().to_pylist(),
        "low": float(distinct[0]),
        "high": float(distinct[-1]),
        "levels": edges,
        "is_discrete": is_discrete,
        "ratings": _cells(values, edges, is_discrete),
    }


def check(new: pa.Table, before: Json, parameters: RetrainRatingsParameters) -> list[Check]:
    """The new rows against the profile of the previous data."""
    checks = type_checks(new, before["kinds"])
    if not all(one.ok for one in checks):
        return checks
    values = new["rating"].to_numpy()
    low = before["low"] if parameters.scale_low is None else parameters.scale_low
    high = before["high"] if parameters.scale_high is None else parameters.scale_high
    outside = float(np.mean(~((values >= low) & (values <= high))))
    cells = _cells(values, before["levels"], before["is_discrete"])
    return [
        *checks,
        Check("ratings off the scale", f"{outside:.2%}", f"none outside {low:g} to {high:g}", outside == 0),
        psi_check("ratings", cells, before["ratings"], parameters.max_psi),
        share_check("rows of new users", new_share(new["user"], before["users"]), parameters.max_new_users_share),
        share_check("rows of new items", new_share(new["item"], before["items"]), parameters.max_new_items_share),
    ]


def warm(champion: Path, parameters: RetrainRatingsParameters) -> str | None:
    """The champion's folder when the new fit can start from it."""
    model = RatingsModel.load(champion)
    return str(champion) if model.config.n_factors == config_of(parameters).n_factors else None


def compare(run: Path, champion: Path, parameters: RetrainRatingsParameters) -> Comparison:
    """The models on the challenger's test part, which is stable: the champion has not been trained on it either."""
    table = data_of(run, Settings())
    test = test_rows(run)
    train_part, test_part = parts(table, test, read_side_tables(parameters).known_ids(table))
    people, person = np.unique(table.users[test], return_inverse=True)
    users, items = table.user_ids.decode(table.users[test]), table.item_ids.decode(table.items[test])
    models = [RatingsModel.load(run / "model"), RatingsModel.load(champion)]
    new = {
        f"rmse_new_{what}": _newcomers(trained, tested, n)
        for what, trained, tested, n in (
            ("users", train_part.users, test_part.users, len(train_part.user_ids)),
            ("items", train_part.items, test_part.items, len(train_part.item_ids)),
        )
    }
    totals = []
    for model in models:
        found = model.predict_ids(users, items)
        scored = row_totals(person, len(people), test_part.ratings, found.mean, found.variance, table.scale)
        lost = np.square(test_part.ratings - table.scale.clip(found.mean))
        for name, rows in new.items():
            sums, many = (np.bincount(person, each, len(people)).astype(np.float64) for each in (lost * rows, rows))
            scored[name] = Total(sums, many, root=True)
        totals.append(scored)
    seed, resamples = parameters.seed, parameters.resamples
    ours, theirs = (estimates(one, seed=seed, resamples=resamples) for one in totals)
    gaps = differences(*totals, seed=seed, resamples=resamples)
    found_guards = [
        *guards(ours, theirs, gaps, parameters),
        time_check([_predictions(model, users, items) for model in models], parameters.max_latency_ratio),
        size_check(run / "model", champion, parameters.max_size_ratio),
    ]
    return Comparison(ours, theirs, gaps, len(users), found_guards)


def guards(ours: Estimates, theirs: Estimates, gaps: Estimates, parameters: RetrainRatingsParameters) -> list[Check]:
    """Coverage, and the errors on new users and items where there are some. gaps: ours less theirs, paired."""
    found = [coverage_check("90 % coverage", ours, theirs, parameters.max_coverage_loss)]
    for what in ("users", "items"):
        if (name := f"rmse_new_{what}") in ours:
            values = [one[name]["value"] for one in (ours, theirs)]
            found.append(loss_check(f"RMSE of new {what}", values, parameters.max_guard_loss, gap=gaps[name]))
    return found


def _newcomers(trained: NDArray[Any], tested: NDArray[Any], n: int) -> NDArray[np.bool_]:
    """Which test rows are of a code that was trained on rarely, or never (-1)."""
    counts = np.append(np.bincount(trained, minlength=n), 0)
    rare: NDArray[np.bool_] = counts[tested] <= NEWCOMER
    return rare


def _predictions(model: RatingsModel, users: NDArray[Any], items: NDArray[Any]) -> Callable[[], object]:
    """What is timed: predictions of pairs, and recommendations."""
    pairs = [np.resize(ids, TIMED_PAIRS) for ids in (users, items)]

    def predict() -> None:
        model.predict_ids(*pairs)
        model.recommend_codes(np.arange(min(TIMED_USERS, len(model.user_ids))), 10)

    return predict


def _cells(values: NDArray[np.float64], edges: list[float], is_discrete: bool) -> dict[str, int]:
    """How many ratings have each value; of a continuous scale, lie in each cell."""
    if not is_discrete:
        return in_cells(values, edges)
    distinct, counts = np.unique(values, return_counts=True)
    return {f"{value:g}": int(count) for value, count in zip(distinct, counts, strict=True)}


STEPS = Steps(
    parameters=RetrainRatingsParameters,
    training=RatingsParameters,
    table="ratings.parquet",
    rows="ratings",
    read=read,
    profile=profile,
    check=check,
    headline="rmse",
    higher=False,
    baseline="bias only",
    plain=lambda table, _parameters: (table, {"reader": "auto", "columns": {}}),
    warm=warm,
    compare=compare,
)
