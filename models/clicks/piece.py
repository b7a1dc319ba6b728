"""A run of the chunks of a fit's contexts: whatever is done row by row, in this process or in another.

A piece keeps the row Hessians of the last points that it was asked about, by their number. What is asked of one that
it does not keep is answered by None: it must first be told how they came to be.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.contexts import Contexts
from predilect.models.clicks.design import Codes
from predilect.models.clicks.fisher import fisher_information
from predilect.models.clicks.kernels import negative_log_likelihood
from predilect.models.clicks.products import FactoredProduct, add_by_group
from predilect.models.clicks.sums import Adding, Adjoint
from predilect.models.compiled import Threads

Array = NDArray[np.float64]
OfChunk = Callable[[int], Array]
"""Of a chunk's contexts, (·, n)."""

_KEPT = 2
"""Points whose row Hessians are kept: the one that is stepped from, and the last one tried."""
_ALONE = Threads(1)


class Observed(NamedTuple):
    """-log likelihood of each chunk (n_chunks,), its gradient, and gradient and Hessian by group (see `_by_group`)."""

    values: Array
    slope: Adjoint
    by_group: Array


class Piece:
    """Chunks `first`… of all, on so many threads."""

    def __init__(self, contexts: Contexts, layout: Layout, pool: Threads, first: int = 0) -> None:
        self._contexts, self._pool, self._first = contexts, pool, first
        self._layouts: dict[int | None, Layout] = {None: layout}
        self._layouts |= {s: layout.one_side(s) for s in range(len(layout.sides))}
        self._chunks = [contexts.chunk(chunk) for chunk in range(contexts.n_chunks)]
        self._features = FactoredProduct(contexts.design)
        self._groups = [
            np.where(codes < 0, -1, np.searchsorted(present, codes)).astype(np.int32)
            for present, codes in zip(contexts.groups, map(self._codes, self._chunks), strict=True)
        ]
        """Of each chunk's contexts: their place among the groups of the chunk."""
        self._hessians: dict[int, Array] = {}
        self._weighted: tuple[int, list[Array]] = -1, []
        self._rooms: dict[int, Array] = {}

    def observe(self, number: int, x: Array) -> Observed:
        """-log likelihood at the coefficients x (size,) with its derivatives; keeps the Hessian as `number`."""
        layout, logits = self._layouts[None], self._logits(x)
        values, slopes = np.empty(len(self._chunks)), self._adding(layout)
        hessian = np.empty((2 * len(layout.sides) - 1, len(self._contexts.design)))

        def work(chunk: int) -> Array:
            rows = self._contexts.rows(chunk)
            counts = self._contexts.clicks[rows], self._contexts.impressions[rows]
            found = negative_log_likelihood(*counts, self._by_row(chunk, logits(chunk)), _ALONE, second=True)
            values[chunk] = found[0]
            slope, hessian[:, self._chunks[chunk]] = (self._by_context(chunk, rows) for rows in found[1:])
            slopes.add(chunk, self._chunks[chunk], slope)
            return np.concatenate([slope[layout.group_sides], hessian[:, self._chunks[chunk]]])

        by_group = self._by_group(work)
        self._keep(number, hessian)
        return Observed(values, slopes.found(), by_group)

    def expect(self, number: int, x: Array) -> Array:
        """The Fisher information at the coefficients x by group, kept as `number`."""
        logits = self._logits(x)
        hessian = np.empty((2 * len(self._layouts[None].sides) - 1, len(self._contexts.design)))

        def work(chunk: int) -> Array:
            impressions = self._contexts.impressions[self._contexts.rows(chunk)]
            found = fisher_information(impressions, self._by_row(chunk, logits(chunk)), _ALONE)
            hessian[:, self._chunks[chunk]] = self._by_context(chunk, found)
            return hessian[:, self._chunks[chunk]]

        by_group = self._by_group(work)
        self._keep(number, hessian)
        return by_group

    def mend(self, number: int, bad: NDArray[np.bool_]) -> Array | None:
        """Take negative and coupling parts from the Hessians of rows in bad groups (n_groups,); these by group."""
        if (of_chunk := self._kept(number, None)) is None:
            return None
        hessian, groups = self._hessians[number], self._contexts.design.groups
        rows = (groups >= 0) & bad[groups]
        hessian[:, rows] = np.maximum(hessian[:, rows], 0.0)
        hessian[1:2, rows] = 0.0
        return self._by_group(of_chunk)

    def row_hessian(self, number: int, side: int) -> Array | None:
        """(n_contexts,) of a side."""
        if (hessian := self._kept(number, side)) is None:
            return None
        return np.concatenate([hessian(chunk)[0] for chunk in range(len(self._chunks))])

    def product(self, number: int, side: int | None, vector: Array) -> Adjoint | None:
        """Xᵀ H X times linear coefficients (n_linear,), of one side or of all; X without group effects."""
        if (hessian := self._kept(number, side)) is None:
            return None
        linear = self._linear(side, vector)
        return self._sum(side, lambda chunk: _weigh(hessian(chunk), linear(chunk)))

    def across(self, number: int, side: int | None, effects: Array) -> Adjoint | None:
        """Xᵀ H Z times group effects (n_group_sides, n_groups)."""
        if (hessian := self._kept(number, side)) is None:
            return None
        spread = self._spread(side, effects)
        return self._sum(side, lambda chunk: _weigh(hessian(chunk), spread(chunk)))

    def weigh(self, number: int, side: int | None, vector: Array, product: int = -1) -> Array | None:
        """Zᵀ H X times linear coefficients, by group; H X times them is kept as that of this product."""
        if (hessian := self._kept(number, side)) is None:
            return None
        linear, weighted = self._linear(side, vector), [np.empty(0)] * len(self._chunks)

        def work(chunk: int) -> Array:
            weighted[chunk] = _weigh(hessian(chunk), linear(chunk))
            return weighted[chunk][self._layouts[side].group_sides]

        by_group = self._by_group(work)
        self._weighted = product, weighted
        return by_group

    def less(self, number: int, side: int | None, effects: Array, product: int) -> Adjoint | None:
        """Xᵀ times what is kept of this product, less H Z times group effects."""
        hessian, (kept, weighted) = self._kept(number, side), self._weighted
        if hessian is None or kept != product:
            return None
        spread = self._spread(side, effects)
        return self._sum(side, lambda chunk: weighted[chunk] - _weigh(hessian(chunk), spread(chunk)))

    def diagonal(self, number: int, side: int | None) -> Adjoint | None:
        """The diagonal of Xᵀ |H| X."""
        if (hessian := self._kept(number, side)) is None:
            return None
        return self._sum(side, lambda chunk: np.abs(hessian(chunk)[::2]), squared=True)

    def _sum(self, side: int | None, rows: OfChunk, *, squared: bool = False) -> Adjoint:
        """Xᵀ times rows."""
        sums = self._adding(self._layouts[side], squared=squared)
        self._pool.run(lambda chunk: sums.add(chunk, self._chunks[chunk], rows(chunk)), len(self._chunks))
        return sums.found()

    def _codes(self, contexts: slice) -> Codes:
        return self._contexts.design.groups[contexts]

    def _keep(self, number: int, hessian: Array) -> None:
        self._hessians.pop(number, None)
        self._hessians[number] = hessian
        while len(self._hessians) > _KEPT:
            del self._hessians[next(iter(self._hessians))]

    def _kept(self, number: int, side: int | None) -> OfChunk | None:
        """The row Hessians of that number, of one side (1, n) or of all."""
        if number not in self._hessians:
            return None
        self._hessians[number] = found = self._hessians.pop(number)  # the last used goes last
        own = found if side is None else found[2 * side : 2 * side + 1]
        return lambda chunk: own[:, self._chunks[chunk]]

    def _logits(self, x: Array) -> OfChunk:
        """Logits at the coefficients x, group effects included."""
        layout = self._layouts[None]
        linear = self._linear(None, x[: layout.n_linear])
        effects = self._spread(None, x[layout.n_linear :].reshape(len(layout.group_sides), layout.n_groups))
        return lambda chunk: linear(chunk) + effects(chunk)

    def _linear(self, side: int | None, vector: Array) -> OfChunk:
        """X times linear coefficients."""
        layout = self._layouts[side]
        intercepts = np.array([vector[where.start] for where in layout.linear])
        if not layout.feature_sides:
            return lambda chunk: np.repeat(intercepts[:, None], _length(self._chunks[chunk]), axis=1)
        coefficients = np.stack([vector[layout.linear[s]][1:] for s in layout.feature_sides])
        theta, offsets = self._features.by_cluster(coefficients), intercepts[layout.feature_sides]

        def of_chunk(chunk: int) -> Array:
            rows = self._chunks[chunk]
            found = self._features.forward(theta, offsets, rows)
            if len(found) == len(intercepts):
                return found
            out = np.repeat(intercepts[:, None], _length(rows), axis=1)
            out[layout.feature_sides] = found
            return out

        return of_chunk

    def _spread(self, side: int | None, effects: Array) -> OfChunk:
        """Z times group effects (n_group_sides, n_groups), 0 for rows without a group."""
        layout = self._layouts[side]

        def of_chunk(chunk: int) -> Array:
            out = np.zeros((len(layout.sides), _length(self._chunks[chunk])))
            present, groups = self._contexts.groups[chunk], self._groups[chunk]
            for s, own in zip(layout.group_sides, effects, strict=True):
                out[s] = np.append(own[present], 0.0)[groups]
            return out

        return of_chunk

    def _by_group(self, values: OfChunk) -> Array:
        """(k, Σ groups of each chunk): `values` of every chunk's contexts (k, n), added up by its groups.

        The values are computed even where no effect of groups is asked for.
        """
        sums: list[Array] = [np.zeros((0, 0))] * len(self._chunks)
        wanted = bool(self._layouts[None].group_sides)

        def work(chunk: int) -> None:
            found = values(chunk)
            sums[chunk] = np.zeros((len(found), len(self._contexts.groups[chunk]) if wanted else 0))
            if wanted:
                add_by_group(self._groups[chunk], found, sums[chunk])

        self._pool.run(work, len(self._chunks))
        return np.concatenate(sums, axis=1)

    def _by_row(self, chunk: int, values: Array) -> Array:
        """(k, n_contexts) of a chunk → (k, n_rows)."""
        lengths = self._lengths(chunk)
        return values if lengths is None else np.repeat(values, lengths, axis=1)

    def _by_context(self, chunk: int, values: Array) -> Array:
        """(k, n_rows) of a chunk → (k, n_contexts), summed."""
        if self._lengths(chunk) is None:
            return values
        starts = self._contexts.starts[self._chunks[chunk]]
        summed: Array = np.add.reduceat(values, starts - starts[0], axis=1)
        return summed

    def _lengths(self, chunk: int) -> NDArray[np.int64] | None:
        """How many rows each context of a chunk has; None: one each."""
        contexts, rows = self._chunks[chunk], self._contexts.rows(chunk)
        if _length(contexts) == _length(rows):
            return None
        return np.diff(self._contexts.starts[contexts.start : contexts.stop + 1])

    def _adding(self, layout: Layout, *, squared: bool = False) -> Adding:
        n_sides = len(layout.feature_sides)
        if n_sides not in self._rooms:  # the same memory every time, so that it is warm
            self._rooms[n_sides] = np.empty((len(self._chunks), *self._features.shape, n_sides))
        return Adding(layout, self._features, self._rooms[n_sides], self._first, squared=squared)


def _weigh(hessian: Array, logits: Array) -> Array:
    """Row Hessians (1 or 3, n) times logits (sides, n)."""
    if len(hessian) == 1:
        return hessian * logits
    out = hessian[::2] * logits
    out[0] += hessian[1] * logits[1]
    out[1] += hessian[1] * logits[0]
    return out


def _length(rows: slice) -> int:
    return int(rows.stop - rows.start)
