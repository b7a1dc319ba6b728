"""Explanations a person can read: what is alike, what a dimension separates, which ratings moved a prediction."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import UNKNOWN, IdMap
from predilect.models.random import stream
from predilect.models.ratings.explore import drawn
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.posterior import Side

DRAWS = 200
"""Draws from the posterior behind an interval of similarities."""

Floats = NDArray[np.float64]


class Similar(NamedTuple):
    """What is like something, most alike first; each of shape (n,)."""

    ids: NDArray[Any]
    similarity: Floats
    """Posterior mean of the correlation, from -1 to 1."""
    low: Floats
    """Ends of its 90 % interval: wide where either has few ratings."""
    high: Floats


class Dimension(NamedTuple):
    """One axis of taste: people who differ by one standard deviation on it differ on an item by its score."""

    sd: float
    """How much the axis moves ratings, in rating units, over the items rated as often as they are."""
    low_ids: NDArray[Any]
    """(n,): items at the one end, the most extreme first."""
    low_scores: Floats
    """(n,): their scores, in rating units."""
    low_sds: Floats
    """(n,): and the posterior standard deviations of those."""
    high_ids: NDArray[Any]
    high_scores: Floats
    high_sds: Floats


class Influence(NamedTuple):
    """The parts of a prediction, the largest first: base + Σ moved = the predicted mean."""

    base: float
    """What somebody without ratings is predicted, in rating units."""
    ids: NDArray[Any]
    """(n,): the rated items."""
    moved: Floats
    """(n,): how far the rating of each moved the prediction, in rating units."""


def similar_items(model: RatingsModel, item_id: int | str, n: int = 10) -> Similar:
    """Items on which tastes agree: the correlation, over users, of what the factors say of both.

    Offsets do not enter: liked by the same people, not liked as much. With C the covariance of ⟨A⟩ over the users, the
    similarity is B_iᵀ C B_j / √(B_iᵀ C B_i · B_jᵀ C B_j), under draws of B. Raises DataError for an unknown item.
    """
    sides = model.posterior.items, model.posterior.users
    return _similar(model.item_ids, "item", item_id, n, *sides, model.item_counts, model.user_counts)


def similar_users(model: RatingsModel, user_id: int | str, n: int = 10) -> Similar:
    """Users whose tastes agree, as `similar_items`, over the items."""
    sides = model.posterior.users, model.posterior.items
    return _similar(model.user_ids, "user", user_id, n, *sides, model.user_counts, model.item_counts)


def dimensions(model: RatingsModel, n: int = 5, least_ratings: int = 1) -> list[Dimension]:
    """The axes of taste, the strongest first, each with its `n` extreme items at either end.

    The factors are turned to the axes along which what they add to ratings is uncorrelated: the eigenvectors of
    C^½ D C^½ with C and D the covariances of ⟨A⟩ and ⟨B⟩ over the ratings. Axes that move ratings by less than 1 % of
    the noise are left out. The sign of an axis is arbitrary; its heavier end is called high. least_ratings: of an item
    that is shown.
    """
    if n < 1:
        raise ParameterError(f"The number of items to show is {n}; give 1 or more.")
    items = model.posterior.items
    root = _root(_covariance(model.posterior.users, model.user_counts))
    values, vectors = np.linalg.eigh(root @ _covariance(items, model.item_counts) @ root)
    shown = np.flatnonzero(model.item_counts >= least_ratings)
    weights = model.item_counts / model.item_counts.sum()
    centre = weights @ items.means.astype(np.float64)
    found = []
    for k in np.argsort(-values):
        sd = float(np.sqrt(max(values[k], 0)))
        if sd < 0.01 * model.noise_precision**-0.5:
            break
        axis = root @ vectors[:, k]
        scores = (items.means - centre) @ axis
        sds = np.sqrt(items.variances @ axis**2).astype(np.float64)
        if np.sum(weights * scores**3) < 0:
            scores = -scores
        order = shown[np.argsort(scores[shown], kind="stable")]
        ends = order[:n].astype(np.int32), order[::-1][:n].astype(np.int32)
        parts = [part for end in ends for part in (model.item_ids.decode(end), scores[end], sds[end])]
        found.append(Dimension(sd, *parts))
    return found


def influences(model: RatingsModel, item_ids: ArrayLike, ratings: ArrayLike, item_id: int | str) -> Influence:
    """Which of a user's ratings, (M,) and (M,), moved the prediction for an item, and by how much.

    Given the items a user's mean solves Q μ = α μ_0 + ⟨θ⟩ Σ_j x_j (r_j − ⟨ψ_j⟩), so that the prediction is a sum over
    the ratings, exactly that of `RatingsModel.fold_in`. Ratings of unknown items move nothing.
    """
    codes, given = model.item_ids.encode(item_ids), np.asarray(ratings, np.float64)
    asked = int(model.item_ids.encode([item_id])[0])
    if codes.shape != given.shape:
        raise DataError(f"There are {codes.size} items and {given.size} ratings; give one of each a row.")
    items, prior, theta = model.posterior.items, model.posterior.users.prior, model.noise_precision
    k, half = items.n_factors, items.table.shape[1] // 2
    known = codes != UNKNOWN
    table = items.table[np.append(codes[known], asked)].astype(np.float64)
    x, variances = table[:, : k + 1], table[:-1, half : half + k + 1]  # (⟨B⟩, 1), and 0 for the variance of the 1
    precision = np.diag(prior.precisions + theta * variances.sum(axis=0)) + theta * x[:-1].T @ x[:-1]
    pull = np.linalg.solve(precision, x[-1])
    start = prior.means
    moved = np.zeros(len(codes))
    # About the prior's mean, so that the base is what somebody without ratings is predicted.
    residuals = given[known] - table[:-1, k + 1] - x[:-1] @ start
    moved[known] = theta * (x[:-1] @ pull) * residuals
    moved[known] -= theta * (variances * start) @ pull
    order = np.argsort(-np.abs(moved), kind="stable")
    ids = np.asarray(item_ids)[order]
    return Influence(float(x[-1] @ start + table[-1, k + 1]), ids, moved[order])


def _similar(
    ids: IdMap,
    name: str,
    asked: int | str,
    n: int,
    side: Side,
    other: Side,
    counts: NDArray[np.int32],
    other_counts: NDArray[np.int32],
) -> Similar:
    code = int(ids.encode([asked])[0])
    if code == UNKNOWN:
        raise DataError(f"The {name} {asked!r} is not in the model; give the id of one that was in its training data.")
    root = _root(_covariance(other, other_counts))
    draws = np.empty((DRAWS, side.n_rows), np.float32)
    for number in range(DRAWS):
        vectors = drawn(side, stream(0, "similar", number)).means @ root
        lengths = np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)
        draws[number] = vectors @ vectors[code] / (lengths * lengths[code])
    mean = draws.mean(axis=0, dtype=np.float64)
    mean[(counts == 0) | (np.arange(side.n_rows) == code)] = -np.inf
    best = np.argsort(-mean, kind="stable")[: max(n, 0)]
    best = best[np.isfinite(mean[best])]
    low, high = np.quantile(draws[:, best], [0.05, 0.95], axis=0)
    return Similar(ids.decode(best.astype(np.int32)), mean[best], low.astype(np.float64), high.astype(np.float64))


def _covariance(side: Side, counts: NDArray[np.int32]) -> Floats:
    """(K, K): of the means, each row counted as often as it has ratings."""
    weights = counts / counts.sum()
    centred = side.means - weights @ side.means.astype(np.float64)
    return np.asarray((centred * weights[:, None]).T @ centred, np.float64)


def _root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T, np.float64)
