"""Why cells of the paper's Table 3 on the recoded Last.fm set come out worse than published: an experiment.

    PREDILECT_DATA_DIR=… python benchmarks/ratings_lastfm.py

Stars are ranks within a user, so all users have the same mean and spread, and 3 for every pair is hard to beat. Printed
for each method: its MAE (rounded), the same for artists by how many ratings they have in training, and when every
prediction is drawn towards 3 by a factor. Then mean field without latents, by the prior precision of the offsets, which
the paper sets to 1 "rather arbitrarily".
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ratings_accuracy import lastfm

from predilect.models.ids import IdMap
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.models.ratings.strawmen import Neighbours, Svd

PUBLISHED = {"Pearson(10)": 0.8915, "Pearson(all)": 0.8547, "Euclidean(10)": 0.9485, "Euclidean(all)": 0.9131,
             "SVD(0)": 0.8405, "SVD(0.01)": 0.8460, "MF": 0.8077}  # fmt: skip
FACTORS = (1.0, 0.8, 0.6, 0.4, 0.2)
PRECISIONS = (1, 2, 4, 8, 16)
Floats = NDArray[np.float64]


def offsets_only(
    users: Any, items: Any, ratings: Floats, sizes: tuple[int, int], precision: float
) -> Callable[..., Any]:
    """φ_p + ψ_i by coordinate ascent under priors N(0, 1/precision) and N(3, 1/precision), noise of variance 1.05."""
    weight = 1.05 * precision
    phi, psi = np.zeros(sizes[0]), np.full(sizes[1], 3.0)
    n_users, n_items = (np.bincount(codes, minlength=n) for codes, n in zip((users, items), sizes, strict=True))
    for _ in range(50):
        phi = np.bincount(users, ratings - psi[items], sizes[0]) / (n_users + weight)
        psi = (np.bincount(items, ratings - phi[users], sizes[1]) + 3 * weight) / (n_items + weight)
    return lambda p, i: phi[p] + psi[i]


def main() -> None:
    if not (folder := os.environ.get("PREDILECT_DATA_DIR")):
        sys.exit("Set PREDILECT_DATA_DIR to the folder that holds the data sets.")
    _, scale, table = lastfm(Path(folder) / "hetrec2011-lastfm-2k" / "user_artists.dat")
    (user_ids, users), (item_ids, items) = IdMap.of(table.user.to_numpy()), IdMap.of(table.item.to_numpy())
    stars = table.rating.to_numpy(np.float32)
    order = np.random.default_rng(0).permutation(len(stars))
    test, train = np.split(order, [len(order) // 5])
    data = users[train], items[train], stars[train], scale
    ids: dict[str, Any] = {"user_ids": user_ids, "item_ids": item_ids}
    fits: dict[str, Callable[[], Any]] = {
        "Pearson(10)": lambda: Neighbours.fit(*data, **ids, k=10),
        "Pearson(all)": lambda: Neighbours.fit(*data, **ids, k=None),
        "Euclidean(10)": lambda: Neighbours.fit(*data, **ids, k=10, similarity="euclidean"),
        "Euclidean(all)": lambda: Neighbours.fit(*data, **ids, k=None, similarity="euclidean"),
        "SVD(0)": lambda: Svd.fit(*data, **ids, n_factors=1, penalty=0.0),
        "SVD(0.01)": lambda: Svd.fit(*data, **ids, n_factors=1, penalty=0.01),
        "MF": lambda: RatingsModel.fit(*data, VBConfig(1, 1, tau=50, precisions="fixed"), **ids, seed=0),
        "MF-learned": lambda: RatingsModel.fit(*data, VBConfig(), **ids, seed=0),
    }
    support = np.bincount(items[train], minlength=len(item_ids))[items[test]]
    groups = {"0": support == 0, "1": support == 1, "2–9": (support > 1) & (support < 10), "10+": support >= 10}

    def mae(mean: Floats) -> Floats:
        errors: Floats = np.abs(scale.round(mean) - stars[test])
        return errors

    print(f"3 for every pair: MAE {mae(np.full(len(test), 3.0)).mean():.4f}")
    print("training ratings of the artist: " + ", ".join(f"{name} {mask.mean():.0%}" for name, mask in groups.items()))
    print(f"{'':15}published " + " ".join(f"{name:>6}" for name in groups)
          + "   " + " ".join(f"×{factor:<5}" for factor in FACTORS))  # fmt: skip
    for name, fit in fits.items():
        mean = fit().predict(users[test], items[test]).mean
        by_support = " ".join(f"{mae(mean)[mask].mean():6.4f}" for mask in groups.values())
        drawn_in = " ".join(f"{mae(3 + factor * (mean - 3)).mean():6.4f}" for factor in FACTORS)
        print(f"{name:15}{PUBLISHED.get(name, np.nan):9.4f} {by_support}   {drawn_in}")
    print("offsets alone, by their prior precision (published MF .8077):")
    for precision in PRECISIONS:
        predict = offsets_only(users[train], items[train], stars[train].astype(np.float64),
                               (len(user_ids), len(item_ids)), precision)  # fmt: skip
        print(f"  κ = {precision:<3} {mae(predict(users[test], items[test])).mean():.4f}")


if __name__ == "__main__":
    main()
