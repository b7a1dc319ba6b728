"""The factored design matrix against the explicit one, and sums over rows wherever the rows are."""

from itertools import pairwise

import numpy as np
import pytest
from clicks_examples import fixed, table
from scipy import sparse

from predilect.models.clicks import contexts
from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.contexts import Contexts
from predilect.models.clicks.curvature import Curvature
from predilect.models.clicks.design import Design, check_counts
from predilect.models.clicks.piece import Piece
from predilect.models.clicks.products import FactoredProduct
from predilect.models.clicks.rows import Rows, answered
from predilect.models.compiled import Threads
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
@pytest.mark.parametrize("rows", [slice(0, 3000), slice(17, 1501), slice(5, 5)])
def test_products_equal_those_of_the_explicit_matrix(n_clusters, sides, rows):
    design = some_design(n_clusters=n_clusters)
    rng = np.random.default_rng(1)
    coefficients, weights = rng.normal(size=(sides, design.width)), rng.normal(size=(sides, len(design)))[:, rows]
    offsets = np.array([0.5, -1.0])[:sides]
    explicit = design.expand()[rows, 1:]
    product = FactoredProduct(design)
    forward = product.forward(product.by_cluster(coefficients), offsets, rows)
    np.testing.assert_allclose(forward, (explicit @ coefficients.T).T + offsets[:, None], atol=1e-12)
    for matrix, squared in ((explicit, False), (explicit.multiply(explicit), True)):
        found = np.zeros((*product.shape, sides))
        product.adjoint(weights, rows, found, squared=squared)
        expected = product.by_cluster((matrix.T @ weights.T).T)
        np.testing.assert_allclose(found, expected, atol=1e-5 if squared else 1e-11)


@pytest.mark.parametrize("model", ["m-log", "m-bbl", "m-prop"])
def test_sums_are_bit_identical_for_any_pieces_and_threads(model, monkeypatch):
    """Every sum over rows, whole and in pieces, on one thread and on more."""
    monkeypatch.setattr(contexts, "_LEAST_WORK", 3000)
    monkeypatch.setattr(contexts, "_WORK_PER_SUM", 1)
    design, n, v = table(n_rows=3000, n_words=8, n_groups=40, n_clusters=2)
    config = fixed(model, group_effect="both")
    layout = Layout.of(config, design)
    cut = Contexts.of(design, n.astype(np.int32), v.astype(np.int32), len(layout.sides))
    assert cut.n_chunks > 10
    everything = [
        sums(InPieces(cut, layout, Threads(n_threads), bounds))
        for n_threads, bounds in ((1, []), (3, []), (1, [1]), (2, [4, 7]), (1, list(range(1, cut.n_chunks))))
    ]
    assert len(set(everything)) == 1


def test_what_a_piece_does_not_keep_is_made_again():
    design, n, v = table(n_groups=40)
    layout = Layout.of(fixed("m-prop", group_effect="both"), design)
    cut = Contexts.of(design, n.astype(np.int32), v.astype(np.int32), 2)
    calm, forgetful = (Rows(cut, layout, Threads(1)), Forgetful(cut, layout, Threads(1)))
    assert sums(calm) == sums(forgetful)
    assert forgetful.n_forgotten > 10


def test_chunks_end_inside_a_context_of_very_many_rows():
    bare = Design.of(sparse.csr_matrix((50_000, 0)))
    cut = Contexts.of(bare, np.ones(50_000, np.int32), np.ones(50_000, np.int32), 2)
    assert cut.n_chunks > 10
    assert np.diff(cut.starts).max() <= 4096


class InPieces(Rows):
    """Rows whose chunks are cut at these bounds."""

    def __init__(self, cut, layout, pool, bounds):
        super().__init__(cut, layout, pool)
        self.pieces = [
            Piece(cut.part(first, last), layout, pool, first) for first, last in pairwise([0, *bounds, cut.n_chunks])
        ]

    def ask(self, calls):
        return [
            answered(lambda call, own=piece: getattr(own, call.method)(*call.arguments), calls) for piece in self.pieces
        ]


class Forgetful(Rows):
    """Rows whose piece forgets everything after every second call."""

    n_calls = n_forgotten = 0

    def ask(self, calls):
        self.n_calls += 1
        if self.n_calls % 2:
            self.__dict__.pop("_piece", None)
            self.n_forgotten += 1
        return super().ask(calls)


def sums(rows):
    """The bits of everything that is added up over rows at some points."""
    rng, layout = np.random.default_rng(2), rows.layout
    found = []
    for scale in (0.1, 3.0):  # the second is far from any optimum: D is indefinite there
        x = rng.normal(0, scale, layout.size)
        value, gradient, hessians = rows.observe(x)
        found += [np.array([value]), gradient]
        curvatures = [Curvature(rows, hessians, layout.precision_vector(dict.fromkeys(names(layout), 0.01)))]
        information = rows.expect(x)
        for s in range(len(layout.sides)):
            side = layout.one_side(s)
            precision = side.precision_vector(dict.fromkeys(names(side), 0.01))
            curvatures.append(Curvature(rows, information, precision, s))
            found.append(curvatures[-1].row_hessian)
        for curvature in curvatures:
            vector = rng.normal(size=curvature.layout.n_linear)
            effects = rng.normal(size=(len(curvature.layout.group_sides), layout.n_groups))
            found += [curvature.diagonal, curvature.product(vector), curvature.solve_groups(effects)]
            found += [curvature.across(effects), curvature.across_adjoint(vector)]
    return b"".join(array.tobytes() for array in found)


def names(layout):
    return [block.name for block in layout.blocks]


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
