"""The reproduction of the rankings paper as tasks: synthetic grid, real data, tables."""

import csv
import io
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from predilect.models.errors import DataError, PredilectError
from predilect.models.random import stream
from predilect.models.rankings import Ballots
from predilect.models.rankings.connectivity import require_finite
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.study import Outcome, Setting, on_real, recovery
from predilect.tasks import progress
from predilect.tasks.parameters_reproduce_rankings import ReproduceRankingsParameters
from predilect.tasks.rankings_source import data_folder, find_rankings
from predilect.tasks.readers.rankings import read_rankings
from predilect.tasks.readers.source import Source, base_name
from predilect.tasks.runs import write_json
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import Tracker

Json = dict[str, Any]
USUAL = ("d_apa", "d_carconf")
TEST_SHARE = 0.2


def real_sets(parameters: ReproduceRankingsParameters, settings: Settings) -> list[Path]:
    """The files of the real data asked for. Raises DataError when one that was named is not there."""
    data_dir = data_folder(parameters.data_dir, settings)
    if parameters.data:
        return [find_rankings(name.strip(), data_dir) for name in parameters.data.split(",")]
    found = []
    for name in USUAL:
        try:
            found.append(find_rankings(name, data_dir))
        except DataError:
            continue
    return found


def grid(parameters: ReproduceRankingsParameters) -> list[Setting]:
    """All settings of the lists in which L ≤ n."""
    asked = itertools.product(parameters.n_items, parameters.informative, parameters.k, parameters.ballots)
    return [Setting(*values) for values in asked if values[1] <= values[0]]


def study_synthetic(run: Path, parameters: ReproduceRankingsParameters) -> list[Json]:
    """Every method on every trial of every setting, a row each, with the error over that of the true-label estimate.

    Settings are child runs in MLflow. Also in `synthetic.json` and `synthetic.csv`.
    """
    settings = grid(parameters)
    tracker = Tracker(run, Settings())
    rows: list[Json] = []
    for at, (setting, trial) in enumerate(itertools.product(settings, range(parameters.trials))):
        done = at / (len(settings) * parameters.trials)
        name = f"n={setting.n_items} L={setting.n_informative} K={setting.n_components} m={setting.n_ballots}"
        outcomes = recovery(
            setting,
            [method.value for method in parameters.methods],
            [start.value for start in parameters.starts],
            seed=int(stream(parameters.seed, "trial", trial).integers(2**31)),
            tolerance=parameters.tolerance,
            max_iterations=parameters.max_iterations,
            on_method=_reporter("synthetic", done, name),
        )
        known = outcomes[0].error
        rows += [asdict(setting) | {"trial": trial} | _row(each) | {"ratio": each.error / known} for each in outcomes]
        if trial == parameters.trials - 1:
            mine = [row for row in rows if all(row[key] == value for key, value in asdict(setting).items())]
            _child(tracker, name, asdict(setting), mine, ("error", "ratio", "seconds", "iterations"))
    _write(run, "synthetic", rows)
    return rows


def study_real(run: Path, parameters: ReproduceRankingsParameters) -> list[Json]:
    """Every method on four fifths of every real set for every K, scored on the rest; a row each.

    Also in `real.json` and `real.csv`.
    """
    tracker = Tracker(run, Settings())
    rows: list[Json] = []
    work = list(itertools.product(real_sets(parameters, Settings()), parameters.real_k))
    for at, (path, k) in enumerate(work):
        name = base_name(path.name).rpartition(".")[0] or path.name
        train, test = _parts(path, parameters)
        outcomes = on_real(
            train,
            test,
            k,
            [method.value for method in parameters.methods],
            [start.value for start in parameters.starts],
            seed=parameters.seed,
            tolerance=parameters.tolerance,
            max_iterations=parameters.max_iterations,
            on_method=_reporter("real", at / len(work), name),
        )
        mine = [{"set": name, "n_components": k} | _row(each) for each in outcomes]
        _child(tracker, f"{name} K={k}", {"set": name, "k": k}, mine, ("held_out", "log_likelihood", "seconds"))
        rows += mine
    _write(run, "real", rows)
    return rows


def summarise(rows: Sequence[Json], by: Sequence[str], figures: Sequence[str]) -> list[Json]:
    """Means over trials of `figures`, by the columns `by`, method and start, in the order of appearance."""
    groups: dict[tuple[Any, ...], list[Json]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in (*by, "method", "start")), []).append(row)
    return [
        dict(zip((*by, "method", "start"), key, strict=True))
        | {figure: _mean([row[figure] for row in group]) for figure in figures}
        | {"trials": len(group)}
        for key, group in groups.items()
    ]


def _parts(path: Path, parameters: ReproduceRankingsParameters) -> tuple[Ballots, Ballots]:
    reading = read_rankings(Source(path))
    ballots, _ = reading.ballots(parameters.menu.value).collapse()
    rows = np.repeat(np.arange(len(ballots)), ballots.counts)
    n_test = round(TEST_SHARE * len(rows))
    chosen = stream(parameters.seed, "split").permutation(len(rows))[:n_test]
    test = np.bincount(rows[chosen], minlength=len(ballots))
    train = ballots.with_counts(ballots.counts - test)
    try:
        require_finite(Layout(train), reading.names())
    except PredilectError as error:
        raise DataError(f"{path.name}, four fifths of its ballots: {error}") from error
    return train, ballots.with_counts(test)


def _reporter(stage: str, done: float, name: str) -> Callable[[str], None]:
    return lambda method: progress.report(stage, done, f"{name}: {method}")


def _row(outcome: Outcome) -> Json:
    return {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in asdict(outcome).items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _child(tracker: Tracker, name: str, params: Json, rows: Sequence[Json], figures: Sequence[str]) -> None:
    metrics: Json = {}
    for line in summarise(rows, (), figures):
        who = f"{line['method']}_{line['start']}".replace(" ", "_")
        metrics |= {f"{figure}_{who}": line[figure] for figure in figures if line[figure] is not None}
    tracker.child(name, params, metrics, {"predilect.family": "rankings", "predilect.part": "reproduction"})


def _write(run: Path, name: str, rows: Sequence[Json]) -> None:
    write_json(run / f"{name}.json", list(rows))
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (run / f".{name}.csv.part").write_text(out.getvalue(), encoding="utf-8")
    (run / f".{name}.csv.part").rename(run / f"{name}.csv")
