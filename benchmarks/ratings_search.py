"""Greedy structure search, automatic structure and cold start on MovieLens-100k: the figures to hold, and the times.

    PREDILECT_DATA_DIR=… python benchmarks/ratings_search.py [search] [auto] [cold-start] [speed]

Without an argument everything runs, which takes a few minutes. Exits with 1 when a figure is missed.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import default_threads
from predilect.models.evaluation.bootstrap import Total, estimates
from predilect.models.evaluation.cold_start import Plan, cold_start
from predilect.models.evaluation.metrics import row_losses
from predilect.models.ids import IdMap
from predilect.models.ratings.baselines import BiasOnly
from predilect.models.ratings.compile import warm_up
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.prediction import Prediction
from predilect.models.ratings.scale import RatingScale
from predilect.models.ratings.search import FoldScorer, greedy

STARS = RatingScale(1, 5, (1.0, 2.0, 3.0, 4.0, 5.0))
USER_IDS, ITEM_IDS = IdMap(np.arange(1, 944)), IdMap(np.arange(1, 1683))
SEED = 0
FOLDS = (1, 2, 3, 4, 5)

Rows = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]


def read(name: str) -> Rows:
    table = np.loadtxt(Path(os.environ["PREDILECT_DATA_DIR"]) / "ml-100k" / name, dtype=np.int64)
    return USER_IDS.encode(table[:, 0]), ITEM_IDS.encode(table[:, 1]), table[:, 2].astype(np.float32)


def fit(rows: Rows, config: VBConfig, seed: int = SEED, n_threads: int | None = None) -> RatingsModel:
    return RatingsModel.fit(*rows, STARS, config, user_ids=USER_IDS, item_ids=ITEM_IDS, seed=seed, n_threads=n_threads)


def scores(rows: Rows, prediction: Prediction) -> dict[str, float]:
    losses = row_losses(rows[2], *prediction, STARS)
    return {
        "mae_rounded": float(losses["mae_rounded"].mean()),
        "rmse": float(np.sqrt(losses["rmse"].mean())),
        "coverage_90": float(losses["coverage_90"].mean()),
    }


def report(what: str, found: list[dict[str, float]], limits: dict[str, tuple[float, float]]) -> bool:
    means = {name: float(np.mean([fold[name] for fold in found])) for name in found[0]}
    held = all(low <= means[name] <= high for name, (low, high) in limits.items())
    print(f"{what}: " + ", ".join(f"{name} {mean:.4f}" for name, mean in means.items()), "" if held else "MISSED")
    return held


def search() -> bool:
    """Five searches, each on the training part of a fold; then the chosen structure fitted on all of that part."""
    found, slowest = [], 0.0
    for fold in FOLDS:
        train, test = read(f"u{fold}.base"), read(f"u{fold}.test")
        start = time.perf_counter()
        scorer = FoldScorer.of(*train, STARS, VBConfig(), user_ids=USER_IDS, item_ids=ITEM_IDS, seed=SEED)
        result = greedy(scorer)
        seconds = time.perf_counter() - start
        slowest = max(slowest, seconds)
        structure = result.chosen.structure
        model = fit(train, structure.configure(VBConfig()))
        found.append(scores(test, model.predict(*test[:2])))
        print(
            f"  u{fold}: {result.n_fits} fits in {seconds:.1f} s, K = {structure.key[0]}, tau = {structure.tau:g}, "
            f"folds {result.chosen.loss:.4f}, test {found[-1]['mae_rounded']:.4f}"
        )
    print(f"  slowest search {slowest:.1f} s (aim: 15 s at most)")
    return report("greedy, fixed tau", found, {"mae_rounded": (0, 0.677)}) and slowest <= 15


def auto() -> bool:
    """One empirical-Bayes fit a fold with the defaults, over seeds; bias only beside it."""
    held = True
    for seed in range(3):
        found = []
        for fold in FOLDS:
            train, test = read(f"u{fold}.base"), read(f"u{fold}.test")
            found.append(scores(test, fit(train, VBConfig(), seed).predict(*test[:2])))
        limits = {"mae_rounded": (0, 0.671), "rmse": (0, 0.906), "coverage_90": (0.88, 0.92)}
        held &= report(f"empirical Bayes, seed {seed}", found, limits)
    found = []
    for fold in FOLDS:
        train, test = read(f"u{fold}.base"), read(f"u{fold}.test")
        baseline = BiasOnly.fit(*train, STARS, user_ids=USER_IDS, item_ids=ITEM_IDS)
        found.append(scores(test, baseline.predict(*test[:2])))
    report("bias only", found, {})
    return held


def cold() -> bool:
    """Two folds, two repeats, as a prototype was measured: efficiency .854 / .882 / .910 / .938 at κ 1, 5, 10, 20."""
    held = True
    for precisions in ("empirical_bayes", "fixed"):
        config = VBConfig(restarts=1, precisions=precisions, tau=50.0 if precisions == "fixed" else VBConfig().tau)
        if precisions == "fixed":
            config = replace(config, n_user_latents=2, n_item_latents=2)
        curves = []
        start = time.perf_counter()
        for fold in FOLDS[:2]:
            train, test = read(f"u{fold}.base"), read(f"u{fold}.test")
            users, items, ratings = (np.concatenate(pair) for pair in zip(train, test, strict=True))
            mask = np.arange(len(users)) >= len(train[0])

            def fit_predict(
                train_rows: NDArray[np.int64],
                test_rows: NDArray[np.int64],
                rows: Rows = (users, items, ratings),
                config: VBConfig = config,
            ) -> NDArray[np.float64]:
                model = fit((rows[0][train_rows], rows[1][train_rows], rows[2][train_rows]), config, n_threads=1)
                return model.predict(rows[0][test_rows], rows[1][test_rows]).mean

            plan = Plan(users, mask, kappas=(1, 5, 10, 20), repeats=2, groups=5, seed=SEED)
            curves.append(cold_start(plan, ratings, STARS, fit_predict, n_threads=default_threads()))
        efficiency = np.mean([curve["efficiency"] for curve in curves], axis=0)
        print(
            f"cold start, {precisions}: efficiency at κ {curves[0]['kappa']}: {np.round(efficiency, 3).tolist()} "
            f"in {time.perf_counter() - start:.1f} s"
        )
        held &= precisions == "fixed" or efficiency[0] >= 0.84
    return held


def speed() -> bool:
    """Bootstrap of twelve metrics; 1000 resamples."""
    held = True
    rng = np.random.default_rng(0)
    for n_users, limit in ((5_000, 0.5), (100_000, 10.0)):
        totals = {f"metric {name}": Total(rng.random(n_users), np.ones(n_users)) for name in range(12)}
        start = time.perf_counter()
        estimates(totals, seed=SEED)
        seconds = time.perf_counter() - start
        held &= seconds <= limit
        print(f"bootstrap, {n_users} users × 1000 resamples × 12 metrics: {seconds:.2f} s (at most {limit:g})")
    return held


PARTS: dict[str, Callable[[], bool]] = {"search": search, "auto": auto, "cold-start": cold, "speed": speed}


def main() -> int:
    if "PREDILECT_DATA_DIR" not in os.environ:
        print("set PREDILECT_DATA_DIR to the folder that holds ml-100k")
        return 1
    print(f"kernels ready in {warm_up():.1f} s")
    return 0 if all([PARTS[name]() for name in sys.argv[1:] or PARTS]) else 1


if __name__ == "__main__":
    sys.exit(main())
