"""Empirical Bayes: the precision of every prior block from the data (paper §2.3, math page §4 and §9).

At the maximum of the Laplace evidence every block obeys c·‖ŵ‖² = d - c·tr Σ, the number of its coefficients that the data
determine. The trace comes from random probes and conjugate gradients, or from the low-rank posterior.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.curvature import Curvature, conjugate_gradient
from predilect.models.random import stream

Array = NDArray[np.float64]

LOWEST, HIGHEST = 1e-6, 1e8
"""Precisions are held in here; at the upper end a block is switched off."""


class Probes:
    """Hutchinson's estimate of tr Σ for every block of one side; the same probes, warm-started, in every round."""

    def __init__(self, layout: Layout, n_probes: int, seed: int) -> None:
        rng = stream(seed, "probes", layout.sides[0].name)
        self._layout = layout
        self._signs = rng.choice([-1.0, 1.0], size=(n_probes, layout.size))
        self._solutions = np.zeros((n_probes, layout.n_linear))

    def degrees_of_freedom(self, curvature: Curvature, precisions: Mapping[str, float]) -> dict[str, float]:
        """d - c·tr Σ of every block, Σ being the inverse of the side's whole precision matrix."""
        layout = self._layout
        n = layout.n_linear
        traces = {block.name: 0.0 for block in layout.blocks}
        for i, signs in enumerate(self._signs):
            right = signs[:n]
            if layout.group_sides:
                u = signs[n:].reshape(1, layout.n_groups)
                right = right - curvature.across(curvature.solve_groups(u))
            w = conjugate_gradient(curvature, right, self._solutions[i], tolerance=3e-3, limit=300)
            self._solutions[i] = w
            solution = w
            if layout.group_sides:
                solution = np.concatenate([w, curvature.solve_groups(u - curvature.across_adjoint(w)).ravel()])
            for block in layout.blocks:
                where = slice(block.start, block.stop)
                traces[block.name] += float(signs[where] @ solution[where]) / len(self._signs)
        return {block.name: block.size - precisions[block.name] * traces[block.name] for block in layout.blocks}


def fixed_point(
    update: Callable[[dict[str, float]], dict[str, float]],
    start: Mapping[str, float],
    *,
    tolerance: float,
    max_rounds: int,
) -> tuple[dict[str, float], list[dict[str, float]], bool]:
    """Iterate c ← update(c) on log c with Anderson acceleration over the last three rounds.

    Returns the precisions, the trace of all rounds, and whether the last change was within `tolerance` (relative).
    """
    names = list(start)
    trace = [dict(start)]
    points: list[Array] = []
    residuals: list[Array] = []
    x = np.log([start[name] for name in names])
    for _ in range(max_rounds):
        updated = update(dict(zip(names, np.exp(x).tolist(), strict=True)))
        residual = np.log([updated[name] for name in names]) - x
        points, residuals = [*points[-3:], x], [*residuals[-3:], residual]
        if np.abs(residual).max(initial=0.0) <= tolerance:
            return updated, [*trace, updated], True
        following = x + residual
        if len(points) > 1:
            d_residual = np.diff(np.array(residuals), axis=0).T
            d_point = np.diff(np.array(points), axis=0).T
            weights = np.linalg.lstsq(d_residual, residual, rcond=1e-8)[0]
            following = x + residual - (d_point + d_residual) @ weights
        x = np.clip(x + np.clip(following - x, -3.0, 3.0), np.log(LOWEST), np.log(HIGHEST))
        trace.append(dict(zip(names, np.exp(x).tolist(), strict=True)))
    return dict(zip(names, np.exp(x).tolist(), strict=True)), trace, False
