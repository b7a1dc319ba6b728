"""Gibbs: moments where they are known, recovery of what was planted, diagnostics, draws and what is made of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from predilect.models.compiled import threads
from predilect.models.errors import ParameterError
from predilect.models.ids import IdMap
from predilect.models.ratings import Features, RatingScale, RatingsModel, VBConfig
from predilect.models.ratings.convergence import effective_size, split_rhat
from predilect.models.ratings.gibbs_kernels import sample_rows
from predilect.models.ratings.kernels import width
from predilect.models.ratings.regression import EigenRegression, GradientRegression

SCALE = RatingScale(-30, 30)


def fitted(users: np.ndarray, items: np.ndarray, ratings: np.ndarray, config: VBConfig, **more: object) -> RatingsModel:
    ids = {"user_ids": IdMap(np.arange(users.max() + 1)), "item_ids": IdMap(np.arange(items.max() + 1))}
    return RatingsModel.fit(
        users.astype(np.int32), items.astype(np.int32), ratings.astype(np.float32), SCALE, config,
        **(ids | {"seed": 0, "n_threads": 2} | more),
    )  # fmt: skip


def test_a_row_has_the_moments_of_its_full_conditional() -> None:
    rng = np.random.default_rng(0)
    k, n, repeats = 3, 12, 20_000
    other = np.zeros((n, width(k)), np.float32)
    other[:, :k], other[:, k], other[:, k + 1] = rng.normal(size=(n, k)), 1, rng.normal(size=n)
    ratings = rng.normal(size=n).astype(np.float32)
    alpha, prior, theta = np.array([1.0, 2, 0.5, 3]), rng.normal(size=(1, k + 1)), 1.7
    table, residual = np.zeros((1, width(k)), np.float32), np.zeros(1)
    own = [*range(k), k + 1]
    draws, squares = np.empty((repeats, k + 1)), 0.0
    for repeat in range(repeats):
        sample_rows(
            0, 1, np.array([0, n]), np.arange(n, dtype=np.int32), ratings, table, other, alpha, prior, theta,
            rng.standard_normal((1, k + 1)), residual,
        )  # fmt: skip
        draws[repeat] = table[0, own]
    x = other[:, : k + 1].astype(float)
    target = ratings - other[:, k + 1].astype(float)
    covariance = np.linalg.inv(np.diag(alpha) + theta * x.T @ x)
    mean = covariance @ (alpha * prior[0] + theta * x.T @ target)
    error = np.sqrt(np.diag(covariance) / repeats)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * error)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=6 * covariance.max() / np.sqrt(repeats))
    squares = np.sum((target - draws @ x.T) ** 2)
    assert residual[0] == pytest.approx(squares, rel=1e-4)


def test_it_agrees_with_variational_bayes_where_both_are_exact() -> None:
    # Offsets alone, every pair rated: but for the one direction φ + c, ψ − c, which no rating sees, the posterior is
    # Gaussian and nearly independent, so that q is the posterior.
    rng = np.random.default_rng(1)
    users, items = (codes.ravel() for codes in np.mgrid[:40, :60])
    expected = rng.normal(0, 1, 40)[users] + rng.normal(0, 2, 60)[items]
    ratings = expected + rng.normal(0, 1, len(users))
    config = VBConfig(n_user_latents=0, n_item_latents=0, max_sweeps=500, tolerance=1e-9)
    variational = fitted(users, items, ratings, config)
    gibbs = fitted(users, items, ratings, replace(config, inference="gibbs", samples=400, draws=100))
    ours, theirs = gibbs.predict(users, items), variational.predict(users, items)
    np.testing.assert_allclose(ours.mean, theirs.mean, atol=0.06)
    np.testing.assert_allclose(ours.variance, theirs.variance, rtol=0.03)
    assert gibbs.sampled is not None
    draws = gibbs.sampled.draws
    assert draws.noise.mean() == pytest.approx(variational.noise_precision, rel=0.02)
    # The variance without the noise: 1/60 for the user and 1/40 for the item.
    spread = draws.pairs(users, items).var(axis=1).mean()
    assert spread == pytest.approx((theirs.variance - 1 / variational.noise_precision).mean(), rel=0.1)


def test_it_recovers_what_was_planted_and_its_intervals_hold() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(150, 2)), rng.normal(size=(100, 2))
    users, items = np.nonzero(rng.random((150, 100)) < 0.4)
    test = rng.random(len(users)) < 0.25
    expected = (a[users] * b[items]).sum(axis=1) + 3
    ratings = expected + rng.normal(0, 0.5, len(users))
    config = VBConfig(
        n_user_latents=2, n_item_latents=2, inference="gibbs", chains=2, burn_in=60, samples=120, draws=40
    )
    model = fitted(users[~test], items[~test], ratings[~test], config)
    found = model.predict(users[test], items[test])
    assert np.sqrt(np.mean((found.mean - expected[test]) ** 2)) < 0.25
    inside = np.abs(found.mean - ratings[test]) < 1.645 * np.sqrt(found.variance)
    assert 0.87 < inside.mean() < 0.93
    assert model.sampled is not None
    mixed = model.sampled.convergence
    assert mixed.noise_rhat < 1.1
    assert np.nanmedian(mixed.rhat) < 1.1
    assert mixed.noise.mean() ** -0.5 == pytest.approx(0.5, rel=0.05)

    # The draws are what the predictions are made of.
    draws = model.sampled.draws
    pairs = draws.pairs(users[test][:50], items[test][:50])
    np.testing.assert_allclose(pairs.mean(axis=1), found.mean[:50], rtol=1e-4)
    np.testing.assert_allclose(pairs.var(axis=1) + np.mean(1 / draws.noise), found.variance[:50], rtol=1e-3)
    everything = np.array([model.predict(np.full(100, user), np.arange(100)).mean for user in range(3)])
    assert (model.recommend_codes(np.arange(3), 4) == np.argsort(-everything, axis=1)[:, :4]).all()

    # A user folded in is nearly the user who was there all the time.
    mine = users[~test] == 5
    folded = model.fold_in(items[~test][mine], ratings[~test][mine])
    known = model.predict(np.full(100, 5), np.arange(100))
    again = folded.predict(np.arange(100))
    assert np.sqrt(np.mean((again.mean - known.mean) ** 2)) < 0.15
    np.testing.assert_allclose(again.variance, known.variance, rtol=0.5)


def test_whoever_has_no_ratings_is_predicted_from_features() -> None:
    rng = np.random.default_rng(3)
    kind = np.arange(80) % 2
    users, items = np.nonzero(rng.random((80, 40)) < 0.5)
    keep = users >= 10  # ten users without any rating
    ratings = np.where(kind == 1, 2.0, -2.0)[users] + rng.normal(0, 0.5, len(users))
    features = Features(
        csr_array(np.stack([kind == 0, kind == 1], axis=1) * 0.5), ("a", "b"), ("k", "k"), np.full(2, 0.5)
    )
    for inference in ("mf", "gmf", "gibbs"):
        config = VBConfig(
            n_user_latents=1, n_item_latents=1, inference=inference, burn_in=40, samples=60, draws=30, chains=2
        )
        model = fitted(users[keep], items[keep], ratings[keep], config, user_features=features)
        new, old = model.predict(np.arange(10), np.zeros(10, int)), model.predict(np.arange(10, 20), np.zeros(10, int))
        np.testing.assert_allclose(new.mean, np.where(kind[:10] == 1, 2, -2), atol=0.5)
        assert np.all(new.variance > 0.2)
        assert new.variance.mean() > old.variance.mean()
        if model.sampled is not None:
            effects = model.sampled.user_effects
            difference = effects.shift[:, 1] - effects.shift[:, 0]
            low, high = np.quantile(difference, [0.01, 0.99])
            assert low < 4 < high + 0.6
            assert effects.group_sd[:, 0].mean() == pytest.approx(2, rel=0.2)


@pytest.mark.parametrize("form", [EigenRegression, GradientRegression])
def test_both_forms_of_the_regression_draw_from_the_same_posterior(form: type) -> None:
    rng = np.random.default_rng(4)
    x = csr_array(rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.6))
    truth = rng.normal(size=(8, 2)) * 3
    values = x @ truth + rng.normal(size=(60, 2)) * [0.5, 2.0]
    side = form(x, 2)
    drawn, alphas = [], []
    with threads(1) as pool:
        for sweep in range(1500):
            side.draw(values, rng, pool)
            if sweep >= 100:
                drawn.append(side.weights(rng))
                alphas.append(side.alpha)
    # Least squares, hardly shrunken; its covariance is (XᵀX)⁻¹ over the noise precision.
    gram = (x.T @ x).toarray()
    expected = np.linalg.solve(gram, x.T @ values)
    spread = np.sqrt(np.outer(np.diag(np.linalg.inv(gram)), [0.25, 4.0]))
    assert np.all(np.abs(np.mean(drawn, axis=0) - expected) < 0.6 * spread)
    np.testing.assert_allclose(np.std(drawn, axis=0), spread, rtol=0.35)
    np.testing.assert_allclose(np.mean(alphas, axis=0) ** -0.5, [0.5, 2.0], rtol=0.3)


def test_the_diagnostics_know_good_chains_from_bad_ones() -> None:
    rng = np.random.default_rng(5)
    white = rng.normal(size=(4, 1000, 3))
    assert np.all(split_rhat(white) < 1.01)
    np.testing.assert_allclose(effective_size(white), 4000, rtol=0.25)
    slow = np.zeros((4, 4000))
    for t in range(1, 4000):
        slow[:, t] = 0.9 * slow[:, t - 1] + rng.normal(size=4)
    assert effective_size(slow) == pytest.approx(16_000 * 0.1 / 1.9, rel=0.3)
    apart = rng.normal(size=(2, 200)) + np.array([[0.0], [3.0]])
    assert split_rhat(apart) > 1.5
    assert effective_size(apart) < 10
    assert np.isnan(split_rhat(np.ones((2, 50))))


def test_impossible_chains_are_refused() -> None:
    for wrong in ({"chains": 0}, {"burn_in": -1}, {"samples": 10, "draws": 11}, {"draws": 0}, {"inference": "magic"}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            VBConfig(**wrong)
