"""How well the ballots determine the worths: observed information, standard errors, quasi-variances."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from predilect.models.compiled import threads
from predilect.models.errors import ParameterError
from predilect.models.rankings import pair_kernels
from predilect.models.rankings.objective import Mixture, Objective
from predilect.models.rankings.solvers import component_information

MAX_PARAMETERS = 4_000
ROWS_BYTES = 1 << 26


@dataclass(frozen=True)
class Uncertainty:
    """Asymptotic uncertainty of a mixture at its maximum.

    covariance (K, n, n): of the log-worths of each component, centred to Σθ = 0. standard_errors (n, K): the roots of
    its diagonals. share_errors (K,): of the shares. When the information is singular (a component or an item that the
    ballots do not determine) `singular` is true and all of them are NaN.
    """

    covariance: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    share_errors: NDArray[np.float64]
    singular: bool


@dataclass(frozen=True)
class QuasiVariances:
    """Quasi-variances q (n,) of log-worths: Var(θ_i − θ_j) ≈ q_i + q_j (Firth and de Menezes 2004).

    worst_error: the largest relative error of √(q_i + q_j) against the standard error of θ_i − θ_j, over all pairs.
    """

    values: NDArray[np.float64]
    worst_error: float


def observed_information(objective: Objective, mixture: Mixture) -> NDArray[np.float64]:
    """Minus the Hessian (nK + K, nK + K) of the objective in (θ^1, …, θ^K, β), α = softmax β, by Louis (1982).

    Expected complete information less the covariance of the complete scores, both under the responsibilities.
    Raises ParameterError when nK + K is above MAX_PARAMETERS.
    """
    layout, pool = objective.layout, objective.pool
    n_items, n_components = mixture.log_worths.shape
    size = n_components * (n_items + 1)
    if size > MAX_PARAMETERS:
        raise ParameterError(
            f"Standard errors of {n_items} items in {n_components} components need a {size} x {size} matrix, more than "
            f"{MAX_PARAMETERS} allows; use the bootstrap instead."
        )
    posterior = np.empty((len(layout), n_components))
    layout.run(pool, mixture.log_worths, mixture.shares, responsibilities=posterior)
    information = np.zeros((size, size))
    by_share = slice(n_components * n_items, size)
    for k in range(n_components):
        part = Objective(layout.reweighted(layout.weights * posterior[:, k]), pool, objective.nu)
        block = slice(k * n_items, (k + 1) * n_items)
        information[block, block] = component_information(part, np.ascontiguousarray(mixture.log_worths[:, k]))
    if n_components == 1:
        return information
    shares = mixture.shares
    information[by_share, by_share] = objective.weight * (np.diag(shares) - np.outer(shares, shares))
    step = max(1, ROWS_BYTES // (8 * size))
    for first in range(0, len(layout), step):
        last = min(first + step, len(layout))
        weights, q = layout.weights[first:last], posterior[first:last]
        rows = np.empty((last - first, size))
        scores = np.empty((last - first, n_items))
        rows[:, by_share] = q - shares
        for k in range(n_components):
            pair_kernels.score_rows(
                first,
                last,
                layout.items,
                layout.offsets,
                layout.stages,
                layout.tail_stored,
                np.ascontiguousarray(mixture.log_worths[:, k]),
                scores,
            )
            block = slice(k * n_items, (k + 1) * n_items)
            weighted = scores * (weights * q[:, k])[:, None]
            information[block, block] -= weighted.T @ scores
            towards = np.eye(n_components)[k] - shares
            cross = np.outer(weighted.sum(axis=0), towards)
            information[block, by_share] -= cross
            information[by_share, block] -= cross.T
            information[by_share, by_share] -= (weights @ q[:, k]) * np.outer(towards, towards)
            rows[:, block] = scores * q[:, k : k + 1]
        information += (rows * weights[:, None]).T @ rows
    return information


def uncertainty(objective: Objective, mixture: Mixture) -> Uncertainty:
    """Covariances of log-worths and shares from the observed information; raises as `observed_information`."""
    n_items, n_components = mixture.log_worths.shape
    information = observed_information(objective, mixture)
    size = len(information)
    scale = float(np.trace(information)) / size
    # Adding the constant vectors of every block makes the inverse that of the sum-zero parametrisation.
    free = np.zeros((size, n_components + 1))
    if not objective.nu:
        for k in range(n_components):
            free[k * n_items : (k + 1) * n_items, k] = 1 / np.sqrt(n_items)
    free[n_components * n_items :, n_components] = 1 / np.sqrt(n_components)
    identified = information + scale * free @ free.T
    spread = np.diag(identified)
    diagonal = np.sqrt(np.maximum(spread, 1e-9 * scale))
    try:
        if spread.min() < 1e-9 * scale:
            raise LinAlgError
        factor = cho_factor(identified / np.outer(diagonal, diagonal))
        if np.diag(factor[0]).min() < 1e-7:
            raise LinAlgError
    except LinAlgError:
        nan = np.full((n_components, n_items, n_items), np.nan)
        return Uncertainty(nan, nan[:, 0].T, np.full(n_components, np.nan), True)
    inverse = cho_solve(factor, np.eye(size)) / np.outer(diagonal, diagonal)
    centre = np.eye(n_items) - 1 / n_items
    covariance = np.empty((n_components, n_items, n_items))
    for k in range(n_components):
        block = slice(k * n_items, (k + 1) * n_items)
        covariance[k] = centre @ inverse[block, block] @ centre
    errors = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0)).T
    jacobian = np.diag(mixture.shares) - np.outer(mixture.shares, mixture.shares)
    by_share = inverse[n_components * n_items :, n_components * n_items :]
    share_errors = np.sqrt(np.maximum(np.diag(jacobian @ by_share @ jacobian), 0.0))
    return Uncertainty(covariance, errors, share_errors, False)


def quasi_variances(covariance: NDArray[np.float64]) -> QuasiVariances:
    """The q (n,) that minimise Σ_{i<j} (log(q_i + q_j) − log Var(θ_i − θ_j))², for a covariance (n, n) of n ≥ 3 items.

    With two items only their sum is determined; it is shared equally.
    """
    variance = np.diag(covariance)
    pairs = variance[:, None] + variance[None, :] - 2 * covariance
    n_items = len(variance)
    if n_items == 2 or not np.all(np.isfinite(covariance)):
        return QuasiVariances(np.full(n_items, pairs[0, 1] / 2), 0.0)
    i, j = np.triu_indices(n_items, 1)
    target = np.log(np.maximum(pairs[i, j], np.finfo(float).tiny))

    def loss(logs: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        q = np.exp(logs)
        both = q[i] + q[j]
        error = np.log(both) - target
        slope = 2 * error / both
        gradient = np.zeros(n_items)
        np.add.at(gradient, i, slope)
        np.add.at(gradient, j, slope)
        return float(error @ error), gradient * q

    start = np.log(np.maximum(variance, 1e-12 * variance.max()))
    options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-10}
    with threads(1):  # vectors this small are slow on several BLAS threads
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    values: NDArray[np.float64] = np.exp(found.x)
    worst = np.abs(np.sqrt((values[i] + values[j]) / np.exp(target)) - 1).max()
    return QuasiVariances(values, float(worst))
