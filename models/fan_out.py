"""Independent jobs (folds, repeats) over threads, with the results handed back in the calling thread."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any, NamedTuple, TypeVar

from threadpoolctl import threadpool_limits

R = TypeVar("R")
FanOut = Callable[[Callable[[int], Any], int], Generator[tuple[int, Any]]]
"""What runs jobs elsewhere: called with the work and the number of jobs, it yields as `fan_out` does."""


def fan_out(work: Callable[[int], R], n_jobs: int, n_threads: int) -> Generator[tuple[int, R]]:
    """Yield (job, work(job)) for jobs 0..n_jobs-1 as they finish, so in any order; with one thread, in order.

    The caller's code between two yields runs in the calling thread, where progress may be reported. The first error
    is raised here; it, an interrupt, or closing the generator drops the jobs that have not begun, so wrap it in
    `contextlib.closing` when the code between may raise. BLAS is held to one thread meanwhile.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        if n_threads < 2 or n_jobs < 2:
            for job in range(n_jobs):
                yield job, work(job)
            return
        pool = ThreadPoolExecutor(min(n_threads, n_jobs))
        try:
            jobs = {pool.submit(work, job): job for job in range(n_jobs)}
            for done in as_completed(jobs):
                yield jobs[done], done.result()
        finally:
            pool.shutdown(cancel_futures=True)


class Spread(NamedTuple):
    """Where independent jobs run: on so many threads, or elsewhere where they are worth the way."""

    n_threads: int = 1
    elsewhere: FanOut | None = None

    def of(self, n_cells: float) -> FanOut:
        """What runs jobs that visit so many numbers in all, some nanoseconds each."""
        if self.elsewhere is not None and n_cells >= WORTHWHILE:
            return self.elsewhere
        return partial(fan_out, n_threads=self.n_threads)


WORTHWHILE = 1e8
"""Numbers that take about as long, half a second, as sending the jobs and what they need."""
