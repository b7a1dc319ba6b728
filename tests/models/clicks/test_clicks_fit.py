"""The maximum a posteriori: derivatives, optimum, limits in which models coincide."""

import numpy as np
import pytest
from clicks_examples import fixed, table
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.config import ClicksConfig
from predilect.models.clicks.curvature import conjugate_gradient
from predilect.models.clicks.design import Design
from predilect.models.clicks.fit import Fit
from predilect.models.clicks.model import ClicksModel
from predilect.models.compiled import threads
from predilect.models.errors import NotConvergedError, ParameterError


def problem(pool, config, seed=0, **size):
    design, n, v = table(**{"n_rows": 400, "n_words": 6, "n_groups": 15, "n_clusters": 2, "seed": seed} | size)
    layout = Layout.of(config, design)
    return Fit(design, n.astype(np.int32), v.astype(np.int32), layout, config, 0, pool)


def full_hessian(point, layout):
    """The Hessian in all coefficients, from S, B and D."""
    curvature, n = point.curvature(), layout.n_linear
    shape = (len(layout.group_sides), layout.n_groups)
    s = np.column_stack([curvature.product(e) for e in np.eye(n)])
    if not layout.group_sides:
        return s
    size = layout.size - n
    units = [e.reshape(shape) for e in np.eye(size)]
    b = np.column_stack([curvature.across(u) for u in units])
    d = np.column_stack([curvature.group_product(u).ravel() for u in units])
    inverse = np.column_stack([curvature.solve_groups(u).ravel() for u in units])
    np.testing.assert_allclose(inverse @ d, np.eye(size), atol=1e-8)
    return np.block([[s + b @ inverse @ b.T, b], [b.T, d]])


