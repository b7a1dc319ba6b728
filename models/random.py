"""Random streams: one per fold, chain, restart or repeat, all from one seed (SPEC 7 generators)."""

import zlib

import numpy as np


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """The generator called `name` under `seed`.

    The stream depends only on the seed and the name, never on the order in which streams are asked
    for, so work may run on any number of threads or workers: `stream(7, "restart", 3)`.
    """
    key = [part if isinstance(part, int) else zlib.crc32(part.encode()) for part in name]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
