"""Products with the factored design matrix: rows ← coefficients and coefficients ← rows, without building it."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.design import Codes, Design
from predilect.models.compiled import kernel

Array = NDArray[np.float64]


# In both kernels positions and indices are unsigned, which spares numba's test for negative ones, and the inner loops
# stand where they are used, on views of one copy: together up to twice as fast as the obvious form.


@kernel
def _forward(  # noqa: PLR0912 -- one loop a case is what makes it fast
    indptr: Any,
    indices: Any,
    values: Any,
    lines: Codes,
    clusters: Codes,
    theta: Array,
    offsets: Array,
    out: Array,
    start: int,
    stop: int,
) -> None:
    """out[s, r - start] = offsets[s] + x_r · theta[…, s] for rows start..stop.

    theta: (1 + n_clusters, n_features, sides).
    """
    two = theta.shape[2] == 2
    shared = theta[0]
    r = start
    while r < stop:
        line = lines[r]
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
        while r < stop and lines[r] == line:
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
            while r < stop and lines[r] == line and clusters[r] == cluster:
                out[0, r - start] = z0
                if two:
                    out[1, r - start] = z1
                r += 1


@kernel
def _adjoint(  # noqa: PLR0912 -- as above
    indptr: Any,
    indices: Any,
    values: Any,
    lines: Codes,
    clusters: Codes,
    weights: Array,
    out: Array,
    start: int,
    stop: int,
) -> None:
    """out[…, s] += Σ_r weights[s, r - start]·x_r over rows start..stop; out as theta above."""
    two = out.shape[2] == 2
    shared = out[0]
    r = start
    while r < stop:
        line = lines[r]
        first, last = np.uint64(indptr[line]), np.uint64(indptr[line + 1])
        shared0, shared1 = 0.0, 0.0
        while r < stop and lines[r] == line:
            cluster = clusters[r]
            own0, own1 = 0.0, 0.0
            while r < stop and lines[r] == line and clusters[r] == cluster:
                own0 += weights[0, r - start]
                if two:
                    own1 += weights[1, r - start]
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

    def __init__(self, design: Design) -> None:
        self.shape = (1 + design.n_clusters, design.n_features)
        matrix = design.features
        self._arrays = (matrix.indptr, matrix.indices, matrix.data, design.lines, design.clusters)

    def by_cluster(self, coefficients: Array) -> Array:
        """(sides, width) as (1 + n_clusters, n_features, sides), which `forward` takes."""
        return np.ascontiguousarray(np.moveaxis(coefficients.reshape(len(coefficients), *self.shape), 0, 2))

    def forward(self, theta: Array, offsets: Array, rows: slice) -> Array:
        """(1 + n_clusters, n_features, sides), (sides,) → (sides, n_rows) of these rows, for one or two sides."""
        inner: Any = _forward
        out = np.empty((theta.shape[2], rows.stop - rows.start))
        inner(*self._arrays, theta, offsets, out, rows.start, rows.stop)
        return out

    def adjoint(self, weights: Array, rows: slice, out: Array, *, squared: bool = False) -> None:
        """out[…, s] += Σ_r weights[s, r]·x_r over these rows, or Σ_r weights·x_r² entry by entry; out as theta."""
        inner: Any = _adjoint
        indptr, indices, values, *codes = self._arrays
        inner(indptr, indices, self._squares if squared else values, *codes, weights, out, rows.start, rows.stop)

    @cached_property
    def _squares(self) -> NDArray[np.float32]:
        values: NDArray[np.float32] = self._arrays[2]
        return values * values


@kernel
def add_by_group(groups: Codes, weights: Array, out: Array) -> None:
    """out[i, g] += Σ weights[i, r] over the rows r of group g; group -1 is left out."""
    for i in range(len(weights)):
        row, sums = weights[i], out[i]
        for r in range(len(groups)):
            if groups[r] >= 0:
                sums[groups[r]] += row[r]
