"""The low-rank posterior against exact inverses, and what unknown groups and clusters add."""

import numpy as np
import pytest
from clicks_examples import dense, fixed, table

from predilect.models.clicks.fisher import fisher_information
from predilect.models.clicks.model import ClicksModel
from predilect.models.compiled import threads
from predilect.models.errors import ParameterError


def information(model, design, n):
    prediction = model.predict(design)
    logits = np.stack([prediction.zeta, prediction.eta])[: len(model.layout.sides)]
    with threads(1) as pool:
        return fisher_information(n.astype(np.int32), logits, pool)[[0, 2] if len(logits) == 2 else [0]]


@pytest.mark.parametrize("group_effect", ["none", "mean", "both"])
@pytest.mark.parametrize("model", ["l-log", "l-bbl", "l-prop"])
def test_a_rank_beyond_the_coefficients_gives_the_exact_posterior(model, group_effect):
    design, n, v = table(n_groups=25, n_clusters=2)
    fitted = ClicksModel.fit(design, n, v, fixed(model, group_effect=group_effect, rank=10_000))
    rows = np.flatnonzero((design.clusters >= 0) & (design.groups >= 0))
    prediction = fitted.predict(design)
    h = information(fitted, design, n)
    for s, sd in enumerate([prediction.zeta_sd, prediction.eta_sd][: len(fitted.layout.sides)]):
        matrix, covariance = dense(fitted, design, n, s, h[s])
        exact = np.sqrt(np.einsum("ri,ij,rj->r", matrix[rows], covariance, matrix[rows]))
        np.testing.assert_allclose(sd[rows], exact, rtol=1e-6)
        for block in fitted.layout.one_side(s).blocks:
            mean, block_sd = fitted.block(block.name)
            np.testing.assert_allclose(block_sd, np.sqrt(np.diag(covariance))[block.start : block.stop], rtol=1e-6)
            assert mean.shape == (block.size,)


def test_the_residual_keeps_a_small_rank_near_the_exact_posterior_and_the_paper_truncation_does_not():
    design, n, v = table(n_rows=3000, n_words=150, seed=3)
    exact = ClicksModel.fit(design, n, v, fixed(rank=10_000)).predict(design).zeta_sd
    spread = ClicksModel.fit(design, n, v, fixed(rank=8)).predict(design).zeta_sd
    truncated = ClicksModel.fit(design, n, v, fixed(rank=8, residual="none")).predict(design).zeta_sd
    assert 0.9 < (spread / exact).mean() < 1.1
    assert (truncated / exact).mean() > 1.5
    assert (truncated >= exact * (1 - 1e-9)).all()


def test_iterated_and_direct_eigenvalues_agree(monkeypatch):
    design, n, v = table(n_groups=25, n_clusters=2, n_words=20)
    direct = ClicksModel.fit(design, n, v, fixed(rank=5)).predict(design)
    monkeypatch.setattr("predilect.models.clicks.posterior._DENSE_SIZE", 10)
    iterated = ClicksModel.fit(design, n, v, fixed(rank=5)).predict(design)
    np.testing.assert_allclose(iterated.zeta_sd, direct.zeta_sd, rtol=1e-3)
    np.testing.assert_allclose(iterated.eta_sd, direct.eta_sd, rtol=1e-3)


def test_unknown_groups_and_cold_clusters_add_their_prior_variance():
    design, n, v = table(n_groups=25, n_clusters=2)
    fitted = ClicksModel.fit(design, n, v, fixed(rank=10_000))
    mean_variance = fitted.posteriors[0]
    some = design.take(slice(0, 200))
    stranger = type(some)(
        **{**vars(some), "groups": np.full(200, -1, np.int32), "clusters": np.full(200, -1, np.int32)}
    )
    prediction = fitted.predict(stranger)
    rows = stranger.expand()
    squares = np.asarray(some.features.multiply(some.features).sum(axis=1)).ravel()[some.lines]
    expected = (
        mean_variance.variances(rows, stranger.groups)
        + 1 / fitted.precisions["mean.group"]
        + squares / fitted.precisions["mean.clusters"]
    )
    np.testing.assert_allclose(prediction.zeta_sd**2, expected, rtol=1e-6)
    np.testing.assert_allclose(prediction.zeta, rows @ fitted.coefficients[fitted.layout.linear[0]], atol=1e-12)


def test_features_never_seen_keep_their_prior():
    design, n, v = table()
    silent = design.features.copy()
    silent = type(design).of(np.hstack([silent.toarray(), np.zeros((silent.shape[0], 3))]), lines=design.lines)
    fitted = ClicksModel.fit(silent, n, v, fixed(rank=4))
    mean, sd = fitted.block("mean.features")
    np.testing.assert_allclose(mean[-3:], 0.0, atol=1e-12)
    np.testing.assert_allclose(sd[-3:], 1 / np.sqrt(2.0), rtol=1e-9)


def test_map_models_have_no_spread():
    design, n, v = table(n_groups=10)
    fitted = ClicksModel.fit(design, n, v, fixed("m-prop"))
    prediction = fitted.predict(design)
    assert not prediction.zeta_sd.any()
    assert not prediction.eta_sd.any()
    with pytest.raises(ParameterError, match="m-prop has no posterior to draw from; fit l-prop"):
        fitted.draw_zeta(design, np.random.default_rng(0))


def test_joint_draws_have_the_predicted_moments():
    design, n, v = table(n_rows=300, n_groups=10, n_clusters=2)
    fitted = ClicksModel.fit(design, n, v, fixed("l-bbl", rank=3))
    prediction = fitted.predict(design)
    rng = np.random.default_rng(0)
    draws = np.array([fitted.draw_zeta(design, rng) for _ in range(800)])
    error = prediction.zeta_sd / np.sqrt(800)
    assert (np.abs(draws.mean(axis=0) - prediction.zeta) < 5 * error).all()
    np.testing.assert_allclose(draws.std(axis=0), prediction.zeta_sd, rtol=0.15)
    # Rows of one context move together: it is one draw of the coefficients, not one of every row.
    same = (design.clusters >= 0) & (design.groups >= 0)
    context = np.stack([design.lines, design.clusters, design.groups], axis=1)[same]
    _, first, place = np.unique(context, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_allclose(draws[:, same], draws[:, same][:, first[place.ravel()]])


def test_a_block_that_is_not_there_is_named():
    fitted = ClicksModel.fit(*table(), fixed())
    with pytest.raises(ParameterError, match=r"The model has no block 'mean\.group'; it has mean\.intercept"):
        fitted.block("mean.group")
