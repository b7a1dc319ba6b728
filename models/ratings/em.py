"""Exact EM: the latents m and u jointly Gaussian, everything else a point (math page §4, the paper's reference [20]).

One side's latents are eliminated and the other's kept. A rating of kept row a and eliminated row b has the coefficient
F_b on a's latents and G_a on b's: with items kept, F_p = v_p and G_i = w_i. The precision of all latents is

    Λ = [[D, C], [Cᵀ, E]],  D_a = I + θ Σ_b F_b F_bᵀ,  E_b = I + θ Σ_a G_a G_aᵀ,  C_ab = θ F_b G_aᵀ,

so only the Schur complement S = D − C E⁻¹ Cᵀ of the kept side is ever factored: (rows × latents) square.
"""

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse import csr_array

from predilect.models.compiled import Threads, exact_kernel
from predilect.models.errors import NotConvergedError, ParameterError
from predilect.models.ratings.bound import Noise
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.fit import Fit, OnSweep
from predilect.models.ratings.orders import Order

Floats = NDArray[np.float64]
CHUNKS = 64
"""Pieces of the kept rows."""


@dataclass
class Points:
    """The parameters ρ."""

    user_weights: Floats
    """(n_users, s): v."""
    item_weights: Floats
    """(n_items, t): w."""
    user_offsets: Floats
    item_offsets: Floats
    noise: float
    """θ."""


@dataclass
class Moments:
    """The joint posterior of the latents, as far as it is needed."""

    items: Floats
    """(n_items, s): ⟨m⟩."""
    users: Floats
    """(n_users, t): ⟨u⟩."""
    item_covariances: Floats
    """(n_items, s, s)."""
    user_covariances: Floats
    """(n_users, t, t)."""
    cross: Floats
    """(N, s, t): Cov(m_i, u_p) of every rating, in the order by user."""
    log_likelihood: float
    """log p(r | ρ), in nats."""


def memory(n_users: int, n_items: int, n_ratings: int, config: VBConfig) -> int:
    """Bytes that an E-step holds at its peak, about."""
    s, t = config.n_item_latents, config.n_user_latents
    return 8 * (min(n_items * s, n_users * t) ** 2 + 3 * n_ratings * (s * t + s + t + 2))


def check_memory(n_users: int, n_items: int, n_ratings: int, config: VBConfig) -> None:
    """Raise ParameterError when the machine has not the memory for exact EM."""
    need, there = memory(n_users, n_items, n_ratings, config), _machine_memory()
    if need > 0.8 * there:
        raise ParameterError(
            f"Exact EM with |U| = {config.n_user_latents} and |M| = {config.n_item_latents} on {n_users} users and "
            f"{n_items} items needs about {need / 2**30:.1f} GiB of the machine's {there / 2**30:.1f}; use inference "
            "mf or gmf, or fewer latents."
        )


def maximise(
    by_user: Order, by_item: Order, fit: Fit, config: VBConfig, pool: Threads, on_sweep: OnSweep | None = None
) -> Fit:
    """EM from a mean-field fit until the penalised log-likelihood settles; `fit` is used up.

    The result's sides hold points with variance 0 for v, w and the offsets, means and covariances for m and u; what m
    and u share is left out of it. Its bound trace is log p(r | ρ) − τ/2 (Σ‖v‖² + Σ‖w‖²).
    """
    check_memory(by_user.n_rows, by_item.n_rows, len(by_user.index), config)
    s = config.n_item_latents
    points = Points(
        fit.users.means[:, :s].astype(np.float64),
        fit.items.means[:, s:].astype(np.float64),
        fit.users.offsets.astype(np.float64),
        fit.items.offsets.astype(np.float64),
        fit.noise.precision,
    )
    done = Fit(fit.users, fit.items, fit.noise, [], [], converged=False)
    for sweep in range(config.max_sweeps):
        moments = expect(by_user, by_item, points, pool)
        penalty = config.tau / 2 * (np.sum(points.user_weights**2) + np.sum(points.item_weights**2))
        done.bound_trace.append(moments.log_likelihood - float(penalty))
        done.noise_sd_trace.append(points.noise**-0.5)
        if on_sweep is not None:
            on_sweep(sweep + 1, done.bound_trace[-1], done.noise_sd_trace[-1])
        if sweep and done.bound_trace[-1] - done.bound_trace[-2] < config.tolerance * max(
            abs(done.bound_trace[-2]), len(by_user.index)
        ):
            done.converged = True
            break
        maximise_points(by_user, points, moments, config.tau)
    _fill(done, points, moments, s)
    n = len(by_user.index)
    done.noise = Noise(n / 2, n / 2 / points.noise)
    return done


