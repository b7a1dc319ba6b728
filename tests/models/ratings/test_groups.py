"""Predictions for a group against draws from the joint posterior."""

import numpy as np
import pytest
from numpy.typing import NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.models.ratings.groups import Group

from .build import fit, planted

N_ITEMS, X = 30, 0.5


@pytest.fixture(scope="module")
def model() -> RatingsModel:
    """Few ratings, so that the items are not well known."""
    data, _ = planted(25, N_ITEMS, 2, 0.2, 0.6, seed=4)
    return fit(data, 25, N_ITEMS, VBConfig(n_user_latents=1, n_item_latents=1))


def draws(model: RatingsModel, members: list[int], item: int, n: int) -> NDArray[np.float64]:
    """(n, members) ratings of one item from q, the item's part drawn once for all members."""
    rng = np.random.default_rng(item)
    users, items = model.posterior.users, model.posterior.items
    k = users.n_factors
    thing = rng.normal(items.means[item], np.sqrt(items.variances[item]), (n, k))
    offset = rng.normal(items.offsets[item], np.sqrt(items.offset_variances[item]), n)
    ratings = []
    for member in members:
        taste = rng.normal(users.means[member], np.sqrt(users.variances[member]), (n, k))
        own = rng.normal(users.offsets[member], np.sqrt(users.offset_variances[member]), n)
        noise = rng.normal(0, model.noise_precision**-0.5, n)
        ratings.append(np.sum(taste * thing, axis=1) + own + offset + noise)
    return np.column_stack(ratings)


@pytest.mark.parametrize("members", [[3], [1, 4], [0, 2, 7, 11, 13]])
def test_a_group_is_predicted_as_draws_say(model: RatingsModel, members: list[int]) -> None:
    items = np.array([0, 9, 20])
    found = Group.of(model, members).predict(items, X)
    n = 200_000
    for place, item in enumerate(items):
        ratings = draws(model, members, int(item), n)
        mean, lowest, above = ratings.mean(axis=1), ratings.min(axis=1), (ratings >= X).all(axis=1)
        assert found.mean[place] == pytest.approx(mean.mean(), abs=5 * mean.std() / np.sqrt(n))
        assert found.variance[place] == pytest.approx(mean.var(), rel=0.02)
        assert found.least[place] == pytest.approx(lowest.mean(), abs=0.02 * lowest.std())
        assert found.all_at_least[place] == pytest.approx(above.mean(), abs=0.005)


def test_members_agree_more_than_if_the_item_were_known_apart(model: RatingsModel) -> None:
    members = [0, 2, 7, 11, 13]
    items = np.arange(N_ITEMS)
    joint = Group.of(model, members).predict(items, X)
    alone = np.prod([Group.of(model, [member]).predict(items, X).all_at_least for member in members], axis=0)
    assert np.mean(joint.all_at_least - alone) > 0.01


def test_one_member_is_a_group_like_any_user(model: RatingsModel) -> None:
    items = np.append(np.arange(N_ITEMS), -1)
    for member in (3, 999):
        found = Group.of(model, [member]).predict(items, X)
        alone = model.predict(np.full(len(items), model.user_ids.encode([member])[0]), items)
        np.testing.assert_allclose(found.mean, alone.mean, atol=1e-6)
        np.testing.assert_allclose(found.variance, alone.variance, rtol=1e-6)


@pytest.mark.parametrize("by", ["mean", "least", "all_at_least"])
def test_recommendations_to_a_group_are_the_best(model: RatingsModel, by: str) -> None:
    group = Group.of(model, [1, 5, 9])
    items, found = group.recommend(5, by, at_least=X, exclude=[3, 77])
    everything = getattr(group.predict(np.arange(N_ITEMS), X), by)
    np.testing.assert_array_equal(getattr(found, by), np.sort(np.delete(everything, 3))[::-1][:5])
    np.testing.assert_array_equal(getattr(found, by), everything[items])


def test_impossible_questions_are_refused(model: RatingsModel) -> None:
    group = Group.of(model, [1])
    with pytest.raises(DataError, match="no members"):
        Group.of(model, [])
    with pytest.raises(DataError, match="item codes"):
        group.predict(np.array([N_ITEMS]), X)
    with pytest.raises(ParameterError, match="at_least"):
        group.predict(np.array([0]), float("nan"))
    with pytest.raises(ParameterError, match="median"):
        group.recommend(3, "median")
