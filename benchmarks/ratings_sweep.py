"""One sweep of the ratings model beside cmfrec's, in one run, on synthetic ratings; linearity and memory.

    python benchmarks/ratings_sweep.py [--ratings 10_000_000] [--factors 21] [--threads 2] [--repeats 5]

The machine may be busy: only the ratios between figures of one run count. cmfrec's sweep (alternating least squares by
conjugate gradient) is the difference between fits of two and of six iterations, so that its set-up is left out.
"""

import argparse
import subprocess
import sys
import time

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import threads
from predilect.models.ids import IdMap
from predilect.models.ratings import RatingScale, RatingsModel, VBConfig
from predilect.models.ratings.compile import warm_up
from predilect.models.ratings.fit import Ascent
from predilect.models.ratings.orders import by_user_and_item
from predilect.models.ratings.sweep import HalfSweep

N_USERS, N_ITEMS = 71_567, 10_681  # MovieLens-10M's
SMALL = 6_040, 3_706  # MovieLens-1M's, for a tenth of the ratings
SCALE = RatingScale(0.5, 5, tuple(np.arange(1, 11) / 2))
Table = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]


def synthetic(n_ratings: int, n_users: int = N_USERS, n_items: int = N_ITEMS) -> Table:
    """Users, items and ratings with the long tails of a film site."""
    rng = np.random.default_rng(0)

    def draw(n: int, shift: float, power: float) -> NDArray[np.int32]:
        weights = np.cumsum((np.arange(n) + shift) ** -power)
        rank = np.searchsorted(weights[:-1] / weights[-1], rng.random(n_ratings))
        return rng.permutation(n).astype(np.int32)[rank]

    stars: NDArray[np.float32] = rng.integers(1, 11, n_ratings).astype(np.float32) / np.float32(2)
    return draw(n_users, 50, 0.8), draw(n_items, 30, 0.9), stars


class Ours:
    """The sweeps of one ascent."""

    def __init__(self, table: Table, n_users: int, n_items: int, n_factors: int, n_threads: int) -> None:
        config = VBConfig(n_user_latents=n_factors, n_item_latents=0)
        started = time.perf_counter()
        orders = by_user_and_item(*table, n_users, n_items)
        print(f"  both orders of {len(table[0]):,} ratings: {time.perf_counter() - started:.2f} s")
        self.ascent = Ascent(*map(HalfSweep, orders), SCALE.midpoint, config)
        self.users, self.items, self.noise, _ = self.ascent.random_start(seed=0, restart=0)
        self.n_threads = n_threads

    def sweep(self) -> tuple[float, float]:
        """Seconds of the users' half and of the items'."""
        with threads(self.n_threads) as pool:
            began = time.perf_counter()
            self.ascent.by_user.run(self.users, self.items, self.noise.precision, pool)
            middle = time.perf_counter()
            self.ascent.by_item.run(self.items, self.users, self.noise.precision, pool)
            return middle - began, time.perf_counter() - middle


def cmfrec_sweep(table: Table, n_factors: int, n_threads: int, n_sweeps: int) -> float:
    """Seconds a sweep of cmfrec's ALS-CG."""
    from cmfrec import CMF
    from scipy.sparse import coo_matrix

    users, items, ratings = table
    matrix = coo_matrix((ratings, (users, items)), shape=(N_USERS, N_ITEMS))

    def fit(niter: int) -> float:
        model = CMF(
            k=n_factors,
            lambda_=10.0,
            method="als",
            use_cg=True,
            finalize_chol=False,
            niter=niter,
            nthreads=n_threads,
            use_float=True,
            precompute_for_predictions=False,
            verbose=False,
        )
        began = time.perf_counter()
        model.fit(matrix)
        return time.perf_counter() - began

    return (fit(2 + n_sweeps) - fit(2)) / n_sweeps


def peak_memory(n_ratings: int, n_factors: int) -> None:
    """Print the peak memory of a fit in this process, in bytes a rating beside the factors."""
    warm_up()
    table = synthetic(n_ratings)
    ids = [IdMap(np.arange(n)) for n in (N_USERS, N_ITEMS)]
    config = VBConfig(n_user_latents=n_factors, n_item_latents=0, max_sweeps=2, restarts=1)
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
        refs.write("5")  # the high-water mark starts anew
    RatingsModel.fit(*table, SCALE, config, user_ids=ids[0], item_ids=ids[1], seed=0)
    own = resident("VmHWM") - before
    factors = (N_USERS + N_ITEMS) * (2 * n_factors + 2) * 4
    print(
        f"peak of a fit: {own / n_ratings:.1f} B a rating beside the caller's 12, of them factors "
        f"{factors / n_ratings:.1f}; in all without the factors {12 + (own - factors) / n_ratings:.1f} B (asked: ≤ 24)"
    )


def resident(name: str) -> int:
    """A memory figure of this process, in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--factors", type=int, default=21)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-cmfrec", action="store_true")
    parser.add_argument("--only-memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only_memory:
        peak_memory(options.ratings, options.factors)
        return

    print(f"first compilation {warm_up():.1f} s")
    table = synthetic(options.ratings)
    small = Ours(synthetic(options.ratings // 10, *SMALL), *SMALL, options.factors, options.threads)
    large = Ours(table, N_USERS, N_ITEMS, options.factors, options.threads)
    ours, tenth, peer = [], [], []
    for _ in range(options.repeats):
        # In turn, so that a busy spell hits all alike.
        tenth.append(sum(small.sweep()))
        user_half, item_half = large.sweep()
        ours.append(user_half + item_half)
        line = f"  users {user_half:.3f} s, items {item_half:.3f} s, a tenth of the ratings {tenth[-1]:.3f} s"
        if not options.no_cmfrec:
            peer.append(cmfrec_sweep(table, options.factors, options.threads, 4))
            line += f", cmfrec {peer[-1]:.3f} s, ratio {ours[-1] / peer[-1]:.3f}"
        print(line)
    best, best_tenth = min(ours), min(tenth)
    print(f"sweep, {options.ratings:,} ratings, K = {options.factors}, {options.threads} threads: {best:.3f} s")
    print(f"linearity: {best / best_tenth:.1f} times a tenth's (asked: 8–12)")
    if peer:
        print(f"beside cmfrec's {min(peer):.3f} s: ratio {best / min(peer):.3f} (asked: ≤ 0.22)")
    arguments = ["--only-memory", "--ratings", str(options.ratings), "--factors", str(options.factors)]
    subprocess.run([sys.executable, __file__, *arguments], check=True)


if __name__ == "__main__":
    main()
