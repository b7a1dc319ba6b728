"""Passes over ballots on workers, each of which keeps a run of the chunks."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads
from predilect.models.rankings.ballots import Ballots
from predilect.models.rankings.layout import Layout
from predilect.tasks.held import Held
from predilect.tasks.shard_host import BallotsHost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from predilect.tasks.compute import Workers


class HeldLayout(Layout):
    """Ballots whose chunks are summed by the workers that hold them; the same bits for any number."""

    def __init__(self, ballots: Ballots, workers: "Workers") -> None:
        super().__init__(ballots)
        self.held = Held(workers, self._cut, BallotsHost, lambda part, n_threads: (part, n_threads))

    def _cut(self, threads: "Sequence[int]") -> list[Layout]:
        shares = np.cumsum([0, *threads]) / np.sum(threads)
        bounds = np.round(shares * (len(self.chunks) - 1)).astype(int).tolist()
        return [self.part(first, last) for first, last in pairwise(bounds)]

    def chunk_sums(
        self,
        pool: Threads,
        scores: NDArray[np.float64],
        shares: NDArray[np.float64],
        linear: bool,
        responsibilities: NDArray[np.float64] | None = None,
        log_likelihoods: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As `Layout.chunk_sums`; what is asked of single ballots is found here."""
        if responsibilities is not None or log_likelihoods is not None:
            return super().chunk_sums(pool, scores, shares, linear, responsibilities, log_likelihoods)
        answers: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        while not answers:
            parts = self.held.parts()
            asked = {address: (scores, shares, linear) for address, part in parts.items() if len(part)}
            found = self.held.call("chunk_sums", asked)
            answers = [found[address] for address in parts if address in found]
        return np.concatenate([sums for sums, _ in answers]), np.concatenate([totals for _, totals in answers])
