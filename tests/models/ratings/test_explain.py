"""Explanations against planted structure and against fold-in."""

import numpy as np
import pytest

from predilect.models.errors import DataError
from predilect.models.ids import IdMap
from predilect.models.ratings import RatingScale, RatingsModel, VBConfig
from predilect.models.ratings.explain import dimensions, influences, similar_items, similar_users

N_USERS, N_ITEMS = 200, 40
SCALE = RatingScale(-20, 20)
GENRE = np.repeat([1, -1, 0, 0], 10)
"""Items 0 … 9 and 10 … 19 lie at the ends of the strong axis, 20 … 29 and 30 … 39 of the weak one."""
TONE = np.repeat([0, 0, 1, -1], 10)


@pytest.fixture(scope="module")
def model() -> RatingsModel:
    """Item 9 has three ratings, item 39 none."""
    rng = np.random.default_rng(0)
    taste = rng.normal(size=(N_USERS, 2)) * [2.0, 1.0]
    users, items = (codes.astype(np.int32) for codes in np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.5))
    keep = (items != 39) & ((items != 9) | (np.cumsum(items == 9) <= 3))
    users, items = users[keep], items[keep]
    stars = taste[users, 0] * GENRE[items] + taste[users, 1] * TONE[items] + rng.normal(0, 0.5, len(users))
    return RatingsModel.fit(
        users, items, stars.astype(np.float32), SCALE, VBConfig(n_user_latents=2, n_item_latents=1),
        user_ids=IdMap(np.arange(N_USERS)), item_ids=IdMap([f"film {n:02}" for n in range(N_ITEMS)]), seed=0,
    )  # fmt: skip


def number(ids: np.ndarray) -> np.ndarray:
    return np.array([int(text.split()[1]) for text in ids])


def test_items_of_a_kind_are_alike(model: RatingsModel) -> None:
    found = similar_items(model, "film 12", n=9)
    assert set(number(found.ids)) == set(range(10, 20)) - {12}
    assert np.all(found.similarity[:8] > 0.95)
    assert np.all((found.low <= found.similarity) & (found.similarity <= found.high))
    everything = similar_items(model, "film 00", n=N_ITEMS)
    assert "film 39" not in everything.ids  # nobody rated it
    assert "film 00" not in everything.ids
    assert len(everything.ids) == N_ITEMS - 2
    assert everything.similarity[-1] < -0.95
    width = dict(zip(everything.ids.tolist(), everything.high - everything.low, strict=True))
    assert width["film 09"] > 2 * width["film 05"]  # few ratings: less sure


def test_users_of_a_taste_are_alike(model: RatingsModel) -> None:
    users = model.posterior.users.means.astype(float)
    found = similar_users(model, 7, n=5)
    assert 7 not in found.ids
    predicted = users @ model.posterior.items.means.T
    agreement = [np.corrcoef(predicted[7], predicted[other])[0, 1] for other in found.ids]
    assert np.min(agreement) > 0.97


def test_axes_separate_what_was_planted(model: RatingsModel) -> None:
    strong, weak = dimensions(model, n=8, least_ratings=10)[:2]
    assert strong.sd == pytest.approx(2.0 * np.sqrt(0.5), rel=0.2)
    assert weak.sd == pytest.approx(1.0 * np.sqrt(0.5), rel=0.2)
    for axis, ends in ((strong, ({*range(9)}, {*range(10, 20)})), (weak, ({*range(20, 30)}, {*range(30, 39)}))):
        low, high = set(number(axis.low_ids)), set(number(axis.high_ids))
        assert (low <= ends[0] and high <= ends[1]) or (low <= ends[1] and high <= ends[0])
        assert np.all(np.diff(axis.low_scores) >= 0)
        assert np.all(np.diff(axis.high_scores) <= 0)
        assert np.all(axis.low_sds < 0.2)
    # One standard deviation of taste is 2 rating points on these items.
    assert np.abs(strong.high_scores).mean() == pytest.approx(2.0, rel=0.15)


def test_the_parts_of_a_prediction_add_up(model: RatingsModel) -> None:
    rng = np.random.default_rng(1)
    items = [f"film {n:02}" for n in rng.permutation(N_ITEMS)[:15]]
    ratings = rng.normal(0, 2, 15)
    folded = model.fold_in(items, ratings)
    for item in ("film 03", "film 25", "film 39"):
        found = influences(model, [*items, "no film"], [*ratings, 3.0], item)
        assert found.base == pytest.approx(model.predict_ids([-1], [item]).mean[0], abs=1e-5)
        assert found.base + found.moved.sum() == pytest.approx(folded.predict_ids([item]).mean[0], abs=2e-3)
        assert np.all(np.diff(np.abs(found.moved)) <= 0)
        assert found.moved[found.ids.tolist().index("no film")] == 0


def test_what_moved_a_prediction_is_of_its_kind(model: RatingsModel) -> None:
    found = influences(model, ["film 01", "film 12", "film 22"], [4.0, -4.0, 3.0], "film 05")
    assert set(found.ids[:2]) == {"film 01", "film 12"}
    assert found.moved[0] > 0.5
    assert abs(found.moved[2]) < 0.3


def test_strangers_are_refused(model: RatingsModel) -> None:
    with pytest.raises(DataError, match="item 'film 99'"):
        similar_items(model, "film 99")
    with pytest.raises(DataError, match="user 4444"):
        similar_users(model, 4444)
    with pytest.raises(DataError, match="1 items and 2 ratings"):
        influences(model, ["film 01"], [1.0, 2.0], "film 02")
