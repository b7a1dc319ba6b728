"""What the model says of click counts to come: their log probability and their intervals."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from predilect.models.clicks.kernels import Counts, beta_binomial_row
from predilect.models.clicks.prediction import Prediction
from predilect.models.clicks.scores import normal_points
from predilect.models.compiled import default_threads, exact_kernel, threads

Array = NDArray[np.float64]

_ROWS_PER_CHUNK = 512


@exact_kernel
def _mode(v: int, n: int, mean: float, sd: float, eta: float) -> tuple[float, float]:
    """The ζ that maximises BB(v; n)·N(ζ; mean, sd²), and the standard deviation of a normal fitted there."""
    zeta = mean
    precision = 1.0 / (sd * sd)
    for _ in range(50):
        _, slope, _, bend, _, _ = beta_binomial_row(v, n, zeta, eta, True)
        step = (slope + (zeta - mean) * precision) / (max(bend, 0.0) + precision)
        step = min(max(step, -2.0), 2.0)
        zeta -= step
        if abs(step) < 1e-3 * sd:
            break
    bend = beta_binomial_row(v, n, zeta, eta, True)[3]
    return zeta, 1.0 / math.sqrt(max(bend, 0.0) + precision)


@exact_kernel
def _log_predictive(
    clicks: Counts,
    impressions: Counts,
    normals: Array,
    nodes: Array,
    log_weights: Array,
    eta_nodes: Array,
    eta_log_weights: Array,
    out: Array,
    start: int,
    stop: int,
) -> None:
    """log ∫∫ BB(v; n, ζ, η) N(ζ) N(η), no binomial coefficient: Gauss–Hermite around the mode in ζ at every η."""
    for r in range(start, stop):
        v, n = clicks[r], impressions[r]
        zeta, zeta_sd, eta, eta_sd = normals[0, r], normals[1, r], normals[2, r], normals[3, r]
        largest, total = -np.inf, 0.0
        for e in range(len(eta_nodes) if eta_sd > 0 else 1):
            at, log_weight_eta = eta, 0.0
            if eta_sd > 0:
                at, log_weight_eta = eta + eta_sd * eta_nodes[e], eta_log_weights[e]
            centre, width = zeta, 0.0
            if zeta_sd > 0:
                centre, width = _mode(v, n, zeta, zeta_sd, at)
            for z in range(len(nodes) if zeta_sd > 0 else 1):
                here = centre
                log_term = log_weight_eta
                if zeta_sd > 0:
                    here = centre + width * nodes[z]
                    away = (here - zeta) / zeta_sd
                    log_term += log_weights[z] + math.log(width / zeta_sd) + 0.5 * (nodes[z] * nodes[z] - away * away)
                log_term -= beta_binomial_row(v, n, here, at, False)[0]
                if log_term > largest:
                    total = total * math.exp(largest - log_term) + 1.0 if total > 0 else 1.0
                    largest = log_term
                else:
                    total += math.exp(log_term - largest)
        out[r] = largest + math.log(total)


def log_predictive(
    prediction: Prediction, impressions: ArrayLike, clicks: ArrayLike, n_threads: int | None = None
) -> NDArray[np.float64]:
    """log p(v | n, x) of every row, binomial coefficient included; (n_rows,). 20 nodes in ζ, 8 in η.

    impressions, clicks: (n_rows,) as `check_counts` has them.
    """
    impressions, clicks = np.array(impressions, np.int32), np.array(clicks, np.int32)
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    eta_nodes, eta_weights = np.polynomial.hermite_e.hermegauss(8)
    normals = np.stack([prediction.zeta, prediction.zeta_sd, prediction.eta, prediction.eta_sd])
    out = np.empty(len(prediction))
    inner: Any = _log_predictive

    def work(chunk: int) -> None:
        inner(
            clicks,
            impressions,
            normals,
            nodes,
            np.log(weights / weights.sum()),
            eta_nodes,
            np.log(eta_weights / eta_weights.sum()),
            out,
            chunk * _ROWS_PER_CHUNK,
            min((chunk + 1) * _ROWS_PER_CHUNK, len(out)),
        )

    with threads(n_threads or default_threads()) as pool:
        pool.run(work, -(-len(out) // _ROWS_PER_CHUNK))
    n, v = impressions.astype(np.float64), clicks.astype(np.float64)
    coefficient: Array = special.gammaln(n + 1) - special.gammaln(v + 1) - special.gammaln(n - v + 1)
    return out + coefficient


@exact_kernel
def _count_intervals(
    impressions: Counts, normals: Array, points: Array, low: float, high: float, out: Any, start: int, stop: int
) -> None:
    """The smallest counts at which the mixture's distribution function reaches `low` and `high`."""
    m = len(points)
    log_mass = np.empty(m)
    a_plus = np.empty(m)
    a_minus = np.empty(m)
    for r in range(start, stop):
        n = impressions[r]
        for t in range(m):
            zeta = normals[0, r] + normals[1, r] * points[t, 0]
            eta = min(max(normals[2, r] + normals[3, r] * points[t, 1], -300.0), 300.0)
            a_plus[t], a_minus[t] = math.exp(min(max(zeta + eta, -600.0), 600.0)), math.exp(eta)
            log_mass[t] = -beta_binomial_row(0, n, zeta, eta, False)[0]
        count, below, found_low = 0, 0.0, False
        while True:
            mass = 0.0
            for t in range(m):
                if log_mass[t] > -700.0:
                    mass += math.exp(log_mass[t])
            below += mass / m
            if not found_low and (below >= low or count == n):
                out[r, 0] = count
                found_low = True
            if below >= high or count == n:
                out[r, 1] = count
                break
            left = n - count
            factor = left / (count + 1.0)
            for t in range(m):
                log_mass[t] += math.log(factor * (a_plus[t] + count) / (a_minus[t] + (left - 1)))
            count += 1


def count_intervals(
    prediction: Prediction,
    impressions: ArrayLike,
    level: float = 0.9,
    n_points: int = 128,
    seed: int = 0,
    n_threads: int | None = None,
) -> NDArray[np.int64]:
    """Central intervals of click counts, (n_rows, 2) inclusive, by a mixture over Sobol points of (ζ, η).

    The ends are the smallest counts whose distribution function reaches (1 - level)/2 and (1 + level)/2; counts are
    whole, so an interval covers at least `level`. Costs n_points·(upper end) a row.
    """
    shown = np.array(impressions, np.int32)
    normals = np.stack([prediction.zeta, prediction.zeta_sd, prediction.eta, prediction.eta_sd])
    points = normal_points(n_points, seed)
    out = np.zeros((len(prediction), 2), np.int64)
    inner: Any = _count_intervals

    def work(chunk: int) -> None:
        stop = min((chunk + 1) * _ROWS_PER_CHUNK, len(out))
        inner(shown, normals, points, (1 - level) / 2, (1 + level) / 2, out, chunk * _ROWS_PER_CHUNK, stop)

    with threads(n_threads or default_threads()) as pool:
        pool.run(work, -(-len(out) // _ROWS_PER_CHUNK))
    return out
