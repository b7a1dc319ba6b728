"""How good the maxima are that the rankings fit finds, beside the figures to reach.

    PREDILECT_DATA_DIR=… python benchmarks/rankings_accuracy.py [--seeds 10]

Rare components: shares (.9, .07, .03) of 20 items and 1,000 ballots; a default fit against the best of 20 random
starts, each climbed to the end. Planted mixtures: the error of a default fit against that of fits with the true labels.
Real ballots (when PREDILECT_DATA_DIR is set): full-data log-likelihood against the best known.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

from predilect.models.compiled import Threads, threads
from predilect.models.random import stream
from predilect.models.rankings import Mixture, RankingsConfig, RankingsModel
from predilect.models.rankings.em import climb_from
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Objective
from predilect.models.rankings.resampling import distance
from predilect.models.rankings.simulate import draw_mixture, simulate
from predilect.models.rankings.solvers import maximise
from predilect.models.rankings.spectral import spectral_start
from predilect.tasks.readers.rankings import read_rankings
from predilect.tasks.readers.source import Source

# items, informative items, components, ballots
PLANTED = ((20, 10, 2, 8000), (20, 10, 5, 4000), (100, 10, 3, 500), (100, 10, 5, 2000))
BEST_KNOWN = {
    "d_dublinwest": (-224071.813, -213812.908, -209074.909, -207993.463, -206805.974, -206132.749),
    "d_apa": (-51598.306, -50377.769, -50289.159, -50205.582, -50177.539),
}


def rare_components(n_seeds: int, pool: Threads) -> None:
    reached = 0
    for seed in range(n_seeds):
        truth = Mixture(draw_mixture(20, 3, seed=seed).log_worths, np.array([0.9, 0.07, 0.03]))
        ballots, _ = simulate(truth, 1000, seed=seed)
        layout = Layout(ballots)
        values = []
        for number in range(20):
            noise = stream(seed, "benchmark", number).standard_normal((20, 3))
            start = Mixture(noise, np.full(3, 1 / 3))
            values.append(climb_from(Objective(layout, pool), start, "auto", 1e-7, 500).point.value)
        model = RankingsModel.fit(ballots, RankingsConfig(3), seed=0)
        reached += model.log_likelihood >= max(values) - 0.01
        hits = sum(value > max(values) - 0.01 for value in values)
        print(f"  seed {seed}: {model.log_likelihood - max(values):+9.2f} against the best of 20 ({hits} reach it)")
    print(f"rare components: best reached in {reached} of {n_seeds} data seeds (wanted all)")


def planted_mixtures(n_seeds: int, pool: Threads) -> None:
    for n_items, informative, n_components, n_ballots in PLANTED:
        errors = np.zeros((n_seeds, 3))
        seconds = 0.0
        for seed in range(n_seeds):
            truth = draw_mixture(n_items, n_components, seed=seed, n_informative=informative, spread=2.0)
            ballots, labels = simulate(truth, n_ballots, seed=seed)
            layout = Layout(ballots)
            known = np.empty_like(truth.log_worths)
            for k in range(n_components):
                part = Objective(layout.reweighted((labels == k).astype(float)), pool)
                climb = maximise(part, Mixture.single(np.zeros(n_items)), "auto", 1e-8, 500)
                known[:, k] = climb.point.mixture.log_worths[:, 0]
            spectral, _ = spectral_start(layout, n_components, stream(seed, "spectral"))
            began = time.perf_counter()
            model = RankingsModel.fit(ballots, RankingsConfig(n_components), seed=0, n_threads=1)
            seconds += time.perf_counter() - began
            fits = (Mixture(known, truth.shares), spectral, model.mixture)
            errors[seed] = [distance(fit, truth) for fit in fits]
        mean = errors.mean(axis=0)
        print(
            f"n={n_items} L={informative} K={n_components} m={n_ballots}: error {mean[0]:.3f} with the true labels, "
            f"{mean[1]:.3f} spectral, {mean[2]:.3f} fitted, ratio {mean[2] / mean[0]:.3f} (wanted <= 1.05); "
            f"{seconds / n_seeds:.2f} s"
        )


def real_ballots(folder: Path) -> None:
    for name, best in BEST_KNOWN.items():
        ballots = read_rankings(Source(folder / f"{name}.csv")).ballots("all")
        for n_components, known in enumerate(best, 1):
            model = RankingsModel.fit(ballots, RankingsConfig(n_components), seed=0)
            print(
                f"{name} K={n_components}: {model.log_likelihood:.3f}, {model.log_likelihood - known:+.3f} against the "
                "best known (wanted >= -0.01)"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if folder := os.environ.get("PREDILECT_DATA_DIR"):
        real_ballots(Path(folder) / "rankings" / "plmix_gpl")
    with threads(1) as pool:
        rare_components(options.seeds, pool)
        planted_mixtures(options.seeds, pool)


if __name__ == "__main__":
    main()
