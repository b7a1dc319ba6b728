"""Top ten of every user, seen items left out, beside `implicit`'s recommend-all on the same factors, in one run.

    python benchmarks/ratings_top.py [--factors 21] [--threads 2] [--repeats 5] [--ratings 10_000_000]

The machine may be busy: only the ratio counts. Both leave the same seen items out, and the lists are compared.
"""

import argparse
import os
import time

import numpy as np
from ratings_sweep import N_ITEMS, N_USERS, SCALE, synthetic
from scipy.sparse import csr_matrix

from predilect.models.ids import IdMap
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.models.ratings.compile import warm_up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factors", type=int, default=21)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ratings", type=lambda text: int(float(text)), default=10_000_000)
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as implicit asks for
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    warm_up()
    users, items, stars = synthetic(options.ratings)
    config = VBConfig(n_user_latents=options.factors, n_item_latents=0, max_sweeps=3)
    ids = [IdMap(np.arange(n)) for n in (N_USERS, N_ITEMS)]
    model = RatingsModel.fit(
        users, items, stars, SCALE, config, user_ids=ids[0], item_ids=ids[1], seed=0, n_threads=options.threads
    )
    seen = csr_matrix((np.ones(len(users), np.float32), (users, items)), shape=(N_USERS, N_ITEMS))
    rows = seen.indptr.astype(np.int64), seen.indices.astype(np.int32)
    everyone = np.arange(N_USERS)

    peer = AlternatingLeastSquares(num_threads=options.threads)
    ones = np.ones((N_USERS, 1), np.float32)
    posterior = model.posterior
    # The same scores, as a product of factors with two columns more for the offsets.
    peer.user_factors = np.ascontiguousarray(
        np.hstack([posterior.users.means, posterior.users.offsets[:, None], ones]), np.float32
    )
    peer.item_factors = np.ascontiguousarray(
        np.hstack([posterior.items.means, ones[:N_ITEMS], posterior.items.offsets[:, None]]), np.float32
    )
    ours, theirs = [], []
    for _ in range(options.repeats):
        began = time.perf_counter()
        found = model.recommend_codes(everyone, 10, seen=rows)
        middle = time.perf_counter()
        with threadpool_limits(limits=1, user_api="blas"):
            other, _ = peer.recommend(everyone, seen, N=10)
        ours.append(middle - began)
        theirs.append(time.perf_counter() - middle)
        print(f"  ours {ours[-1]:.2f} s, implicit {theirs[-1]:.2f} s, ratio {ours[-1] / theirs[-1]:.3f}")
    print(f"lists that agree in every place: {np.mean((found == other).all(axis=1)):.4f} (rounding swaps near equals)")
    print(
        f"top 10 for {N_USERS:,} users × {N_ITEMS:,} items, K = {options.factors}, {options.threads} threads: "
        f"{min(ours):.2f} s; beside implicit's {min(theirs):.2f} s: ratio {min(ours) / min(theirs):.3f} (asked: ≤ 1.0)"
    )


if __name__ == "__main__":
    main()
