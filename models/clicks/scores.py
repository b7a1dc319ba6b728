"""Scores that order items by expectation, risk and uncertainty (paper §3.2), from the normals of ζ and η."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from predilect.models.clicks.kernels import ETA_HIGH
from predilect.models.clicks.prediction import Prediction
from predilect.models.errors import ParameterError

Array = NDArray[np.float64]

_BLOCK_ROWS = 2_000
_MAX_STEPS = 200
_NORMAL = 1e8
"""Beta distributions with both shapes above are normal to 1e-9."""
_NO_RISK = 36.0
"""η from which θ does not vary to double precision."""
_LOWEST_LOGIT, _HIGHEST_LOGIT = -700.0, 36.0
"""Logits of θ: below e^-700 and above 1 - e^-36 doubles end."""


def normal_points(n_points: int, seed: int = 0) -> Array:
    """(n_points, 2) standard normal quasi-random points: a scrambled Sobol net of a power of two (math page §5)."""
    if n_points < 2 or n_points & (n_points - 1):
        raise ParameterError(f"n_points is {n_points}; give a power of two from 2 on.")
    from scipy.stats import qmc  # slow to import

    sobol = qmc.Sobol(2, scramble=True, rng=np.random.default_rng(seed))
    points: Array = special.ndtri(sobol.random(n_points))
    return points


def mean(prediction: Prediction, points: Array) -> Array:
    """E[θ] over the posterior: what is expected of the item; (n_rows,)."""
    return _in_blocks(prediction, points, lambda zeta, eta: special.expit(zeta).mean(axis=1))


def ucbe(prediction: Prediction, points: Array, nu: float = 0.95) -> Array:
    """Upper confidence bound of the expectation: mean + Φ⁻¹(ν)·sd of σ(ζ) over the posterior."""
    z = special.ndtri(_probability("nu", nu))

    def bound(zeta: Array, eta: Array) -> Array:
        p = special.expit(zeta)
        upper: Array = p.mean(axis=1) + z * p.std(axis=1, ddof=1)
        return upper

    return _in_blocks(prediction, points, bound)


def ucqe(prediction: Prediction, nu: float = 0.95) -> Array:
    """Upper confidence quantile of the expectation: σ(ζ's ν-quantile), in closed form."""
    quantile: Array = special.expit(prediction.zeta + special.ndtri(_probability("nu", nu)) * prediction.zeta_sd)
    return quantile


def euq(prediction: Prediction, points: Array, nu: float = 0.95) -> Array:
    """Expected upper quantile: the mean over the posterior of θ's ν-quantile."""
    _probability("nu", nu)
    return _in_blocks(prediction, points, lambda zeta, eta: beta_quantile(nu, zeta, eta).mean(axis=1))


def ucquq(prediction: Prediction, points: Array, nu1: float = 0.95, nu2: float = 0.95) -> Array:
    """Upper confidence quantile of the upper quantile: the empirical ν₂-quantile of θ's ν₁-quantiles."""
    _probability("nu1", nu1)
    place = int(np.ceil(_probability("nu2", nu2) * len(points) - 1e-9)) - 1

    def bound(zeta: Array, eta: Array) -> Array:
        ordered: Array = np.sort(beta_quantile(nu1, zeta, eta), axis=1)
        return ordered[:, place]

    return _in_blocks(prediction, points, bound)


def uqp(prediction: Prediction, points: Array, nu: float = 0.95) -> Array:
    """Upper quantile of the predictive distribution: θ with ν = mean_t F(θ; ζ⁽ᵗ⁾, η⁽ᵗ⁾) (paper eq. 7)."""
    _probability("nu", nu)
    fixed = prediction.eta >= _NO_RISK  # θ = σ(ζ): its quantile in closed form
    out = ucqe(prediction, nu)
    out[~fixed] = _in_blocks(prediction.take(~fixed), points, lambda zeta, eta: _mixture_quantile(nu, zeta, eta))
    return out


def beta_quantile(nu: float, zeta: Array, eta: Array) -> Array:
    """F⁻¹(ν; e^(ζ+η), e^η), elementwise."""
    p, total = special.expit(zeta), np.exp(np.minimum(eta, ETA_HIGH)) * (1.0 + np.exp(np.minimum(zeta, 300.0)))
    # Large shapes: the first terms of Cornish & Fisher are exact to 1e-9 where betainc no longer is.
    z, sd = special.ndtri(nu), np.sqrt(p * (1.0 - p) / total)
    quantile: Array = p + z * sd + (1.0 - 2.0 * p) * (z * z - 1.0) / (3.0 * total)
    a, b = _shapes(zeta, eta)
    small = np.minimum(a, b) <= _NORMAL
    quantile[small] = _beta_quantile(nu, a[small], b[small])
    return quantile


def _beta_quantile(nu: float, a: Array, b: Array) -> Array:
    """F⁻¹(ν; a, b): scipy's betaincinv errs by percents when the shapes differ much, so it is polished on betainc."""
    log_beta = special.betaln(a, b)

    def evaluate(x: Array, rows: Any) -> tuple[Array, Array]:
        return _distribution(x, a[rows], b[rows], log_beta[rows])

    theta: Array = special.expit(_solve(nu, _safe_logit(special.betaincinv(a, b, nu)), evaluate))
    return theta


def _mixture_quantile(nu: float, zeta: Array, eta: Array) -> Array:
    """The ν-quantile of the equal mixture of the beta distributions in each row of (n_rows, n_points)."""
    a, b = _shapes(zeta, eta)
    log_beta = special.betaln(a, b)
    p = special.expit(zeta)
    mean_p = p.mean(axis=1)
    variance = ((p - mean_p[:, None]) ** 2 + p * (1.0 - p) / (a + b + 1.0)).mean(axis=1)
    # Start from the beta distribution of the same mean and variance.
    total = np.maximum(mean_p * (1.0 - mean_p) / np.maximum(variance, 1e-300) - 1.0, 1e-6)
    start = special.betaincinv(mean_p * total, (1.0 - mean_p) * total, nu)

    def evaluate(x: Array, rows: Any) -> tuple[Array, Array]:
        value, slope = _distribution(x[:, None], a[rows], b[rows], log_beta[rows])
        return value.mean(axis=1), slope.mean(axis=1)

    quantile: Array = special.expit(_solve(nu, _safe_logit(start), evaluate))
    return quantile


def _solve(nu: float, start: Array, evaluate: Callable[[Array, Any], tuple[Array, Array]]) -> Array:
    """x with F(x) = ν for increasing F, by Newton's method inside a bracket; `evaluate(x, rows)` gives F and F'."""
    x = start.copy()
    low, high = np.full_like(x, _LOWEST_LOGIT), np.full_like(x, _HIGHEST_LOGIT)
    active = np.arange(len(x))
    for _ in range(_MAX_STEPS):
        here = x[active]
        value, slope = evaluate(here, active)
        short = value < nu
        low[active[short]], high[active[~short]] = here[short], here[~short]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            following = here - (value - nu) / slope
        inside = (following >= low[active]) & (following <= high[active])
        # Quadratic convergence: after a step from so near, the next correction is below 1e-9.
        done = inside & (np.abs(value - nu) < 1e-5)
        x[active] = np.where(inside, following, 0.5 * (low[active] + high[active]))
        done |= high[active] - low[active] < 1e-12
        active = active[~done]
        if not len(active):
            break
    return x


def _distribution(x: Array, a: Array, b: Array, log_beta: Array) -> tuple[Array, Array]:
    """F(σ(x); a, b) and its derivative in x."""
    log_theta, log_rest = -np.logaddexp(0.0, -x), -np.logaddexp(0.0, x)
    with np.errstate(over="ignore"):  # rounding at huge shapes; the bracket holds
        slope: Array = np.exp(a * log_theta + b * log_rest - log_beta)
    return special.betainc(a, b, np.exp(log_theta)), slope


def _shapes(zeta: Array, eta: Array) -> tuple[Array, Array]:
    return np.exp(np.clip(zeta + eta, -300.0, 300.0)), np.exp(np.clip(eta, -300.0, 300.0))


def _safe_logit(theta: Array) -> Array:
    safe: Array = np.clip(special.logit(np.nan_to_num(theta, nan=0.5)), _LOWEST_LOGIT, _HIGHEST_LOGIT)
    return safe


def _in_blocks(prediction: Prediction, points: Array, score: Callable[[Array, Array], Array]) -> Array:
    """`score` of (rows, points) arrays of ζ and η draws, block of rows after block."""
    out = np.empty(len(prediction))
    for start in range(0, len(out), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        block = prediction.take(rows)
        zeta = block.zeta[:, None] + block.zeta_sd[:, None] * points[:, 0]
        eta = block.eta[:, None] + block.eta_sd[:, None] * points[:, 1]
        out[rows] = score(zeta, eta)
    return out


def _probability(name: str, value: float) -> float:
    if not 0.0 < value < 1.0:
        raise ParameterError(f"{name} is {value}; give a probability between 0 and 1, such as 0.95.")
    return value
