"""Where a sweep's time goes, beside what the machine could do: plain gathers, Gram products alone, the whole sweep.

python benchmarks/ratings_roofline.py [--ratings 10_000_000] [--factors 21] [--threads 2] [--repeats 5]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ratings_sweep import N_ITEMS, N_USERS, Ours, synthetic

from predilect.models.compiled import kernel, threads
from predilect.models.ratings.compile import warm_up
from predilect.models.ratings.gram import BLOCK, gram_matrix
from predilect.models.ratings.kernels import TILE
from predilect.models.ratings.sweep import HalfSweep


@kernel
def copy_all(target: NDArray[Any], source: NDArray[Any]) -> None:
    """What the memory can do: read and write in order."""
    for n in range(len(source)):
        target[n] = source[n]


@kernel
def gather_all(first: int, last: int, indptr: NDArray[Any], index: NDArray[Any], other: NDArray[Any]) -> float:
    """Every record that the rows' ratings ask for, added up: the least that any sweep must read."""
    total = np.zeros(other.shape[1], other.dtype)
    stop = indptr[last]
    for j in range(indptr[first], stop - 3, 4):
        s0, s1, s2, s3 = other[index[j]], other[index[j + 1]], other[index[j + 2]], other[index[j + 3]]
        for k in range(other.shape[1]):
            total[k] += (s0[k] + s1[k]) + (s2[k] + s3[k])
    return float(total[0])


@kernel
def products_all(first: int, last: int, indptr: NDArray[Any], index: NDArray[Any], other: NDArray[Any]) -> float:
    """Every Gram product of the rows, on one tile that never leaves the cache."""
    wide = other.shape[1] // 2
    tile, gram = np.ones((TILE, wide), other.dtype), np.zeros((wide, wide), other.dtype)
    total = 0.0
    for row in range(first, last):
        for begin in range(indptr[row], indptr[row + 1], TILE):
            gram_matrix(tile, min(TILE, indptr[row + 1] - begin), gram)
            total += gram[0, 0]
    return total


def best(work: Callable[[], float], repeats: int) -> float:
    """The fewest seconds of several tries."""
    return min(work() for _ in range(repeats + 1))


def timed(loop: Any, half: HalfSweep, other: NDArray[Any], n_threads: int) -> float:
    order = half.order

    def piece(chunk: int) -> None:
        loop(*half.chunks[chunk], order.indptr, order.index, other)

    with threads(n_threads) as pool:
        began = time.perf_counter()
        pool.run(piece, len(half.chunks))
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratings", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--factors", type=int, default=21)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warm_up()
    ours = Ours(synthetic(options.ratings), N_USERS, N_ITEMS, options.factors, options.threads)
    big = np.ones(1 << 26, np.float32)
    target = np.empty_like(big)

    def copy() -> float:
        parts = np.array_split(np.arange(len(big) + 1)[:: len(big) // 64], 64)
        bounds = [int(part[0]) for part in parts if len(part)] + [len(big)]
        with threads(options.threads) as pool:
            began = time.perf_counter()
            pool.run(lambda n: copy_all(target[bounds[n] : bounds[n + 1]], big[bounds[n] : bounds[n + 1]]),
                     len(bounds) - 1)  # fmt: skip
            return time.perf_counter() - began

    print(f"copying in order: {2 * big.nbytes / best(copy, options.repeats) / 1e9:.1f} GB/s")
    halves = [("users", ours.ascent.by_user, ours.items.table), ("items", ours.ascent.by_item, ours.users.table)]
    wide = halves[0][2].shape[1] // 2
    n_blocks = (wide // BLOCK) * (wide // BLOCK + 1) // 2
    sums = {"gathers": 0.0, "products": 0.0}
    for name, half, other in halves:
        gathers = best(lambda half=half, other=other: timed(gather_all, half, other, options.threads), options.repeats)
        products = best(
            lambda half=half, other=other: timed(products_all, half, other, options.threads), options.repeats
        )
        sums["gathers"] += gathers
        sums["products"] += products
        print(
            f"{name}' half: records {other.nbytes / 1e6:.1f} MB; gathers {gathers:.3f} s = "
            f"{options.ratings * (other.shape[1] * 4 + 5) / gathers / 1e9:.0f} GB/s; products {products:.3f} s = "
            f"{options.ratings * n_blocks * 2 * BLOCK**2 / products / 1e9:.0f} Gflop/s"
        )
    sweep = best(lambda: sum(ours.sweep()), options.repeats)
    print(f"gathers {sums['gathers']:.3f} s, products {sums['products']:.3f} s, whole sweep {sweep:.3f} s")


if __name__ == "__main__":
    main()
