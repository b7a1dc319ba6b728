"""Accuracy of every inference on MovieLens-100k, with and without side information, beside the figures to reach.

    PREDILECT_DATA_DIR=… python benchmarks/ratings_inference.py [--only "gibbs, side"] [--folds 1,2] [--threads 2]

The publisher's folds u1–u5. Side information: the rated sets of the training part, u.user and u.item. The average
is of the predictive distributions of three variational fits.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from ratings_accuracy import Case, movielens

from predilect.models.ids import IdMap
from predilect.models.ratings import Prediction, RatingsModel, VBConfig
from predilect.models.ratings.compile import warm_up
from predilect.tasks.side_tables import SideTables, read_side_table

Scores = dict[str, float]


@dataclass(frozen=True)
class Variant:
    """What is fitted, and what was asked of it."""

    name: str
    config: VBConfig
    tables: bool = False
    goal: str = ""
    seeds: tuple[int, ...] = (0,)


def latents(k: int, **more: Any) -> VBConfig:
    return VBConfig(n_user_latents=k // 2, n_item_latents=k - k // 2, **more)


VARIANTS = [
    Variant("mf K 20", latents(20)),
    Variant("gmf K 20", latents(20, inference="gmf")),
    Variant("mf, average of 3 starts", latents(20), goal="best VB ≤ .669 / ≤ .9037", seeds=(0, 1, 2)),
    Variant("mf, rated set K 20", latents(20, rated_set=True)),
    *(
        Variant(f"mf, side K {k}", latents(k, rated_set=True), True, "VB side ≤ .661 / ≤ .895, not worse as K grows")
        for k in (5, 10, 20)
    ),
    Variant("gmf, side K 20", latents(20, rated_set=True, inference="gmf"), True),
    Variant("em K 4", latents(4, inference="em", tau=10.0)),
    Variant("gibbs K 16", latents(16, inference="gibbs"), goal="≤ .6630 / ≤ .8973, 89–91 %"),
    Variant("gibbs, side K 16", latents(16, inference="gibbs", rated_set=True), True, "≤ .6465 / ≤ .8785, 89–91 %"),
]


def predictions(case: Case, variant: Variant, tables: SideTables, n_threads: int | None) -> Iterator[Prediction]:
    """One prediction of the test part a seed."""
    known = tables if variant.tables else SideTables(None, None)
    ids = []
    for column, table in (("user", known.users), ("item", known.items)):
        there = case.train[column].to_numpy()
        ids.append(IdMap(np.unique(there if table is None else np.append(there, np.array(table.ids, np.int64)))))
    features = known.features(ids[0], ids[1])
    for seed in variant.seeds:
        model = RatingsModel.fit(
            ids[0].encode(case.train.user.to_numpy()),
            ids[1].encode(case.train.item.to_numpy()),
            case.train.rating.to_numpy(np.float32),
            case.scale,
            variant.config,
            user_ids=ids[0],
            item_ids=ids[1],
            seed=seed,
            n_threads=n_threads,
            **features,
        )
        if model.sampled is not None:
            mixed = model.sampled.convergence
            print(
                f"    R̂ of θ {mixed.noise_rhat:.3f}, ESS {mixed.noise_size:.0f}; predictions: R̂ at most "
                f"{mixed.rhat.max():.3f}, ESS {np.median(mixed.size):.0f} (median)"
            )
        yield model.predict_ids(case.test.user.to_numpy(), case.test.item.to_numpy())


def score(case: Case, mean: NDArray[np.float64], variance: NDArray[np.float64]) -> Scores:
    rating: NDArray[np.float64] = case.test.rating.to_numpy(np.float64)
    return {
        "mae_rounded": float(np.abs(case.scale.round(mean) - rating).mean()),
        "rmse": float(np.sqrt(np.square(case.scale.clip(mean) - rating).mean())),
        "coverage_90": float((np.abs(rating - mean) < 1.6448536 * np.sqrt(variance)).mean()),
    }


def average(found: Iterator[Prediction]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and variances, averaged: of fits that agree, the mixture's."""
    all_of_them = list(found)
    means, variances = (np.array([getattr(p, part) for p in all_of_them]) for part in ("mean", "variance"))
    return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a variant's name")
    parser.add_argument("--folds", default="1,2,3,4,5")
    parser.add_argument("--threads", type=int)
    for field in ("chains", "burn_in", "samples", "draws"):
        parser.add_argument(f"--{field}", type=int, default=getattr(VBConfig, field))
    options = parser.parse_args()
    if not (folder := os.environ.get("PREDILECT_DATA_DIR")):
        sys.exit("Set PREDILECT_DATA_DIR to the folder that holds the data sets.")
    data = Path(folder) / "ml-100k"
    tables = SideTables(read_side_table(data / "u.user", "users"), read_side_table(data / "u.item", "items"))
    wanted = [int(fold) for fold in options.folds.split(",")]
    cases = [case for fold, case in enumerate(movielens(data), 1) if fold in wanted]
    print(f"first compilation {warm_up():.1f} s")
    chains = {field: getattr(options, field) for field in ("chains", "burn_in", "samples", "draws")}
    for variant in (variant for variant in VARIANTS if options.only in variant.name):
        sampled = variant.config.inference == "gibbs"
        chosen = replace(variant, config=replace(variant.config, **chains)) if sampled else variant
        print(f"\n{variant.name}   {variant.goal}", flush=True)
        rows = []
        for fold, case in zip(wanted, cases, strict=True):
            started = time.perf_counter()
            found = average(predictions(case, chosen, tables, options.threads))
            rows.append(score(case, *found) | {"seconds": time.perf_counter() - started})
            print(f"  u{fold}  " + "  ".join(f"{key} {value:.4f}" for key, value in rows[-1].items()), flush=True)
        print("  mean  " + "  ".join(f"{key} {value:.4f}" for key, value in pd.DataFrame(rows).mean().items()))


if __name__ == "__main__":
    main()
