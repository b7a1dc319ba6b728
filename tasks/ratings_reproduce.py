"""Reproduction of the paper's tables and figures: the cells, their journal, and the figures from them."""

import json
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from predilect.models.compiled import default_threads
from predilect.models.errors import DataError, ParameterError, PredilectError
from predilect.models.evaluation.bootstrap import Total, interval, resample
from predilect.models.evaluation.cold_start import Plan
from predilect.models.evaluation.splits import random_rows
from predilect.models.fan_out import fan_out
from predilect.models.ratings.model import RatingsModel
from predilect.tasks import progress
from predilect.tasks.datasets import find, public_set
from predilect.tasks.ingest import ingest_ratings
from predilect.tasks.lines import append_line, whole_lines
from predilect.tasks.parameters_reproduce_ratings import Experiment, ReproduceRatingsParameters
from predilect.tasks.ratings_published import EFFICIENCY_AT_ONE, PUBLISHED, SETS, TOLERANCE, methods_of
from predilect.tasks.ratings_reproduce_fits import Json, Part, configuration, fit_method
from predilect.tasks.ratings_table import RatingsTable, parts_of_rows, read_table
from predilect.tasks.search_journal import journal_for
from predilect.tasks.settings import Settings

SHARE = 0.2
"""Test part of the sets without folds, as in the paper."""


@dataclass(frozen=True)
class Cell:
    """One unit of work; its result is kept under its key."""

    key: str
    work: Callable[[], Json]


class Cells:
    """Runs cells over threads; what is in the journal is not run again."""

    def __init__(self, journal: Path, n_threads: int) -> None:
        self._journal, self._n_threads = journal, n_threads
        self.done: dict[str, Json] = {line["key"]: line["result"] for line in whole_lines(journal)}
        self.n_run = 0

    def run(self, cells: Iterable[Cell], *, alone: bool = False) -> None:
        """Run those that are not done. alone: one after the other, because they are timed."""
        todo = [cell for cell in cells if cell.key not in self.done]
        n_threads = 1 if alone else self._n_threads
        with closing(fan_out(lambda place: self._kept(todo[place]), len(todo), n_threads)) as results:
            for count, (place, result) in enumerate(results, start=1):
                key = todo[place].key
                self.done[key] = result
                self.n_run += 1
                append_line(self._journal, json.dumps({"key": key, "result": result}))
                progress.report("cells", count / len(todo), key)

    @staticmethod
    def _kept(cell: Cell) -> Json:
        try:
            return cell.work()
        except PredilectError as error:
            raise type(error)(f"{cell.key}: {error}") from error


def datasets(parameters: ReproduceRatingsParameters) -> tuple[dict[str, Path], list[Json]]:
    """The canonical folders of the experiment's sets that are there, and those that are missing, with what to do.

    Raises ParameterError for a set that the experiment is not on, DataError when none is there.
    """
    settings = Settings()
    wanted = SETS[parameters.experiment]
    if parameters.data != "all":
        asked = [name.strip() for name in parameters.data.split(",")]
        for name in asked:
            if name not in wanted:
                raise ParameterError(f"data = {name!r}: {parameters.experiment} is on {', '.join(wanted)}.")
        wanted = tuple(asked)
    data_dir = Path(parameters.data_dir).expanduser() if parameters.data_dir else settings.data_dir
    if data_dir is None or not data_dir.is_dir():
        raise ParameterError(f"data_dir = {str(data_dir)!r}: no such folder; give the one that holds the public sets.")
    there, missing = {}, []
    for name in wanted:
        one = public_set(name)
        assert one is not None  # SETS names public sets only
        if find(one, data_dir) is None:
            missing.append({"dataset": name, "said": f"put {one.archive}, from {one.page}, into the data folder"})
        else:
            there[name] = ingest_ratings(name, data_dir, settings.data).folder
    if not there:
        raise DataError(f"None of {', '.join(wanted)} is in {data_dir}; put at least one there.")
    return there, missing


def reproduce(parameters: ReproduceRatingsParameters, folders: dict[str, Path]) -> Json:
    """Run the experiment on the sets in `folders`; its `rows`, and how many cells were run and found done."""
    started = time.perf_counter()
    tables = {name: read_table(folder) for name, folder in folders.items()}
    decides = ["reproduce", parameters.experiment, parameters.seed, parameters.search_budget]
    decides += [parameters.repeats, parameters.groups, *(table.manifest["digest"] for table in tables.values())]
    cells = Cells(journal_for(Settings(), decides), parameters.threads or default_threads())
    before = len(cells.done)
    experiments = {Experiment.figure2: _figure2, Experiment.figure3: _figure3}
    rows = [
        row
        for name, table in tables.items()
        for row in experiments.get(parameters.experiment, _table)(name, table, cells, parameters)
    ]
    return {"rows": rows, "run": cells.n_run, "resumed": before, "seconds": time.perf_counter() - started}


