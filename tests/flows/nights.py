"""Nights of ratings for retraining: the same people and things, other pairs each night."""

from pathlib import Path

import numpy as np

N_USERS, N_ITEMS = 150, 60


def batch(folder: Path, night: int, *, rows: int = 1500, corrupt: bool = False, noise: float = 0.4) -> Path:
    """One night's ratings of the same people and things: distinct pairs, other pairs each night."""
    rng = np.random.default_rng(7)
    taste, kind = rng.normal(size=(N_USERS, 2)), rng.normal(size=(N_ITEMS, 2))
    pairs = rng.permutation(N_USERS * N_ITEMS)[night * rows : (night + 1) * rows]
    users, items = pairs // N_ITEMS, pairs % N_ITEMS
    mean = 3 + 1.2 * (taste[users] * kind[items]).sum(1) + noise * np.random.default_rng(night).normal(size=len(pairs))
    stars = np.clip(np.rint(mean), 1, 5).astype(int)
    if corrupt:
        stars = np.where(np.arange(len(stars)) % 10 < 8, 1, stars)
    folder.mkdir(exist_ok=True)
    path = folder / f"night-{night}.csv"
    lines = [f"u{user},{item},{star}" for user, item, star in zip(users, items, stars, strict=True)]
    path.write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    return path
