"""The Gaussian posterior of one side's coefficients: low rank plus diagonal (paper §2.2, math page §3)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from predilect.models.clicks.blocks import Block, Layout
from predilect.models.clicks.curvature import Curvature
from predilect.models.clicks.design import Design
from predilect.models.random import stream

Array = NDArray[np.float64]
Residual = Literal["spread", "none"]

_BLOCK_ROWS = 50_000
_DENSE_SIZE = 1200
"""Up to so many coefficients the precision matrix is built and diagonalised directly."""


@dataclass(frozen=True)
class SidePosterior:
    """Covariance of [intercept, features, clusters], diag(scale) - factor·factorᵀ, and of group effects given them."""

    scale: Array
    """(n_linear,)"""
    factor: Array
    """(n_linear, k)"""
    group_lines: Any
    """CSR (n_groups, n_linear) D⁻¹Bᵀ, by which a group effect falls when linear coefficients rise; None without."""
    group_variance: Array
    """(n_groups,) 1/D, the variance of a group effect given the linear coefficients; empty without groups."""

    def variances(self, rows: Any, groups: Any) -> Array:
        """Variance of the linear predictor of CSR `rows` (n_rows, n_linear) in `groups` (codes; -1 adds nothing)."""
        own = 0.0
        if self.group_lines is not None:
            # One empty line at the end, for -1.
            lines = sparse.vstack([self.group_lines, sparse.csr_matrix((1, rows.shape[1]))], format="csr")
            rows = rows - lines[groups]
            own = np.append(self.group_variance, 0.0)[groups]
        explained = rows @ self.factor
        variance = rows.multiply(rows) @ self.scale - np.einsum("rk,rk->r", explained, explained)
        # Rounding may leave a tiny negative number where the data say almost all.
        total: Array = np.maximum(variance, 0.0) + own
        return total

    def draw(self, rng: np.random.Generator) -> Array:
        """One draw of the linear coefficients' deviation from their mean, exact for the stored covariance."""
        root = np.sqrt(self.scale)
        noise = rng.standard_normal(len(root))
        if self.factor.shape[1]:
            u, s, _ = linalg.svd(self.factor / root[:, None], full_matrices=False)
            noise -= u @ ((1.0 - np.sqrt(np.maximum(1.0 - s * s, 0.0))) * (u.T @ noise))
        return root * noise

    def block_variances(self, block: Block) -> Array:
        """Marginal variances of the coefficients of a block; (size,)."""
        if block.start < len(self.scale):
            where = slice(block.start, block.stop)
            linear: Array = self.scale[where] - np.square(self.factor[where]).sum(axis=1)
            return linear
        lines = self.group_lines
        explained = np.square(lines @ self.factor).sum(axis=1)
        effects: Array = self.group_variance + lines.multiply(lines) @ self.scale - explained
        return effects

    def degrees_of_freedom(self, block: Block, precision: float) -> float:
        """d - c·tr Σ of a block: how many of its coefficients the data determine."""
        return float(block.size - precision * self.block_variances(block).sum())