def parts_of(table: RatingsTable, parameters: ReproduceRatingsParameters) -> list[Part]:
    """The publisher's folds, or 80 % and 20 % of the rows at random."""
    if table.folds is None:
        masks = {"80/20": random_rows(len(table.users), SHARE, parameters.seed)}
    else:
        known = sorted({str(fold) for fold in set(table.folds.tolist()) - {None}})
        names = parameters.folds or known
        if unknown := set(names) - set(known):
            raise ParameterError(f"folds: there is no {', '.join(sorted(unknown))}; there are {', '.join(known)}.")
        masks = {name: np.asarray(table.folds == name, np.bool_) for name in names}
    return [Part(table, name, np.flatnonzero(~mask), np.flatnonzero(mask)) for name, mask in masks.items()]


def _key(name: str, method: str, part: Part, more: str = "") -> str:
    return f"{name} {method} {part.name}{more}"


def _accuracy(
    name: str, parts: list[Part], methods: Iterable[str], cells: Cells, parameters: ReproduceRatingsParameters
) -> None:
    """Run the cells of the tables: the methods that need MF's structure come after it."""
    methods = list(methods)
    needs = [method for method in methods if method in ("EM", "GMF")]
    first = [method for method in methods if method not in needs]
    if needs and "MF" not in first:
        first.append("MF")
    wave = []
    for part in parts:
        for method in first:
            for dimension in parameters.dimensions if method.startswith("SVD") else [None]:
                key = _key(name, method, part, f" C={dimension}" if dimension else "")
                wave.append(Cell(key, _later(fit_method, method, part, parameters, dimension)))
    cells.run(wave)
    cells.run(
        Cell(
            _key(name, method, part),
            _later(fit_method, method, part, parameters, None, structure_of(cells, name, part)),
        )
        for part in parts
        for method in needs
    )


def _later(work: Callable[..., Json], *arguments: Any) -> Callable[[], Json]:
    return lambda: work(*arguments)


def structure_of(cells: Cells, name: str, part: Part) -> Json:
    """What MF's search chose on a part."""
    structure: Json = cells.done[_key(name, "MF", part)]["facts"]["structure"]
    return structure


def best_dimension(
    cells: Cells, name: str, method: str, parts: list[Part], parameters: ReproduceRatingsParameters
) -> int:
    """Of SVD: the dimension with the smallest mean test MAE, which favours it, as in the paper."""

    def mae(dimension: int) -> float:
        return float(np.mean([cells.done[_key(name, method, part, f" C={dimension}")]["mae"] for part in parts]))

    best: int = min(parameters.dimensions, key=mae)
    return best


def _table(name: str, table: RatingsTable, cells: Cells, parameters: ReproduceRatingsParameters) -> list[Json]:
    methods = [m for m in methods_of(parameters.experiment, name) if m in (parameters.methods or [m])]
    parts = parts_of(table, parameters)
    _accuracy(name, parts, methods, cells, parameters)
    rows = []
    for method in methods:
        more, said = "", ""
        if method.startswith("SVD"):
            dimension = best_dimension(cells, name, method, parts, parameters)
            more, said = f" C={dimension}", f"C = {dimension}"
        found = [cells.done[_key(name, method, part, more)] for part in parts]
        if "structure" in found[0]["facts"]:
            chosen = [result["facts"]["structure"] for result in found]
            said = ", ".join(f"({s['n_user_latents']}, {s['n_item_latents']}, {s['tau']:g})" for s in chosen)
        total = _total(found, len(table.user_ids))
        values, draws = resample({"mae": total}, seed=parameters.seed, resamples=parameters.resamples)
        published = PUBLISHED.get((name, method))
        rows.append(
            {"dataset": name, "method": method, "published": published}
            | dict(interval(values["mae"], draws["mae"]))
            | {
                "difference": None if published is None else values["mae"] - published,
                "verdict": "some folds only" if parameters.folds else verdict(values["mae"], published),
                "folds": [part.name for part in parts],
                "fold_mae": [result["mae"] for result in found],
                "seconds": sum(result["seconds"] for result in found),
                "chosen": said,
            }
        )
    return rows


def verdict(value: float, published: float | None) -> str:
    """Whether a figure that should be small is reproduced."""
    if published is None:
        return "not in the paper"
    if value < published - TOLERANCE:
        return "better"
    return "reproduced" if value <= published + TOLERANCE else "worse"