def expect(by_user: Order, by_item: Order, points: Points, pool: Threads) -> Moments:
    """The E-step."""
    s, t = points.user_weights.shape[1], points.item_weights.shape[1]
    if by_item.n_rows * s <= by_user.n_rows * t:
        kept = _expect(by_item, by_user, points.user_weights, points.item_weights, points, True, pool)
        a, b, cov_a, cov_b, cross, log_likelihood = kept
        # From the order by item to that by user: the transpose of the pattern.
        place = csr_array((np.arange(len(cross)), by_item.index, by_item.indptr)).T.tocsr().data
        return Moments(a, b, cov_a, cov_b, cross[place], log_likelihood)
    a, b, cov_a, cov_b, cross, log_likelihood = _expect(
        by_user, by_item, points.item_weights, points.user_weights, points, False, pool
    )
    return Moments(b, a, cov_b, cov_a, np.ascontiguousarray(cross.transpose(0, 2, 1)), log_likelihood)


def maximise_points(by_user: Order, points: Points, moments: Moments, tau: float) -> None:
    """The M-step: v given w, w given v, the offsets, θ (the paper's equation 2)."""
    rows = np.repeat(np.arange(by_user.n_rows), by_user.counts)
    columns = by_user.index
    ratings = by_user.ratings(0, len(columns)).astype(np.float64)
    shape = (by_user.n_rows, len(moments.items))
    pattern = csr_array((np.ones(len(columns)), columns, by_user.indptr), shape=shape)

    def by_row(values: Floats) -> Floats:
        """The sum of a value a rating over each user."""
        return _summed(values, rows, shape[0])

    def by_column(values: Floats) -> Floats:
        return _summed(values, columns, shape[1])

    rest = ratings - points.user_offsets[rows] - points.item_offsets[columns]
    m, u = moments.items, moments.users
    w = points.item_weights[columns]
    # ⟨m uᵀ⟩ w = ⟨m⟩ (u·w) + Cov(m, u) w
    right = by_row(
        m[columns] * (rest - np.sum(u[rows] * w, axis=1))[:, None] - np.einsum("nst,nt->ns", moments.cross, w)
    )
    points.user_weights = _ridge(pattern, m, moments.item_covariances, right, tau / points.noise)
    v = points.user_weights[rows]
    right = by_column(
        u[rows] * (rest - np.sum(m[columns] * v, axis=1))[:, None] - np.einsum("nst,ns->nt", moments.cross, v)
    )
    points.item_weights = _ridge(csr_array(pattern.T), u, moments.user_covariances, right, tau / points.noise)
    w = points.item_weights[columns]
    fitted = np.sum(v * m[columns], axis=1) + np.sum(w * u[rows], axis=1)
    counts = np.maximum(by_user.counts, 1)
    points.user_offsets = by_row((ratings - fitted - points.item_offsets[columns])[:, None])[:, 0] / counts
    counts = np.maximum(by_column(np.ones((len(columns), 1)))[:, 0], 1)
    points.item_offsets = by_column((ratings - fitted - points.user_offsets[rows])[:, None])[:, 0] / counts
    error = ratings - fitted - points.user_offsets[rows] - points.item_offsets[columns]
    spread = np.einsum("ns,nst,nt->n", v, moments.item_covariances[columns], v)
    spread += np.einsum("ns,nst,nt->n", w, moments.user_covariances[rows], w)
    spread += 2 * np.einsum("ns,nst,nt->n", v, moments.cross, w)
    points.noise = len(columns) / float(np.sum(error**2 + spread))


