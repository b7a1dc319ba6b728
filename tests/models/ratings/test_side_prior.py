"""Features in variational fits: the bound, what it is of, leaks, and whoever is known from features alone."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal

from predilect.models.compiled import threads
from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.ratings import Features, RatingScale, RatingsModel, VBConfig, side_prior
from predilect.models.ratings.features import design
from predilect.models.ratings.orders import by_user_and_item
from predilect.models.ratings.posterior import Prior, Side
from predilect.models.ratings.side_prior import FeatureBasis, SidePrior

SCALE = RatingScale(-20, 20)


def ratings(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ratings of 60 × 40, whose user factors follow a group of users."""
    rng = np.random.default_rng(seed)
    group = np.arange(60) % 3
    a = rng.normal(size=(3, 2))[group] * 2 + 0.3 * rng.normal(size=(60, 2))
    b = rng.normal(size=(40, 2))
    users, items = (codes.astype(np.int32) for codes in np.nonzero(rng.random((60, 40)) < 0.4))
    value = (a[users] * b[items]).sum(axis=1) + rng.normal(0, 0.5, len(users))
    return users, items, value.astype(np.float32), group


def fitted(config: VBConfig, rows: slice | np.ndarray = slice(None), group: np.ndarray | None = None) -> RatingsModel:
    users, items, value, _ = ratings()
    return RatingsModel.fit(
        users[rows], items[rows], value[rows], SCALE, config, user_ids=IdMap(np.arange(60)),
        item_ids=IdMap(np.arange(40)), seed=0, n_threads=1, user_features=None if group is None else of_group(group),
    )  # fmt: skip


def of_group(group: np.ndarray) -> Features:
    return Features(csr_array(0.5 * np.eye(3)[group]), ("a", "b", "c"), ("group",) * 3, np.full(3, 0.5))