def _total(results: Iterable[Json], n_users: int) -> Total:
    """The error sums of several fits by user."""
    sums, counts = np.zeros(n_users), np.zeros(n_users)
    for result in results:
        sums[result["users"]] += result["sums"]
        counts[result["users"]] += result["counts"]
    return Total(sums, counts)


def _figure2(name: str, table: RatingsTable, cells: Cells, parameters: ReproduceRatingsParameters) -> list[Json]:
    """Seconds of MF and EM, each alone in one thread, for every structure; tau as the model's default."""
    part = parts_of(table, parameters)[0]
    methods = [m for m in methods_of(parameters.experiment, name) if m in (parameters.methods or [m])]
    sizes = range(1, parameters.latents + 1)
    rows = []
    for s, t in ((s, t) for s in sizes for t in sizes):
        structure = {"n_user_latents": t, "n_item_latents": s, "tau": 10.0}
        keys = {method: _key(name, method, part, f" s={s} t={t}") for method in methods}
        cells.run(
            [Cell(key, _later(_timed, method, part, parameters.seed, structure)) for method, key in keys.items()],
            alone=True,
        )
        found = {method: cells.done[key] for method, key in keys.items()}
        rows.append(
            {"dataset": name, "s": s, "t": t}
            | {f"{method.lower()}_seconds": found[method]["seconds"] for method in methods}
            | {f"{method.lower()}_mae": found[method]["mae"] for method in methods}
        )
    return rows


def _timed(method: str, part: Part, seed: int, structure: Json) -> Json:
    """CPU seconds of a fit, which other work on the machine does not lengthen, and its MAE."""
    train, test = parts_of_rows(part.table, part.train, part.test)
    config = configuration(method, structure)
    start = time.process_time()
    model = RatingsModel.fit(
        train.users, train.items, train.ratings, part.table.scale, config,
        user_ids=train.user_ids, item_ids=train.item_ids, seed=seed, n_threads=1,
    )  # fmt: skip
    seconds = time.process_time() - start
    sums = part.error_sums(model.predict(test.users, test.items).mean)
    return {"seconds": seconds, "mae": sum(sums["sums"]) / sum(sums["counts"])}


def _figure3(name: str, table: RatingsTable, cells: Cells, parameters: ReproduceRatingsParameters) -> list[Json]:
    """Efficiency by κ, over all folds: 125 fits a κ and method with five folds, groups and repeats."""
    methods = [m for m in methods_of(parameters.experiment, name) if m in (parameters.methods or [m])]
    parts = parts_of(table, parameters)
    _accuracy(name, parts, methods, cells, parameters)
    keys: dict[tuple[str, int | None], list[str]] = {}
    jobs = []
    for part in parts:
        test = np.zeros(len(table.users), np.bool_)
        test[part.test] = True
        plan = Plan(
            table.users, test, kappas=parameters.kappas, repeats=parameters.repeats, groups=parameters.groups,
            seed=parameters.seed,
        )  # fmt: skip
        for method in methods:
            dimension, structure = None, None
            if method.startswith("SVD"):
                dimension = best_dimension(cells, name, method, [part], parameters)
            elif method in ("MF", "GMF", "EM"):
                structure = structure_of(cells, name, part)
            full = f" C={dimension}" if dimension else ""
            keys.setdefault((method, None), []).append(_key(name, method, part, full))
            for job in plan.jobs[1:]:
                key = _key(name, method, part, f" kappa={job.kappa} repeat={job.repeat} group={job.group}")
                keys.setdefault((method, job.kappa), []).append(key)
                cold = Part(table, part.name, *plan.rows(job))
                jobs.append(Cell(key, _later(fit_method, method, cold, parameters, dimension, structure)))
    cells.run(jobs)
    rows = []
    for method in methods:
        found = {
            str(kappa): _total([cells.done[key] for key in of], len(table.user_ids))
            for (who, kappa), of in keys.items()
            if who == method
        }
        values, draws = resample(found, seed=parameters.seed, resamples=parameters.resamples)
        for kappa in map(str, parameters.kappas):
            efficiency = interval(values["None"] / values[kappa], draws["None"] / draws[kappa])
            published = EFFICIENCY_AT_ONE if (method, kappa) == ("MF", "1") else None
            rows.append(
                {"dataset": name, "method": method, "kappa": int(kappa), "mae": values[kappa]}
                | {"full_mae": values["None"], "published_at_least": published}
                | dict(efficiency)
                | {"fits": len(keys[method, int(kappa)])}
            )
    return rows
