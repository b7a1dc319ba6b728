"""User clusters from what users picked before training: spherical k-means (paper §5.2, math page §7)."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from predilect.models.errors import ParameterError
from predilect.models.ids import UNKNOWN, IdMap
from predilect.models.random import stream

Array = NDArray[np.float64]

_MAX_STEPS = 100


def spherical_kmeans(
    history: Any, n_clusters: int, *, seed: int, n_restarts: int = 3
) -> tuple[NDArray[np.int32], Array, float]:
    """Clusters of the rows of `history` by cosine similarity.

    history: CSR (n_users, n_items), for example 1 where the user picked the item; rows are scaled to unit norm here.
    Returns labels (n_users,), -1 for users without history; centres (n_clusters, n_items) of unit norm; and the mean
    cosine of users to their centre. The best of `n_restarts` k-means++ starts. Fewer users with history than clusters
    leave clusters empty. Raises ParameterError for n_clusters < 1.
    """
    if n_clusters < 1:
        raise ParameterError(f"n_clusters is {n_clusters}; give a whole number of at least 1.")
    matrix = _unit_rows(history)
    warm = np.flatnonzero(np.diff(matrix.indptr) > 0)
    points = matrix[warm]
    best = (np.zeros(len(warm), np.int32), np.zeros((n_clusters, matrix.shape[1])), -1.0)
    for restart in range(n_restarts if len(warm) else 0):
        found = _lloyd(points, n_clusters, stream(seed, "clusters", restart))
        if found[2] > best[2]:
            best = found
    labels = np.full(matrix.shape[0], UNKNOWN, np.int32)
    labels[warm] = best[0]
    return labels, best[1], best[2]


def _lloyd(points: Any, n_clusters: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], Array, float]:
    n = points.shape[0]
    centres = _plus_plus(points, n_clusters, rng)
    labels = np.full(n, UNKNOWN, np.int32)
    for _ in range(_MAX_STEPS):
        cosines = points @ centres.T
        new = cosines.argmax(axis=1).astype(np.int32)
        nearest = cosines[np.arange(n), new]
        sizes = np.bincount(new, minlength=n_clusters)
        if n >= n_clusters:
            # An empty cluster takes the user that its own centre fits worst.
            worst = iter(np.argsort(nearest, kind="stable"))
            for cluster in np.flatnonzero(sizes == 0):
                user = next(u for u in worst if sizes[new[u]] > 1)
                sizes[new[user]] -= 1
                new[user], sizes[cluster] = cluster, 1
        if np.array_equal(new, labels):
            break
        labels = new
        member = sparse.csr_matrix((np.ones(n), (labels, np.arange(n))), shape=(n_clusters, n))
        centres = (member @ points).toarray()
        norms = np.linalg.norm(centres, axis=1, keepdims=True)
        centres /= np.where(norms > 0, norms, 1.0)
    return labels, centres, float((points.multiply(centres[labels])).sum() / n)


def _plus_plus(points: Any, n_clusters: int, rng: np.random.Generator) -> Array:
    """k-means++ seeds: each next one with probability proportional to its distance 1 - cosine to the nearest."""
    n = points.shape[0]
    chosen = [int(rng.integers(n))]
    distance = np.full(n, np.inf)
    for _ in range(n_clusters):
        cosine = np.asarray((points @ points[chosen[-1]].T).todense()).ravel()
        distance = np.minimum(distance, np.maximum(1.0 - cosine, 0.0))
        if len(chosen) == n_clusters:
            break
        total = distance.sum()
        chosen.append(int(rng.choice(n, p=distance / total)) if total > 1e-12 else int(rng.integers(n)))
    centres: Array = points[chosen].toarray()
    return centres


def _unit_rows(history: Any) -> Any:
    matrix = sparse.csr_matrix(history, dtype=np.float64)
    matrix.eliminate_zeros()
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return (sparse.diags(1.0 / np.where(norms > 0, norms, 1.0)) @ matrix).tocsr()


class UserClusters:
    """The cluster of every known user."""

    def __init__(self, users: IdMap, labels: NDArray[np.int32], n_clusters: int) -> None:
        self.users, self.labels, self.n_clusters = users, labels, n_clusters

    @classmethod
    def fit(cls, user_ids: ArrayLike, item_ids: ArrayLike, n_clusters: int, *, seed: int) -> Self:
        """From the (user, item) picks before the training period, (n_picks,) each; repeated picks count once."""
        users, user_codes = IdMap.of(user_ids)
        items, item_codes = IdMap.of(item_ids)
        history = sparse.csr_matrix(
            (np.ones(len(user_codes)), (user_codes, item_codes)), shape=(len(users), len(items))
        )
        history.sum_duplicates()
        history.data[:] = 1.0
        labels, _, _ = spherical_kmeans(history, n_clusters, seed=seed)
        return cls(users, labels, n_clusters)

    def encode(self, user_ids: ArrayLike) -> NDArray[np.int32]:
        """The cluster of each user; -1 for unknown users and for users without history."""
        codes = self.users.encode(user_ids)
        return np.where(codes >= 0, np.append(self.labels, UNKNOWN)[codes], UNKNOWN).astype(np.int32)
