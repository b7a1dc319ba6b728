"""Predictions and recommendations against Monte Carlo draws from q and against sorting."""

import numpy as np
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.ratings import RatingsModel, VBConfig

from .build import fit, planted

N_USERS, N_ITEMS = 40, 300


@pytest.fixture(scope="module")
def model() -> RatingsModel:
    """Two factors; users 0 and 1 and item 5 without ratings."""
    data, _ = planted(N_USERS, N_ITEMS, 2, 0.3, 0.8, seed=11)
    keep = (data.user > 1) & (data.item != 5)
    data.user, data.item, data.value = data.user[keep], data.item[keep], data.value[keep]
    return fit(data, N_USERS, N_ITEMS, VBConfig(n_user_latents=2, n_item_latents=1, restarts=1))


@pytest.mark.parametrize("pair", [(2, 3), (3, 5), (0, 7), (1, 5), (-1, 7), (4, -1), (-1, -1)])
def test_mean_and_variance_are_those_of_draws_from_the_posterior(model: RatingsModel, pair: tuple[int, int]) -> None:
    rng, n = np.random.default_rng(0), 400_000
    posterior, k = model.posterior, model.config.n_factors
    draws = []
    for side, code in ((posterior.users, pair[0]), (posterior.items, pair[1])):
        if code >= 0:
            mean, variance = side.means[code], side.variances[code]
            offset, offset_variance = side.offsets[code], side.offset_variances[code]
        else:
            mean, variance = side.prior.means[:-1], 1 / side.prior.precisions[:-1]
            offset, offset_variance = side.prior.means[-1], 1 / side.prior.precisions[-1]
        draws.append(rng.normal(mean, np.sqrt(variance), (n, k)))
        draws.append(rng.normal(offset, np.sqrt(offset_variance), n))
    noise = rng.normal(0, model.noise_precision**-0.5, n)
    rating = np.sum(draws[0] * draws[2], axis=1) + draws[1] + draws[3] + noise
    predicted = model.predict(np.array([pair[0]]), np.array([pair[1]]))
    assert predicted.mean[0] == pytest.approx(rating.mean(), abs=5 * rating.std() / np.sqrt(n))
    assert predicted.variance[0] == pytest.approx(rating.var(), rel=0.02)


def test_whoever_has_no_ratings_is_predicted_like_the_unknown(model: RatingsModel) -> None:
    items = np.arange(N_ITEMS)
    known, unknown = model.predict(items * 0, items), model.predict(items * 0 - 1, items)
    np.testing.assert_array_equal(known.mean, unknown.mean)
    np.testing.assert_array_equal(known.variance, unknown.variance)
    assert model.predict(np.array([2]), np.array([5])) == model.predict(np.array([2]), np.array([-1]))


def test_ids_are_predicted_like_their_codes(model: RatingsModel) -> None:
    by_id = model.predict_ids([2, 3, 99], [7, 777, 8])
    by_code = model.predict(np.array([2, 3, -1]), np.array([7, -1, 8]))
    np.testing.assert_array_equal(by_id.mean, by_code.mean)
    np.testing.assert_array_equal(by_id.variance, by_code.variance)


def test_many_pairs_in_pieces_are_predicted_like_one_by_one(model: RatingsModel) -> None:
    rng = np.random.default_rng(1)
    users, items = rng.integers(-1, N_USERS, 70_000), rng.integers(-1, N_ITEMS, 70_000)
    many = model.predict(users, items)
    for n in (0, 65_535, 65_536, 69_999):
        assert many.mean[n] == model.predict(users[n : n + 1], items[n : n + 1]).mean[0]


@pytest.mark.parametrize(
    ("users", "items", "words"),
    [([0, 1], [0], "2 users and 1 items"), ([40], [0], "user codes"), ([0], [300], "item codes"), ([-2], [0], "-2")],
)
def test_codes_that_are_none_are_refused(model: RatingsModel, users: list[int], items: list[int], words: str) -> None:
    with pytest.raises(DataError, match=words):
        model.predict(np.array(users), np.array(items))


def test_recommendations_are_the_best_predictions(model: RatingsModel) -> None:
    users = np.append(np.arange(N_USERS), -1)
    best = model.recommend_codes(users, 12)
    assert best.shape == (N_USERS + 1, 12)
    for row, user in enumerate(users):
        mean = model.predict(np.full(N_ITEMS, user), np.arange(N_ITEMS)).mean
        np.testing.assert_allclose(mean[best[row]], np.sort(mean)[::-1][:12], atol=1e-5)
        assert len(set(best[row])) == 12


def test_seen_items_are_left_out(model: RatingsModel) -> None:
    first = model.recommend_codes(np.arange(N_USERS), 5)
    indptr = np.arange(0, 5 * N_USERS + 1, 5)
    again = model.recommend_codes(np.array([3, -1, 8]), 10, seen=(indptr, first.ravel()))
    assert not set(again[0]) & set(first[3])
    assert not set(again[2]) & set(first[8])
    ten = model.recommend_codes(np.array([3, -1]), 15)
    np.testing.assert_array_equal(again[0], ten[0][5:])
    np.testing.assert_array_equal(again[1], ten[1][:10])


def test_more_recommendations_than_items(model: RatingsModel) -> None:
    best = model.recommend_codes(np.array([3]), N_ITEMS + 7)[0]
    assert sorted(best[:N_ITEMS]) == list(range(N_ITEMS))
    assert set(best[N_ITEMS:]) == {-1}
    ids, prediction = model.recommend(3, N_ITEMS, exclude=[0, 1, 2, 99_999])
    assert len(ids) == len(prediction.mean) == N_ITEMS - 3
    assert not {0, 1, 2} & set(ids)


def test_many_users_in_blocks(model: RatingsModel) -> None:
    users = np.resize(np.arange(N_USERS), 300)
    best = model.recommend_codes(users, 3)
    np.testing.assert_array_equal(best[:N_USERS], best[6 * N_USERS : 7 * N_USERS])
    np.testing.assert_array_equal(best[299], model.recommend_codes(users[299:], 3)[0])


def test_a_negative_number_of_recommendations_is_refused(model: RatingsModel) -> None:
    with pytest.raises(ParameterError, match="-1"):
        model.recommend(3, -1)
