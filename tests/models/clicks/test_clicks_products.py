"""The factored design matrix against the explicit one."""

import numpy as np
import pytest
from scipy import sparse

from predilect.models.clicks.design import Design, check_counts
from predilect.models.clicks.products import FactoredProduct
from predilect.models.compiled import threads
from predilect.models.errors import DataError


def some_design(n_rows=3000, n_lines=60, n_features=40, n_clusters=5, seed=0, density=0.2):
    rng = np.random.default_rng(seed)
    features = sparse.random(n_lines, n_features, density, random_state=seed, format="csr")
    lines = rng.integers(n_lines - 3, size=n_rows)  # the last lines are shown to nobody
    clusters = rng.integers(-1, n_clusters, size=n_rows) if n_clusters else None
    design = Design.of(features, lines=lines, clusters=clusters, n_clusters=n_clusters)
    return design.take(np.lexsort((design.clusters, design.lines)))


@pytest.mark.parametrize("n_clusters", [0, 5])
@pytest.mark.parametrize("sides", [1, 2])
def test_products_equal_those_of_the_explicit_matrix(n_clusters, sides):
    design = some_design(n_clusters=n_clusters)
    rng = np.random.default_rng(1)
    coefficients, weights = rng.normal(size=(sides, design.width)), rng.normal(size=(sides, len(design)))
    offsets = np.array([0.5, -1.0])[:sides]
    explicit = design.expand()[:, 1:]
    with threads(1) as pool:
        product = FactoredProduct(design, pool)
        forward = product.forward(coefficients, offsets)
        adjoint, squares = product.adjoint(weights), product.adjoint(weights, squared=True)
    np.testing.assert_allclose(forward, (explicit @ coefficients.T).T + offsets[:, None], atol=1e-12)
    np.testing.assert_allclose(adjoint, (explicit.T @ weights.T).T, atol=1e-11)
    np.testing.assert_allclose(squares, (explicit.multiply(explicit).T @ weights.T).T, atol=1e-5)


def test_products_are_bit_identical_for_any_number_of_threads():
    design = some_design(n_rows=40_000, n_lines=2000, n_features=300)
    rng = np.random.default_rng(1)
    coefficients, weights = rng.normal(size=(2, design.width)), rng.normal(size=(2, len(design)))
    results = []
    for n_threads in (1, 2, 5):
        with threads(n_threads) as pool:
            product = FactoredProduct(design, pool)
            results.append((product.forward(coefficients, np.zeros(2)), product.adjoint(weights)))
    for forward, adjoint in results[1:]:
        assert np.array_equal(forward, results[0][0])
        assert np.array_equal(adjoint, results[0][1])


def test_expanding_leaves_the_design_as_it_was():
    design = some_design()
    before = design.features.copy()
    design.expand()
    assert (design.features != before).nnz == 0


def test_features_that_are_not_finite_are_named():
    features = sparse.csr_matrix([[1.0, 0.0], [0.0, np.nan]])
    with pytest.raises(DataError, match="Line 1 of the features holds nan in column 1"):
        Design.of(features)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lines": [0, 2]}, "Row 1 has lines code 2"),
        ({"lines": [0, 1], "clusters": [0, 3], "n_clusters": 2}, "Row 1 has clusters code 3"),
        ({"lines": [0, 1], "groups": [0], "n_groups": 1}, "groups are int64 of shape"),
        ({"parts": (("words", 1),)}, "do not add up to 2 feature columns"),
        ({"parts": (("group", 2),)}, "A part of the features is called group, which is taken"),
        ({"parts": (("words", 1), ("words", 1))}, "A part of the features is called words, which is taken"),
    ],
)
def test_codes_out_of_range_are_named(arguments, message):
    with pytest.raises(DataError, match=message):
        Design.of(sparse.eye(2, format="csr"), **arguments)


@pytest.mark.parametrize(
    ("impressions", "clicks", "message"),
    [
        ([3, 3], [1, 5], "Row 1 has 5 clicks on 3 impressions; clicks cannot exceed impressions"),
        ([3, -1], [1, 0], "Row 1 has -1 impressions; counts cannot be negative"),
        ([3, 4], [1, -2], "Row 1 has -2 clicks; counts cannot be negative"),
        ([3, 2.5], [1, 1], "Row 1 has 2.5 impressions; counts must be whole numbers"),
        ([3, np.nan], [1, 1], "Row 1 has nan impressions; a number is missing"),
        ([3, 4], [np.inf, 1], "Row 0 has inf clicks; a number is missing"),
        ([3, 2**31], [1, 1], "Row 1 has 2147483648 impressions; counts must stay below"),
        ([3, 4], [1], "There are 2 impression counts but 1 click counts"),
        (["3", "4"], [1, 1], "The impressions are a 1-d <U1 array"),
    ],
)
def test_impossible_counts_get_one_clear_error(impressions, clicks, message):
    with pytest.raises(DataError, match=message):
        check_counts(impressions, clicks)


def test_whole_numbers_stored_as_fractions_are_fine():
    impressions, clicks = check_counts([3.0, 0.0], np.array([1, 0], np.uint8))
    assert impressions.dtype == clicks.dtype == np.int32
