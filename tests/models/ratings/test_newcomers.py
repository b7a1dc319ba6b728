"""Streams of ratings, questions and new items against fold-in at once, linear algebra and the transposed fit."""

import numpy as np
import pytest

from predilect.models.compiled import threads
from predilect.models.errors import DataError
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.models.ratings.newcomers import Newcomer, fold_in_item

from .build import fit, halves, planted, rounded
from .reference import Ratings, State

N_USERS, N_ITEMS = 80, 60
CONFIG = VBConfig(n_user_latents=1, n_item_latents=1, tolerance=1e-9, max_sweeps=500)


@pytest.fixture(scope="module")
def planned() -> tuple[Ratings, State]:
    data, truth = planted(N_USERS, N_ITEMS, 2, 0.4, 0.5, seed=21)
    return rounded(data), truth


@pytest.fixture(scope="module")
def model(planned: tuple[Ratings, State]) -> RatingsModel:
    return fit(planned[0], N_USERS, N_ITEMS, CONFIG)


def test_a_stream_ends_where_all_ratings_at_once_do(model: RatingsModel) -> None:
    rng = np.random.default_rng(0)
    items, ratings = rng.permutation(N_ITEMS)[:20], rng.normal(0, 2, 20)
    newcomer = Newcomer(model)
    for n, (item, rating) in enumerate(zip(items.tolist(), ratings.tolist(), strict=True), start=1):
        folded = newcomer.rate(item, rating)
        np.testing.assert_array_equal(folded.side.table, model.fold_in(items[:n], ratings[:n]).side.table)
    ids, _ = newcomer.folded.recommend(N_ITEMS)
    assert set(ids) == set(range(N_ITEMS)) - set(items.tolist())


def test_a_second_rating_of_an_item_replaces_the_first(model: RatingsModel) -> None:
    newcomer = Newcomer(model)
    for item, rating in ((3, 5.0), (7, 1.0), (3, -2.0), (999, 4.0)):
        newcomer.rate(item, rating)
    expected = model.fold_in([3, 7], [-2.0, 1.0])
    np.testing.assert_array_equal(newcomer.folded.side.table, expected.side.table)
    with pytest.raises(DataError, match="scale"):
        newcomer.rate(4, 99.0)
    np.testing.assert_array_equal(newcomer.rate(7, 1.0).side.table, expected.side.table)


def test_the_question_is_the_one_that_brute_force_finds(model: RatingsModel) -> None:
    """Each item's rating is added to the precision in turn, and the average variance is taken again."""
    newcomer = Newcomer(model)
    for item, rating in ((1, 2.0), (8, -1.0)):
        newcomer.rate(item, rating)
    items, me = model.posterior.items, newcomer.folded.side
    x = np.column_stack([items.means, np.ones(N_ITEMS)]).astype(float)
    second_moment = me.means[0].astype(float) ** 2 + me.variances[0]
    noise = 1 / model.noise_precision + items.variances @ second_moment + items.offset_variances
    precision = np.diag(model.posterior.users.prior.precisions.copy())
    for item in (1, 8):
        precision += np.outer(x[item], x[item]) / noise[item]

    def average(at: np.ndarray) -> float:
        return float(np.average(np.einsum("ik,kl,il->i", x, np.linalg.inv(at), x), weights=model.item_counts))

    before = average(precision)
    gain = [1 - average(precision + np.outer(x[j], x[j]) / noise[j]) / before for j in range(N_ITEMS)]
    order = [j for j in np.argsort(-np.array(gain)) if j not in (1, 8)]
    asked, share = newcomer.ask(N_ITEMS)
    assert asked.tolist() == order
    np.testing.assert_allclose(share, np.array(gain)[order], rtol=1e-5)
    assert newcomer.ask(2, exclude=[order[0]])[0].tolist() == order[1:3]


def test_asking_teaches_more_than_asking_at_random(planned: tuple[Ratings, State], model: RatingsModel) -> None:
    rng = np.random.default_rng(1)
    truth = planned[1]
    errors: dict[str, list[float]] = {"asked": [], "random": []}
    for _ in range(100):
        taste = rng.normal(0, 1, 3)
        ratings = truth.items.mean[:, :-1] @ taste[:-1] + truth.items.mean[:, -1] + taste[-1]
        noisy = ratings + rng.normal(0, 0.5, N_ITEMS)
        for how, found in errors.items():
            newcomer = Newcomer(model)
            for _ in range(3):
                item = int(newcomer.ask()[0][0]) if how == "asked" else int(rng.integers(N_ITEMS))
                newcomer.rate(item, float(noisy[item]))
            found.append(float(np.mean((newcomer.folded.predict(np.arange(N_ITEMS)).mean - ratings) ** 2)))
    assert np.mean(errors["asked"]) < 0.8 * np.mean(errors["random"])


def test_a_folded_items_posterior_is_that_of_the_fit(planned: tuple[Ratings, State], model: RatingsModel) -> None:
    data, items = planned[0], model.posterior.items
    _, by_item = halves(data, N_USERS, N_ITEMS)
    with threads(1) as pool:  # to the optimum given the users, which fold-in seeks
        by_item.run(items, model.posterior.users, model.noise_precision, pool, passes=10_000)
    people = np.append(np.arange(N_USERS), -1)
    for item in range(0, N_ITEMS, 11):
        mine = data.item == item
        folded = fold_in_item(model, data.user[mine], data.value[mine])
        np.testing.assert_allclose(folded.side.means[0], items.means[item], atol=1e-3)
        np.testing.assert_allclose(folded.side.variances[0], items.variances[item], rtol=1e-4)
        expected = model.predict(people, np.full(len(people), item))
        np.testing.assert_allclose(folded.predict(people).mean, expected.mean, atol=5e-3)
        np.testing.assert_allclose(folded.predict(people).variance, expected.variance, rtol=1e-3)
        np.testing.assert_array_equal(folded.predict_ids([3, 999]).mean, folded.predict(np.array([3, -1])).mean)


def test_an_item_without_ratings_is_an_unknown_one(model: RatingsModel) -> None:
    people = np.arange(N_USERS)
    folded = fold_in_item(model, [999, -5], [3.0, 1.0])
    assert folded.n_unknown == 2
    np.testing.assert_array_equal(folded.predict(people).mean, model.predict(people, people * 0 - 1).mean)


def test_mistakes_with_new_items(model: RatingsModel) -> None:
    with pytest.raises(DataError, match="1 users and 2 ratings"):
        fold_in_item(model, [1], [1.0, 2.0])
    with pytest.raises(DataError, match="Rating 1 is 99"):
        fold_in_item(model, [1, 2], [1.0, 99.0])
    with pytest.raises(DataError, match="user codes"):
        fold_in_item(model, [1], [1.0]).predict(np.array([N_USERS]))
