"""Products with the Hessian of the penalised likelihood, group effects eliminated by their Schur complement.

With linear coefficients w and group effects u the Hessian is [[A, B], [Bᵀ, D]]. D is diagonal (2×2 blocks when both the
mean and the dispersion have group effects), so S = A - B D⁻¹ Bᵀ acts on w at the price of one pass over the rows.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.design import Codes
from predilect.models.clicks.products import FactoredProduct

Array = NDArray[np.float64]


class RowMap:
    """Logits ← coefficients and back, for the sides and blocks of a layout."""

    def __init__(self, product: FactoredProduct, groups: Codes, layout: Layout) -> None:
        self.product, self.layout = product, layout
        self.known = groups >= 0
        self.groups = groups.astype(np.int64)

    def linear(self, vector: Array) -> Array:
        """(n_linear,) → (sides, n_rows) without group effects."""
        layout = self.layout
        intercepts = np.array([vector[where.start] for where in layout.linear])
        if layout.feature_sides == list(range(len(layout.sides))):
            return self.product.forward(np.stack([vector[where][1:] for where in layout.linear]), intercepts)
        out = np.repeat(intercepts[:, None], self.product.n_rows, axis=1)
        for s in layout.feature_sides:
            out[s] = self.product.forward(vector[layout.linear[s]][None, 1:], intercepts[[s]])[0]
        return out

    def linear_adjoint(self, weights: Array, *, squared: bool = False) -> Array:
        """(sides, n_rows) → (n_linear,)."""
        layout = self.layout
        out = np.empty(layout.n_linear)
        if layout.feature_sides:
            used = weights if len(layout.feature_sides) == len(weights) else weights[layout.feature_sides]
            parts = self.product.adjoint(used, squared=squared)
            for s, part in zip(layout.feature_sides, parts, strict=True):
                out[layout.linear[s]][1:] = part
        for s, where in enumerate(layout.linear):
            out[where.start] = weights[s].sum()
        return out

    def group_sums(self, weights: Array) -> Array:
        """(n_rows,) → (n_groups,); rows without a group are left out."""
        # Slot 0 collects the rows without a group.
        sums: Array = np.bincount(self.groups + 1, weights=weights, minlength=self.layout.n_groups + 1)[1:].astype(
            np.float64, copy=False
        )
        return sums

    def at_rows(self, effects: Array) -> Array:
        """(n_groups,) → (n_rows,), 0 for rows without a group."""
        return np.concatenate([effects, [0.0]])[self.groups]

    def logits(self, vector: Array) -> Array:
        """(size,) → (sides, n_rows), group effects included."""
        out = self.linear(vector[: self.layout.n_linear])
        for s in self.layout.group_sides:
            out[s] += self.at_rows(vector[self.layout.group_slice(s)])
        return out

    def gradient(self, weights: Array) -> Array:
        """(sides, n_rows) → (size,), the adjoint of `logits`."""
        pieces = [self.linear_adjoint(weights)]
        pieces += [self.group_sums(weights[s]) for s in self.layout.group_sides]
        return np.concatenate(pieces)


class Curvature:
    """S and D at one point: `row_hessian` (1 or 3, n_rows: ζζ, ζη, ηη) and the prior precision of each coefficient."""

    def __init__(self, rows: RowMap, row_hessian: Array, precision: Array) -> None:
        self.rows, self.layout, self.precision = rows, rows.layout, precision
        self.row_hessian = row_hessian
        self._coupled = len(self.layout.sides) == 2
        self._linear_precision = precision[: self.layout.n_linear]
        if self.layout.group_sides:
            self._d = self._group_blocks()
            self.row_hessian = self._make_positive()

    def _side_hessian(self, s: int) -> Array:
        row: Array = self.row_hessian[0 if s == 0 else 2]
        return row

    def _group_blocks(self) -> list[Array]:
        """D: the diagonal of each side with group effects, then the coupling when both have them."""
        layout = self.layout
        blocks = [
            self.rows.group_sums(self._side_hessian(s)) + self.precision[layout.group_slice(s)]
            for s in layout.group_sides
        ]
        if len(blocks) == 2:
            blocks.append(self.rows.group_sums(self.row_hessian[1]))
        return blocks

    def _make_positive(self) -> Array:
        """Away from the optimum D may be indefinite; its rows then lose their negative and coupling parts."""
        h, d = self.row_hessian, self._d
        bad = d[0] <= 0 if len(d) == 1 else (d[0] <= 0) | (d[1] <= 0) | (d[0] * d[1] <= d[2] ** 2 * (1 + 1e-9))
        if not bad.any():
            return h
        rows = self.rows.known & bad[self.rows.groups]
        h = np.where(rows, np.maximum(h, 0.0), h)
        if self._coupled:
            h[1, rows] = 0.0
        self.row_hessian = h
        self._d = self._group_blocks()
        return h

    def _weigh(self, z: Array) -> Array:
        """The row Hessians times logits (sides, n_rows)."""
        h = self.row_hessian
        if not self._coupled:
            return h * z
        out = h[[0, 2]]
        out *= z
        out[0] += h[1] * z[1]
        out[1] += h[1] * z[0]
        return out

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
        weighted = self._weigh(self.rows.linear(vector))
        if self.layout.group_sides:
            response = self.solve_groups(self._sums(weighted))
            weighted -= self._weigh(self._spread(response))
        return self.rows.linear_adjoint(weighted) + self._linear_precision * vector

    def across(self, u: Array) -> Array:
        """B times group effects (n_group_sides, n_groups) → (n_linear,)."""
        return self.rows.linear_adjoint(self._weigh(self._spread(u)))

    def across_adjoint(self, vector: Array) -> Array:
        """Bᵀ times (n_linear,) → (n_group_sides, n_groups)."""
        return self._sums(self._weigh(self.rows.linear(vector)))

    @cached_property
    def diagonal(self) -> Array:
        """(n_linear,) the diagonal of A, with absolute row Hessians: a positive preconditioner for S."""
        h = np.abs(self.row_hessian[[0, 2]] if self._coupled else self.row_hessian)
        return self.rows.linear_adjoint(h, squared=True) + self._linear_precision

    def _sums(self, weighted: Array) -> Array:
        return np.stack([self.rows.group_sums(weighted[s]) for s in self.layout.group_sides])

    def _spread(self, u: Array) -> Array:
        out = np.zeros((len(self.layout.sides), self.rows.product.n_rows))
        for s, effects in zip(self.layout.group_sides, u, strict=True):
            out[s] = self.rows.at_rows(effects)
        return out


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
