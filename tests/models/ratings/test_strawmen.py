"""The straw men against their definitions written out plainly, and against planted structure."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.ratings import RatingScale
from predilect.models.ratings.strawmen import Neighbours, Svd
from predilect.models.ratings.strawmen.svd import descend, squared_error

N_USERS, N_ITEMS = 40, 60
SCALE = RatingScale(1, 5)
IDS: dict[str, Any] = {"user_ids": IdMap(np.arange(N_USERS)), "item_ids": IdMap(np.arange(N_ITEMS))}
Data = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]


@pytest.fixture(scope="module")
def data() -> Data:
    """Users 0 and 1 and item 5 without ratings; hardly two similarities are equal."""
    rng = np.random.default_rng(0)
    users, items = (codes.astype(np.int32) for codes in np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.6))
    keep = (users > 1) & (items != 5)
    users, items = users[keep], items[keep]
    taste, kind = rng.normal(size=N_USERS), rng.normal(size=N_ITEMS)
    stars = 3 + taste[users] * kind[items] + rng.normal(0, 0.5, len(users))
    return users, items, np.clip(stars, 1, 5).astype(np.float32)


def plain(data: Data, similarity: str, k: int | None, user: int, item: int) -> float:
    """The docstring's formula, pair by pair."""
    rated: dict[int, dict[int, float]] = {}
    for u, i, r in zip(*(column.tolist() for column in data), strict=True):
        rated.setdefault(i, {})[u] = r
    means = {i: float(np.mean(list(by.values()))) for i, by in rated.items()}
    if item not in rated:
        return float(np.mean(data[2]))
    near = []
    for other, by in rated.items():
        both = sorted(set(by) & set(rated[item]))
        if other == item or user not in by or not both:
            continue
        x, y = (np.array([one[u] for u in both]) for one in (rated[item], by))
        if similarity == "euclidean":
            s = 1 / (1 + np.sqrt(np.mean((x - y) ** 2)))
        else:
            s = np.corrcoef(x, y)[0, 1] if x.std() > 0 and y.std() > 0 else 0.0
        if s > 1e-12:
            near.append((s, by[user] - means[other]))
    near = sorted(near, key=lambda pair: -pair[0])[:k]
    return means[item] + (sum(s * d for s, d in near) / sum(s for s, _ in near) if near else 0.0)


@pytest.mark.parametrize("similarity", ["pearson", "euclidean"])
@pytest.mark.parametrize("k", [3, None])
def test_neighbours_are_as_defined(data: Data, similarity: Any, k: int | None) -> None:
    model = Neighbours.fit(*data, SCALE, **IDS, similarity=similarity, k=k)
    rng = np.random.default_rng(1)
    users, items = rng.integers(0, N_USERS, 150), rng.integers(0, N_ITEMS, 150)
    users[:3], items[:3] = (0, 9, 12), (7, 5, 5)
    found = model.predict(users, items).mean
    expected = [plain(data, similarity, k, *pair) for pair in zip(users.tolist(), items.tolist(), strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_neighbours_of_the_unknown(data: Data) -> None:
    model = Neighbours.fit(*data, SCALE, **IDS)
    users, items, stars = data
    found = model.predict(np.array([-1, 4, -1]), np.array([7, -1, -1]))
    np.testing.assert_allclose(found.mean, [stars[items == 7].mean(), stars[users == 4].mean(), stars.mean()])


def test_neighbours_do_not_depend_on_threads_and_their_variance_is_of_held_out_ratings(data: Data) -> None:
    rng = np.random.default_rng(2)
    users, items = rng.integers(-1, N_USERS, 500), rng.integers(-1, N_ITEMS, 500)
    one, four = (Neighbours.fit(*data, SCALE, **IDS, n_threads=n).predict(users, items) for n in (1, 4))
    np.testing.assert_array_equal(one.mean, four.mean)
    test = rng.random(len(data[0])) < 0.2
    model = Neighbours.fit(*(column[~test] for column in data), SCALE, **IDS)  # type: ignore[arg-type]
    found = model.predict(data[0][test], data[1][test])
    assert found.variance[0] == pytest.approx(np.mean((SCALE.clip(found.mean) - data[2][test]) ** 2), rel=0.5)


def test_svd_finds_what_was_planted() -> None:
    rng = np.random.default_rng(3)
    taste, kind, bias = rng.normal(size=(N_USERS, 2)), rng.normal(size=(N_ITEMS, 2)), rng.normal(size=N_ITEMS)
    full = 3 + taste @ kind.T + bias
    users, items = (codes.astype(np.int32) for codes in np.nonzero(rng.random(full.shape) < 0.7))
    stars = full[users, items].astype(np.float32)
    model = Svd.fit(users, items, stars, RatingScale(-20, 20), **IDS, n_factors=2, penalty=0.0)
    hidden = np.ones(full.shape, bool)
    hidden[users, items] = False
    found = model.predict(*np.nonzero(hidden)).mean
    assert np.sqrt(np.mean((found - full[hidden]) ** 2)) < 0.15
    assert model.predict(np.array([-1]), np.array([-1])).mean[0] == pytest.approx(stars.mean())


def test_the_error_never_rises_and_the_penalty_shrinks(data: Data) -> None:
    users, items, stars = data[0], data[1], data[2].astype(float) - 3
    rng = np.random.default_rng(4)
    left, right = rng.normal(0, 0.1, (N_USERS + 1, 4)), rng.normal(0, 0.1, (N_ITEMS + 1, 4))
    left[:, -2:], right[:, -2:] = (0, 1), (1, 0)
    errors = [squared_error(users, items, stars, left, right)]
    for _ in range(30):
        error, _ = descend(users, items, stars, left, right, 0.0, 3, 0.0)
        errors.append(error)
    assert np.all(np.diff(errors) <= 0)
    np.testing.assert_array_equal(left[:, -1], 1)
    np.testing.assert_array_equal(right[:, -2], 1)
    sizes = [
        np.square(Svd.fit(*data, SCALE, **IDS, n_factors=3, penalty=penalty).users[:, :-1]).sum()
        for penalty in (0.0, 0.1)
    ]
    assert sizes[1] < 0.8 * sizes[0]


def test_mistakes_are_refused(data: Data) -> None:
    nothing = tuple(column[:0] for column in data)
    for model in (Neighbours, Svd):
        with pytest.raises(DataError, match="no ratings"):
            model.fit(*nothing, SCALE, **IDS)  # type: ignore[attr-defined]
    for options in ({"k": 0}, {"similarity": "cosine"}):
        with pytest.raises(ParameterError):
            Neighbours.fit(*data, SCALE, **IDS, **options)  # type: ignore[arg-type]
    for options in ({"n_factors": 0}, {"penalty": -1.0}):
        with pytest.raises(ParameterError):
            Svd.fit(*data, SCALE, **IDS, **options)  # type: ignore[arg-type]
