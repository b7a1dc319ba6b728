"""How well clicks are predicted: likelihoods, ranking areas with and without serendipity, coverage.

Every row measure can be weighted by how often a bootstrap drew the row.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse

Array = NDArray[np.float64]


def log_likelihood_impression(
    mean: Array, impressions: ArrayLike, clicks: ArrayLike, weights: Array | None = None
) -> float:
    """Mean log-likelihood of single impressions at the predicted click probabilities (paper §5.3).

    Each impression is judged on its own, so over-dispersion plays no part; mean: (n_rows,) E[θ].
    """
    p = np.clip(mean, 1e-300, 1.0 - 1e-16)
    v, n = np.asarray(clicks, np.float64), np.asarray(impressions, np.float64)
    total = v * np.log(p) + (n - v) * np.log1p(-p)
    w = np.ones(len(p)) if weights is None else weights
    return float((w @ total) / (w @ n))


def auc(scores: ArrayLike, positives: ArrayLike, negatives: ArrayLike) -> float:
    """Area under the ROC curve of rows that count as `positives` and `negatives` (weights ≥ 0); ties count half.

    With clicks and impressions - clicks every impression is one sample. NaN without positives or without negatives.
    """
    _, place = np.unique(scores, return_inverse=True)
    at_positive = np.bincount(place, weights=positives)
    at_negative = np.bincount(place, weights=negatives)
    below = np.cumsum(at_negative) - at_negative
    total = at_positive.sum() * at_negative.sum()
    return float((at_positive @ (below + 0.5 * at_negative)) / total) if total > 0 else float("nan")


def sauc(
    scores: ArrayLike,
    clicks: ArrayLike,
    impressions: ArrayLike,
    reward: Array,
    on: Literal["positives", "negatives"] = "positives",
) -> float:
    """Serendipity-oriented AUC: positives (or negatives) count by the reward r of eq. 8.

    The paper's "horizontal length" does not say which of the two it stretches; positives are the default.
    """
    positives = np.asarray(clicks, np.float64)
    negatives = np.asarray(impressions, np.float64) - positives
    if on == "positives":
        return auc(scores, positives * reward, negatives)
    return auc(scores, positives, negatives * reward)


def serendipity_reward(
    contexts: Any,
    users: NDArray[Any],
    test_contexts: NDArray[Any],
    test_users: NDArray[Any],
    features: Any,
    copies: Array,
) -> Array:
    """r = 1 + x·x - (Xx)ᵀ(I + XXᵀ)⁻¹(Xx) of every test row, X the contexts its user picked (paper eq. 8); (n_test,).

    contexts, users: the training clicks, (n_clicks,) each: the line of `features` that a user code picked; repeated
    clicks on one line count once. test_contexts, test_users: lines and users of the test rows; user -1 has no clicks,
    for whom r = 1 + x·x. features: CSR (n_lines, n_features). copies: (n_test,) how often x holds the line: 2 with a
    cluster copy, else 1; a user's training contexts hold it as often. One Cholesky factor a user.
    """
    squares = np.asarray(features.multiply(features).sum(axis=1), dtype=np.float64).ravel()
    reward: Array = 1.0 + copies * squares[test_contexts]
    picked = np.unique(np.stack([users, contexts], axis=1), axis=0) if len(users) else np.zeros((0, 2), np.int64)
    order = np.argsort(test_users, kind="stable")
    ordered = test_users[order]
    for user, start, stop in zip(*_runs(ordered), strict=True):
        mine = picked[slice(*np.searchsorted(picked[:, 0], [user, user + 1])), 1]
        if user < 0 or not len(mine):
            continue
        rows = order[start:stop]
        x = features[mine].astype(np.float64)
        distinct, place = np.unique(test_contexts[rows], return_inverse=True)
        cross = _dense(x @ features[distinct].astype(np.float64).T)
        factor = linalg.cholesky(np.eye(len(mine)) + copies[rows[0]] * _dense(x @ x.T), lower=True)
        solved = linalg.solve_triangular(factor, cross, lower=True)
        reward[rows] -= (copies[rows[0]] ** 2) * np.einsum("ij,ij->j", solved, solved)[place]
    return reward


def covered(intervals: NDArray[np.int64], clicks: ArrayLike) -> NDArray[np.bool_]:
    """Whether each click count lies in its interval (n_rows, 2), ends included."""
    v = np.asarray(clicks)
    inside: NDArray[np.bool_] = (v >= intervals[:, 0]) & (v <= intervals[:, 1])
    return inside


def _runs(ordered: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Values, starts and stops of the runs of equal values."""
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.int64)
    stops = np.append(starts[1:], len(ordered))[: len(starts)]
    return ordered[starts], starts, stops


def _dense(matrix: Any) -> Array:
    dense: Array = matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)
    return dense