def _expect(
    kept: Order, other: Order, of_other: Floats, of_kept: Floats, points: Points, items_kept: bool, pool: Threads
) -> tuple[Floats, Floats, Floats, Floats, Floats, float]:
    """The posterior with one side kept. of_other: F, a row of `other`. of_kept: G, a row of `kept`."""
    theta, (s, t) = points.noise, (of_other.shape[1], of_kept.shape[1])
    n_a, n_b = kept.n_rows, other.n_rows
    mine, theirs = points.item_offsets, points.user_offsets
    if not items_kept:
        mine, theirs = theirs, mine
    rest = kept.ratings(0, len(kept.index)) - np.repeat(mine, kept.counts) - theirs[kept.index]
    pattern = csr_array((np.ones(len(rest)), kept.index, kept.indptr), shape=(n_a, n_b))
    weighted = csr_array((rest, kept.index, kept.indptr), shape=(n_a, n_b))

    e = np.eye(t) + theta * (pattern.T @ _outer(of_kept)).reshape(n_b, t, t)
    e_inverse = np.linalg.inv(e)
    # E_b⁻¹ G_a of every rating, in the order by b.
    pulled = np.einsum("ntu,nu->nt", np.repeat(e_inverse, other.counts, axis=0), of_kept[other.index])
    schur = np.zeros((n_a, s, n_a, s))
    diagonal = np.eye(s) + theta * (pattern @ _outer(of_other)).reshape(n_a, s, s)
    schur[np.arange(n_a), :, np.arange(n_a), :] = diagonal
    chunks = list(pairwise(kept.chunks(CHUNKS).tolist()))

    def subtract(chunk: int) -> None:
        eliminate(
            *chunks[chunk], kept.indptr, kept.index, other.indptr, other.index, of_other, of_kept, pulled, theta, schur
        )

    pool.run(subtract, len(chunks))
    right_a = theta * (weighted @ of_other)
    right_b = theta * (weighted.T @ of_kept)
    pulled_right = np.einsum("btu,bu->bt", e_inverse, right_b)
    inner = csr_array((np.sum(of_kept[_rows(kept)] * pulled_right[kept.index], axis=1), kept.index, kept.indptr))
    inner.resize((n_a, n_b))
    flat = schur.reshape(n_a * s, n_a * s)
    log_determinant = _invert(flat)
    mean_a = (flat @ (right_a - theta * (inner @ of_other)).reshape(-1)).reshape(n_a, s)
    covariance_a = np.ascontiguousarray(schur[np.arange(n_a), :, np.arange(n_a), :])
    cross = np.zeros((len(rest), s, t))

    def fill(chunk: int) -> None:
        relate(
            *chunks[chunk], kept.indptr, kept.index, other.indptr, other.index, of_other, pulled, theta, schur, cross
        )

    pool.run(fill, len(chunks))
    rows = _rows(kept)
    along = np.sum(of_other[kept.index] * mean_a[rows], axis=1)
    met = theta * _summed(of_kept[rows] * along[:, None], kept.index, n_b)
    mean_b = np.einsum("btu,bu->bt", e_inverse, right_b - met)
    own = np.einsum("ntu,nu->nt", e_inverse[kept.index], of_kept[rows])
    shared = np.einsum("ns,nst->nt", of_other[kept.index], cross)
    covariance_b = e_inverse - theta * _summed(_products(own, shared), kept.index, n_b).reshape(n_b, t, t)

    n = len(rest)
    log_likelihood = 0.5 * (n * np.log(theta / (2 * np.pi)) - theta * rest @ rest)
    log_likelihood += 0.5 * (np.sum(right_a * mean_a) + np.sum(right_b * mean_b))
    log_likelihood -= 0.5 * (log_determinant + np.sum(np.linalg.slogdet(e)[1]))
    return mean_a, mean_b, covariance_a, covariance_b, cross, float(log_likelihood)


@exact_kernel
def eliminate(
    first: int,
    last: int,
    indptr: NDArray[np.int64],
    index: NDArray[np.int32],
    other_indptr: NDArray[np.int64],
    other_index: NDArray[np.int32],
    of_other: Floats,
    of_kept: Floats,
    pulled: Floats,
    theta: float,
    schur: Floats,
) -> None:
    """Subtract C E⁻¹ Cᵀ from the rows first … last-1 of `schur`."""
    s, t = of_other.shape[1], of_kept.shape[1]
    for a in range(first, last):
        for n in range(indptr[a], indptr[a + 1]):
            b = index[n]
            for m in range(other_indptr[b], other_indptr[b + 1]):
                weight = 0.0
                for k in range(t):
                    weight += of_kept[a, k] * pulled[m, k]
                weight *= theta * theta
                goal = other_index[m]
                for k in range(s):
                    for l in range(s):
                        schur[a, k, goal, l] -= weight * of_other[b, k] * of_other[b, l]


