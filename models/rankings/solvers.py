"""Maximum likelihood of one Plackett-Luce component on weighted ballots: MM, Luce spectral ranking, Newton, SQUAREM."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit

from predilect.models.rankings import pair_kernels
from predilect.models.rankings.ascent import Ascent, OnPass, begin, not_below, quasi_newton, squarem
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Mixture, Objective, Point

Solver = Literal["auto", "squarem", "mm", "lsr", "newton"]

# After this many passes SQUAREM is on hard ground (items that meet few others): Newton's steps then pay.
PATIENCE = 50
NEWTON_ITEMS = 4_000
NEWTON_PAIRS = 2e10
HALVINGS = 30

Direction = Callable[[Objective, Point], NDArray[np.float64]]


def maximise(
    objective: Objective,
    start: Mixture,
    solver: Solver,
    tolerance: float,
    max_passes: int,
    on_pass: OnPass | None = None,
) -> Ascent:
    """The worths of one component from `start` (K = 1); the certificate of the result's point tells how exact they are.

    auto: SQUAREM, and Newton (L-BFGS for very many items) where it is slow. lsr: weighted Luce spectral ranking
    repeated (Algorithm 4 of the paper; its fixed point is the zero of the gradient). All stop on the certificate.
    """
    climb = begin(objective, start)
    if solver == "squarem":
        return squarem(objective, climb, tolerance, max_passes, on_pass)
    if solver != "auto":
        return follow(DIRECTIONS[solver], objective, climb, tolerance, max_passes, on_pass)
    limit = objective.n_passes + max_passes
    squarem(objective, climb, tolerance, min(PATIENCE, max_passes), on_pass)
    if not climb.converged and newton_affordable(objective.layout):
        follow(newton_direction, objective, climb, tolerance, limit - objective.n_passes, on_pass)
    elif not climb.converged:
        quasi_newton(objective, climb, tolerance, limit - objective.n_passes)
        squarem(objective, climb, tolerance, limit - objective.n_passes, on_pass)
    return climb


def follow(
    direction: Direction,
    objective: Objective,
    climb: Ascent,
    tolerance: float,
    max_passes: int,
    on_pass: OnPass | None = None,
) -> Ascent:
    """Steps along `direction`, halved until the value does not fall, in place; an MM step where no half is good."""
    limit = objective.n_passes + max_passes
    while climb.point.certificate > tolerance and objective.n_passes < limit:
        here = climb.point
        step = direction(objective, here)
        scale = 1.0
        for _ in range(HALVINGS):
            there = objective.at(Mixture.single(here.mixture.log_worths[:, 0] + scale * step))
            if not_below(there.value, here.value):
                break
            scale /= 2
        else:
            there = objective.at(objective.step(here))
            if not not_below(there.value, here.value):
                return climb
        if there.value <= here.value and there.certificate >= here.certificate:
            return climb  # rounding forbids progress
        climb.accept(there)
        if on_pass:
            on_pass(objective.n_passes, there)
    climb.converged = climb.point.certificate <= tolerance
    return climb


def mm_direction(objective: Objective, point: Point) -> NDArray[np.float64]:
    """The minorise-maximise step of Hunter (2004)."""
    return objective.step(point).log_worths[:, 0] - point.mixture.log_worths[:, 0]


def newton_direction(objective: Objective, point: Point) -> NDArray[np.float64]:
    """−H⁻¹ g on Σ = 0 (with a prior, in full space)."""
    theta = point.mixture.log_worths[:, 0]
    information = component_information(objective, theta)
    gradient = point.gradient[:, 0]
    n_items = len(theta)
    ridge = 0.0
    size = float(np.trace(information)) / n_items + np.finfo(float).tiny
    if not objective.nu:
        information += size / n_items
    for _ in range(20):
        try:
            step: NDArray[np.float64] = cho_solve(cho_factor(information + ridge * np.eye(n_items)), gradient)
        except (LinAlgError, ValueError):
            ridge = max(10 * ridge, 1e-12 * size)
            continue
        longest = float(np.abs(step).max())
        return step * min(1.0, 10.0 / longest) if longest > 0 else step
    return mm_direction(objective, point)


def lsr_direction(objective: Objective, point: Point) -> NDArray[np.float64]:
    """log of the stationary distribution of the weighted Luce spectral ranking chain, relative to the worths.

    The chain goes from the items not chosen to the chosen one (row loses, column wins), each stage with rate
    w / Σ_{a ∈ A_t} λ_a; see `component_flows`. The prior is one more state of worth 1.
    """
    theta = point.mixture.log_worths[:, 0]
    flows = component_flows(objective, theta)
    with np.errstate(divide="ignore", invalid="ignore"):  # a share may underflow; the step is then not finite
        step = _lsr_step(flows, theta, objective.nu)
    return step if np.all(np.isfinite(step)) else mm_direction(objective, point)


def _lsr_step(flows: NDArray[np.float64], theta: NDArray[np.float64], nu: float) -> NDArray[np.float64]:
    if not nu:
        share = np.log(pair_kernels.stationary(flows))
        centred: NDArray[np.float64] = share - share.mean()
        return centred
    grown = np.zeros((len(theta) + 1, len(theta) + 1))
    grown[1:, 1:] = flows
    grown[1:, 0] = nu * expit(theta)
    grown[0, 1:] = nu * expit(-theta)
    share = np.log(pair_kernels.stationary(grown))
    step: NDArray[np.float64] = share[1:] - share[0]
    return step


DIRECTIONS: dict[str, Direction] = {"mm": mm_direction, "newton": newton_direction, "lsr": lsr_direction}


def newton_affordable(layout: Layout) -> bool:
    """Whether a dense Hessian fits and costs less than some hundred passes."""
    return layout.n_items <= NEWTON_ITEMS and layout.n_pairs() <= NEWTON_PAIRS


def component_information(objective: Objective, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Minus the Hessian (n, n) of the objective of one component at θ (n,)."""
    pairs = objective.layout.pairs(objective.pool, pair_kernels.curvature, theta)
    pairs += pairs.T
    np.fill_diagonal(pairs, 0.0)
    information = np.diag(pairs.sum(axis=1)) - pairs
    if objective.nu:
        worth = expit(theta)
        information[np.diag_indices_from(information)] += 2 * objective.nu * worth * (1 - worth)
    return information


def component_flows(objective: Objective, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rates (n, n) of the weighted LSR chain at θ in coordinates π_i / λ_i: λ_i γ(j beat i) at row i, column j."""
    return objective.layout.pairs(objective.pool, pair_kernels.spectral_flows, theta)
