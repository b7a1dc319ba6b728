"""A run of the chunks of a fit's contexts: whatever is done row by row, in this process or in another.

A piece keeps the row Hessians of the last points that it was asked about, by their number. What is asked of one that
it does not keep is answered by None: it must first be told how they came to be.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.contexts import Contexts
from predilect.models.clicks.design import Codes
from predilect.models.clicks.fisher import fisher_information
from predilect.models.clicks.kernels import negative_log_likelihood
from predilect.models.clicks.products import FactoredProduct, add_by_group
from predilect.models.compiled import Threads

Array = NDArray[np.float64]
Logits = Callable[[int], Array]

_KEPT = 2
"""Points whose row Hessians are kept: the one that is stepped from, and the last one tried."""
_ALONE = Threads(1)


class Node(NamedTuple):
    """The sum over 2^k chunks, of which the first is a multiple of 2^k; always added in the same order."""

    first: int
    n_chunks: int
    sum: Array


class Adjoint(NamedTuple):
    """Rows added up to linear coefficients: the intercepts' sums of each chunk, and the features' sums."""

    intercepts: Array
    """(n_chunks, sides)"""
    features: list[Node]
    """(1 + n_clusters, n_features, sides with features) each."""


class Observed(NamedTuple):
    """-log likelihood of each chunk (n_chunks,), its gradient, and gradient and Hessian by group (see `_by_group`)."""

    values: Array
    slope: Adjoint
    by_group: Array


class Piece:
    """Chunks `first`… of all, on so many threads."""

    def __init__(self, contexts: Contexts, layout: Layout, pool: Threads, first: int = 0) -> None:
        self._contexts, self._pool, self.first = contexts, pool, first
        self._layouts: dict[int | None, Layout] = {None: layout}
        self._layouts |= {s: layout.one_side(s) for s in range(len(layout.sides))}
        self.chunks = [contexts.chunk(chunk) for chunk in range(contexts.n_chunks)]
        self.features = FactoredProduct(contexts.design)
        self._groups = [
            np.where(codes < 0, -1, np.searchsorted(present, codes)).astype(np.int32)
            for present, codes in zip(contexts.groups, map(self._codes, self.chunks), strict=True)
        ]
        """Of each chunk's contexts: their place among the groups of the chunk."""
        self._hessians: dict[int, Array] = {}
        self._weighted: tuple[int, list[Array]] = -1, []
        self._rooms: dict[int, Array] = {}

    def observe(self, number: int, x: Array) -> Observed:
        """-log likelihood at the coefficients x (size,) with its derivatives; keeps the Hessian as `number`."""
        layout, logits = self._layouts[None], self._logits(x)
        values, slopes = np.empty(len(self.chunks)), _Adding(self, layout)
        hessian = np.empty((2 * len(layout.sides) - 1, len(self._contexts.design)))

        def work(chunk: int) -> Array:
            rows = self._contexts.rows(chunk)
            counts = self._contexts.clicks[rows], self._contexts.impressions[rows]
            found = negative_log_likelihood(*counts, self._by_row(chunk, logits(chunk)), _ALONE, second=True)
            values[chunk] = found[0]
            slope, hessian[:, self.chunks[chunk]] = (self._by_context(chunk, rows) for rows in found[1:])
            slopes.add(chunk, slope)
            return np.concatenate([slope[layout.group_sides], hessian[:, self.chunks[chunk]]])

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
            hessian[:, self.chunks[chunk]] = self._by_context(chunk, found)
            return hessian[:, self.chunks[chunk]]

        by_group = self._by_group(work)
        self._keep(number, hessian)
        return by_group

    def mend(self, number: int, bad: NDArray[np.bool_]) -> Array | None:
        """Take negative and coupling parts from the Hessians of rows in bad groups (n_groups,); these by group."""
        if (hessian := self._kept(number, None)) is None:
            return None
        groups = self._contexts.design.groups
        rows = (groups >= 0) & bad[groups]
        hessian[:, rows] = np.maximum(hessian[:, rows], 0.0)
        hessian[1:2, rows] = 0.0
        return self._by_group(lambda chunk: hessian[:, self.chunks[chunk]])

    def row_hessian(self, number: int, side: int) -> Array | None:
        """(n_contexts,) of a side."""
        found = self._kept(number, side)
        return None if found is None else found[0]

    def product(self, number: int, side: int | None, vector: Array) -> Adjoint | None:
        """Xᵀ H X times linear coefficients (n_linear,), of one side or of all; X without group effects."""
        return self._adjoint(number, side, self._linear(side, vector))

    def across(self, number: int, side: int | None, effects: Array) -> Adjoint | None:
        """Xᵀ H Z times group effects (n_group_sides, n_groups)."""
        return self._adjoint(number, side, self._spread(side, effects))

    def weigh(self, number: int, side: int | None, vector: Array, product: int = -1) -> Array | None:
        """Zᵀ H X times linear coefficients, by group; H X times them is kept as that of this product."""
        if (hessian := self._kept(number, side)) is None:
            return None
        linear, weighted = self._linear(side, vector), [np.empty(0)] * len(self.chunks)

        def work(chunk: int) -> Array:
            weighted[chunk] = _weigh(hessian[:, self.chunks[chunk]], linear(chunk))
            return weighted[chunk][self._layouts[side].group_sides]

        by_group = self._by_group(work)
        self._weighted = product, weighted
        return by_group

    def less(self, number: int, side: int | None, effects: Array, product: int) -> Adjoint | None:
        """Xᵀ times what is kept of this product, less H Z times group effects."""
        if (hessian := self._kept(number, side)) is None or self._weighted[0] != product:
            return None
        spread, sums = self._spread(side, effects), _Adding(self, self._layouts[side])

        def work(chunk: int) -> None:
            own = _weigh(hessian[:, self.chunks[chunk]], spread(chunk))
            sums.add(chunk, self._weighted[1][chunk] - own)

        self._pool.run(work, len(self.chunks))
        return sums.found()

    def diagonal(self, number: int, side: int | None) -> Adjoint | None:
        """The diagonal of Xᵀ |H| X."""
        if (hessian := self._kept(number, side)) is None:
            return None
        sizes = np.abs(hessian[::2])
        sums = _Adding(self, self._layouts[side], squared=True)
        self._pool.run(lambda chunk: sums.add(chunk, sizes[:, self.chunks[chunk]]), len(self.chunks))
        return sums.found()

    def _adjoint(self, number: int, side: int | None, logits: Logits) -> Adjoint | None:
        """Xᵀ H times logits."""
        if (hessian := self._kept(number, side)) is None:
            return None
        sums = _Adding(self, self._layouts[side])

        def work(chunk: int) -> None:
            sums.add(chunk, _weigh(hessian[:, self.chunks[chunk]], logits(chunk)))

        self._pool.run(work, len(self.chunks))
        return sums.found()

    def _codes(self, contexts: slice) -> Codes:
        return self._contexts.design.groups[contexts]

    def _keep(self, number: int, hessian: Array) -> None:
        self._hessians.pop(number, None)
        self._hessians[number] = hessian
        while len(self._hessians) > _KEPT:
            del self._hessians[next(iter(self._hessians))]

    def _kept(self, number: int, side: int | None) -> Array | None:
        """The row Hessians of that number, of one side (1, n_contexts) or of all."""
        if number not in self._hessians:
            return None
        self._hessians[number] = found = self._hessians.pop(number)  # the last used goes last
        return found if side is None else found[2 * side : 2 * side + 1]

    def _logits(self, x: Array) -> Logits:
        """Of a chunk's contexts (sides, n), group effects included."""
        layout = self._layouts[None]
        linear = self._linear(None, x[: layout.n_linear])
        effects = self._spread(None, x[layout.n_linear :].reshape(len(layout.group_sides), layout.n_groups))
        return lambda chunk: linear(chunk) + effects(chunk)

    def _linear(self, side: int | None, vector: Array) -> Logits:
        """X times linear coefficients."""
        layout = self._layouts[side]
        intercepts = np.array([vector[where.start] for where in layout.linear])
        if not layout.feature_sides:
            return lambda chunk: np.repeat(intercepts[:, None], _length(self.chunks[chunk]), axis=1)
        coefficients = np.stack([vector[layout.linear[s]][1:] for s in layout.feature_sides])
        theta, offsets = self.features.by_cluster(coefficients), intercepts[layout.feature_sides]

        def of_chunk(chunk: int) -> Array:
            rows = self.chunks[chunk]
            found = self.features.forward(theta, offsets, rows)
            if len(found) == len(intercepts):
                return found
            out = np.repeat(intercepts[:, None], _length(rows), axis=1)
            out[layout.feature_sides] = found
            return out

        return of_chunk

    def _spread(self, side: int | None, effects: Array) -> Logits:
        """Z times group effects (n_group_sides, n_groups), 0 for rows without a group."""
        layout = self._layouts[side]

        def of_chunk(chunk: int) -> Array:
            out = np.zeros((len(layout.sides), _length(self.chunks[chunk])))
            present, groups = self._contexts.groups[chunk], self._groups[chunk]
            for s, own in zip(layout.group_sides, effects, strict=True):
                out[s] = np.append(own[present], 0.0)[groups]
            return out

        return of_chunk

    def _by_group(self, values: Callable[[int], Array]) -> Array:
        """(k, Σ groups of each chunk): `values` of every chunk's contexts (k, n), added up by its groups.

        The values are computed even where no effect of groups is asked for.
        """
        sums: list[Array] = [np.zeros((0, 0))] * len(self.chunks)
        wanted = bool(self._layouts[None].group_sides)

        def work(chunk: int) -> None:
            found = values(chunk)
            sums[chunk] = np.zeros((len(found), len(self._contexts.groups[chunk]) if wanted else 0))
            if wanted:
                add_by_group(self._groups[chunk], found, sums[chunk])

        self._pool.run(work, len(self.chunks))
        return np.concatenate(sums, axis=1)

    def _by_row(self, chunk: int, values: Array) -> Array:
        """(k, n_contexts) of a chunk → (k, n_rows)."""
        lengths = self._lengths(chunk)
        return values if lengths is None else np.repeat(values, lengths, axis=1)

    def _by_context(self, chunk: int, values: Array) -> Array:
        """(k, n_rows) of a chunk → (k, n_contexts), summed."""
        if self._lengths(chunk) is None:
            return values
        starts = self._contexts.starts[self.chunks[chunk]]
        summed: Array = np.add.reduceat(values, starts - starts[0], axis=1)
        return summed

    def _lengths(self, chunk: int) -> NDArray[np.int64] | None:
        """How many rows each context of a chunk has; None: one each."""
        contexts, rows = self.chunks[chunk], self._contexts.rows(chunk)
        if _length(contexts) == _length(rows):
            return None
        return np.diff(self._contexts.starts[contexts.start : contexts.stop + 1])

    def room(self, n_sides: int) -> Array:
        """(n_chunks, 1 + n_clusters, n_features, sides) to add up in; the same every time, so that it is warm."""
        if n_sides not in self._rooms:
            self._rooms[n_sides] = np.empty((len(self.chunks), *self.features.shape, n_sides))
        return self._rooms[n_sides]


