"""The eigenvectors of XXᵀ, in which a Gaussian prior with features X falls apart into scalars."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from predilect.models.compiled import Threads

SMALL = 1e-9
"""Eigenvalues below this share of the largest are zero."""
BLOCK = 256
"""Rows of a product handled in one piece of work: fixed, so that the result does not depend on the threads."""


@dataclass(frozen=True, eq=False)
class EigenBasis:
    """XXᵀ = U diag(s) Uᵀ."""

    vectors: NDArray[np.float64]
    """(n, r): U, of the r positive eigenvalues."""
    values: NDArray[np.float64]
    """(r,): s."""

    @classmethod
    def of(cls, features: csr_array) -> Self:
        """All of it, by way of the smaller Gram matrix: n² or d² numbers in memory, and their cube in time."""
        n, d = features.shape
        gram = (features @ features.T if n <= d else features.T @ features).toarray()
        values, vectors = eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
        kept = values > SMALL * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        if n > d:
            vectors = (features @ vectors) / np.sqrt(values)
        return cls(np.ascontiguousarray(vectors), values)

    @classmethod
    def leading(cls, features: csr_array, rank: int) -> Self:
        """The `rank` largest: the prior is then that of the best approximation of X of this rank."""
        start = np.ones(min(features.shape))  # where Lanczos starts: the same result each time
        vectors, values, _ = svds(features, k=rank, v0=start)
        return cls(np.ascontiguousarray(vectors), values**2)

    def project(self, columns: NDArray[np.float64], pool: Threads) -> NDArray[np.float64]:
        """Uᵀ columns: (n, c) → (r, c)."""
        return _product(self.vectors.T, columns, pool)

    def spread(self, columns: NDArray[np.float64], pool: Threads) -> NDArray[np.float64]:
        """U columns: (r, c) → (n, c)."""
        return _product(self.vectors, columns, pool)


def _product(left: NDArray[np.float64], right: NDArray[np.float64], pool: Threads) -> NDArray[np.float64]:
    out = np.empty((len(left), right.shape[1]))

    def piece(number: int) -> None:
        part = slice(number * BLOCK, (number + 1) * BLOCK)
        out[part] = left[part] @ right

    pool.run(piece, -(-len(out) // BLOCK))
    return out
