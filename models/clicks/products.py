"""Products with the factored design matrix: rows ← coefficients and coefficients ← rows, without building it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.design import Codes, Design
from predilect.models.compiled import Threads, kernel

Array = NDArray[np.float64]

_WORK_PER_CHUNK = 200_000
_MAX_CHUNKS = 8


# In both kernels positions and indices are unsigned, which spares numba's test for negative ones, and the inner loops
# stand where they are used, on views of one copy: together up to twice as fast as the obvious form.


@kernel
def _forward(  # noqa: PLR0912 -- one loop a case is what makes it fast
    indptr: Any,
    indices: Any,
    values: Any,
    row_ptr: Any,
    clusters: Codes,
    theta: Array,
    offsets: Array,
    out: Array,
    start: int,
    stop: int,
) -> None:
    """out[s, r] = offsets[s] + x_r · theta[…, s] for the rows of lines start..stop.

    theta: (1 + n_clusters, n_features, sides).
    """
    two = theta.shape[2] == 2
    shared = theta[0]
    for line in range(start, stop):
        first, last = np.uint64(indptr[line]), np.uint64(indptr[line + 1])
        shared0, shared1 = offsets[0], 0.0
        if two:
            shared1 = offsets[1]
            for k in range(first, last):
                shared0 += values[k] * shared[np.uint32(indices[k]), 0]
                shared1 += values[k] * shared[np.uint32(indices[k]), 1]
        else:
            for k in range(first, last):
                shared0 += values[k] * shared[np.uint32(indices[k]), 0]
        r, end = row_ptr[line], row_ptr[line + 1]
        while r < end:
            cluster = clusters[r]
            z0, z1 = shared0, shared1
            if cluster >= 0:
                own = theta[1 + cluster]
                if two:
                    for k in range(first, last):
                        z0 += values[k] * own[np.uint32(indices[k]), 0]
                        z1 += values[k] * own[np.uint32(indices[k]), 1]
                else:
                    for k in range(first, last):
                        z0 += values[k] * own[np.uint32(indices[k]), 0]
            while r < end and clusters[r] == cluster:
                out[0, r] = z0
                if two:
                    out[1, r] = z1
                r += 1


@kernel
def _adjoint(  # noqa: PLR0912 -- as above
    indptr: Any,
    indices: Any,
    values: Any,
    row_ptr: Any,
    clusters: Codes,
    weights: Array,
    out: Array,
    start: int,
    stop: int,
) -> None:
    """out[…, s] += Σ_r weights[s, r]·x_r over the rows of lines start..stop; out as theta above."""
    two = out.shape[2] == 2
    shared = out[0]
    for line in range(start, stop):
        first, last = np.uint64(indptr[line]), np.uint64(indptr[line + 1])
        shared0, shared1 = 0.0, 0.0
        r, end = row_ptr[line], row_ptr[line + 1]
        while r < end:
            cluster = clusters[r]
            own0, own1 = 0.0, 0.0
            while r < end and clusters[r] == cluster:
                own0 += weights[0, r]
                if two:
                    own1 += weights[1, r]
                r += 1
            shared0 += own0
            shared1 += own1
            if cluster >= 0:
                own = out[1 + cluster]
                if two:
                    for k in range(first, last):
                        own[np.uint32(indices[k]), 0] += values[k] * own0
                        own[np.uint32(indices[k]), 1] += values[k] * own1
                else:
                    for k in range(first, last):
                        own[np.uint32(indices[k]), 0] += values[k] * own0
        if two:
            for k in range(first, last):
                shared[np.uint32(indices[k]), 0] += values[k] * shared0
                shared[np.uint32(indices[k]), 1] += values[k] * shared1
        else:
            for k in range(first, last):
                shared[np.uint32(indices[k]), 0] += values[k] * shared0


class FactoredProduct:
    """Products with the feature columns of a design whose rows are sorted by (line, cluster)."""

    def __init__(self, design: Design, pool: Threads) -> None:
        self._pool = pool
        self._shape = (1 + design.n_clusters, design.n_features)
        self.n_rows, self.width = len(design), design.width
        matrix = design.features
        row_ptr = np.searchsorted(design.lines, np.arange(matrix.shape[0] + 1)).astype(np.int64)
        self._arrays = (matrix.indptr, matrix.indices, matrix.data, row_ptr, design.clusters)
        # Chunks of lines of about equal work: a non-zero counts once for the shared copy and once a row.
        work = np.cumsum(np.diff(matrix.indptr) * (1 + (np.diff(row_ptr) if design.n_clusters else 0)) + 1)
        total = int(work[-1]) if len(work) else 0
        n_chunks = int(np.clip(total // _WORK_PER_CHUNK, 1, _MAX_CHUNKS))
        inner = np.searchsorted(work, total * np.arange(1, n_chunks) / n_chunks)
        self._bounds = np.concatenate([[0], inner, [matrix.shape[0]]]).astype(np.int64)

    def forward(self, coefficients: Array, offsets: Array) -> Array:
        """(sides, width), (sides,) → (sides, n_rows), for one or two sides."""
        sides = len(coefficients)
        theta = np.ascontiguousarray(np.moveaxis(coefficients.reshape(sides, *self._shape), 0, 2))
        out = np.empty((sides, self.n_rows))
        inner: Any = _forward

        def work(chunk: int) -> None:
            inner(*self._arrays, theta, offsets, out, self._bounds[chunk], self._bounds[chunk + 1])

        self._pool.run(work, len(self._bounds) - 1)
        return out

    def adjoint(self, weights: Array, *, squared: bool = False) -> Array:
        """(sides, n_rows) → (sides, width): Σ_r weights·x_r, or Σ_r weights·x_r² entry by entry."""
        sides = len(weights)
        parts = np.zeros((len(self._bounds) - 1, *self._shape, sides))
        inner: Any = _adjoint
        indptr, indices, values, *others = self._arrays
        entries = values * values if squared else values

        def work(chunk: int) -> None:
            inner(
                indptr, indices, entries, *others, weights, parts[chunk], self._bounds[chunk], self._bounds[chunk + 1]
            )

        self._pool.run(work, len(self._bounds) - 1)
        total: Array = np.moveaxis(parts.sum(axis=0), 2, 0).reshape(sides, self.width)
        return total
