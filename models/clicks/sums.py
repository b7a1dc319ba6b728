"""Rows added up to coefficients, Xᵀ times them, chunk by chunk and then in a tree that never changes."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.products import FactoredProduct

Array = NDArray[np.float64]


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


class Adding:
    """Xᵀ times rows, chunk after chunk."""

    def __init__(self, layout: Layout, features: FactoredProduct, room: Array, first: int, *, squared: bool) -> None:
        """room: (n_chunks, 1 + n_clusters, n_features, sides with features) to add up in. first: chunk's number.

        squared: X's entries are squared.
        """
        self._sides, self._features, self._squared = layout.feature_sides, features, squared
        self._sums, self._first = room, first
        self._intercepts = np.empty((len(room), len(layout.sides)))

    def add(self, chunk: int, rows: slice, weights: Array) -> None:
        """All rows of a chunk (sides, n)."""
        self._intercepts[chunk] = weights.sum(axis=1)
        if self._sides:
            own = self._sums[chunk]
            own[...] = 0.0
            used = weights if len(self._sides) == len(weights) else weights[self._sides]
            self._features.adjoint(used, rows, own, squared=self._squared)

    def found(self) -> Adjoint:
        """The sums of all chunks."""
        nodes = [Node(self._first + chunk, 1, own) for chunk, own in enumerate(self._sums)]
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
