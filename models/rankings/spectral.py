"""Spectral start: clusters of ballots by adaptive dimension reduction, then least squares on log-odds in each.

Algorithms 1 to 3 of Nguyen and Zhang (2023), with the reduction of Zhang and Zhou (2022).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from scipy.special import logit, ndtri
from threadpoolctl import threadpool_limits

from predilect.models.rankings import pair_kernels
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Mixture

Embedding = Literal["pairs", "positions"]
Link = Literal["logit", "probit"]

# A pair embedding of more entries than this (80 MB) gives way to centred positions.
PAIR_ENTRIES = 20_000_000
GAP = 0.05


@dataclass(frozen=True)
class Clusters:
    """Which cluster each ballot fell in (m,), what the rows were embedded as, and the rank that was kept."""

    labels: NDArray[np.int64]
    embedding: Embedding
    rank: int


def embedding_for(layout: Layout) -> Embedding:
    """Pairwise vectors while they are small, positions (a linear image of them) beyond."""
    n_pairs = layout.n_items * (layout.n_items - 1) // 2
    return "pairs" if len(layout) * n_pairs <= PAIR_ENTRIES else "positions"


def embed(layout: Layout, embedding: Embedding) -> NDArray[np.float32]:
    """Pairwise vectors (m, n(n-1)/2) coded +½, −½ and 0 for not compared, or centred positions (m, n)."""
    n_items = layout.n_items
    as_pairs = embedding == "pairs"
    rows = np.zeros((len(layout), n_items * (n_items - 1) // 2 if as_pairs else n_items), np.float32)
    pair_kernels.embed(layout.items, layout.offsets, layout.stages, layout.tail_stored, layout.n_items, as_pairs, rows)
    return rows


def cluster(layout: Layout, n_components: int, generator: np.random.Generator) -> Clusters:
    """Algorithm 1: K clusters by k-means on the ballots' embedding, projected on its leading r̂ singular vectors.

    r̂ is the largest a ≤ K with σ_a − σ_{a+1} ≥ T = 0.05 (√m + √(n(n−1)/2)), 1 if there is none; m is the total
    weight, every row weighing √w in the singular values. Positions have √n times the singular values of the pair
    vectors (on the subspace they keep), and are scaled back for T.
    """
    from sklearn.cluster import KMeans  # slow to import
    from sklearn.utils.extmath import randomized_svd

    embedding = embedding_for(layout)
    rows = embed(layout, embedding)
    weights = layout.weights
    n_items = layout.n_items
    seed = int(generator.integers(2**31))
    n_values = min(n_components + 1, *rows.shape)
    with threadpool_limits(limits=1):
        scaled = rows * np.sqrt(weights, dtype=np.float32)[:, None]
        _, values, directions = randomized_svd(scaled, n_values, n_oversamples=10, n_iter=4, random_state=seed)
        if embedding == "positions":
            values = values / np.sqrt(n_items)
        gaps = values - np.append(values[1:], 0.0)
        threshold = GAP * (np.sqrt(weights.sum()) + np.sqrt(n_items * (n_items - 1) / 2))
        wide = np.flatnonzero(gaps[:n_components] >= threshold)
        rank = int(wide[-1]) + 1 if len(wide) else 1
        projected = rows @ directions[:rank].T
        labels = KMeans(n_components, n_init=10, random_state=seed).fit_predict(projected, sample_weight=weights)
    return Clusters(labels.astype(np.int64), embedding, rank)


def pair_wins(layout: Layout) -> NDArray[np.float64]:
    """wins[i, j] (n, n): the weight of the ballots that put item i before item j."""
    wins = np.zeros((layout.n_items, layout.n_items))
    pair_kernels.pair_wins(layout.items, layout.offsets, layout.stages, layout.tail_stored, layout.weights, wins)
    return wins


def least_squares(wins: NDArray[np.float64], link: Link = "logit") -> NDArray[np.float64]:
    """Algorithm 2: θ (n,), Σθ = 0, that minimises Σ_{i<j compared} (F⁻¹(P̂_ij) − (θ_i − θ_j))².

    P̂_ij = (wins_ij + ½) / (wins_ij + wins_ji + 1), so that no pair is certain; pairs that never met are left out. F is
    the logistic function, or with `link="probit"` that of two normal utilities of variance 1,
    P = Φ((θ_i − θ_j) / √2), for Thurstone's model. Items without comparisons get 0 (the least-norm solution).
    """
    met = wins + wins.T
    compared = met > 0
    np.fill_diagonal(compared, False)
    share = (wins + 0.5) / (met + 1)
    odds = logit(share) if link == "logit" else np.sqrt(2) * ndtri(share)
    odds[~compared] = 0.0
    laplacian = np.diag(compared.sum(axis=1)) - compared.astype(np.float64)
    theta = lstsq(laplacian, odds.sum(axis=1), lapack_driver="gelsy")[0]
    centred: NDArray[np.float64] = theta - theta.mean()
    return centred


def spectral_start(
    layout: Layout, n_components: int, generator: np.random.Generator, link: Link = "logit"
) -> tuple[Mixture, Clusters]:
    """Algorithm 3: a mixture from the clusters' least-squares log-worths and weights, and the clusters."""
    if n_components == 1:
        clusters = Clusters(np.zeros(len(layout), np.int64), embedding_for(layout), 1)
    else:
        clusters = cluster(layout, n_components, generator)
    total = layout.weights.sum()
    log_worths = np.empty((layout.n_items, n_components))
    shares = np.empty(n_components)
    for k in range(n_components):
        inside = np.where(clusters.labels == k, layout.weights, 0.0)
        log_worths[:, k] = least_squares(pair_wins(layout.reweighted(inside)), link)
        shares[k] = inside.sum() / total
    return Mixture(log_worths, np.maximum(shares, 1e-6) / np.maximum(shares, 1e-6).sum()), clusters
