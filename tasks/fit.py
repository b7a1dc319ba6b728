"""Split a canonical ratings table and fit the model to the training part."""

import hashlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.artifact import MANIFEST
from predilect.models.evaluation.splits import key_of, mixed, parse_split, split, summarise
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.model import RatingsModel
from predilect.tasks import progress
from predilect.tasks.compute import workers_of
from predilect.tasks.dask_sweeps import sharded
from predilect.tasks.fit_checkpoints import Checkpoints
from predilect.tasks.fit_facts import effect_facts, sampling_facts
from predilect.tasks.parameters import Precisions, RatingsParameters, Search
from predilect.tasks.ratings_table import Ratings, parts, read_table
from predilect.tasks.runs import write_json
from predilect.tasks.settings import Settings
from predilect.tasks.side_tables import find, read_side_tables
from predilect.tasks.tracking import Tracker

TEST_ROWS = "test_rows.npy"


def split_ratings(dataset: Path, run: Path, parameters: RatingsParameters) -> dict[str, Any]:
    """Choose the test rows; writes their mask and the sizes of both parts, which it returns."""
    table = read_table(dataset)
    how = parse_split(parameters.split)
    keys = None
    if how.kind == "stable":
        user, item = (key_of(map(str, ids.ids.tolist()), parameters.seed) for ids in (table.user_ids, table.item_ids))
        keys = mixed(user[table.users], item[table.items])
    test = split(how, table.users, timestamps=table.timestamps, folds=table.folds, keys=keys, seed=parameters.seed)
    np.save(run / TEST_ROWS, test)
    return dict(summarise(how, test, table.users, table.items))


def read_parts(dataset: Path, run: Path) -> tuple[Ratings, Ratings]:
    """The training and the test part of a run."""
    return parts(read_table(dataset), test_rows(run))


def test_rows(run: Path) -> NDArray[np.bool_]:
    """The mask of the test part, one a row of the canonical table."""
    mask: NDArray[np.bool_] = np.load(run / TEST_ROWS, allow_pickle=False)
    return mask


def config_of(parameters: RatingsParameters, structure: dict[str, Any] | None = None) -> VBConfig:
    """The model's configuration; `structure` is what a search chose, which is fitted with its fixed tau."""
    chosen = structure or {name: getattr(parameters, name) for name in ("n_user_latents", "n_item_latents", "tau")}
    learned = structure is None and (
        parameters.search == Search.auto or parameters.precisions == Precisions.empirical_bayes
    )
    return VBConfig(
        n_user_latents=chosen["n_user_latents"],
        n_item_latents=chosen["n_item_latents"],
        tau=chosen["tau"],
        precisions="empirical_bayes" if learned else "fixed",
        max_sweeps=parameters.max_sweeps,
        tolerance=parameters.tolerance,
        restarts=parameters.restarts,
        inference=parameters.inference.value,
        rated_set=parameters.rated_set,
        chains=parameters.chains,
        burn_in=parameters.burn_in,
        samples=parameters.samples,
        draws=parameters.draws,
    )


def fit_ratings(
    dataset: Path, run: Path, parameters: RatingsParameters, structure: dict[str, Any] | None
) -> dict[str, Any]:
    """Fit to the training part and save the model folder; what the fit did, also in `fit.json`.

    An interrupted fit of the same data with the same parameters goes on from its last checkpoint, to the same bits.
    """
    table = read_table(dataset)
    sides = read_side_tables(parameters)
    train, _ = parts(table, test_rows(run), sides.known_ids(table))
    config = config_of(parameters, structure)
    expected = config.max_sweeps * (config.restarts if config.inference != "gibbs" else config.chains)
    expected += config.burn_in + config.samples if config.inference == "gibbs" else 0

    def show(sweep: int, bound: float, noise_sd: float) -> None:
        progress.report("fit", min(sweep / expected, 0.99), f"sweep {sweep}, noise sd {noise_sd:.4f}")

    decides = [table.manifest["digest"], _digest(run / TEST_ROWS), parameters.seed, asdict(config)]
    decides += [
        None if path is None else _digest(find(path, parameters)) for path in (parameters.users, parameters.items)
    ]
    decides.append(parameters.warm_start and _digest(Path(parameters.warm_start) / MANIFEST))
    checkpoints = Checkpoints(Settings(), ["memory", *decides])
    resume = checkpoints.latest(config)
    start = time.perf_counter()
    with workers_of(parameters) as workers, sharded(workers, run / "orders") as half_sweep:
        model = RatingsModel.fit(
            train.users,
            train.items,
            train.ratings,
            table.scale,
            config,
            user_ids=train.user_ids,
            item_ids=train.item_ids,
            seed=parameters.seed,
            n_threads=parameters.threads,
            warm_start=RatingsModel.load(Path(parameters.warm_start)) if parameters.warm_start else None,
            on_sweep=show,
            on_state=checkpoints.keep,
            resume=resume,
            half_sweep=half_sweep,
            **sides.features(train.user_ids, train.item_ids),
        )
    seconds = time.perf_counter() - start
    model.save(run / "model")
    fit = facts_of(model, seconds) | {
        "tables": sides.to_facts(),
        "sampling": sampling_facts(model),
        "effects": effect_facts(model),
        "resumed_at": None if resume is None else len(resume.at.bound_trace),
    }
    keep_fit(run, model, fit)
    checkpoints.clear()
    return fit


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def facts_of(model: RatingsModel, seconds: float) -> dict[str, Any]:
    """What every fit says of itself."""
    return {
        "n_sweeps": model.n_sweeps,
        "converged": bool(model.converged),
        "restarts": model.config.restarts,
        "bound": [float(value) for value in model.bound_trace],
        "noise_sd": [float(value) for value in model.noise_sd_trace],
        "dimension_sd": [float(value) for value in model.dimension_sd],
        "user_precisions": [float(value) for value in model.user_precisions],
        "effective_dimensions": int(model.effective_dimensions),
        "n_parameters": (len(model.user_ids) + len(model.item_ids)) * (2 * model.config.n_factors + 2),
        "seconds": seconds,
        "config": asdict(model.config),
    }


def keep_fit(run: Path, model: RatingsModel, fit: dict[str, Any]) -> None:
    """Write what the fit says, and have the model folder, which is there, logged."""
    write_json(run / "fit.json", fit)
    example = {"user": model.user_ids.ids[:3].tolist(), "item": model.item_ids.ids[:3].tolist()}
    shortest = min(map(len, example.values()))
    Tracker(run, Settings()).model("ratings", run / "model", {name: ids[:shortest] for name, ids in example.items()})
