"""Accuracy of the clicks family beside the figures to reach: Upworthy headline tests, and a simulated user log.

    PREDILECT_DATA_DIR=… python benchmarks/clicks_accuracy.py [--seeds 5] [--skip-simulator] [--skip-upworthy]

Upworthy: held-out log-likelihood a row (binomial coefficient included) with TF-IDF of the headline, split by test and
by week, with and without a group effect of the test; "no text" is the beta-binomial with the group effect alone.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from predilect.models.clicks import (
    ClicksConfig,
    ClicksModel,
    ContextEncoder,
    FeatureColumns,
    SimulationConfig,
    UserClusters,
    count_intervals,
    log_predictive,
    rank,
    score,
    simulate,
)
from predilect.models.clicks.config import Evidence, GroupEffect, ModelName
from predilect.models.clicks.metrics import auc, covered, log_likelihood_impression
from predilect.models.clicks.scores import normal_points, uqp
from predilect.models.random import stream

TEST_SHARE = 0.3
BETA_BINOMIAL: tuple[ModelName, ...] = ("l-bbl", "l-prop")
LAPLACE: tuple[ModelName, ...] = ("l-log", *BETA_BINOMIAL)
EVIDENCE: tuple[Evidence, ...] = ("hutchinson", "svd", "paper")


class Upworthy:
    """The archive's columns, and its splits."""

    def __init__(self, folder: Path) -> None:
        columns = ["headline", "clickability_test_id", "impressions", "clicks", "test_week"]
        table = pq.read_table(folder / "upworthy" / "upworthy_exploratory.parquet", columns=columns)
        self.headline = np.array(table["headline"].to_pylist(), dtype=object)
        self.group = np.array(table["clickability_test_id"].to_pylist())
        self.n, self.v, self.week = (table[name].to_numpy() for name in ("impressions", "clicks", "test_week"))

    def by_group(self, seed: int) -> np.ndarray:
        """Held-out rows: a share of the tests, each wholly."""
        tests, codes = np.unique(self.group, return_inverse=True)
        drawn = stream(seed, "split").permutation(len(tests)) < round(TEST_SHARE * len(tests))
        held_out: np.ndarray = drawn[codes]
        return held_out

    def by_time(self) -> np.ndarray:
        """Held-out rows: the last share by week."""
        held_out = np.ones(len(self.week), bool)
        held_out[np.argsort(self.week, kind="stable")[: round((1 - TEST_SHARE) * len(self.week))]] = False
        return held_out

    def evaluate(
        self, held_out: np.ndarray, model: ModelName, group_effect: GroupEffect, *, text: bool = True
    ) -> dict[str, float]:
        train = ~held_out
        parts = {"train": train, "test": held_out}
        began = time.perf_counter()

        def columns(mask: np.ndarray) -> FeatureColumns:
            return FeatureColumns(texts={"headline": self.headline[mask]} if text else {})

        encoder = ContextEncoder.fit(columns(train), groups=self.group[train])
        design = {name: encoder.encode(columns(mask), groups=self.group[mask]) for name, mask in parts.items()}
        config = ClicksConfig(model=model, group_effect=group_effect)
        fitted = ClicksModel.fit(design["train"], self.n[train], self.v[train], config)
        took = time.perf_counter() - began
        test = design["test"]
        prediction = fitted.predict(test)
        n, v = self.n[held_out], self.v[held_out]
        mean = score(fitted, test, ("mean",), prediction=prediction)["mean"]
        return {
            "log_likelihood_row": float(log_predictive(prediction, n, v).mean()),
            "log_likelihood_impression": log_likelihood_impression(mean, n, v),
            "auc": auc(mean, v, n - v),
            "coverage_90": float(covered(count_intervals(prediction, n), v).mean()),
            "seconds": took,
            "gradient": fitted.report.gradient_norm,
            **{f"c {name}": c for name, c in fitted.precisions.items() if not name.endswith("intercept")},
        }


def line(name: str, found: dict[str, float]) -> None:
    figures = ", ".join(f"{key} {value:.4g}" for key, value in found.items() if key.startswith("c "))
    print(
        f"  {name:22s} row {found['log_likelihood_row']:9.4f}  impression {found['log_likelihood_impression']:.5f}  "
        f"AUC {found['auc']:.4f}  coverage {found['coverage_90']:.3f}  gradient {found['gradient']:.0e}  "
        f"{found['seconds']:.1f} s  {figures}",
        flush=True,
    )