@pytest.mark.parametrize("inference", ["mf", "gmf"])
@pytest.mark.parametrize("n_factors", [2, 6])
def test_the_bound_never_falls(inference: str, n_factors: int) -> None:
    config = VBConfig(n_user_latents=n_factors // 2, n_item_latents=n_factors // 2, rated_set=True, inference=inference)
    model = fitted(replace(config, tolerance=1e-7), group=ratings()[3])
    trace = model.bound_trace
    assert len(trace) > 10
    assert np.diff(trace).min() > -1e-3 * abs(trace[-1]) / 100
    assert trace[-1] > trace[0]


def test_a_sides_part_of_the_bound_is_the_expected_log_density_of_its_prior() -> None:
    users, items, value, group = ratings()
    by_user, _ = by_user_and_item(users, items, value, 60, 40)
    whole = design(by_user, 40, of_group(group), rated_set=True)
    rng = np.random.default_rng(1)
    side = Side.at_prior(60, Prior(np.array([2.0, 3.0, 1.0]), np.zeros(3)), np.float64)
    side.means[:], side.offsets[:] = rng.normal(size=(60, 2)), rng.normal(size=60)
    side.variances[:], side.offset_variances[:] = 0.3, 0.2
    basis = FeatureBasis(by_user, whole, base=1.5)
    with threads(1) as pool:
        prior = SidePrior(basis, side, pool)
        for _ in range(200):
            found = prior.update(side, pool, learn=True)
        # What `update` leaves out: the constants that cancel with the entropy's, and adds: the Gamma priors.
        expected = 0.0
        for k, (mean, variance) in enumerate(
            [(side.means[:, 0], 0.3), (side.means[:, 1], 0.3), (side.offsets - 1.5, 0.2)]
        ):
            gram = (basis.matrix @ basis.matrix.T).toarray()
            covariance = (np.eye(60) + gram / prior.lambda_[k]) / prior.alpha[k]
            expected += multivariate_normal(np.zeros(60), covariance).logpdf(mean)
            expected -= 0.5 * np.trace(np.linalg.inv(covariance)) * variance
            expected += 30 * (1 + np.log(2 * np.pi)) - prior.alpha[k] - prior.lambda_[k]
        assert found == pytest.approx(expected, rel=1e-8)
        # It is maximised over α and λ; moving either way lowers it.
        assert prior.update(side, pool, learn=False) == pytest.approx(found)
        alpha, lambda_ = prior.alpha.copy(), prior.lambda_.copy()
        for factor in (0.97, 1.03):
            prior.alpha = alpha * factor
            assert prior.update(side, pool, learn=False) < found
            prior.alpha, prior.lambda_ = alpha, lambda_ * factor
            assert prior.update(side, pool, learn=False) < found
            prior.lambda_ = lambda_
        prior.update(side, pool, learn=False)
    # The tangent: means (H⟨A⟩)_p and leverages.
    assert np.allclose(prior.lambda_, lambda_)
    hat = gram @ np.linalg.inv(gram + prior.lambda_[0] * np.eye(60))
    assert side.row_means is not None
    assert side.leverage is not None
    np.testing.assert_allclose(side.row_means[:, 0], hat @ side.means[:, 0], atol=1e-8)
    np.testing.assert_allclose(side.leverage[:, 0], np.diag(hat), atol=1e-8)


def test_the_leading_eigenvectors_stand_for_all_when_there_are_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    config = VBConfig(n_user_latents=1, n_item_latents=1, rated_set=True)
    exact = fitted(config)
    monkeypatch.setattr(side_prior, "MOST_ROWS", 10)
    monkeypatch.setattr(side_prior, "LEADING", 30)
    near = fitted(config)
    users, items, _, _ = ratings()
    np.testing.assert_allclose(near.predict(users, items).mean, exact.predict(users, items).mean, atol=0.3)


@pytest.mark.parametrize("inference", ["mf", "gmf", "gibbs"])
def test_who_rated_what_in_the_test_part_changes_nothing(inference: str) -> None:
    # Two data sets with one training part and other test pairs: a rated set that saw them would differ.
    config = VBConfig(
        n_user_latents=1, n_item_latents=1, rated_set=True, inference=inference, chains=1, burn_in=2, samples=4, draws=2
    )
    users, items, value, _ = ratings()
    train = np.random.default_rng(0).random(len(users)) < 0.8
    asked = np.arange(40)
    model = fitted(config, train)
    before = [model.predict(np.full(40, user), asked) for user in range(60)]
    # The same with the design made by hand from the training pairs alone.
    by_user, by_item = by_user_and_item(users[train], items[train], value[train], 60, 40)
    for order, other in ((by_user, 40), (by_item, 60)):
        made = design(order, other, None, rated_set=True).matrix
        assert made.nnz == order.n_rows + train.sum()
    pairs = set(zip(users[train].tolist(), items[train].tolist(), strict=True))
    rows, columns = design(by_user, 40, None, rated_set=True).matrix[:, 1:].nonzero()
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == pairs
    # Predicting does not add to the rated sets either.
    after = [model.predict(np.full(40, user), asked) for user in range(60)]
    assert all(np.array_equal(one.mean, other.mean) for one, other in zip(before, after, strict=True))


def test_rated_sets_count_for_a_user_folded_in() -> None:
    model = fitted(VBConfig(n_user_latents=1, n_item_latents=1, rated_set=True))
    users, items, value, _ = ratings()
    mine = users == 7
    folded, known = (
        model.fold_in(items[mine], value[mine]).predict(np.arange(40)),
        model.predict(np.full(40, 7), np.arange(40)),
    )
    assert np.sqrt(np.mean((folded.mean - known.mean) ** 2)) < 0.2


def test_features_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="59 rows, but there are 60"):
        fitted(VBConfig(n_user_latents=1), group=ratings()[3][:59])
    with pytest.raises(DataError, match="not finite"):
        Features(csr_array(np.array([[np.nan]])), ("a",), ("a",), np.ones(1))
    with pytest.raises(ParameterError, match="EM takes no features"):
        fitted(VBConfig(n_user_latents=1, n_item_latents=1, inference="em", rated_set=True))
