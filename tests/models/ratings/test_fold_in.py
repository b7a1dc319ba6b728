"""A new user from a few ratings, against the full fit."""

import numpy as np
import pytest

from predilect.models.compiled import threads
from predilect.models.errors import DataError
from predilect.models.ratings import RatingsModel, VBConfig

from .build import fit, halves, planted, rounded
from .reference import Ratings

N_USERS, N_ITEMS = 60, 50
CONFIG = VBConfig(n_user_latents=1, n_item_latents=1, restarts=1, tolerance=1e-9, max_sweeps=500)


@pytest.fixture(scope="module")
def data() -> Ratings:
    return rounded(planted(N_USERS, N_ITEMS, 2, 0.4, 0.5, seed=21)[0])


@pytest.fixture(scope="module")
def model(data: Ratings) -> RatingsModel:
    return fit(data, N_USERS, N_ITEMS, CONFIG)


def test_ratings_that_were_in_the_fit_give_that_users_posterior(data: Ratings, model: RatingsModel) -> None:
    users = model.posterior.users
    # The fit's users were updated before its items' last update: bring them to the optimum that fold-in seeks.
    by_user, _ = halves(data, N_USERS, N_ITEMS)
    with threads(1) as pool:
        by_user.run(users, model.posterior.items, model.noise_precision, pool, passes=10_000)
    for user in range(0, N_USERS, 7):
        mine = data.user == user
        folded = model.fold_in(data.item[mine], data.value[mine])
        sd = np.sqrt(users.variances[user])
        assert np.all(np.abs(folded.side.means[0] - users.means[user]) < 2e-3 * sd)
        np.testing.assert_allclose(folded.side.variances[0], users.variances[user], rtol=1e-5)
        assert folded.side.offsets[0] == pytest.approx(users.offsets[user], abs=1e-3)
        codes = np.arange(N_ITEMS)
        mean, variance = folded.predict(codes)
        expected = model.predict(np.full(N_ITEMS, user), codes)
        np.testing.assert_allclose(mean, expected.mean, atol=5e-3)
        np.testing.assert_allclose(variance, expected.variance, rtol=1e-4)


def test_a_held_out_user_is_predicted_about_as_well_as_by_fitting_again(data: Ratings, model: RatingsModel) -> None:
    errors: dict[str, list[float]] = {"folded": [], "nobody": []}
    rng = np.random.default_rng(0)
    for user in (3, 17, 40):
        others = data.user != user
        without = fit(Ratings(data.user[others], data.item[others], data.value[others]), N_USERS, N_ITEMS, CONFIG)
        items, values = data.item[~others], data.value[~others]
        shown = rng.permutation(len(items)) < len(items) * 0.7
        folded = without.fold_in(items[shown], values[shown])
        unknown = without.predict(np.full(int(np.sum(~shown)), -1), items[~shown])
        errors["folded"] += list(np.square(folded.predict(items[~shown]).mean - values[~shown]))
        errors["nobody"] += list(np.square(unknown.mean - values[~shown]))
    assert np.mean(errors["folded"]) < 3 * 0.5**2  # three times the noise's variance
    assert np.mean(errors["folded"]) < 0.4 * np.mean(errors["nobody"])


def test_each_rating_makes_the_user_better_known(data: Ratings, model: RatingsModel) -> None:
    items, values = data.item[data.user == 5], data.value[data.user == 5]
    variances = [model.fold_in(items[:n], values[:n]).side.variances[0] for n in range(6)]
    assert np.all(np.diff(variances, axis=0) < 0)


def test_no_rating_is_the_prior(model: RatingsModel) -> None:
    codes = np.arange(N_ITEMS)
    folded, unknown = model.fold_in([], []).predict(codes), model.predict(codes * 0 - 1, codes)
    np.testing.assert_array_equal(folded.mean, unknown.mean)
    np.testing.assert_array_equal(folded.variance, unknown.variance)


def test_unknown_items_are_counted_and_say_nothing(model: RatingsModel) -> None:
    one, two = model.fold_in([3, 4], [2.0, 5.0]), model.fold_in([3, 777, 4, -9], [2.0, 1.0, 5.0, 1.0])
    np.testing.assert_array_equal(one.side.table, two.side.table)
    assert (one.n_unknown, two.n_unknown) == (0, 2)


def test_recommendations_leave_the_rated_items_out(model: RatingsModel) -> None:
    folded = model.fold_in([3, 4], [2.0, 5.0])
    ids, prediction = folded.recommend(N_ITEMS, exclude=[7])
    assert sorted([*ids, 3, 4, 7]) == list(range(N_ITEMS))
    np.testing.assert_array_equal(prediction.mean, folded.predict_ids(ids).mean)
    assert np.all(np.diff(prediction.mean) < 1e-5)


def test_the_model_is_not_changed(model: RatingsModel) -> None:
    before = model.posterior.users.table.copy(), model.posterior.items.table.copy()
    model.fold_in([3, 4], [2.0, 5.0]).recommend(5)
    np.testing.assert_array_equal(model.posterior.users.table, before[0])
    np.testing.assert_array_equal(model.posterior.items.table, before[1])


@pytest.mark.parametrize(
    ("items", "ratings", "words"),
    [([3], [21.0], "21.0"), ([3], [float("nan")], "nan"), ([3, 4], [1.0], "2 items and 1 ratings")],
)
def test_ratings_off_the_scale_are_refused(
    model: RatingsModel, items: list[int], ratings: list[float], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        model.fold_in(items, ratings)
