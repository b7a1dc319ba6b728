"""Empirical Bayes: the precision of every prior block from the data (paper §2.3, math page §4 and §9).

At the maximum of the Laplace evidence every block obeys c·‖ŵ‖² = d - c·tr Σ, the number of its coefficients that the
data determine. The trace comes from random probes and conjugate gradients, or from the low-rank posterior.
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

_LONGEST_STEP = 2.0
"""A precision changes at most by e² in one round."""


class Probes:
    """Hutchinson's estimate of tr Σ for every block of one side; the same probes, warm-started, in every round."""

    def __init__(self, layout: Layout, n_probes: int, seed: int) -> None:
        rng = stream(seed, "probes", layout.sides[0].name)
        self._layout = layout
        self._signs = rng.choice([-1.0, 1.0], size=(n_probes, layout.size))
        self._solutions = np.zeros((n_probes, layout.n_linear))

    def degrees_of_freedom(self, curvature: Curvature) -> dict[str, float]:
        """d - c·tr Σ of every block, Σ being the inverse of the side's whole precision matrix.

        The probes are whitened by the prior, so that the noise of a block is about the root of its degrees of freedom
        even when the precisions of the blocks differ widely.
        """
        layout = self._layout
        n = layout.n_linear
        root = np.sqrt(curvature.precision)
        undetermined = np.zeros(layout.size)
        for i, signs in enumerate(self._signs):
            probe = root * signs
            right, u = probe[:n], probe[n:].reshape(len(layout.group_sides), layout.n_groups)
            if layout.group_sides:
                right = right - curvature.across(curvature.solve_groups(u))
            solution = conjugate_gradient(curvature, right, self._solutions[i] / root[:n], tolerance=1e-3, limit=300)
            self._solutions[i] = solution * root[:n]
            if layout.group_sides:
                effects = curvature.solve_groups(u - curvature.across_adjoint(solution))
                solution = np.concatenate([solution, effects.ravel()])
            undetermined += probe * solution / len(self._signs)
        return {block.name: block.size - float(undetermined[block.start : block.stop].sum()) for block in layout.blocks}


def fixed_point(
    update: Callable[[dict[str, float]], tuple[dict[str, float], dict[str, float]]],
    start: Mapping[str, float],
    *,
    tolerance: float,
    max_rounds: int,
) -> tuple[dict[str, float], list[dict[str, float]], bool]:
    """Iterate c ← update(c) on log c with Anderson acceleration over the last three rounds.

    update(c) gives the new precisions and how many coefficients the data determine in each block. A block has settled
    when its precision changes by at most `tolerance` (relative) or the log evidence by at most a twentieth.
    Returns the precisions, the trace of all rounds, and whether all blocks settled.
    """
    names = list(start)
    trace = [dict(start)]
    points: list[Array] = []
    residuals: list[Array] = []
    x = np.log([start[name] for name in names])
    for _ in range(max_rounds):
        updated, determined = update(dict(zip(names, np.exp(x).tolist(), strict=True)))
        residual = np.log([updated[name] for name in names]) - x
        size = np.maximum([determined[name] for name in names], 1e-3)
        # The log evidence is about γ·(log c)²/4 below its maximum.
        if ((np.abs(residual) <= tolerance) | (0.25 * size * residual**2 <= 0.05)).all():
            return updated, [*trace, updated], True
        points, residuals = [*points[-3:], x], [*residuals[-3:], residual]
        following = x + residual
        if len(points) > 1:
            weight = np.sqrt(size)
            d_residual = np.diff(np.array(residuals), axis=0).T
            d_point = np.diff(np.array(points), axis=0).T
            mix = np.linalg.lstsq(weight[:, None] * d_residual, weight * residual, rcond=1e-8)[0]
            following = x + residual - (d_point + d_residual) @ mix
        x = np.clip(x + np.clip(following - x, -_LONGEST_STEP, _LONGEST_STEP), np.log(LOWEST), np.log(HIGHEST))
        trace.append(dict(zip(names, np.exp(x).tolist(), strict=True)))
    return dict(zip(names, np.exp(x).tolist(), strict=True)), trace, False
