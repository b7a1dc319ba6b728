"""Sweeps on two Dask workers beside two threads, in one run; bytes moved; a worker killed at five random moments.

    python benchmarks/ratings_dask.py [--ratings 10_000_000] [--factors 21] [--repeats 15] [--kills 5]

The machine may be busy: only the ratios between figures of one run count. Threads and workers take turns.
"""

import argparse
import os
import random
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from ratings_sweep import N_ITEMS, N_USERS, SCALE, synthetic

from predilect.models.compiled import Threads, threads
from predilect.models.ids import IdMap
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.models.ratings.compile import warm_up
from predilect.models.ratings.fit import Ascent
from predilect.models.ratings.orders import Order, by_user_and_item
from predilect.models.ratings.shards import bytes_a_sweep
from predilect.models.ratings.sweep import HalfSweep
from predilect.tasks.compute import Workers, workers
from predilect.tasks.dask_sweeps import ShardedSweeps
from predilect.tasks.order_files import open_orders, write_orders

N_WORKERS = 2


def loopback() -> int:
    """Bytes received over the loopback interface so far."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


def sweep(ascent: Ascent, pool: Threads, state: tuple[object, ...]) -> float:
    """Seconds of one."""
    users, items, noise = state[:3]
    began = time.perf_counter()
    ascent.by_user.run(users, items, noise.precision, pool)  # type: ignore[arg-type, attr-defined]
    ascent.by_item.run(items, users, noise.precision, pool)  # type: ignore[arg-type, attr-defined]
    return time.perf_counter() - began


def times(both: tuple[Order, Order], there: Workers, folder: Path, n_factors: int, repeats: int) -> None:
    """Print the time of a sweep and the bytes moved."""
    sweeps = ShardedSweeps(there, folder)
    config = VBConfig(n_user_latents=n_factors, n_item_latents=0)
    on_threads = Ascent(*map(HalfSweep, both), SCALE.midpoint, config)
    on_workers = Ascent(*map(sweeps.half_sweep, both), SCALE.midpoint, config)
    here, away = on_threads.random_start(0, 0), on_workers.random_start(0, 0)
    seconds: list[tuple[float, float]] = []
    moved: list[int] = []
    with threads(N_WORKERS) as pool:
        for _ in range(repeats + 2):
            one = sweep(on_threads, pool, here)
            before = loopback()
            two = sweep(on_workers, pool, away)
            moved.append(loopback() - before)
            seconds.append((one, two))
    same = here.users.table.tobytes() == away.users.table.tobytes()
    mine, theirs = np.array(seconds[2:]).T
    print(f"sweep on {N_WORKERS} threads: best {mine.min():.3f} s, median {np.median(mine):.3f} s")
    print(
        f"sweep on {N_WORKERS} workers: best {theirs.min():.3f} s, median {np.median(theirs):.3f} s; same bits: {same}"
    )
    print(
        f"ratio of the best {theirs.min() / mine.min():.2f}, of the medians {np.median(theirs) / np.median(mine):.2f}, "
        f"median of the turns' ratios {np.median(theirs / mine):.2f} (asked: ≤ 1.3)"
    )
    predicted, found = bytes_a_sweep(N_USERS, N_ITEMS, n_factors, N_WORKERS), float(np.median(moved[2:]))
    print(f"bytes a sweep: predicted {predicted:,}, over loopback {found:,.0f}: {found / predicted - 1:+.1%} (± 10 %)")


def kills(both: tuple[Order, Order], there: Workers, folder: Path, n_factors: int, n_kills: int) -> None:
    """Fit with a worker killed at a random moment, again and again."""
    config = VBConfig(n_user_latents=n_factors, n_item_latents=0, max_sweeps=12, tolerance=1e-12, restarts=1)
    ids = [IdMap(np.arange(order.n_rows)) for order in both]

    def fit(sweeps: ShardedSweeps | None, at: float = 0.0) -> bytes:
        def strike(number: int, *_: float) -> None:
            if sweeps is not None and number == int(at):
                # By then the next sweep is under way.
                pid = there.client.run(os.getpid, workers=[random.choice(list(sweeps.held.parts()))])
                threading.Timer(at % 1 * 0.3, os.kill, (next(iter(pid.values())), signal.SIGKILL)).start()

        model = RatingsModel.fit_orders(
            *both, SCALE, config, user_ids=ids[0], item_ids=ids[1], seed=0, n_threads=N_WORKERS, on_sweep=strike,
            half_sweep=HalfSweep if sweeps is None else sweeps.half_sweep,
        )  # fmt: skip
        sides = model.posterior.users, model.posterior.items
        return b"".join(side.table.tobytes() for side in sides)

    calm, same = fit(None), 0
    for kill in range(n_kills):
        sweeps, at = ShardedSweeps(there, folder), 1 + 10 * (kill + random.random()) / n_kills
        began = time.perf_counter()
        same += fit(sweeps, at) == calm
        seconds = time.perf_counter() - began
        print(f"  killed in sweep {at:.2f}: {sweeps.held.n_lost} lost, fit of 12 sweeps {seconds:.1f} s")
    print(f"killed at random moments: same factors in {same} of {n_kills}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--factors", type=int, default=21)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    warm_up()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_orders(folder, *by_user_and_item(*synthetic(options.ratings), N_USERS, N_ITEMS))
        both = open_orders(folder)
        with workers(None, N_WORKERS) as there:
            times(both, there, folder, options.factors, options.repeats)
            kills(both, there, folder, options.factors, options.kills)


if __name__ == "__main__":
    main()