def upworthy(folder: Path, n_seeds: int) -> None:
    data = Upworthy(folder)
    cases: list[tuple[ModelName, GroupEffect]] = [
        ("l-log", "none"),
        ("l-log", "mean"),
        ("l-bbl", "none"),
        ("l-bbl", "mean"),
        ("l-prop", "none"),
        ("l-prop", "mean"),
    ]
    rows: dict[tuple[ModelName, GroupEffect], list[float]] = {case: [] for case in cases}
    for seed in range(n_seeds):
        print(f"split by test, seed {seed}")
        held_out = data.by_group(seed)
        for case in cases:
            found = data.evaluate(held_out, *case)
            line(f"{case[0]}, group {case[1]}", found)
            rows[case].append(found["log_likelihood_row"])
    mean = {case: float(np.mean(values)) for case, values in rows.items()}
    print(f"mean of {n_seeds} splits by test")
    print(f"  L-BBL {mean['l-bbl', 'mean']:.4f} (asked: ≥ -4.84), L-Prop {mean['l-prop', 'mean']:.4f} (asked: ≥ -4.85)")
    print(
        f"  L-BBL minus L-Log {mean['l-bbl', 'none'] - mean['l-log', 'none']:.2f} without group effect (asked: ≥ 5), "
        f"{mean['l-bbl', 'mean'] - mean['l-log', 'mean']:.3f} with it"
    )
    for model in BETA_BINOMIAL:
        gains = np.subtract(rows[model, "mean"], rows[model, "none"])
        print(f"  the group effect gains {model} {gains.min():.3f} to {gains.max():.3f} a row (asked: ≥ 0.04 on each)")
    print("split by week")
    held_out = data.by_time()
    line("no text, group mean", data.evaluate(held_out, "l-bbl", "mean", text=False))
    for case in cases:
        line(f"{case[0]}, group {case[1]}", data.evaluate(held_out, *case))
    print("  asked: L-BBL and L-Prop with group effect ≥ -4.47")


def simulator() -> None:
    config = SimulationConfig()
    log = simulate(config, seed=0)
    print(f"simulator: {len(log.users):,} rows, {log.impressions.sum():,} impressions, {log.clicks.sum():,} clicks")
    found = UserClusters.fit(log.history_users, log.history_items, config.n_clusters, seed=0)
    design = log.design(found.encode(np.arange(config.n_users)), config.n_clusters)
    held_out = stream(0, "split").random(len(log.users)) < 0.1
    train = ~held_out
    for model in LAPLACE:
        began = time.perf_counter()
        fitted = ClicksModel.fit(
            design.take(train),
            log.impressions[train],
            log.clicks[train],
            ClicksConfig(model=model),
        )
        took = time.perf_counter() - began
        test = design.take(held_out)
        prediction = fitted.predict(test)
        n, v = log.impressions[held_out], log.clicks[held_out]
        mean = score(fitted, test, ("mean",), prediction=prediction)["mean"]
        some = slice(0, 20_000)
        low, high = (uqp(prediction.take(some), normal_points(64), nu) for nu in (0.05, 0.95))
        theta = log.theta[held_out][some]
        coverage = ((theta >= low) & (theta <= high)).mean()
        precisions = ", ".join(f"{name} {c:.3g}" for name, c in fitted.precisions.items() if "intercept" not in name)
        print(
            f"  {model}: row {log_predictive(prediction, n, v).mean():.5f}, impression "
            f"{log_likelihood_impression(mean, n, v):.5f}, AUC {auc(mean, v, n - v):.4f}, θ covered {coverage:.3f} "
            f"(asked of L-Prop: 0.87–0.93), {took:.0f} s\n    {precisions} (true: mean 4, dispersion 8)",
            flush=True,
        )
    best: Any = 1 / (1 + np.exp(-log.zeta[held_out]))
    print(f"  truth: impression {log_likelihood_impression(best, n, v):.5f}, AUC {auc(best, v, n - v):.4f}")
    exploring = score(fitted, test.take(some), ("uqp",))["uqp"]
    lists = rank(mean[some], {"uqp": exploring}, log.users[held_out][some], 5, 0.2)
    share = np.mean(lists.chosen_by[lists.rows >= 0] > 0)
    print(f"  {len(lists.lists):,} lists of 5, {share:.2f} of the places exploring")


def ranks() -> None:
    """How the learned precision depends on the rank, for each way of learning it, on a smaller log."""
    config = SimulationConfig(n_users=1500, n_items=800, n_words=300, n_clusters=8, n_rows=200_000)
    log = simulate(config, seed=0)
    design = log.design(log.clusters, config.n_clusters)
    for evidence in EVIDENCE:
        found = []
        for rank_ in (8, 64, 256):
            settings = ClicksConfig(
                model="m-bbl",
                evidence=evidence,
                rank=rank_,
                single_block=True,
            )
            fitted = ClicksModel.fit(design, log.impressions, log.clicks, settings)
            found.append(fitted.precisions["mean.features"])
        print(f"  c of the mean by {evidence}, rank 8, 64, 256: " + ", ".join(f"{c:.4g}" for c in found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--skip-simulator", action="store_true")
    parser.add_argument("--skip-upworthy", action="store_true")
    options = parser.parse_args()
    folder = os.environ.get("PREDILECT_DATA_DIR")
    if not options.skip_upworthy and folder:
        upworthy(Path(folder), options.seeds)
    elif not options.skip_upworthy:
        print("Upworthy left out: set PREDILECT_DATA_DIR to the folder that holds it")
    if not options.skip_simulator:
        print("true precision of the mean 4; asked: within 30 %, and within 10 % from rank 8 to 256 by default")
        ranks()
        simulator()


if __name__ == "__main__":
    main()
