"""Ballots as the kernels read them, and one parallel pass over all of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads
from predilect.models.rankings import kernels
from predilect.models.rankings.ballots import Ballots

# log-worths further apart than this go through the log-sum-exp pass: λ²/λ_min must not underflow beside SMALL.
LINEAR_RANGE = 200.0
CHUNK_PLACES = 32_768
MAX_CHUNKS = 64

# The partial sums of all chunks over pairs of items take at most this much.
PAIR_BYTES = 1 << 28

PairWork = Callable[..., None]
NO_ROWS = np.empty(0)


@dataclass(frozen=True)
class Counts:
    """What one pass found, at log-worths θ (n, K) and shares α (K,).

    log_likelihood: Σ_l w_l log Σ_k α_k P(π_l | θ^k). wins (n, K): W_i = Σ_l w_l q_l 1[i chosen].
    expected (n, K): λ_i D_i, the wins that the worths predict. mass (K,): Σ_l w_l q_l.
    """

    log_likelihood: float
    wins: NDArray[np.float64]
    expected: NDArray[np.float64]
    mass: NDArray[np.float64]


class Layout:
    """Ballots with the unchosen items of their menus behind them, cut into fixed chunks.

    A tail longer than twice the ballot is not stored: its sum is the sum over all items less the ballot's. So memory
    stays within three times the ballots' own, and a pass costs O(ballot length) a ballot and component.
    """

    def __init__(self, ballots: Ballots) -> None:
        self.n_items = ballots.n_items
        self.weights = ballots.weights
        lengths = ballots.lengths
        self.stages = ballots.stages.astype(np.int32)
        tails = ballots.n_items - lengths if ballots.menu == "all" else np.zeros_like(lengths)
        self.tail_stored = tails <= 2 * lengths
        self.tails_stored = bool(self.tail_stored.all())
        self.offsets = np.zeros(len(ballots) + 1, np.int64)
        np.cumsum(lengths + np.where(self.tail_stored, tails, 0), out=self.offsets[1:])
        self.items = (
            ballots.items
            if self.offsets[-1] == len(ballots.items)
            else kernels.lay_out(ballots.items, ballots.offsets, self.offsets, ballots.n_items)
        )
        self.chunks = _chunks(self.offsets, ballots.n_items)

    @classmethod
    def of(cls, ballots: "Ballots | Layout") -> "Layout":
        return ballots if isinstance(ballots, Layout) else cls(ballots)

    def __len__(self) -> int:
        return len(self.stages)

    def reweighted(self, weights: NDArray[np.float64]) -> "Layout":
        """The same ballots under other weights (m,), zero allowed."""
        other = object.__new__(Layout)
        other.__dict__.update(self.__dict__)
        other.weights = weights
        return other

    def part(self, first: int, last: int) -> "Layout":
        """The ballots of the chunks first … last-1 alone, in the same chunks."""
        other = object.__new__(Layout)
        start, stop = self.chunks[first], self.chunks[last]
        other.n_items, other.tails_stored = self.n_items, self.tails_stored
        other.weights, other.stages = self.weights[start:stop], self.stages[start:stop]
        other.tail_stored = self.tail_stored[start:stop]
        other.offsets = self.offsets[start : stop + 1] - self.offsets[start]
        other.items = self.items[self.offsets[start] : self.offsets[stop]]
        other.chunks = [bound - start for bound in self.chunks[first : last + 1]]
        return other

    def take(self, rows: NDArray[np.int64]) -> "Layout":
        """Some of the ballots, in that order."""
        other = object.__new__(Layout)
        other.n_items, other.weights = self.n_items, self.weights[rows]
        other.stages, other.tail_stored = self.stages[rows], self.tail_stored[rows]
        other.tails_stored = self.tails_stored
        other.offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.diff(self.offsets)[rows], out=other.offsets[1:])
        other.items = kernels.take_ballots(self.items, self.offsets, rows, other.offsets)
        other.chunks = _chunks(other.offsets, self.n_items)
        return other

    def run(
        self,
        pool: Threads,
        log_worths: NDArray[np.float64],
        shares: NDArray[np.float64],
        *,
        responsibilities: NDArray[np.float64] | None = None,
        log_likelihoods: NDArray[np.float64] | None = None,
    ) -> Counts:
        """One pass at θ (n, K) and α (K,), filling responsibilities (m, K) and ballot log-likelihoods (m,) if given."""
        n_items, n_components = log_worths.shape
        centred = log_worths - log_worths.max(axis=0)
        linear = bool(centred.min() >= -LINEAR_RANGE)
        scores = np.ascontiguousarray(np.exp(centred) if linear else centred)
        sums, totals = self.chunk_sums(pool, scores, shares, linear, responsibilities, log_likelihoods)
        added = sums[0]
        for c in range(1, len(sums)):
            added += sums[c]
        expected = added[:n_items, :n_components]
        if linear:
            expected = scores * (expected + added[n_items, :n_components])
        return Counts(
            float(sum(totals.tolist())), added[:n_items, n_components:], expected, added[n_items, n_components:]
        )

    def chunk_sums(
        self,
        pool: Threads,
        scores: NDArray[np.float64],
        shares: NDArray[np.float64],
        linear: bool,
        responsibilities: NDArray[np.float64] | None = None,
        log_likelihoods: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What the kernels add up over each chunk: sums (n_chunks, n + 1, 2K) and log-likelihoods (n_chunks,).

        scores (n, K): worths if linear, else log-worths, the largest of a component 1 or 0.
        """
        n_items, n_components = scores.shape
        n_chunks = len(self.chunks) - 1
        sums = np.zeros((n_chunks, n_items + 1, 2 * n_components))
        totals = np.zeros(n_chunks)
        ballots = (self.items, self.offsets, self.stages)
        single: Callable[..., float] = kernels.single_pass
        if linear and n_components == 1 and self.tails_stored and responsibilities is None and log_likelihoods is None:

            def chunk(c: int) -> None:
                bounds = self.chunks[c], self.chunks[c + 1]
                totals[c] = single(*bounds, *ballots, self.weights, scores.ravel(), sums[c])

        else:
            work: Callable[..., float] = kernels.em_pass if linear else kernels.log_em_pass
            posterior = np.empty((0, n_components)) if responsibilities is None else responsibilities
            each = NO_ROWS if log_likelihoods is None else log_likelihoods

            def chunk(c: int) -> None:
                bounds = self.chunks[c], self.chunks[c + 1]
                inputs = (*ballots, self.tail_stored, self.weights, scores, shares)
                totals[c] = work(*bounds, *inputs, sums[c], posterior, each)

        pool.run(chunk, n_chunks)
        return sums, totals

    def pairs(self, pool: Threads, work: PairWork, log_worths: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a kernel of `pair_kernels` adds up over all ballots at log-worths θ (n,), as an (n, n) matrix."""
        n_chunks = min(len(self.chunks) - 1, max(1, PAIR_BYTES // (8 * self.n_items**2)))
        bounds = np.linspace(0, len(self.chunks) - 1, n_chunks + 1).astype(int).tolist()
        parts = np.zeros((n_chunks, self.n_items, self.n_items))

        def chunk(c: int) -> None:
            first, last = self.chunks[bounds[c]], self.chunks[bounds[c + 1]]
            ballots = (self.items, self.offsets, self.stages, self.tail_stored, self.weights)
            work(first, last, *ballots, log_worths, parts[c])

        pool.run(chunk, n_chunks)
        added: NDArray[np.float64] = parts[0]
        for c in range(1, n_chunks):
            added += parts[c]
        return added

    def n_pairs(self) -> float:
        """How many pairs of items the menus hold, added up over the ballots."""
        sizes = np.where(self.tail_stored, np.diff(self.offsets), self.n_items).astype(np.float64)
        return float(np.sum(sizes * sizes) / 2)


def _chunks(offsets: NDArray[np.int64], n_items: int) -> list[int]:
    """Bounds of at most MAX_CHUNKS runs of ballots of about equal work, by the data alone."""
    work = int(offsets[-1])
    n_chunks = max(1, min(MAX_CHUNKS, work // max(CHUNK_PLACES, 4 * n_items)))
    inner = np.searchsorted(offsets, np.arange(1, n_chunks) * (work / n_chunks))
    bounds: list[int] = np.unique(np.concatenate([[0], inner, [len(offsets) - 1]])).tolist()
    return bounds