class _Adding:
    """Xᵀ times rows, chunk after chunk."""

    def __init__(self, piece: "Piece", layout: Layout, *, squared: bool = False) -> None:
        self._piece, self._sides, self._squared = piece, layout.feature_sides, squared
        self._sums = piece.room(len(self._sides))
        self._intercepts = np.empty((len(self._sums), len(layout.sides)))

    def add(self, chunk: int, weights: Array) -> None:
        """All rows of a chunk (sides, n)."""
        self._intercepts[chunk] = weights.sum(axis=1)
        if self._sides:
            own = self._sums[chunk]
            own[...] = 0.0
            used = weights if len(self._sides) == len(weights) else weights[self._sides]
            self._piece.features.adjoint(used, self._piece.chunks[chunk], own, squared=self._squared)

    def found(self) -> Adjoint:
        nodes = [Node(self._piece.first + chunk, 1, own) for chunk, own in enumerate(self._sums)]
        return Adjoint(self._intercepts, added(nodes) if self._sides else [])


def added(nodes: Iterable[Node]) -> list[Node]:
    """Neighbours added up, in place, as far as they are halves of one node; nodes: in order of their chunks."""
    done: list[Node] = []
    for node in nodes:
        done.append(node)
        while len(done) > 1 and _are_halves(*done[-2:]):
            right, left = done.pop(), done.pop()
            np.add(left.sum, right.sum, out=left.sum)
            done.append(Node(left.first, 2 * left.n_chunks, left.sum))
    return done


def _are_halves(left: Node, right: Node) -> bool:
    return left.n_chunks == right.n_chunks and left.first % (2 * left.n_chunks) == 0


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
