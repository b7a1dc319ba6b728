"""Speed and memory of the rankings fits, beside choix in the same run and the figures to reach. One thread.

    python benchmarks/rankings_speed.py [--quick] [--huge] [--repeats 5]

Ratios compare CPU seconds of whole fits (collapsing equal ballots, connectivity check, search and certificate included)
with choix's I-LSR on the same rankings, both with BLAS on one thread. Memory is the peak of a process of its own.
"""

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from predilect.models.rankings import RankingsConfig, RankingsModel
from predilect.models.rankings.compile import warm_up
from predilect.models.rankings.resampling import distance
from predilect.models.rankings.simulate import draw_mixture, simulate


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median CPU seconds of `work`."""
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def against_choix(n_items: int, n_ballots: int, wanted: float, repeats: int) -> None:
    """One component, full rankings: how many times faster than choix, and how far apart the worths are."""
    import choix

    ballots, _ = simulate(draw_mixture(n_items, 1, seed=1), n_ballots, seed=2)
    rows = [ballots.row(row).tolist() for row in range(n_ballots)]
    ours = seconds(lambda: RankingsModel.fit(ballots, RankingsConfig(), seed=0, n_threads=1), 5 * repeats)
    theirs = seconds(lambda: choix.ilsr_rankings(n_items, rows), 1 if n_items > 50 else repeats)
    model = RankingsModel.fit(ballots, RankingsConfig(), seed=0, n_threads=1)
    apart = np.abs(model.log_worths[:, 0] - choix.ilsr_rankings(n_items, rows, tol=1e-12)).max()
    print(
        f"n={n_items:4d} m={n_ballots} K=1: {1e3 * ours:8.2f} ms, choix {1e3 * theirs:9.1f} ms, "
        f"ratio {theirs / ours:6.1f} (wanted >= {wanted:g}); worths within {apart:.0e} (wanted 1e-07)"
    )


def whole_fit(n_ballots: int, n_items: int, n_components: int, spread: float, repeats: int) -> tuple[float, float, str]:
    """CPU seconds of a default fit of simulated full rankings, peak GB of the process, and what came of it."""
    warm_up()
    truth = draw_mixture(n_items, n_components, seed=1, spread=spread)
    ballots, _ = simulate(truth, n_ballots, seed=2)
    models: list[RankingsModel] = []
    config = RankingsConfig(n_components)
    took = seconds(lambda: models.append(RankingsModel.fit(ballots, config, seed=0, n_threads=1)), repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    model = models[-1]
    outcome = (
        f"{model.n_passes} last passes, certificate {model.certificate:.0e}, error {distance(model.mixture, truth):.3f}"
    )
    return took, peak, outcome


def in_own_process(case: tuple[int, int, int, float], repeats: int, wanted: str) -> None:
    n_ballots, n_items, n_components, spread = case
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        took, peak, outcome = pool.apply(whole_fit, (*case, repeats))
    print(
        f"(m, n, K) = ({n_ballots}, {n_items}, {n_components}), spread {spread:g}: {took:.2f} s, {peak:.2f} GB "
        f"at the peak (wanted {wanted}); {outcome}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small cases only")
    parser.add_argument(
        "--huge", action="store_true", help="also a million ballots of a hundred items in ten components"
    )
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"kernels ready in {warm_up():.1f} s (wanted <= 20 s when nothing is cached)")
    with threadpool_limits(1):
        against_choix(20, 1000, 50, options.repeats)
        if not options.quick:
            against_choix(50, 1000, 100, options.repeats)
            against_choix(100, 1000, 150, options.repeats)
    for spread in (1.0, 2.0):
        in_own_process((4_000, 10, 4, spread), options.repeats, "<= 0.5 s")
    if not options.quick:
        in_own_process((100_000, 20, 5, 1.0), 1, "<= 7 s, <= 0.5 GB")
        in_own_process((3_000, 1_000, 5, 1.0), 1, "to end")
    if options.huge:
        in_own_process((1_000_000, 100, 10, 1.0), 1, "to end within 24 GB")


if __name__ == "__main__":
    main()