@exact_kernel
def relate(
    first: int,
    last: int,
    indptr: NDArray[np.int64],
    index: NDArray[np.int32],
    other_indptr: NDArray[np.int64],
    other_index: NDArray[np.int32],
    of_other: Floats,
    pulled: Floats,
    theta: float,
    inverse: Floats,
    cross: Floats,
) -> None:
    """Fill `cross` with Cov(z_a, z_b) = −Σ_a' S⁻¹_aa' C_a'b E_b⁻¹ for the ratings of the rows first … last-1."""
    s, t = of_other.shape[1], pulled.shape[1]
    for a in range(first, last):
        for n in range(indptr[a], indptr[a + 1]):
            b = index[n]
            for m in range(other_indptr[b], other_indptr[b + 1]):
                partner = other_index[m]
                for k in range(s):
                    reach = 0.0
                    for l in range(s):
                        reach += inverse[a, k, partner, l] * of_other[b, l]
                    for l in range(t):
                        cross[n, k, l] -= theta * reach * pulled[m, l]


def _invert(matrix: Floats) -> float:
    """Replace a positive definite matrix by its inverse; returns the log of its determinant."""
    if not len(matrix):
        return 0.0
    # LAPACK's lower triangle of a C-ordered matrix's transpose is its upper triangle, in place.
    root, failed = dpotrf(matrix.T, lower=1, overwrite_a=1)
    if failed:
        raise NotConvergedError("Exact EM met a precision matrix that is not positive definite; use inference mf.")
    determinant = 2 * float(np.sum(np.log(np.diagonal(root))))
    inverse, _ = dpotri(root, lower=1, overwrite_c=1)
    for row in range(len(matrix)):
        inverse[row, row + 1 :] = inverse[row + 1 :, row]
    if not np.shares_memory(inverse, matrix):
        matrix[:] = inverse
    return determinant


def _ridge(pattern: csr_array, means: Floats, covariances: Floats, right: Floats, weight: float) -> Floats:
    """(weight I + Σ ⟨m mᵀ⟩)⁻¹ right, a row each."""
    size = means.shape[1]
    if not size:
        return right
    squares = (pattern @ (_outer(means) + covariances.reshape(len(means), -1))).reshape(-1, size, size)
    solved: Floats = np.linalg.solve(squares + weight * np.eye(size), right[:, :, None])[:, :, 0]
    return solved


def _outer(rows: Floats) -> Floats:
    return _products(rows, rows)


def _products(one: Floats, other: Floats) -> Floats:
    """(n, k·l): the outer product of each pair of rows."""
    product: Floats = (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)
    return product


def _summed(values: Floats, rows: NDArray[np.integer[Any]], n_rows: int) -> Floats:
    """(n_rows, c): the sums of `values` (N, c) over equal `rows`."""
    total = np.zeros((n_rows, values.shape[1]))
    for column in range(values.shape[1]):
        total[:, column] = np.bincount(rows, values[:, column], n_rows)
    return total


def _rows(order: Order) -> NDArray[np.int64]:
    return np.repeat(np.arange(order.n_rows), order.counts)


def _machine_memory() -> int:
    """Bytes of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _fill(fit: Fit, points: Points, moments: Moments, s: int) -> None:
    """Set the sides' tables and covariances."""
    for side, weights, latents, covariances, offsets, first in (
        (fit.users, points.user_weights, moments.users, moments.user_covariances, points.user_offsets, True),
        (fit.items, points.item_weights, moments.items, moments.item_covariances, points.item_offsets, False),
    ):
        side.means[:] = np.hstack([weights, latents] if first else [latents, weights])
        side.offsets[:], side.offset_variances[:] = offsets, 0
        side.correlate(s)
        assert side.covariances is not None
        side.covariances[:-1] = 0
        part = slice(s, None) if first else slice(0, s)
        side.covariances[:-1, part, part] = covariances
        side.variances[:] = np.diagonal(side.covariances[:-1], axis1=1, axis2=2)