def side_posterior(design: Design, curvature: Curvature, rank: int, residual: Residual, seed: int) -> SidePosterior:
    """The `rank` best-determined directions exactly, the others by what their own columns say.

    curvature: of this side alone, with Fisher information as its row Hessian. With C the prior precisions, the whitened
    precision C^-½ S C^-½ = I + V Λ Vᵀ + rest is cut to its k largest eigenvalues. residual="spread" keeps the diagonal
    of the rest (its trace is the paper's lost ‖X_h‖²_F - Σλ, shared out by column); "none" drops it as in the paper,
    which leaves every other direction at its prior variance.
    """
    layout, information = curvature.layout, curvature.row_hessian
    n = layout.n_linear
    root = 1.0 / np.sqrt(curvature.precision[:n])
    lines, own = _group_lines(design, layout, curvature, information)
    k = min(rank, n)
    if n <= max(_DENSE_SIZE, k):
        whitened = root[:, None] * _dense_information(design, layout, information, lines, own) * root
        start = n - k
        values, vectors = (
            linalg.eigh(whitened, subset_by_index=[start, n - 1]) if k else (np.zeros(0), np.zeros((n, 0)))
        )
        diagonal = np.diag(whitened)
    else:
        operator = sparse_linalg.LinearOperator(
            (n, n), matvec=lambda v: root * curvature.product(root * np.ravel(v)) - np.ravel(v), dtype=np.float64
        )
        first = stream(seed, "posterior", layout.sides[0].name).standard_normal(n)
        values, vectors = sparse_linalg.eigsh(operator, k=k, v0=first, tol=1e-3)
        diagonal = _information_diagonal(layout, curvature, lines, own) * root * root
    values = np.maximum(values, 0.0)
    rest = np.zeros(n)
    if residual == "spread":
        rest = np.maximum(diagonal - (vectors * vectors) @ values, 0.0)
    # (diag(e) + V Λ Vᵀ)⁻¹ = diag(1/e) - U (Λ⁻¹ + Vᵀ diag(1/e) V)⁻¹ Uᵀ with U = diag(1/e) V, e = 1 + rest.
    inverse = 1.0 / (1.0 + rest)
    keep = values > 0
    values, vectors = values[keep], vectors[:, keep]
    left = inverse[:, None] * vectors
    cholesky = (
        linalg.cholesky(np.diag(1.0 / values) + vectors.T @ left, lower=True) if len(values) else np.zeros((0, 0))
    )
    factor = linalg.solve_triangular(cholesky, left.T, lower=True).T if len(values) else np.zeros((n, 0))
    return SidePosterior(root * root * inverse, root[:, None] * factor, lines, own)


def _blocks_of_rows(design: Design, layout: Layout) -> Any:
    """(rows, their explicit CSR matrix), block after block."""
    for start in range(0, len(design), _BLOCK_ROWS):
        rows = slice(start, min(start + _BLOCK_ROWS, len(design)))
        yield rows, design.take(rows).expand(with_features=layout.sides[0].has_features)


def _group_lines(design: Design, layout: Layout, curvature: Curvature, h: Array) -> tuple[Any, Array]:
    """D⁻¹Bᵀ (CSR) and 1/D, or None and nothing when the side has no group effects."""
    if not layout.group_sides:
        return None, np.zeros(0)
    own = 1.0 / curvature.group_precision
    total = sparse.csr_matrix((layout.n_groups, layout.n_linear))
    for rows, matrix in _blocks_of_rows(design, layout):
        groups = design.groups[rows]
        member = np.flatnonzero(groups >= 0)
        weights = sparse.csr_matrix((h[rows][member], (groups[member], member)), shape=(layout.n_groups, len(groups)))
        total = total + weights @ matrix
    return sparse.diags(own, format="csr") @ total, own


def _dense_information(design: Design, layout: Layout, h: Array, lines: Any, own: Array) -> Array:
    """Xᵀ diag(h) X - B D⁻¹ Bᵀ as a dense matrix."""
    total = np.zeros((layout.n_linear, layout.n_linear))
    for rows, matrix in _blocks_of_rows(design, layout):
        total += (matrix.T @ matrix.multiply(h[rows][:, None]).tocsr()).toarray()
    if lines is not None:
        total -= (lines.T @ (sparse.diags(1.0 / own, format="csr") @ lines)).toarray()
    return total


def _information_diagonal(layout: Layout, curvature: Curvature, lines: Any, own: Array) -> Array:
    """The diagonal of the matrix above, without building it."""
    n = layout.n_linear
    diagonal = curvature.diagonal - curvature.precision[:n]
    if lines is not None:
        diagonal = diagonal - lines.multiply(lines).T @ (1.0 / own)
    return np.maximum(diagonal, 0.0)
