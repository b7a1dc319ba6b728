"""Ratings in files at any size: simulated, ingested from Parquet, split, swept; time, peak memory and checkpoints.

    python benchmarks/ratings_scale.py FOLDER [--ratings 100_000_000] [--users 253_000] [--items 136_736] [--factors 8]

Each stage runs in a process of its own, whose peak resident memory counts the mapped files too. FOLDER needs about 40
bytes a rating and keeps what was made: a second run goes on with it. Seconds of the wall clock and of the processor
are given: the former count only on a machine that does nothing else.
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from predilect.models.compiled import threads
from predilect.models.ratings.compile import warm_up
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.fit import Ascent, FitState
from predilect.models.ratings.sweep import HalfSweep
from predilect.tasks.fit_checkpoints import Checkpoints
from predilect.tasks.ingest_large import ingest_large
from predilect.tasks.large_split import split_large
from predilect.tasks.order_files import open_orders
from predilect.tasks.settings import Settings
from predilect.tasks.simulate import simulate_ratings


def sweeps(split: Path, n_factors: int, n_sweeps: int, n_threads: int) -> dict[str, Any]:
    """Seconds of each sweep and of a checkpoint after the last, over the memory-mapped training part."""
    warm_up()
    by_user, by_item = open_orders(split)
    ascent = Ascent(HalfSweep(by_user), HalfSweep(by_item), 3.0, VBConfig(n_factors, 0, max_sweeps=n_sweeps))
    times, sums, last = [time.perf_counter()], [time.process_time()], []

    def keep(at: Any) -> None:
        times.append(time.perf_counter())
        sums.append(time.process_time())
        last[:] = [FitState(0, at, None)]

    with threads(n_threads) as pool:
        start = ascent.random_start(0, 0)
        times[0], sums[0] = time.perf_counter(), time.process_time()
        ascent.run(start, pool, keep=keep)
    checkpoints = Checkpoints(Settings(), [str(split)], 0)
    checkpoints.keep(last[0])
    checkpoints.clear()
    return {
        "ratings": len(by_user.index),
        "seconds": [round(b - a, 2) for a, b in pairwise(times)],
        "processor": [round(b - a, 2) for a, b in pairwise(sums)],
        "checkpoint": round(checkpoints.seconds, 2),
    }


def _measured(work: Callable[..., Any], arguments: tuple[Any, ...], pipe: Any) -> None:
    began = time.perf_counter()
    result = work(*arguments)
    used = resource.getrusage(resource.RUSAGE_SELF)
    pipe.send((result, time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024))


def in_own_process(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """Run, and print seconds, processor seconds and peak memory."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_measured, args=(work, arguments, theirs))
    process.start()
    theirs.close()
    result, seconds, processor, peak = mine.recv()
    process.join()
    print(f"{name:9} {seconds:8.1f} s, processor {processor:8.1f} s, peak {peak / 1e9:6.2f} GB", flush=True)
    return result


def simulated(folder: Path, n_users: int, n_items: int, n_ratings: int) -> Path:
    """The simulated table."""
    return simulate_ratings(folder / "simulated", n_users=n_users, n_items=n_items, n_ratings=n_ratings)


def ingested(source: Path, folder: Path, n_threads: int) -> Path:
    """The folder of parts and orders."""
    return ingest_large(str(source), None, folder, n_threads=n_threads)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, default in (("ratings", 100_000_000), ("users", 253_000), ("items", 136_736), ("factors", 8),
                          ("sweeps", 3), ("threads", 2)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    source = in_own_process("simulate", simulated, given.folder, given.users, given.items, given.ratings)
    folder = in_own_process("ingest", ingested, source, given.folder, given.threads)
    split = in_own_process("split", split_large, folder, 0.02, 0, given.threads)
    found = in_own_process("sweeps", sweeps, split, given.factors, given.sweeps, given.threads)
    print(f"{found['ratings']:,} training ratings, K = {given.factors}: sweeps of {found['seconds']} s, "
          f"processor {found['processor']} s; a checkpoint takes {found['checkpoint']} s")  # fmt: skip


if __name__ == "__main__":
    main()
