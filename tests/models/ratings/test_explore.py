"""Exploring recommendations against sorting and against draws."""

import numpy as np
import pytest
from scipy.stats import norm

from predilect.models.errors import ParameterError
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.models.ratings.explore import drawn, recommend_codes

from .build import fit, planted

N_USERS, N_ITEMS = 150, 1100
NOTHING_SEEN = np.zeros(N_USERS + 1, np.int64), np.empty(0, np.int32)


@pytest.fixture(scope="module")
def model() -> RatingsModel:
    """More items than a tile holds and more users than a block."""
    data, _ = planted(N_USERS, N_ITEMS, 2, 0.03, 0.8, seed=2)
    return fit(data, N_USERS, N_ITEMS, VBConfig(n_user_latents=2, n_item_latents=1))


@pytest.mark.parametrize("quantile", [0.2, 0.9])
def test_a_quantile_is_that_of_the_expected_rating(model: RatingsModel, quantile: float) -> None:
    users = np.append(np.arange(N_USERS - 1), -1)
    best = recommend_codes(model, users, 8, NOTHING_SEEN, explore="quantile", quantile=quantile)
    for row in (0, 77, 140, 149):
        mean, variance = model.predict(np.full(N_ITEMS, users[row]), np.arange(N_ITEMS))
        value = mean + norm.ppf(quantile) * np.sqrt(variance - 1 / model.noise_precision)
        np.testing.assert_allclose(value[best[row]], np.sort(value)[::-1][:8], atol=2e-5)


def test_without_exploration_it_is_the_models_own_list(model: RatingsModel) -> None:
    users = np.arange(N_USERS)
    np.testing.assert_array_equal(recommend_codes(model, users, 5, NOTHING_SEEN), model.recommend_codes(users, 5))


def test_a_draw_shows_an_item_as_often_as_it_is_the_best(model: RatingsModel) -> None:
    """Against independent draws from q for one user."""
    user, n = 3, 3000
    posterior, rng = model.posterior, np.random.default_rng(0)
    rows = np.array([user]), 1, (np.zeros(2, np.int64), np.empty(0, np.int32))
    first = [recommend_codes(model, *rows, explore="thompson", seed=seed)[0, 0] for seed in range(400)]
    counts = np.zeros(N_ITEMS)
    for _ in range(n):
        taste = rng.normal(posterior.users.means[user], np.sqrt(posterior.users.variances[user]))
        things = rng.normal(posterior.items.means, np.sqrt(posterior.items.variances))
        score = things @ taste + rng.normal(posterior.items.offsets, np.sqrt(posterior.items.offset_variances))
        counts[np.argmax(score)] += 1
    often = np.argsort(-counts)[:10]
    share, expected = np.isin(first, often).mean(), counts[often].sum() / n
    assert share == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / len(first)))


def test_a_draw_is_fixed_by_its_seed(model: RatingsModel) -> None:
    users = np.arange(N_USERS)
    lists = [recommend_codes(model, users, 5, NOTHING_SEEN, explore="thompson", seed=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(lists[0], lists[1])
    assert (lists[0] != lists[2]).any()
    some = recommend_codes(model, users[40:50], 5, (np.zeros(11, np.int64), np.empty(0, np.int32)),
                           explore="thompson", seed=1)  # fmt: skip
    np.testing.assert_array_equal(some, lists[0][40:50])


def test_draws_have_the_posteriors_moments(model: RatingsModel) -> None:
    side = model.posterior.items
    values = np.array([drawn(side, np.random.default_rng(n)).offsets for n in range(500)])
    np.testing.assert_allclose(values.mean(), side.offsets.mean(), atol=0.01)
    np.testing.assert_allclose(values.var(axis=0).mean(), side.offset_variances.mean(), rtol=0.02)


def test_seen_items_are_left_out_in_every_tile(model: RatingsModel) -> None:
    users = np.arange(N_USERS)
    first = recommend_codes(model, users, 6, NOTHING_SEEN)
    seen = np.arange(0, 6 * N_USERS + 1, 6), first.ravel()
    again, both = recommend_codes(model, users, 6, seen), recommend_codes(model, users, 12, NOTHING_SEEN)
    np.testing.assert_array_equal(again, both[:, 6:])


def test_impossible_choices_are_refused(model: RatingsModel) -> None:
    for options in ({"explore": "greedy"}, {"explore": "quantile", "quantile": 1.0}):
        with pytest.raises(ParameterError):
            recommend_codes(model, np.arange(3), 2, NOTHING_SEEN, **options)  # type: ignore[arg-type]
