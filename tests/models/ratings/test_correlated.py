"""Generalised mean field against mean field and a plain reference; exact EM against a dense solve."""

from dataclasses import replace

import numpy as np
import pytest

from predilect.models.compiled import threads
from predilect.models.errors import ParameterError
from predilect.models.ids import IdMap
from predilect.models.ratings import RatingScale, RatingsModel, VBConfig, em
from predilect.models.ratings.orders import by_user_and_item

SCALE = RatingScale(-20, 20)


def data(seed: int = 0, n_users: int = 40, n_items: int = 25) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    users, items = (codes.astype(np.int32) for codes in np.nonzero(rng.random((n_users, n_items)) < 0.5))
    ratings = (a[users] * b[items]).sum(axis=1) + rng.normal(0, 0.5, len(users))
    return users, items, ratings.astype(np.float32)


def fitted(config: VBConfig, seed: int = 0) -> RatingsModel:
    users, items, ratings = data()
    return RatingsModel.fit(
        users, items, ratings, SCALE, config, user_ids=IdMap(np.arange(40)), item_ids=IdMap(np.arange(25)), seed=seed,
        n_threads=1,
    )  # fmt: skip


def test_with_one_factor_it_is_mean_field() -> None:
    config = VBConfig(n_user_latents=1, n_item_latents=0, max_sweeps=2000, tolerance=1e-10)
    plain, general = fitted(config), fitted(replace(config, inference="gmf"))
    assert general.bound_trace[-1] == pytest.approx(plain.bound_trace[-1], abs=0.02)
    np.testing.assert_allclose(general.posterior.users.means, plain.posterior.users.means, atol=1e-3)
    np.testing.assert_allclose(general.posterior.users.variances, plain.posterior.users.variances, rtol=1e-3)
    users, items, _ = data()
    ours, theirs = general.predict(users, items), plain.predict(users, items)
    np.testing.assert_allclose(ours.mean, theirs.mean, atol=2e-3)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-3)


@pytest.mark.parametrize("structure", [(2, 2), (0, 4)])
def test_its_bound_rises_above_that_of_mean_field_and_never_falls(structure: tuple[int, int]) -> None:
    config = VBConfig(
        n_user_latents=structure[0], n_item_latents=structure[1], precisions="fixed", tau=2.0, tolerance=1e-9
    )
    plain, general = fitted(config), fitted(replace(config, inference="gmf"))
    n = plain.n_sweeps
    assert np.array_equal(general.bound_trace[:n], plain.bound_trace)
    assert general.bound_trace[-1] > plain.bound_trace[-1] + 1
    assert np.diff(general.bound_trace).min() > -0.01


def test_rows_satisfy_the_update_equations() -> None:
    model = fitted(
        VBConfig(
            n_user_latents=1,
            n_item_latents=2,
            precisions="fixed",
            tau=2.0,
            tolerance=1e-12,
            max_sweeps=3000,
            inference="gmf",
        )
    )
    users, items, ratings = data()
    one, other, theta = model.posterior.items, model.posterior.users, model.noise_precision
    assert one.covariances is not None
    assert other.covariances is not None
    for item in (0, 7):
        who = users[items == item]
        rest = ratings[items == item] - other.offsets[who] - one.offsets[item]
        for block, rest_block in ((slice(0, 2), slice(2, 3)), (slice(2, 3), slice(0, 2))):
            x = other.means[who][:, block]
            second = x.T @ x + other.covariances[who][:, block, block].sum(axis=0)
            precision = np.diag(one.prior.precisions[:-1][block]) + theta * second
            np.testing.assert_allclose(one.covariances[item][block, block], np.linalg.inv(precision), rtol=1e-3)
            left = rest - other.means[who][:, rest_block] @ one.means[item][rest_block]
            expected = np.linalg.solve(precision, theta * x.T @ left)
            np.testing.assert_allclose(one.means[item][block], expected, atol=2e-3)
    assert np.all(one.covariances[:, :2, 2] == 0)


