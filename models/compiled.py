"""How kernels are compiled and run in parallel.

Kernels are compiled by numba without its parallel layer and release the GIL; parallel work is a fixed list of
chunks handed to plain threads. So two fits may run at once, processes may be forked or spawned, and the
result does not depend on the number of threads: chunks are fixed by the data, and whoever reduces their
partial sums adds them in chunk order.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numba
from threadpoolctl import ThreadpoolController

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile with numba: no GIL, cached on disk, fused multiply-adds and re-associated sums allowed.

    Only re-association is allowed of the fast-math flags: NaN and infinity keep their meaning.
    """
    compiled: F = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})(
        function
    )
    return compiled


def exact_kernel(function: F) -> F:
    """Like `kernel`, but floating-point sums keep the order in which they are written."""
    compiled: F = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    return compiled


def default_threads() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """A pool that runs `work(chunk)` for every chunk; with one thread or one chunk, in the calling thread."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def run(self, work: Callable[[int], None], n_chunks: int) -> None:
        """Call `work` with 0..n_chunks-1, in any order, and return when all are done; the first error is raised."""
        if self._pool is None or n_chunks < 2:
            for chunk in range(n_chunks):
                work(chunk)
            return
        for future in [self._pool.submit(work, chunk) for chunk in range(n_chunks)]:
            future.result()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes a millisecond, so once, with SciPy's loaded."""
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()


@contextmanager
def threads(n_threads: int) -> Iterator[Threads]:
    """A pool of `n_threads`, with BLAS held to one thread inside so that the two do not multiply."""
    pool = Threads(n_threads)
    try:
        with _blas().limit(limits=1, user_api="blas"):
            yield pool
    finally:
        pool.close()
