"""Exact Fisher information of the beta-binomial in (ζ, η), row by row.

The expected second derivatives of `kernels` need E R2(α⁺, V) and E R2(α⁻, n-V) over V ~ BB(n). With the survival
function of V these are single sums, Σ_i φ(i)·P(V > i), walked once over the part of 0..n where V has any mass: the
cost is the width of that part, not n. Always ≥ 0, unlike the observed second derivatives (math page §3).
"""

import math
from typing import Any

import numpy as np

from predilect.models.clicks.kernels import (
    ETA_HIGH,
    ETA_LOW,
    ROWS_PER_CHUNK,
    Array,
    Counts,
    _rising,
    beta_binomial_row,
    chunk_count,
)
from predilect.models.compiled import Threads, exact_kernel

_NO_MASS = 1e-18


@exact_kernel
def _r2(a: float, log_a: float, m: int) -> float:
    return _rising(a, log_a, 0.0, 0.0, m, True)[3]


@exact_kernel
def _ratio(i: int, n: int, a_plus: float, a_minus: float) -> float:
    """P(V = i+1) / P(V = i)."""
    return ((n - i) * (a_plus + i)) / ((i + 1.0) * (a_minus + (n - i - 1)))


@exact_kernel
def _start(n: int, zeta: float, eta: float, a_plus: float, a_minus: float) -> tuple[int, float]:
    """The first i worth counting and P(V = i)."""
    log_first = -beta_binomial_row(0, n, zeta, eta, False)[0]
    if log_first > -600.0:
        return 0, math.exp(log_first)
    # P(V = 0) is too small to start from: walk both ways from the mode with relative masses and normalise.
    if a_plus > 1.0:
        mode = int(min(max((n + 1.0) * (a_plus - 1.0) / (a_plus + a_minus - 2.0), 0.0), n)) if a_minus > 1.0 else n
    else:
        mode = n if a_plus > a_minus else 0
    total, mass, i = 1.0, 1.0, mode
    while i < n and mass > _NO_MASS:
        mass *= _ratio(i, n, a_plus, a_minus)
        total += mass
        i += 1
    mass, i = 1.0, mode
    while i > 0 and mass > _NO_MASS:
        i -= 1
        mass /= _ratio(i, n, a_plus, a_minus)
        total += mass
    return i, mass / total


@exact_kernel
def _information_row(n: int, zeta: float, eta: float) -> tuple[float, float, float]:
    """Fisher information (ζζ, ζη, ηη) of a row of n impressions."""
    small = math.exp(-abs(zeta))
    p = 1.0 / (1.0 + small) if zeta >= 0 else small / (1.0 + small)
    spread = small / ((1.0 + small) * (1.0 + small))  # p(1-p)
    if n < 2:
        return n * spread, 0.0, 0.0
    eta = min(max(eta, ETA_LOW), ETA_HIGH)
    log_plus = min(max(zeta + eta, -700.0), 690.0)
    a_plus, a_minus = math.exp(log_plus), math.exp(eta)
    a = a_plus + a_minus
    log_a = eta + max(zeta, 0.0) + math.log1p(small)
    _, _, r1_all, r2_all = _rising(a, log_a, 0.0, 0.0, n, True)
    i, mass = _start(n, zeta, eta, a_plus, a_minus)
    # P(V ≥ j) = 1 for j ≤ i; the sums up to there in closed form.
    expected_plus = _r2(a_plus, log_plus, i)
    expected_minus = _r2(a_minus, eta, n - i)
    survival = 1.0  # P(V ≥ i)
    while i < n:
        above = survival - mass  # P(V > i)
        if above < 1e-14:
            break
        shape = a_plus + i
        expected_plus += (i / shape) * (a_plus / shape) * above
        left = n - 1 - i
        shape = a_minus + left
        expected_minus -= (left / shape) * (a_minus / shape) * above  # φ⁻(n-j)·P(V ≥ j) with j = i+1
        mass *= _ratio(i, n, a_plus, a_minus)
        survival = above
        i += 1
    i_zz = spread * (n - r1_all) - expected_plus + p * p * r2_all
    i_ze = p * r2_all - expected_plus
    i_ee = r2_all - expected_plus - expected_minus
    return max(i_zz, 0.0), i_ze, max(i_ee, 0.0)


@exact_kernel
def _information(impressions: Counts, logits: Array, out: Array, start: int, stop: int) -> None:
    for r in range(start, stop):
        out[0, r], out[1, r], out[2, r] = _information_row(impressions[r], logits[0, r], logits[1, r])


def fisher_information(impressions: Counts, logits: Array, pool: Threads) -> Array:
    """The expected Hessian of `negative_log_likelihood` over the clicks.

    logits: (2, n_rows) ζ, η → (3, n_rows) ζζ, ζη, ηη for the beta-binomial; (1, n_rows) ζ → (1, n_rows) n·p(1-p).
    """
    n_sides, n_rows = logits.shape
    if n_sides == 1:
        small = np.exp(-np.abs(logits))
        binomial: Array = impressions * small / (1.0 + small) ** 2
        return binomial
    out = np.empty((3, n_rows))
    inner: Any = _information

    def work(chunk: int) -> None:
        start = chunk * ROWS_PER_CHUNK
        inner(impressions, logits, out, start, min(start + ROWS_PER_CHUNK, n_rows))

    pool.run(work, chunk_count(n_rows))
    return out
