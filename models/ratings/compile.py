"""Compile every kernel of the family ahead of the work."""

import time

import numpy as np

from predilect.models.ids import IdMap
from predilect.models.ratings.config import Inference, VBConfig
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.scale import RatingScale


def warm_up(inference: Inference = "mf") -> float:
    """Compile all kernels that the inference needs, or load them from the disk cache; the seconds it took."""
    started = time.perf_counter()
    scale = RatingScale(0, 1)
    config = VBConfig(
        n_user_latents=1, n_item_latents=1, max_sweeps=2, inference=inference, chains=1, burn_in=0, samples=4, draws=1
    )
    # One fit for each way of storing ratings: up to 256 levels, up to 65,536, more. Exact EM meets every pair of the
    # ratings of one thing, so it compiles on two.
    for n in (2,) if inference == "em" else (2, 2**8 + 1, 2**16 + 1):
        codes, ids = np.zeros(n, np.int32), IdMap([1])
        ratings = np.linspace(0, 1, n, dtype=np.float32)
        model = RatingsModel.fit(codes, codes, ratings, scale, config, user_ids=ids, item_ids=ids, seed=0, n_threads=1)
    model.recommend(1, 1)
    return time.perf_counter() - started
