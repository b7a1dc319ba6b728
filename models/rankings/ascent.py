"""Climbing the objective: EM steps extrapolated by guarded SQUAREM, and limited-memory BFGS for slow ridges."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from predilect.models.rankings.objective import Mixture, Objective, Point

# A comparison of two values is decided by their sums' rounding below this relative difference.
ROUNDING = 1e-13
# No extrapolation moves a log-worth further than this beyond the EM step.
LONGEST_MOVE = 4.0
FARTHEST = 20.0

OnPass = Callable[[int, Point], None]


@dataclass
class Ascent:
    """Where a climb stands: its point, the value after every accepted move, and whether the tolerance was reached."""

    point: Point
    trace: list[float]
    converged: bool = False

    def accept(self, point: Point) -> None:
        self.point = point
        self.trace.append(point.value)


def begin(objective: Objective, start: Mixture) -> Ascent:
    """A climb at its start."""
    point = objective.at(start)
    return Ascent(point, [point.value])


def squarem(
    objective: Objective, climb: Ascent, tolerance: float, max_passes: int, on_pass: OnPass | None = None
) -> Ascent:
    """EM steps in pairs, each pair extrapolated (SQUAREM, Varadhan and Roland 2008, scheme S3), in place.

    The extrapolated point is kept only when its value is at least that of the first step of its pair; otherwise the
    climb goes back to the second step. So the value never falls. Stops when the certificate is within `tolerance`,
    after `max_passes` passes over the ballots, or when rounding forbids progress.
    """
    limit = objective.n_passes + max_passes
    longest = 4.0
    while True:
        if climb.point.certificate <= tolerance:
            climb.converged = True
            return climb
        if objective.n_passes + 2 > limit:
            return climb
        here = climb.point
        first = objective.at(objective.step(here))
        if not not_below(first.value, here.value):
            return climb
        climb.accept(first)
        if on_pass:
            on_pass(objective.n_passes, first)
        if first.certificate <= tolerance:
            continue
        second = objective.step(first)
        x0, x1, x2 = here.mixture.pack(), first.mixture.pack(), second.pack()
        step, bend = x1 - x0, x2 - 2 * x1 + x0
        length = _ratio(step, bend)
        if length >= longest:
            length, longest = longest, longest * 4
        move = 2 * (length - 1) * step + (length * length - 1) * bend
        reach = np.abs(move).max()
        if length > 1 and reach > 0:
            beyond = x2 + move * min(1.0, LONGEST_MOVE / reach)
            bold = objective.at(second.unpack(beyond))
            if not_below(bold.value, first.value):
                climb.accept(bold)
                if on_pass:
                    on_pass(objective.n_passes, bold)
                continue
            longest = max(4.0, longest / 4)
        plain = objective.at(second)
        if not not_below(plain.value, first.value):
            return climb
        climb.accept(plain)


def quasi_newton(objective: Objective, climb: Ascent, tolerance: float, max_passes: int) -> Ascent:
    """L-BFGS over (θ, log α) from where the climb stands, in place; kept only if the value does not fall.

    On a flat ridge, where EM creeps, it needs a tenth of the passes.
    """
    start = climb.point.mixture
    best = climb.point
    scale = objective.weight

    def loss(vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        nonlocal best
        point = objective.at(start.unpack(vector))
        if point.value > best.value:
            best = point
        by_share = point.counts.mass - point.mixture.shares * scale
        return -point.value / scale, -np.concatenate([point.gradient.ravel(), by_share]) / scale

    def moved(_: NDArray[np.float64]) -> None:
        if best.value > climb.point.value:
            climb.accept(best)

    # On a ray that no finite maximum ends, the line searches would run to any distance.
    bounds = Bounds(start.pack() - FARTHEST, start.pack() + FARTHEST)
    options = {"maxcor": 12, "maxfun": max_passes, "maxiter": max_passes, "ftol": 0.0, "gtol": tolerance}
    minimize(loss, start.pack(), jac=True, method="L-BFGS-B", bounds=bounds, callback=moved, options=options)
    moved(start.pack())
    climb.converged = climb.point.certificate <= tolerance
    return climb


def not_below(value: float, than: float) -> bool:
    """Whether a value is no less than another, up to rounding."""
    return value >= than - ROUNDING * abs(than)


def _ratio(step: NDArray[np.float64], bend: NDArray[np.float64]) -> float:
    """‖step‖ / ‖bend‖, at least 1 (where extrapolation gives the second EM step)."""
    curved = float(np.sqrt(bend @ bend))
    return max(1.0, float(np.sqrt(step @ step)) / curved) if curved > 0 else 1.0
