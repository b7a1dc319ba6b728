"""Small data sets, and states in the form of the kernels and of the plain reference."""

import numpy as np

from predilect.models.ids import IdMap
from predilect.models.ratings import RatingScale, RatingsModel, VBConfig
from predilect.models.ratings.bound import Noise
from predilect.models.ratings.orders import by_user_and_item
from predilect.models.ratings.posterior import Prior, Side
from predilect.models.ratings.sweep import HalfSweep

from .reference import Plain, Ratings, State

SCALE = RatingScale(-20, 20)


def planted(n_users: int, n_items: int, n_factors: int, share: float, noise: float, seed: int) -> tuple[Ratings, State]:
    """Ratings drawn from the model, a share of all pairs, and the truth as a state without variance."""
    rng = np.random.default_rng(seed)
    users = Plain(rng.normal(0, 1, (n_users, n_factors + 1)), *[np.zeros(0)] * 3)
    items = Plain(rng.normal(0, 1, (n_items, n_factors + 1)), *[np.zeros(0)] * 3)
    user, item = (codes.astype(np.int32) for codes in np.nonzero(rng.random((n_users, n_items)) < share))
    a, b = users.mean[user], items.mean[item]
    value = np.sum(a[:, :-1] * b[:, :-1], axis=1) + a[:, -1] + b[:, -1] + rng.normal(0, noise, len(user))
    return Ratings(user, item, value), State(users, items, 1.0, noise**2)


def random_state(n_users: int, n_items: int, n_factors: int, seed: int) -> State:
    """Any means, variances and priors."""
    rng = np.random.default_rng(seed)

    def side(n_rows: int) -> Plain:
        shape = (n_rows, n_factors + 1)
        precision = rng.uniform(0.5, 3, n_factors + 1)
        return Plain(rng.normal(0, 1, shape), rng.uniform(0.05, 1, shape), rng.normal(0, 1, n_factors + 1), precision)

    return State(side(n_users), side(n_items), 3.0, 2.0)


def to_side(plain: Plain) -> Side:
    """In the kernels' layout, float64."""
    side = Side.at_prior(len(plain.mean), Prior(plain.prior_precision, plain.prior_mean), np.float64)
    side.means[:], side.offsets[:] = plain.mean[:, :-1], plain.mean[:, -1]
    side.variances[:], side.offset_variances[:] = plain.variance[:, :-1], plain.variance[:, -1]
    return side


def to_plain(side: Side) -> Plain:
    """From the kernels' layout."""
    return Plain(
        np.column_stack([side.means, side.offsets]).astype(np.float64),
        np.column_stack([side.variances, side.offset_variances]).astype(np.float64),
        side.prior.means,
        side.prior.precisions,
    )


def to_state(users: Side, items: Side, noise: Noise) -> State:
    return State(to_plain(users), to_plain(items), noise.shape, noise.rate)


def halves(data: Ratings, n_users: int, n_items: int) -> tuple[HalfSweep, HalfSweep]:
    orders = by_user_and_item(data.user, data.item, data.value.astype(np.float32), n_users, n_items)
    return HalfSweep(orders[0]), HalfSweep(orders[1])


def rounded(data: Ratings) -> Ratings:
    """Ratings that float32 holds exactly, so that the reference sees the same ones."""
    return Ratings(data.user, data.item, data.value.astype(np.float32).astype(np.float64))


def fit(data: Ratings, n_users: int, n_items: int, config: VBConfig, seed: int = 0, **options: object) -> RatingsModel:
    """The public fit, with ids 0 … n-1."""
    return RatingsModel.fit(
        data.user,
        data.item,
        data.value.astype(np.float32),
        SCALE,
        config,
        user_ids=IdMap(np.arange(n_users)),
        item_ids=IdMap(np.arange(n_items)),
        seed=seed,
        **options,  # type: ignore[arg-type]
    )
