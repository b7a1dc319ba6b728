"""Retraining of ratings: how files are read, what is watched in them, and how two models are compared."""

import time
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
    Json,
    Steps,
    kinds,
    new_share,
    psi_check,
    ratio_check,
    share_check,
    size_check,
    type_checks,
)
from predilect.tasks.settings import Settings
from predilect.tasks.side_tables import read_side_tables

NEWCOMER = 5
"""Users with so few training ratings, or fewer, are new."""
CELLS = 20
"""Of a continuous scale's distribution."""
TIMED_PAIRS, TIMED_USERS, TIMES = 20_000, 50, 5


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
    edges = distinct if len(distinct) <= 101 else np.unique(np.quantile(values, np.linspace(0, 1, CELLS + 1)))
    return {
        "rows": len(table),
        "kinds": kinds(table),
        "users": table["user"].unique().to_pylist(),
        "items": table["item"].unique().to_pylist(),
        "low": float(distinct[0]),
        "high": float(distinct[-1]),
        "levels": edges.tolist(),
        "is_discrete": len(distinct) <= 101,
        "ratings": _cells(values, edges, len(distinct) <= 101),
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
    cells = _cells(values, np.array(before["levels"]), before["is_discrete"])
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
    counts = np.bincount(train_part.users, minlength=len(train_part.user_ids))
    known = test_part.users >= 0
    new = ~known
    new[known] = counts[test_part.users[known]] <= NEWCOMER
    totals = []
    for model in models:
        found = model.predict_ids(users, items)
        scored = row_totals(person, len(people), test_part.ratings, found.mean, found.variance, table.scale)
        lost = np.square(test_part.ratings - table.scale.clip(found.mean)) * new
        sums, many = (np.bincount(person, each, len(people)).astype(np.float64) for each in (lost, new))
        scored["rmse_new_users"] = Total(sums, many, root=True)
        totals.append(scored)
    seed, resamples = parameters.seed, parameters.resamples
    ours, theirs = (estimates(one, seed=seed, resamples=resamples) for one in totals)
    gaps = differences(*totals, seed=seed, resamples=resamples)
    return Comparison(ours, theirs, gaps, len(users), _guards(ours, theirs, models, (run / "model", champion),
                                                              (users, items), parameters))  # fmt: skip


def _guards(
    ours: Any,
    theirs: Any,
    models: list[RatingsModel],
    folders: tuple[Path, Path],
    pairs: tuple[NDArray[Any], NDArray[Any]],
    parameters: RetrainRatingsParameters,
) -> list[Check]:
    off = [abs(one["coverage_90"]["value"] - 0.9) for one in (ours, theirs)]
    found = [
        Check(
            "90 % coverage",
            f"{ours['coverage_90']['value']:.3f}, the champion {theirs['coverage_90']['value']:.3f}",
            f"at most {parameters.max_coverage_loss:g} farther from 0.9",
            off[0] <= off[1] + parameters.max_coverage_loss,
        )
    ]
    if "rmse_new_users" in ours:
        cold = [one["rmse_new_users"]["value"] for one in (ours, theirs)]
        found.append(
            Check(
                "RMSE of new users",
                f"{cold[0]:.4f}, the champion {cold[1]:.4f}",
                f"at most {parameters.max_guard_loss:g} more",
                cold[0] <= cold[1] + parameters.max_guard_loss,
            )
        )
    seconds = _seconds(models, pairs)
    found.append(ratio_check("prediction time", 1e3 * seconds[0], 1e3 * seconds[1], parameters.max_latency_ratio, "ms"))
    found.append(size_check(*folders, parameters.max_size_ratio))
    return found


def _seconds(models: list[RatingsModel], pairs: tuple[NDArray[Any], NDArray[Any]]) -> list[float]:
    """Processor seconds of the same predictions and recommendations by each model, the best of several, in turn."""
    users, items = (np.resize(ids, TIMED_PAIRS) for ids in pairs)
    best = [np.inf, np.inf]
    for _ in range(TIMES):
        for k, model in enumerate(models):
            start = time.process_time()
            model.predict_ids(users, items)
            model.recommend_codes(np.arange(min(TIMED_USERS, len(model.user_ids))), 10)
            best[k] = min(best[k], time.process_time() - start)
    return best


def _cells(values: NDArray[np.float64], edges: NDArray[np.float64], is_discrete: bool) -> dict[str, int]:
    """How many ratings have each value; of a continuous scale, lie in each cell. Others are under `other`."""
    if is_discrete:
        distinct, counts = np.unique(values, return_counts=True)
        return {f"{value:g}": int(count) for value, count in zip(distinct, counts, strict=True)}
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return {f"{edges[cell]:g}": int(count) for cell, count in enumerate(np.bincount(place, minlength=len(edges) - 1))}


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
    plain_source={"reader": "auto", "columns": {}},
    warm=warm,
    compare=compare,
)
