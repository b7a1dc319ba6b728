"""Fit ratings that are in files: memory-mapped orders, checkpoints, on this machine or on workers."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from predilect.models.ids import IdMap
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.scale import RatingScale
from predilect.models.ratings.sweep import HalfSweep
from predilect.tasks import progress
from predilect.tasks.compute import workers_of
from predilect.tasks.dask_sweeps import ShardedSweeps
from predilect.tasks.fit import facts_of, keep_fit
from predilect.tasks.fit_checkpoints import Checkpoints
from predilect.tasks.large_split import split_large, split_summary
from predilect.tasks.order_files import open_orders
from predilect.tasks.parameters_large import LargeRatingsParameters
from predilect.tasks.parts import SIDES
from predilect.tasks.runs import read_json
from predilect.tasks.settings import Settings


def split_large_ratings(folder: Path, parameters: LargeRatingsParameters) -> tuple[Path, dict[str, Any]]:
    """The folder of the training part's orders and the test rows, and the sizes of both."""
    split = split_large(folder, parameters.test_share, parameters.seed, parameters.threads)
    return split, split_summary(split)


def config_of_large(parameters: LargeRatingsParameters) -> VBConfig:
    """The model's configuration."""
    return VBConfig(
        n_user_latents=parameters.n_user_latents,
        n_item_latents=parameters.n_item_latents,
        tau=parameters.tau,
        precisions=parameters.precisions.value,
        max_sweeps=parameters.max_sweeps,
        tolerance=parameters.tolerance,
        restarts=parameters.restarts,
        inference=parameters.inference.value,
    )


def id_maps(folder: Path) -> tuple[IdMap, IdMap]:
    """The users' and the items' ids of a folder that `ingest_large` made."""
    users, items = (
        IdMap(pq.read_table(folder / f"{side}s.parquet")["id"].to_numpy(zero_copy_only=False)) for side in SIDES
    )
    return users, items


def fit_large(folder: Path, split: Path, run: Path, parameters: LargeRatingsParameters) -> dict[str, Any]:
    """Fit to the training part and save the model folder; what the fit did, also in `fit.json`.

    An interrupted fit of the same ratings with the same parameters goes on from its last checkpoint, to the same bits.
    """
    manifest, config = read_json(folder / "manifest.json"), config_of_large(parameters)
    by_user, by_item = open_orders(split)
    user_ids, item_ids = id_maps(folder)
    decides = ["large", manifest["digest"], split.name, parameters.seed, asdict(config)]
    checkpoints = Checkpoints(Settings(), decides, parameters.checkpoint_minutes)
    resume = checkpoints.latest(config)
    started, sweeps = time.perf_counter(), 0

    def show(sweep: int, bound: float, noise_sd: float) -> None:
        nonlocal sweeps
        sweeps += 1
        pace = (time.perf_counter() - started) / sweeps
        note = f"sweep {sweep}, noise sd {noise_sd:.4f}, {pace:.1f} s a sweep, {checkpoints.n_kept} checkpoints"
        progress.report("fit", min(sweep / (config.max_sweeps * config.restarts), 0.99), note)

    with workers_of(parameters) as workers:
        model = RatingsModel.fit_orders(
            by_user,
            by_item,
            RatingScale.from_facts(manifest["scale"]),
            config,
            user_ids=user_ids,
            item_ids=item_ids,
            seed=parameters.seed,
            n_threads=parameters.threads,
            on_sweep=show,
            on_state=checkpoints.keep,
            resume=resume,
            half_sweep=HalfSweep if workers is None else ShardedSweeps(workers, split).half_sweep,
        )
    seconds = time.perf_counter() - started
    model.save(run / "model")
    fit = facts_of(model, seconds) | {
        "resumed_at": None if resume is None else len(resume.at.bound_trace),
        "checkpoints": checkpoints.n_kept,
        "checkpoint_seconds": checkpoints.seconds,
    }
    keep_fit(run, model, fit)
    checkpoints.clear()
    return fit