def test_predictive_variances_hold_the_covariances() -> None:
    model = fitted(VBConfig(n_user_latents=2, n_item_latents=2, inference="gmf"))
    users, items = model.posterior.users, model.posterior.items
    assert users.covariances is not None
    assert items.covariances is not None
    a, b, ca, cb = users.means[3], items.means[4], users.covariances[3], items.covariances[4]
    expected = 1 / model.noise_precision + users.offset_variances[3] + items.offset_variances[4]
    expected += np.trace(ca @ cb) + a @ cb @ a + b @ ca @ b
    assert model.predict(np.array([3]), np.array([4])).variance[0] == pytest.approx(expected, rel=1e-5)


def dense(
    points: em.Points, users: np.ndarray, items: np.ndarray, ratings: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of all latents, items first, and log p(r | ρ), without any elimination."""
    (n_users, s), (n_items, t) = points.user_weights.shape, points.item_weights.shape
    x = np.zeros((len(ratings), n_items * s + n_users * t))
    for n, (p, i) in enumerate(zip(users, items, strict=True)):
        x[n, i * s : (i + 1) * s] = points.user_weights[p]
        x[n, n_items * s + p * t : n_items * s + (p + 1) * t] = points.item_weights[i]
    rest = ratings - points.user_offsets[users] - points.item_offsets[items]
    covariance = np.linalg.inv(np.eye(x.shape[1]) + points.noise * x.T @ x)
    marginal = np.eye(len(ratings)) / points.noise + x @ x.T
    log_likelihood = -0.5 * (rest @ np.linalg.solve(marginal, rest) + np.linalg.slogdet(2 * np.pi * marginal)[1])
    return covariance @ (points.noise * x.T @ rest), covariance, float(log_likelihood)


@pytest.mark.parametrize(("s", "t"), [(2, 1), (1, 3), (2, 0), (0, 2)])
def test_the_e_step_is_that_of_a_dense_solve(s: int, t: int) -> None:
    users, items, ratings = data(1, 12, 9)
    rng = np.random.default_rng(s)
    points = em.Points(
        rng.normal(size=(12, s)), rng.normal(size=(9, t)), rng.normal(size=12), rng.normal(size=9), noise=1.3
    )
    by_user, by_item = by_user_and_item(users, items, ratings, 12, 9)
    with threads(2) as pool:
        found = em.expect(by_user, by_item, points, pool)
    mean, covariance, log_likelihood = dense(points, users, items, ratings)
    m, u = mean[: 9 * s].reshape(9, s), mean[9 * s :].reshape(12, t)
    np.testing.assert_allclose(found.items, m, atol=1e-9)
    np.testing.assert_allclose(found.users, u, atol=1e-9)
    assert found.log_likelihood == pytest.approx(log_likelihood, rel=1e-9)
    at = {"item": lambda i: slice(i * s, (i + 1) * s), "user": lambda p: slice(9 * s + p * t, 9 * s + (p + 1) * t)}
    for n, (p, i) in enumerate(zip(users, items, strict=True)):  # sorted by user, as the cross covariances are
        np.testing.assert_allclose(found.item_covariances[i], covariance[at["item"](i), at["item"](i)], atol=1e-9)
        np.testing.assert_allclose(found.user_covariances[p], covariance[at["user"](p), at["user"](p)], atol=1e-9)
        np.testing.assert_allclose(found.cross[n], covariance[at["item"](i), at["user"](p)], atol=1e-9)


def test_em_never_lowers_its_objective_and_learns() -> None:
    model = fitted(VBConfig(n_user_latents=1, n_item_latents=1, inference="em", tau=1.0, max_sweeps=40, tolerance=1e-7))
    assert np.diff(model.bound_trace).min() > -1e-3
    assert len(model.bound_trace) > 5
    users, items, ratings = data()
    assert np.sqrt(np.mean((model.predict(users, items).mean - ratings) ** 2)) < 0.6


def test_em_refuses_what_does_not_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    config = VBConfig(n_user_latents=4, n_item_latents=4, inference="em")
    assert em.memory(1000, 500, 10**4, config) >= 8 * (500 * 4) ** 2
    monkeypatch.setattr(em, "_machine_memory", lambda: 10**4)
    with pytest.raises(ParameterError, match=r"Exact EM .* GiB .* mf or gmf"):
        fitted(config)
