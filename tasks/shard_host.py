"""What runs on a worker, if it has the same software: a shard of the ratings, some ballots, rows of clicks, or jobs."""

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from predilect import __version__
from predilect.models.clicks.blocks import Layout as Blocks
from predilect.models.clicks.contexts import Contexts
from predilect.models.clicks.piece import Piece
from predilect.models.compiled import Threads, threads
from predilect.models.errors import ComputeError, DataError
from predilect.models.rankings.layout import Layout
from predilect.models.ratings.shards import Shard, ShardHost
from predilect.tasks.order_files import open_orders

R = TypeVar("R")


def open_shard(folder: str, shard: Shard, n_threads: int) -> ShardHost:
    """The shard's ratings, memory-mapped."""
    try:
        return ShardHost(open_orders(Path(folder)), shard, n_threads)
    except DataError as error:
        raise ComputeError(
            f"A worker on {platform.node()} does not see the ratings ({error}); keep the runs in a folder that all "
            "workers share under the same path."
        ) from None


def open_piece(first: int, contexts: Contexts, layout: Blocks, n_threads: int) -> Piece:
    """The rows of clicks from chunk `first` on."""
    return Piece(contexts, layout, Threads(n_threads), first)


def versions() -> dict[str, str]:
    """The software on which the results depend to the bit."""
    import llvmlite
    import numba
    import numpy as np

    return {
        "predilect": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "numpy": np.__version__,
    }


class BallotsHost:
    """Some of the ballots."""

    def __init__(self, ballots: Layout, n_threads: int) -> None:
        self._ballots, self._pool = ballots, Threads(n_threads)

    def chunk_sums(
        self, scores: NDArray[np.float64], shares: NDArray[np.float64], linear: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `Layout.chunk_sums`."""
        return self._ballots.chunk_sums(self._pool, scores, shares, linear)


class Jobs:
    """Independent jobs of one kind."""

    def __init__(self, work: Callable[[int], Any]) -> None:
        self._work = work

    def run(self, job: int) -> Any:
        """One of them, on one thread."""
        with threads(1):
            return self._work(job)


def checked(wanted: dict[str, str], work: Callable[..., R], *arguments: Any) -> R:
    """`work(*arguments)` on software of these versions. Raises ComputeError on other."""
    for name, found in versions().items():
        if found != wanted[name]:
            raise ComputeError(
                f"A worker on {platform.node()} has {name} {found}, and the run has {wanted[name]}; install the same."
            )
    return work(*arguments)