@pytest.mark.parametrize("model", ["m-log", "m-bbl", "m-prop"])
@pytest.mark.parametrize("group_effect", ["none", "mean", "both"])
def test_gradient_and_hessian_agree_with_differences(model, group_effect):
    config = fixed(model, group_effect=group_effect)
    with threads(1) as pool:
        fit = problem(pool, config)
        x = ClicksModel.fit(*table(n_rows=400, n_words=6, n_groups=15, n_clusters=2), config).coefficients
        x = x + np.random.default_rng(0).normal(0, 0.05, len(x))  # near the optimum, where D is positive
        precision = fit.layout.precision_vector(
            {block.name: 0.5 + 0.3 * i for i, block in enumerate(fit.layout.blocks)}
        )
        point = fit.evaluate(x, precision)
        hessian = full_hessian(point, fit.layout)
        step = 1e-5
        units = step * np.eye(len(x))
        ahead, behind = ([fit.evaluate(x + sign * unit, precision) for unit in units] for sign in (1, -1))
    slope = np.array([(up.value - down.value) / (2 * step) for up, down in zip(ahead, behind, strict=True)])
    bend = np.array([(up.gradient - down.gradient) / (2 * step) for up, down in zip(ahead, behind, strict=True)])
    np.testing.assert_allclose(point.gradient, slope, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(hessian, bend, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("model", ["m-log", "l-bbl", "l-prop"])
def test_the_optimum_has_a_small_gradient_and_nothing_near_is_better(model):
    design, n, v = table(n_groups=40)
    config = ClicksConfig(model=model)
    fitted = ClicksModel.fit(design, n, v, config)
    assert fitted.report.gradient_norm <= 1e-3
    rng = np.random.default_rng(0)
    with threads(1) as pool:
        fit = Fit(design, n.astype(np.int32), v.astype(np.int32), fitted.layout, config, 0, pool)
        precision = fitted.layout.precision_vector(fitted.precisions)
        best = fit.evaluate(fitted.coefficients, precision)
        assert np.abs(best.gradient).max() <= 1e-3
        for scale in (1e-3, 1e-1):
            other = fitted.coefficients + rng.normal(0, scale, fitted.layout.size)
            assert fit.evaluate(other, precision).value > best.value


def test_prop_without_contextual_dispersion_is_bbl():
    design, n, v = table(n_groups=30, n_clusters=2)
    words = {"dispersion.features": 1e10, "dispersion.clusters": 1e10}
    prop = ClicksModel.fit(design, n, v, fixed("l-prop", precisions=words)).predict(design)
    bbl = ClicksModel.fit(design, n, v, fixed("l-bbl")).predict(design)
    for found, expected in ((prop.zeta, bbl.zeta), (prop.eta, bbl.eta), (prop.zeta_sd, bbl.zeta_sd)):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_bbl_with_infinite_concentration_is_logistic_regression():
    design, n, v = table(n_groups=30)
    log = ClicksModel.fit(design, n, v, fixed("m-log", tolerance=1e-8))
    with threads(1) as pool:
        config = fixed("m-bbl")
        layout = Layout.of(config, design)
        fit = Fit(design, n.astype(np.int32), v.astype(np.int32), layout, config, 0, pool)
        at_infinity = np.zeros(layout.size)
        at_infinity[layout.linear[0]] = log.coefficients[log.layout.linear[0]]
        at_infinity[layout.linear[1]] = 290.0
        at_infinity[layout.group_slice(0)] = log.coefficients[log.layout.group_slice(0)]
        precision = layout.precision_vector({**log.precisions, "dispersion.intercept": 1e-20})
        point = fit.evaluate(at_infinity, precision)
    np.testing.assert_allclose(point.gradient, 0.0, atol=1e-6)
    assert point.value == pytest.approx(log.report.negative_log_posterior, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
def test_log_equals_scikit_learn(seed):
    design, n, v = table(n_clusters=3, seed=seed)
    fitted = ClicksModel.fit(design, n, v, fixed("m-log", intercept_precision=1e-12, tolerance=1e-8))
    matrix = design.expand()[:, 1:]
    doubled = sparse.vstack([matrix, matrix], format="csr")
    labels = np.repeat([1, 0], len(design))
    peer = LogisticRegression(solver="newton-cholesky", C=1 / 2.0, tol=1e-10).fit(
        doubled, labels, sample_weight=np.concatenate([v, n - v])
    )
    np.testing.assert_allclose(fitted.coefficients[1:], peer.coef_[0], atol=1e-5)
    assert fitted.coefficients[0] == pytest.approx(peer.intercept_[0], abs=1e-5)


def test_group_effects_are_eliminated_exactly():
    config = fixed("m-prop", group_effect="both")
    with threads(1) as pool:
        fit = problem(pool, config)
        layout = fit.layout
        x = np.zeros(layout.size)
        precision = layout.precision_vector({block.name: 3.0 for block in layout.blocks})
        curvature = fit.evaluate(x, precision).curvature()
        n = layout.n_linear
        s = np.column_stack([curvature.product(e) for e in np.eye(n)])
        np.testing.assert_allclose(s, s.T, atol=1e-8)
        spread = s + 50 * np.eye(n)  # away from an optimum S may be indefinite
        right = np.arange(n, dtype=float)
        if np.linalg.eigvalsh(s)[0] > 0:
            solved = conjugate_gradient(curvature, right, np.zeros(n), tolerance=1e-10, limit=500)
            np.testing.assert_allclose(s @ solved, right, atol=1e-5)
    assert np.linalg.eigvalsh(spread)[0] > 0


def test_rows_with_one_context_may_come_in_any_order_and_apart():
    design, n, v = table(n_rows=600, n_groups=5, n_clusters=2)
    shuffled = np.random.default_rng(0).permutation(len(design))
    one = ClicksModel.fit(design, n, v, fixed())
    two = ClicksModel.fit(design.take(shuffled), n[shuffled], v[shuffled], fixed())
    np.testing.assert_allclose(one.coefficients, two.coefficients, atol=1e-7)


def test_a_fit_that_does_not_converge_says_so():
    with pytest.raises(NotConvergedError, match="stopped after 1 Newton steps with a gradient norm of"):
        ClicksModel.fit(*table(), fixed(max_iterations=1, tolerance=1e-12))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "l-probit"}, "model is 'l-probit'; choose one of m-log, l-log"),
        ({"evidence": "maximum"}, "evidence is 'maximum'; choose one of hutchinson"),
        ({"group_effect": "all"}, "group_effect is 'all'"),
        ({"residual": "even"}, "residual is 'even'; choose spread or none"),
        ({"rank": 0}, "rank is 0; give a whole number of at least 1"),
        ({"start_precision": -1.0}, "start_precision is -1.0; give a finite number above 0"),
        ({"precisions": {"mean.features": float("nan")}}, "mean.features is nan; give a finite number above 0"),
    ],
)
def test_impossible_parameters_are_named(changes, message):
    with pytest.raises(ParameterError, match=message):
        ClicksConfig(**changes)


def test_a_precision_of_a_block_that_is_not_there_is_named():
    with pytest.raises(ParameterError, match=r"precisions names the block mean\.words; this model has mean\.intercept"):
        ClicksModel.fit(*table(), ClicksConfig(precisions={"mean.words": 1.0}))


def test_designs_without_features_have_an_intercept_only():
    design, n, v = table(n_groups=20)
    bare = Design.of(sparse.csr_matrix((len(design), 0)), groups=design.groups, n_groups=20)
    prediction = ClicksModel.fit(bare, n, v).predict(bare)
    assert len(np.unique(prediction.zeta)) == 21
    assert len(np.unique(prediction.eta)) == 1
