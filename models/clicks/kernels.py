"""-log of the beta-binomial and of the binomial, row by row, with derivatives that stay exact at both extremes.

A row is seen n times (impressions) and picked v times (clicks). ζ is the logit of the expected click probability
p, η the log of the second shape: α⁺ = e^(ζ+η), α⁻ = e^η, α = α⁺ + α⁻ (Takahashi & Zhang 2017, eq. 1). Differences of
digamma functions lose all digits for large η and overflow for small η, so everything is written by three finite sums

    Q(a, m) = Σ_{i<m} log1p(i/a),   R1(a, m) = Σ_{i<m} i/(a+i),   R2(a, m) = Σ_{i<m} i·a/(a+i)²,

which are summed for m ≤ 12 and follow Stirling's series above. The binomial coefficient is left out, as in the paper.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads, exact_kernel

Array = NDArray[np.float64]
Counts = NDArray[np.int32]

ROWS_PER_CHUNK = 8192
"""Rows of one unit of parallel work; fixed, so that sums do not depend on the number of threads."""

ETA_LOW, ETA_HIGH = -700.0, 300.0
"""η is held in here: beyond, e^η leaves the range of double precision. At 300 the row is binomial to the last digit."""

_DIRECT = 12


@exact_kernel
def _centred_log1p(t: float) -> float:
    """log1p(t) - t for t ≥ 0 without cancellation (a series in r = t/(2+t) below 0.6)."""
    if t >= 0.6:
        return math.log1p(t) - t
    r = t / (2.0 + t)
    square = r * r
    total = 0.0
    for k in range(11, -1, -1):
        total = total * square + 1.0 / (2 * k + 3)
    return -r * t + 2.0 * r * square * total


@exact_kernel
def _stirling(a: float, m: float, second: bool) -> tuple[float, float, float]:
    """Q, R1, R2 for a ≥ 10 and any m, by the asymptotic series of gammaln, digamma and trigamma."""
    t = m / a
    u = 1.0 / (1.0 + t)
    centred = _centred_log1p(t)
    b = 1.0 / (a * a)
    u2 = u * u
    d1 = t * u  # 1 - u, and below 1 - u^j by the recurrence 1 - u^(j+1) = (1 - u^j) + u^j (1 - u)
    d2 = d1 + u * d1
    d3 = d2 + u2 * d1
    d4 = d2 + u2 * d2
    d5 = d4 + u2 * u2 * d1
    d6 = d4 + u2 * u2 * d2
    d7 = d6 + u2 * u2 * u2 * d1
    d8 = d4 + u2 * u2 * d4
    d9 = d8 + u2 * u2 * u2 * u2 * d1
    d10 = d8 + u2 * u2 * u2 * u2 * d2
    log_t = centred + t
    q = a * ((1.0 + t) * centred + t * t) - 0.5 * log_t
    q -= (d1 / 12 - b * (d3 / 360 - b * (d5 / 1260 - b * (d7 / 1680 - b * d9 / 1188)))) / a
    digamma_tail = (d2 / 12 - b * (d4 / 120 - b * (d6 / 252 - b * (d8 / 240 - b * d10 / 132)))) / a
    r1 = -a * centred - 0.5 * d1 - digamma_tail
    r2 = 0.0
    if second:
        d11 = d10 + u2 * u2 * u2 * u2 * u2 * d1
        trigamma_tail = (d3 / 6 - b * (d5 / 30 - b * (d7 / 42 - b * (d9 / 30 - b * 5 * d11 / 66)))) / a
        r2 = a * (centred + t * d1) - 0.5 * u * d1 + digamma_tail - trigamma_tail
    return q, r1, r2


@exact_kernel
def _rising(
    a: float, log_a: float, log_ratio: float, log_ref: float, m: int, second: bool
) -> tuple[float, float, float, float]:
    """log of a(a+1)…(a+m-1) less m·log_ref as a sum and a factor still to be logged, then R1 and R2.

    For a ≥ 10 it is m·log(a/α) + Q with log_ratio = log(a/α), log_ref = log α; for smaller a the factors themselves, so
    that neither tiny nor huge shapes cancel. The factor stays within 1e±20.
    """
    if m == 0:
        return 0.0, 1.0, 0.0, 0.0
    if m == 1:
        return (log_ratio if a >= 10.0 else log_a - log_ref), 1.0, 0.0, 0.0
    product, r1, r2 = 1.0, 0.0, 0.0
    if a >= 10.0:
        if m > _DIRECT:
            q, r1, r2 = _stirling(a, float(m), second)
            return m * log_ratio + q, 1.0, r1, r2
        inverse = 1.0 / a
        for i in range(1, m):
            factor = 1.0 + i * inverse
            term = i * inverse / factor
            product *= factor
            r1 += term
            r2 += term / factor
        return m * log_ratio, product, r1, r2
    n_terms = m if m <= _DIRECT else math.ceil(10.0 - a)
    for i in range(1, n_terms):
        factor = a + i
        term = i / factor
        product *= factor
        r1 += term
        r2 += term * a / factor
    value = log_a - m * log_ref
    if n_terms < m:
        # The rest a+s+j, j < m-s, has the shape a' = a+s ≥ 10; i = s+j is split into its part in s and in j.
        shifted, rest = a + n_terms, m - n_terms
        q, tail1, tail2 = _stirling(shifted, float(rest), True)
        value += rest * math.log(shifted) + q
        r1 += rest * (n_terms / shifted) + (a / shifted) * tail1
        r2 += (a / shifted) * (tail2 + (n_terms / shifted) * (rest - tail1 - tail2))
    return value, product, r1, r2


@exact_kernel
def beta_binomial_row(
    v: int, n: int, zeta: float, eta: float, second: bool
) -> tuple[float, float, float, float, float, float]:
    """-log BB(v; n, α⁺, α⁻) of one row, its gradient in (ζ, η) and, if `second`, its Hessian (ζζ, ζη, ηη)."""
    if n == 0:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    small = math.exp(-abs(zeta))
    larger = 1.0 / (1.0 + small)
    p = larger if zeta >= 0 else small * larger
    rest = small * larger if zeta >= 0 else larger  # 1 - p
    log_small = math.log(1.0 + small)
    softplus, softplus_minus = max(zeta, 0.0) + log_small, max(-zeta, 0.0) + log_small
    if n == 1:  # a single draw from θ: no information on η
        if v == 1:
            return softplus_minus, -rest, 0.0, p * rest, 0.0, 0.0
        return softplus, p, 0.0, p * rest, 0.0, 0.0
    eta = min(max(eta, ETA_LOW), ETA_HIGH)
    log_plus = min(max(zeta + eta, -700.0), 690.0)
    a_minus = math.exp(eta)
    a_plus = a_minus * small if zeta < 0 else math.exp(log_plus)
    a_plus = max(a_plus, 1e-304)
    a = a_plus + a_minus
    log_a = eta + softplus
    log_ref = log_a if a >= 10.0 else 0.0
    misses = n - v
    f_plus, product_plus, r1_plus, r2_plus = _rising(a_plus, log_plus, -softplus_minus, log_ref, v, second)
    f_minus, product_minus, r1_minus, r2_minus = _rising(a_minus, eta, -softplus, log_ref, misses, second)
    f_all, product_all, r1_all, r2_all = _rising(a, log_a, 0.0, log_ref, n, second)
    f = f_all - f_plus - f_minus + math.log(product_all / (product_plus * product_minus))
    g_zeta = p * misses - rest * v + r1_plus - p * r1_all
    g_eta = r1_plus + r1_minus - r1_all
    h_zz = p * rest * (n - r1_all) - r2_plus + p * p * r2_all
    h_ze = p * r2_all - r2_plus
    h_ee = r2_all - r2_plus - r2_minus
    return f, g_zeta, g_eta, h_zz, h_ze, h_ee


@exact_kernel
def _beta_binomial(
    clicks: Counts, impressions: Counts, logits: Array, gradient: Array, hessian: Array, start: int, stop: int
) -> float:
    """Sum of -log BB over rows start..stop; gradient (2, rows) and, when it has rows, hessian (3, rows) are filled."""
    second = hessian.shape[1] > 0
    total = 0.0
    for r in range(start, stop):
        f, g_zeta, g_eta, h_zz, h_ze, h_ee = beta_binomial_row(
            clicks[r], impressions[r], logits[0, r], logits[1, r], second
        )
        total += f
        gradient[0, r] = g_zeta
        gradient[1, r] = g_eta
        if second:
            hessian[0, r] = h_zz
            hessian[1, r] = h_ze
            hessian[2, r] = h_ee
    return total


@exact_kernel
def _binomial(
    clicks: Counts, impressions: Counts, logits: Array, gradient: Array, hessian: Array, start: int, stop: int
) -> float:
    """Like `_beta_binomial` for the binomial (logistic regression): one row each of logits, gradient and hessian."""
    total = 0.0
    for r in range(start, stop):
        zeta, n, v = logits[0, r], impressions[r], clicks[r]
        small = math.exp(-abs(zeta))
        p = 1.0 / (1.0 + small) if zeta >= 0 else small / (1.0 + small)
        log_small = math.log(1.0 + small)
        total += v * (max(-zeta, 0.0) + log_small) + (n - v) * (max(zeta, 0.0) + log_small)
        gradient[0, r] = n * p - v
        if hessian.shape[1] > 0:
            hessian[0, r] = n * small / ((1.0 + small) * (1.0 + small))
    return total


def negative_log_likelihood(
    clicks: Counts, impressions: Counts, logits: Array, pool: Threads, *, second: bool
) -> tuple[float, Array, Array]:
    """-Σ log BB(v; n, ·) without binomial coefficients (math page §2), with derivatives in the logits.

    logits: (2, n_rows) ζ and η for the beta-binomial, (1, n_rows) ζ for the binomial.
    Returns the sum, the gradient (1 or 2, n_rows), and the Hessian (1 or 3, n_rows: ζζ, ζη, ηη), empty unless `second`.
    Bit-identical for any number of threads: fixed chunks, added in order.
    """
    n_sides, n_rows = logits.shape
    gradient = np.empty((n_sides, n_rows))
    hessian = np.empty((3 if n_sides == 2 else 1, n_rows if second else 0))
    inner: Any = _beta_binomial if n_sides == 2 else _binomial
    parts = np.zeros(chunk_count(n_rows))

    def work(chunk: int) -> None:
        start = chunk * ROWS_PER_CHUNK
        stop = min(start + ROWS_PER_CHUNK, n_rows)
        parts[chunk] = inner(clicks, impressions, logits, gradient, hessian, start, stop)

    pool.run(work, len(parts))
    return float(parts.sum()), gradient, hessian


def chunk_count(n_rows: int) -> int:
    """The number of row chunks."""
    return -(-n_rows // ROWS_PER_CHUNK)
