"""Products with the Hessian of the penalised likelihood, group effects eliminated by their Schur complement.

With linear coefficients w and group effects u the Hessian is [[A, B], [Bᵀ, D]]. D is diagonal (2×2 blocks when both the
mean and the dispersion have group effects), so S = A - B D⁻¹ Bᵀ acts on w at the price of one pass over the rows.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.rows import RowHessians, Rows

Array = NDArray[np.float64]


class Curvature:
    """S and D at one point, from the row Hessians there and the prior precision of each coefficient."""

    def __init__(self, rows: Rows, hessians: RowHessians, precision: Array, side: int | None = None) -> None:
        """side: the only one that is meant, whose coefficients the precisions are of; default: all."""
        self._rows, self._hessians, self._side = rows, hessians, side
        self.layout = rows.layout if side is None else rows.layout.one_side(side)
        self.precision = precision
        if self.layout.group_sides:
            self._d = self._group_blocks()
            self._make_positive()

    @property
    def row_hessian(self) -> Array:
        """(n_contexts,) of the only side."""
        return self._rows.row_hessian(self._hessians, self._side or 0)

    @property
    def group_precision(self) -> Array:
        """(n_groups,) D of the only side."""
        return self._d[0]

    def _group_blocks(self) -> list[Array]:
        """D: the diagonal of each side with group effects, then the coupling when both have them."""
        by_group = self._hessians.by_group
        if self._side is not None:
            by_group = by_group[2 * self._side :]
        blocks = [by_group[2 * s] + self.precision[self.layout.group_slice(s)] for s in self.layout.group_sides]
        return [*blocks, by_group[1]] if len(blocks) == 2 else blocks

    def _make_positive(self) -> None:
        """Away from the optimum D may be indefinite; its rows then lose their negative and coupling parts."""
        d = self._d
        bad = d[0] <= 0 if len(d) == 1 else (d[0] <= 0) | (d[1] <= 0) | (d[0] * d[1] <= d[2] ** 2 * (1 + 1e-9))
        if bad.any():
            self._hessians = self._rows.mend(self._hessians, bad)
            self._d = self._group_blocks()

    def solve_groups(self, right: Array) -> Array:
        """D⁻¹ times (n_group_sides, n_groups)."""
        if len(self._d) == 1:
            return right / self._d[0]
        d00, d11, d01 = self._d
        determinant = d00 * d11 - d01 * d01
        return np.stack(
            [(d11 * right[0] - d01 * right[1]) / determinant, (d00 * right[1] - d01 * right[0]) / determinant]
        )

    def group_product(self, u: Array) -> Array:
        """D times (n_group_sides, n_groups)."""
        if len(self._d) == 1:
            return u * self._d[0]
        return np.stack([self._d[0] * u[0] + self._d[2] * u[1], self._d[2] * u[0] + self._d[1] * u[1]])

    def product(self, vector: Array) -> Array:
        """S times (n_linear,)."""
        respond = self.solve_groups if self.layout.group_sides else None
        image = self._rows.product(self._hessians, self._side, vector, respond)
        return image + self.precision[: self.layout.n_linear] * vector

    def across(self, u: Array) -> Array:
        """B times group effects (n_group_sides, n_groups) → (n_linear,)."""
        return self._rows.across(self._hessians, self._side, u)

    def across_adjoint(self, vector: Array) -> Array:
        """Bᵀ times (n_linear,) → (n_group_sides, n_groups)."""
        return self._rows.across_adjoint(self._hessians, self._side, vector)

    @cached_property
    def diagonal(self) -> Array:
        """(n_linear,) the diagonal of A, with absolute row Hessians: a positive preconditioner for S."""
        return self._rows.diagonal(self._hessians, self._side) + self.precision[: self.layout.n_linear]


def conjugate_gradient(curvature: Curvature, right: Array, start: Array, *, tolerance: float, limit: int) -> Array:
    """S⁻¹ right by preconditioned conjugate gradients, from `start`, to a relative residual in that norm."""
    inverse = 1.0 / curvature.diagonal
    x = start.copy()
    residual = right - curvature.product(x) if x.any() else right.copy()
    z = inverse * residual
    direction = z.copy()
    energy = float(residual @ z)
    goal = tolerance**2 * float(right @ (inverse * right))
    for _ in range(limit):
        if energy <= goal:
            break
        image = curvature.product(direction)
        step = energy / float(direction @ image)
        x += step * direction
        residual -= step * image
        z = inverse * residual
        previous, energy = energy, float(residual @ z)
        direction = z + (energy / previous) * direction
    return x
