"""Time of a Gibbs sweep on MovieLens-100k, beside myFM's in the same run.

    PREDILECT_DATA_DIR=… python benchmarks/ratings_gibbs.py [--latents 10] [--sweeps 100] [--repeats 3]

Asked: at K = 10 ours takes at most half of myFM's. Both run one chain in one thread on all 100,000 ratings, users and
items as the only features; each repeat times both, and the smaller processor time of each counts: on a busy machine it
says more than the clock on the wall. Needs `pip install myfm`.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from predilect.models.compiled import threads
from predilect.models.ids import IdMap
from predilect.models.ratings import VBConfig
from predilect.models.ratings.compile import warm_up
from predilect.models.ratings.features import design
from predilect.models.ratings.fit import Ascent
from predilect.models.ratings.gibbs import Chain, SideModel
from predilect.models.ratings.orders import by_user_and_item
from predilect.models.ratings.sweep import HalfSweep

MIDPOINT = 3.0


def ours(table: pd.DataFrame, k: int, n_sweeps: int) -> float:
    """Seconds a sweep, after a few sweeps that do not count."""
    user_ids, users = IdMap.of(table.user.to_numpy())
    item_ids, items = IdMap.of(table.item.to_numpy())
    sizes = (len(user_ids), len(item_ids))
    by_user, by_item = by_user_and_item(users, items, table.rating.to_numpy(np.float32), *sizes)
    config = VBConfig(n_user_latents=k, n_item_latents=0, max_sweeps=5)
    sides = [
        SideModel(name, order, design(order, other.n_rows, None, rated_set=False), k, base)
        for name, order, other, base in (("users", by_user, by_item, 0.0), ("items", by_item, by_user, MIDPOINT))
    ]
    ascent = Ascent(HalfSweep(by_user), HalfSweep(by_item), MIDPOINT, config)
    with threads(1) as pool:
        chain = Chain(sides[0], sides[1], ascent.run(ascent.random_start(0, 0), pool), 0, 0)
        for _ in range(5):
            chain.sweep(pool)
        started = time.process_time()
        for _ in range(n_sweeps):
            chain.sweep(pool)
        return (time.process_time() - started) / n_sweeps


def theirs(table: pd.DataFrame, k: int, n_sweeps: int) -> float:
    """Seconds an iteration of myFM; what it does once is taken off by two runs of different length."""
    myfm = import_myfm()
    users, items = pd.factorize(table.user)[0], pd.factorize(table.item)[0]
    n, n_users, n_items = len(table), users.max() + 1, items.max() + 1
    rows = np.repeat(np.arange(n), 2)
    columns = np.column_stack([users, n_users + items]).ravel()
    x = csr_matrix((np.ones(2 * n), (rows, columns)), shape=(n, n_users + n_items))
    shapes = [int(n_users), int(n_items)]
    times = []
    for sweeps in (5, 5 + n_sweeps):
        started = time.process_time()
        model = myfm.MyFMRegressor(rank=k)
        model.fit(x, table.rating.to_numpy(np.float64), n_iter=sweeps, n_kept_samples=1, group_shapes=shapes)
        times.append(time.process_time() - started)
    return (times[1] - times[0]) / n_sweeps


def import_myfm() -> Any:
    """myFM 0.4 asks `pkg_resources`, which setuptools no longer has, for its own version."""
    if "pkg_resources" not in sys.modules and importlib.util.find_spec("pkg_resources") is None:
        stand_in = types.ModuleType("pkg_resources")
        stand_in.DistributionNotFound = importlib.metadata.PackageNotFoundError  # type: ignore[attr-defined]
        stand_in.get_distribution = importlib.metadata.distribution  # type: ignore[attr-defined]
        sys.modules["pkg_resources"] = stand_in
    return importlib.import_module("myfm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latents", type=int, default=10)
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not (folder := os.environ.get("PREDILECT_DATA_DIR")):
        sys.exit("Set PREDILECT_DATA_DIR to the folder that holds the data sets.")
    names = ["user", "item", "rating", "time"]
    table = pd.read_csv(Path(folder) / "ml-100k" / "u.data", sep="\t", names=names)
    warm_up("gibbs")
    best = {"myFM": np.inf, "ours": np.inf}
    for _ in range(options.repeats):
        best["myFM"] = min(best["myFM"], theirs(table, options.latents, options.sweeps))
        best["ours"] = min(best["ours"], ours(table, options.latents, options.sweeps))
    for name, seconds in best.items():
        print(f"{name:5} {1e3 * seconds:7.2f} ms a sweep   {seconds / best['myFM']:.3f} of myFM's (asked: ≤ 0.5)")


if __name__ == "__main__":
    main()
