"""Expectation maximisation of a mixture from one start: accelerated one-step EM, or exact M-steps."""

import numpy as np

from predilect.models.rankings.ascent import Ascent, OnPass, begin, not_below, quasi_newton, squarem
from predilect.models.rankings.objective import Mixture, Objective
from predilect.models.rankings.solvers import Solver, maximise

# SQUAREM has found the hill by then; what is left is a ridge, and L-BFGS walks those faster.
PATIENCE = 12
M_STEP_PASSES = 2_000


def climb_from(
    objective: Objective,
    start: Mixture,
    solver: Solver,
    tolerance: float,
    max_passes: int,
    on_pass: OnPass | None = None,
) -> Ascent:
    """The local maximum that EM reaches from `start`.

    auto: one MM step a pass with guarded SQUAREM over (θ, log α), L-BFGS where that is slow. squarem: the first alone.
    lsr, mm, newton: exact EM, every M-step solved by that solver; lsr is the paper's EM-LSR (Algorithm 5). One
    component is solved directly (`solvers.maximise`).
    """
    if start.n_components == 1:
        return maximise(objective, start, solver, tolerance, max_passes, on_pass)
    climb = begin(objective, start)
    limit = objective.n_passes + max_passes
    if solver in {"lsr", "mm", "newton"}:
        return exact_em(objective, climb, solver, tolerance, limit, on_pass)
    squarem(objective, climb, tolerance, PATIENCE if solver == "auto" else max_passes, on_pass)
    while solver == "auto" and not climb.converged and objective.n_passes < limit:
        before = climb.point
        quasi_newton(objective, climb, tolerance, limit - objective.n_passes)
        squarem(objective, climb, tolerance, min(PATIENCE, limit - objective.n_passes), on_pass)
        if climb.point is before:
            break
    return climb


def exact_em(
    objective: Objective, climb: Ascent, solver: Solver, tolerance: float, limit: int, on_pass: OnPass | None = None
) -> Ascent:
    """EM with M-steps solved to a hundredth of the certificate they start at, in place.

    `limit` bounds `objective.n_passes`, in which the M-steps' passes are counted.
    """
    while climb.point.certificate > tolerance and objective.n_passes < limit:
        here = climb.point
        there = objective.at(em_iteration(objective, here.mixture, solver, _inner(here.certificate, tolerance)))
        if not not_below(there.value, here.value):
            return climb
        climb.accept(there)
        if on_pass:
            on_pass(objective.n_passes, there)
    climb.converged = climb.point.certificate <= tolerance
    return climb


def _inner(certificate: float, tolerance: float) -> float:
    return max(0.1 * tolerance, 0.01 * certificate)


def em_iteration(objective: Objective, mixture: Mixture, solver: Solver, tolerance: float) -> Mixture:
    """One exact EM iteration: responsibilities q, then the θ^k that maximise Σ_l w_l q_l^k log P(π_l | θ^k).

    The passes of the M-steps are divided by K when they are counted, since they handle one component at a time.
    """
    layout = objective.layout
    posterior = np.empty((len(layout), mixture.n_components))
    layout.run(objective.pool, mixture.log_worths, mixture.shares, responsibilities=posterior)
    objective.n_passes += 1
    log_worths = np.empty_like(mixture.log_worths)
    passes = 0
    for k in range(mixture.n_components):
        weights = layout.weights * posterior[:, k]
        if not weights.sum() > 0:
            log_worths[:, k] = mixture.log_worths[:, k]
            continue
        part = Objective(layout.reweighted(weights), objective.pool, objective.nu)
        start = Mixture.single(mixture.log_worths[:, k])
        log_worths[:, k] = maximise(part, start, solver, tolerance, M_STEP_PASSES).point.mixture.log_worths[:, 0]
        passes += part.n_passes
    objective.n_passes += -(-passes // mixture.n_components)
    shares = layout.weights @ posterior / objective.weight
    shares = np.maximum(shares, 1e-12)
    return Mixture(log_worths, shares / shares.sum())
