"""Recommendations that also try things out: by one draw from the posterior (Thompson), or by an upper quantile."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from predilect.models.compiled import default_threads, threads
from predilect.models.errors import ParameterError
from predilect.models.random import stream
from predilect.models.ratings.model import Csr, RatingsModel
from predilect.models.ratings.posterior import Side
from predilect.models.ratings.top import top_items

Explore = Literal["none", "thompson", "quantile"]


def recommend_codes(
    model: RatingsModel,
    user_codes: NDArray[np.integer[Any]],
    n: int,
    seen: Csr,
    *,
    explore: Explore = "none",
    quantile: float = 0.9,
    seed: int = 0,
) -> NDArray[np.int32]:
    """(U, n) codes of the items to show to each user, best first, -1 where none is left; no users × items matrix.

    seen: compressed rows, one for each of `user_codes`, of items to leave out. explore: `none` ranks by the mean.
    `thompson` ranks by one joint draw of all factors and offsets from q, fixed by `seed`: each list then holds an item
    as often as it is thought to be among the best. `quantile` ranks by the `quantile` of the expected rating, its
    posterior taken as normal with the exact mean and variance; below a half it is caution instead.
    Raises ParameterError for an impossible quantile or n.
    """
    if explore not in get_args(Explore):
        raise ParameterError(f"explore is {explore!r}; give one of {', '.join(get_args(Explore))}.")
    if not 0 < quantile < 1:
        raise ParameterError(f"quantile is {quantile}; give a number above 0 and below 1.")
    users, items = model.posterior.users, model.posterior.items
    if explore == "thompson":
        users, items = drawn(users, stream(seed, "thompson", 0)), drawn(items, stream(seed, "thompson", 1))
    draws = None if model.sampled is None else model.sampled.draws
    if draws is not None and explore == "thompson":
        users, items = draws.one(int(stream(seed, "thompson").integers(draws.n_draws)))
    deviations = float(ndtri(quantile)) if explore == "quantile" else 0.0
    with threads(model.n_threads or default_threads()) as pool:
        if draws is not None and explore == "none":
            return draws.top(np.asarray(user_codes), n, seen, pool)
        return top_items(np.asarray(user_codes), users, items, n, seen, pool, deviations)


def drawn(side: Side, rng: np.random.Generator) -> Side:
    """One draw of every row from q, the unknown's from the prior, in the place of the means; no variance."""
    k, half = side.n_factors, side.table.shape[1] // 2
    own = np.append(np.arange(k), k + 1)
    table = np.zeros_like(side.table)
    table[:, k] = 1
    noise = rng.standard_normal((len(table), k + 1), np.float32)
    table[:, own] = side.table[:, own] + np.sqrt(side.table[:, own + half]) * noise
    return Side(table, side.prior)
