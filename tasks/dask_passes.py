"""Passes over ballots, and over rows of clicks, on workers, each of which keeps a run of the chunks."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.blocks import Layout as Blocks
from predilect.models.clicks.contexts import Contexts
from predilect.models.clicks.rows import Call, Rows
from predilect.models.compiled import Threads
from predilect.models.rankings.ballots import Ballots
from predilect.models.rankings.layout import Layout
from predilect.tasks.held import Held
from predilect.tasks.shard_host import BallotsHost, open_piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from predilect.tasks.compute import Workers


class HeldLayout(Layout):
    """Ballots whose chunks are summed by the workers that hold them; the same bits for any number."""

    def __init__(self, ballots: Ballots, workers: "Workers") -> None:
        super().__init__(ballots)
        self.held = Held(workers, self._cut, BallotsHost, lambda part, n_threads: (part, n_threads))

    def _cut(self, threads: "Sequence[int]") -> list[Layout]:
        return [self.part(first, last) for first, last in _runs(len(self.chunks) - 1, threads)]

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


class HeldRows(Rows):
    """Rows of clicks that are added up by the workers that hold them; the same bits for any number."""

    def __init__(self, contexts: Contexts, layout: Blocks, pool: Threads, workers: "Workers") -> None:
        super().__init__(contexts, layout, pool)
        self.held = Held(workers, self._cut, open_piece, lambda part, n_threads: (*part, layout, n_threads))

    def _cut(self, threads: "Sequence[int]") -> list[tuple[int, Contexts]]:
        return [(first, self.contexts.part(first, last)) for first, last in _runs(self.contexts.n_chunks, threads)]

    def ask(self, calls: "Sequence[Call]") -> list[Any]:
        """As `Rows.ask`."""
        while True:
            asked = [address for address, (_, part) in self.held.parts().items() if part.n_chunks]
            answers = self._call(calls[-1], asked)
            missing = [address for address, answer in answers.items() if answer is None]
            if missing and all(self._call(call, missing) for call in calls[:-1]):
                answers |= self._call(calls[-1], missing)
            if answers and not any(answer is None for answer in answers.values()):
                return [answers[address] for address in asked]

    def _call(self, call: Call, asked: "Sequence[str]") -> dict[str, Any]:
        return self.held.call(call.method, dict.fromkeys(asked, call.arguments))


def _runs(n_chunks: int, threads: "Sequence[int]") -> list[tuple[int, int]]:
    """The first chunk, and that after the last, of workers with so many threads."""
    shares = np.cumsum([0, *threads]) / np.sum(threads)
    return list(pairwise(np.round(shares * n_chunks).astype(int).tolist()))
