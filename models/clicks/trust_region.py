"""Newton's method in a trust region: the maximum a posteriori of a penalised likelihood that is not convex.

Steihaug's truncated conjugate gradients solve each step. They work in coordinates in which the group effects are
eliminated (w, ũ = u + D⁻¹Bᵀw), where the Hessian is S beside D, and in the norm of the preconditioner.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.curvature import Curvature
from predilect.models.errors import NotConvergedError

Array = NDArray[np.float64]

_MAX_PRODUCTS = 250


@dataclass(frozen=True)
class Point:
    """The objective at x: its value, gradient and Hessian."""

    x: Array
    value: float
    gradient: Array
    curvature: Callable[[], Curvature]


@dataclass(frozen=True)
class Optimum:
    """A minimum, the infinity norm of the gradient there, and what it cost."""

    point: Point
    gradient_norm: float
    n_iterations: int
    n_products: int


def minimise(
    evaluate: Callable[[Array], Point], start: Array, *, tolerance: float, max_iterations: int, excess: float = 0.0
) -> Optimum:
    """Minimise until the infinity norm of the gradient is at most `tolerance`.

    excess: stop earlier, once the objective is about so little above its minimum (half the squared gradient in the
    preconditioner's norm). Raises NotConvergedError with the gradient norm reached when `max_iterations` are spent.
    """
    point = evaluate(start)
    radius, n_products = np.inf, 0
    for iteration in range(max_iterations + 1):
        norm = float(np.abs(point.gradient).max())
        if norm <= tolerance:
            return Optimum(point, norm, iteration, n_products)
        curvature = point.curvature()
        coordinates = _Eliminated(curvature, point.gradient)
        if coordinates.excess <= excess:
            return Optimum(point, norm, iteration, n_products)
        # Successive steps at one point reuse its Hessian; only the radius changes.
        while True:
            step, length, predicted, used = coordinates.step(radius)
            n_products += used
            trial = evaluate(point.x + step)
            actual = point.value - trial.value
            noise = 1e-13 * (abs(point.value) + 1.0)
            if not np.isfinite(trial.value):
                ratio = -1.0
            elif predicted <= noise:  # below rounding the value says nothing; the gradient does
                ratio = 1.0 if np.abs(trial.gradient).max() < norm else -1.0
            else:
                ratio = (actual + noise) / predicted
            if ratio < 0.25:
                radius = 0.25 * length
            elif ratio > 0.75 and length >= 0.99 * radius:
                radius *= 2.5
            if ratio > 1e-4:
                point = trial
                break
            if radius < 1e-14 * (1.0 + float(np.linalg.norm(point.x))):
                raise _not_converged(iteration, norm, tolerance)
    raise _not_converged(max_iterations, float(np.abs(point.gradient).max()), tolerance)


def _not_converged(iterations: int, norm: float, tolerance: float) -> NotConvergedError:
    return NotConvergedError(
        f"The fit stopped after {iterations} Newton steps with a gradient norm of {norm:.3g} instead of {tolerance:g}; "
        "raise max_iterations or tolerance, or give larger prior precisions."
    )


class _Eliminated:
    """The quadratic model at a point, in coordinates (w, ũ)."""

    def __init__(self, curvature: Curvature, gradient: Array) -> None:
        self._curvature = curvature
        layout = curvature.layout
        self._n, self._shape = layout.n_linear, (len(layout.group_sides), layout.n_groups)
        self._has_groups = bool(layout.group_sides)
        self._diagonal = curvature.diagonal
        self._gradient = gradient
        if self._has_groups:
            u = gradient[self._n :].reshape(self._shape)
            reduced = gradient[: self._n] - curvature.across(curvature.solve_groups(u))
            self._gradient = np.concatenate([reduced, gradient[self._n :]])

        self.excess = 0.5 * float(self._gradient @ self._precondition(self._gradient))

    def _apply(self, v: Array) -> Array:
        out = self._curvature.product(v[: self._n])
        if self._has_groups:
            u = self._curvature.group_product(v[self._n :].reshape(self._shape))
            out = np.concatenate([out, u.ravel()])
        return out

    def _metric(self, v: Array) -> Array:
        out = self._diagonal * v[: self._n]
        if self._has_groups:
            u = self._curvature.group_product(v[self._n :].reshape(self._shape))
            out = np.concatenate([out, u.ravel()])
        return out

    def _precondition(self, r: Array) -> Array:
        out = r[: self._n] / self._diagonal
        if self._has_groups:
            u = self._curvature.solve_groups(r[self._n :].reshape(self._shape))
            out = np.concatenate([out, u.ravel()])
        return out

    def _original(self, v: Array) -> Array:
        """(w, ũ) → (w, u)."""
        if not self._has_groups:
            return v
        w = v[: self._n]
        response = self._curvature.solve_groups(self._curvature.across_adjoint(w))
        return np.concatenate([w, v[self._n :] - response.ravel()])

    def step(self, radius: float) -> tuple[Array, float, float, int]:
        """Steihaug's step inside `radius`: the step, its length, the predicted decrease, and the products spent."""
        g = self._gradient
        x = np.zeros_like(g)
        residual = g.copy()
        z = self._precondition(residual)
        energy = float(residual @ z)
        goal = energy * min(0.1, energy**0.25) ** 2
        direction = -z
        used = 0
        x_norm2 = 0.0
        image_x = np.zeros_like(g)
        while used < _MAX_PRODUCTS and energy > goal:
            image = self._apply(direction)
            used += 1
            bend = float(direction @ image)
            step = energy / bend if bend > 0 else np.inf
            metric = self._metric(direction)
            d_norm2, cross = float(direction @ metric), float(x @ metric)
            if bend <= 0 and not np.isfinite(radius):
                radius = float(np.sqrt(x_norm2 + d_norm2))  # first negative curvature: a step of its own size
            if bend <= 0 or x_norm2 + 2 * step * cross + step * step * d_norm2 >= radius**2:
                root = np.sqrt(max(cross**2 + d_norm2 * (radius**2 - x_norm2), 0.0))
                step = (root - cross) / d_norm2
                x += step * direction
                image_x += step * image
                break
            x += step * direction
            image_x += step * image
            x_norm2 += 2 * step * cross + step * step * d_norm2
            residual += step * image
            z = self._precondition(residual)
            previous, energy = energy, float(residual @ z)
            direction = -z + (energy / previous) * direction
        predicted = -float(g @ x) - 0.5 * float(x @ image_x)
        length = float(np.sqrt(max(float(x @ self._metric(x)), 0.0)))
        return self._original(x), length, predicted, used
