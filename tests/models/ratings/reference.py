"""The model of the math page in plain float64 numpy, one coordinate at a time: slow, and easy to check."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

Floats = NDArray[np.float64]


@dataclass
class Plain:
    """One side: means and variances (n_rows, K+1) of the factors and, last, the offset; priors (K+1,) alike."""

    mean: Floats
    variance: Floats
    prior_mean: Floats
    prior_precision: Floats


@dataclass
class State:
    """Everything that the bound depends on."""

    users: Plain
    items: Plain
    shape: float
    rate: float

    @property
    def theta(self) -> float:
        return self.shape / self.rate


@dataclass
class Ratings:
    user: NDArray[np.int32]
    item: NDArray[np.int32]
    value: Floats


def residuals(state: State, data: Ratings) -> Floats:
    """e of every rating."""
    a, b = state.users.mean[data.user], state.items.mean[data.item]
    e: Floats = data.value - np.sum(a[:, :-1] * b[:, :-1], axis=1) - a[:, -1] - b[:, -1]
    return e


def expected_squares(state: State, data: Ratings) -> float:
    """S."""
    a, b = state.users.mean[data.user] ** 2, state.items.mean[data.item] ** 2
    va, vb = state.users.variance[data.user], state.items.variance[data.item]
    products = (a + va) * (b + vb) - a * b
    return float(np.sum(residuals(state, data) ** 2 + va[:, -1] + vb[:, -1] + products[:, :-1].sum(axis=1)))


def bound(state: State, data: Ratings) -> float:
    """F, math page §3, with a = b = 1."""
    a, b = state.shape, state.rate
    log_theta = digamma(a) - np.log(b)
    value = 0.5 * len(data.value) * (log_theta - np.log(2 * np.pi)) - 0.5 * state.theta * expected_squares(state, data)
    for side in (state.users, state.items):
        square = (side.mean - side.prior_mean) ** 2 + side.variance
        alpha = side.prior_precision
        value += np.sum(0.5 * np.log(alpha) - 0.5 * alpha * square + 0.5 * np.log(side.variance) + 0.5)
    value += -state.theta  # the prior Gamma(1, 1)
    value -= a * np.log(b) - gammaln(a) + (a - 1) * log_theta - b * state.theta
    return float(value)


def update_user_coordinate(state: State, data: Ratings, p: int, k: int) -> None:
    """q of one user's coordinate k (the last: the offset), math page §2. For an item, hand over `swapped` ones."""
    side = state.users
    mine = data.user == p
    items = data.item[mine]
    last = side.mean.shape[1] - 1
    partner = np.ones(len(items)) if k == last else state.items.mean[items, k]
    spread = np.zeros(len(items)) if k == last else state.items.variance[items, k]
    e = residuals(state, data)[mine]
    alpha = side.prior_precision[k]
    q = alpha + state.theta * np.sum(partner**2 + spread)
    pull = alpha * side.prior_mean[k] + state.theta * np.sum(partner * (e + side.mean[p, k] * partner))
    side.mean[p, k], side.variance[p, k] = pull / q, 1 / q


def swapped(state: State, data: Ratings) -> tuple[State, Ratings]:
    """The same with users and items exchanged (views, not copies)."""
    return State(state.items, state.users, state.shape, state.rate), Ratings(data.item, data.user, data.value)
