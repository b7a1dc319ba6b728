"""The other EM algorithms of the paper, for comparison: pairwise likelihood, moments, and random hard assignments.

EMM and EM-LSR themselves are `em.climb_from` with solver "mm" and "lsr".
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from predilect.models.random import stream
from predilect.models.rankings.ascent import Ascent, begin
from predilect.models.rankings.em import climb_from
from predilect.models.rankings.objective import Mixture, Objective
from predilect.models.rankings.solvers import maximise
from predilect.models.rankings.spectral import pair_wins

Floats = NDArray[np.float64]
Comparator = Literal["em-lsr", "emm", "em-cml", "em-gmm", "stochastic"]

STEPS = 200
HALVINGS = 40
# What keeps a small random cluster's estimate finite in stochastic EM.
CLUSTER_NU = 0.01


def compare(
    objective: Objective, start: Mixture, method: Comparator, *, tolerance: float, max_iterations: int, seed: int
) -> Ascent:
    """The end of one algorithm from a common start; its trace holds the log-likelihood after every iteration.

    em-lsr and emm stop on the gradient's certificate. The others do not climb the likelihood: they stop when no share
    or log-worth moves by `tolerance`, and stochastic EM, which never settles, after `max_iterations` at the best
    log-likelihood it came by.
    """
    if method in {"em-lsr", "emm"}:
        solver: Literal["lsr", "mm"] = "lsr" if method == "em-lsr" else "mm"
        return climb_from(objective, start, solver, tolerance, max_iterations * 1000)
    climb = begin(objective, start)
    best = climb.point
    for iteration in range(max_iterations):
        here = climb.point.mixture
        layout = objective.layout
        posterior = np.empty((len(layout), here.n_components))
        layout.run(objective.pool, here.log_worths, here.shares, responsibilities=posterior)
        if method == "stochastic":
            posterior = _draw(posterior, layout.weights, stream(seed, "assignment", iteration))
        log_worths = here.log_worths.copy()
        for k in range(here.n_components):
            part = layout.reweighted(layout.weights * posterior[:, k])
            if not part.weights.sum() > 0:
                continue
            if method == "stochastic":
                inner = Objective(part, objective.pool, max(objective.nu, CLUSTER_NU))
                fitted = maximise(inner, Mixture.single(here.log_worths[:, k]), "lsr", 1e-6, 100)
                log_worths[:, k] = fitted.point.mixture.log_worths[:, 0]
            elif method == "em-cml":
                log_worths[:, k] = composite_likelihood(pair_wins(part), here.log_worths[:, k])
            else:
                log_worths[:, k] = moments(pair_wins(part), here.log_worths[:, k])
        shares: Floats = np.maximum(layout.weights @ posterior / objective.weight, 1e-12)
        climb.accept(objective.at(Mixture(log_worths - log_worths.mean(axis=0), shares / shares.sum())))
        there = climb.point.mixture
        if climb.point.value > best.value:
            best = climb.point
        moved = max(np.abs(there.log_worths - here.log_worths).max(), np.abs(there.shares - here.shares).max())
        if method != "stochastic" and moved <= tolerance:
            climb.converged = True
            break
    if method == "stochastic":
        climb.point = best
    return climb


def composite_likelihood(wins: Floats, start: Floats) -> Floats:
    """θ (n,), Σθ = 0, that maximises Σ_{i≠j} C_ij log σ(θ_i − θ_j): the M-step of EM-CML (Zhao and Xia 2018).

    wins: C (n, n), C_ij the weight of the ballots with i before j.
    """
    met = wins + wins.T

    def loss(theta: Floats) -> float:
        return float(np.sum(wins * np.logaddexp(0, theta[None, :] - theta[:, None])))

    def newton(theta: Floats) -> Floats:
        chance = expit(theta[:, None] - theta[None, :])
        return _laplacian_step(met * chance * (1 - chance), (wins - met * chance).sum(axis=1))

    return _descend(loss, newton, start)


def moments(wins: Floats, start: Floats) -> Floats:
    """θ (n,), Σθ = 0, that minimises Σ_{i≠j} (F̂_ij − σ(θ_i − θ_j))²: the M-step of EM-GMM (Zhao, Piech and Xia 2016).

    F̂_ij is the share of i before j among the weighted ballots (wins, n × n) that compare them; others are left out.
    """
    met = wins + wins.T
    share = np.divide(wins, met, out=np.full_like(wins, 0.5), where=met > 0)
    compared = (met > 0).astype(np.float64)

    def loss(theta: Floats) -> float:
        return float(np.sum(compared * (share - expit(theta[:, None] - theta[None, :])) ** 2))

    def newton(theta: Floats) -> Floats:
        chance = expit(theta[:, None] - theta[None, :])
        slope = chance * (1 - chance)
        return _laplacian_step(compared * slope * slope, (compared * slope * (share - chance)).sum(axis=1))

    return _descend(loss, newton, start)


def _laplacian_step(rates: Floats, force: Floats) -> Floats:
    laplacian = np.diag(rates.sum(axis=1)) - rates
    n_items = len(force)
    size = max(float(np.trace(laplacian)), 1e-300) / n_items
    step: Floats = cho_solve(cho_factor(laplacian + size * (1 / n_items + 1e-12 * np.eye(n_items))), force)
    return step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))


def _descend(loss: Callable[[Floats], float], newton: Callable[[Floats], Floats], start: Floats) -> Floats:
    """(Gauss-)Newton steps halved until the loss does not rise, until they are too small to matter."""
    theta = start - start.mean()
    value = loss(theta)
    for _ in range(STEPS):
        step = newton(theta)
        scale = 1.0
        for _ in range(HALVINGS):
            there = loss(theta + scale * step)
            if there <= value:
                break
            scale /= 2
        else:
            break
        theta, value = theta + scale * step, there
        if np.abs(scale * step).max() < 1e-12:
            break
    centred: Floats = theta - theta.mean()
    return centred


def _draw(posterior: Floats, weights: Floats, generator: np.random.Generator) -> Floats:
    """A random component for every ballot, by its responsibilities: as shares (m, K) of rows that stand for several."""
    counts = np.rint(weights)
    if not np.array_equal(counts, weights):  # weights that are no counts: a row is one ballot
        counts = np.ones_like(weights)
    posterior = posterior / posterior.sum(axis=1, keepdims=True)
    return generator.multinomial(counts.astype(np.int64), posterior) / counts[:, None]
