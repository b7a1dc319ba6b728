"""Features of contexts and clusters of users."""

import numpy as np
import pytest
from scipy import sparse

from predilect.models.clicks.clusters import UserClusters, spherical_kmeans
from predilect.models.clicks.encoder import ContextEncoder
from predilect.models.clicks.features import FeatureColumns, FeatureEncoder, TextOptions
from predilect.models.errors import DataError, ParameterError

COLUMNS = FeatureColumns(
    texts={"headline": ["cats win", "cats lose", "dogs win again", ""]},
    categories={"section": ["a", "b", "a", "a"], "slot": [1, 2, 2, 1]},
    numbers={"age": [1.0, 3.0, 5.0, 7.0], "same": [2.0, 2.0, 2.0, 2.0]},
)
ALL_WORDS = TextOptions(min_lines=1)


def test_columns_become_parts_with_names():
    encoder = FeatureEncoder.fit(COLUMNS, ALL_WORDS)
    assert encoder.parts == (("headline", 5), ("section", 2), ("slot", 2), ("numbers", 2))
    assert encoder.names == [
        "again",
        "cats",
        "dogs",
        "lose",
        "win",
        "section=a",
        "section=b",
        "slot=1",
        "slot=2",
        "age",
        "same",
    ]
    matrix = encoder.transform(COLUMNS).toarray()
    np.testing.assert_allclose(np.linalg.norm(matrix[:3, :5], axis=1), 1.0, atol=1e-6)
    assert not matrix[3, :5].any()  # an empty text
    assert matrix[:, 5:9].tolist() == [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1], [1, 0, 1, 0]]
    np.testing.assert_allclose(matrix[:, 9], (np.array([1, 3, 5, 7]) - 4) / np.sqrt(5), atol=1e-6)
    assert not matrix[:, 10].any()  # a constant number


def test_unseen_words_and_categories_have_no_feature():
    encoder = FeatureEncoder.fit(COLUMNS, ALL_WORDS)
    other = FeatureColumns(
        texts={"headline": ["zebras"]},
        categories={"section": ["z"], "slot": ["x"]},
        numbers={"age": [4.0], "same": [9.0]},
    )
    assert not encoder.transform(other).toarray().any()


def test_rare_words_are_left_out_and_a_text_without_words_has_no_features():
    assert FeatureEncoder.fit(COLUMNS, TextOptions(min_lines=2)).names[:2] == ["cats", "win"]
    empty = FeatureEncoder.fit(FeatureColumns(texts={"headline": ["", " "]}))
    assert empty.parts == (("headline", 0),)
    assert empty.transform(FeatureColumns(texts={"headline": ["cats"]})).shape == (1, 0)


def test_missing_and_impossible_columns_are_named():
    encoder = FeatureEncoder.fit(COLUMNS, ALL_WORDS)
    with pytest.raises(DataError, match="The column section is missing"):
        encoder.transform(FeatureColumns(texts=COLUMNS.texts))
    with pytest.raises(DataError, match="Line 1 has nan in column age"):
        FeatureEncoder.fit(FeatureColumns(numbers={"age": [1.0, np.nan]}))
    with pytest.raises(DataError, match="The feature columns differ in length"):
        FeatureEncoder.fit(FeatureColumns(texts={"a": ["x"]}, numbers={"b": [1.0, 2.0]}))
    with pytest.raises(ParameterError, match="min_lines is 0"):
        TextOptions(min_lines=0)


def test_an_encoder_comes_back_from_its_arrays():
    clusters = UserClusters.fit(["u", "u", "w"], [1, 2, 9], 2, seed=0)
    encoder = ContextEncoder.fit(COLUMNS, options=ALL_WORDS, clusters=clusters, groups=["g", "h"])
    arrays, facts = encoder.to_arrays()
    assert all(array.dtype.kind != "O" for array in arrays.values())
    again = ContextEncoder.from_arrays(arrays, facts)
    rows = {"lines": [0, 2, 1], "users": ["w", "nobody", "u"], "groups": ["h", "new", "g"]}
    one, two = encoder.encode(COLUMNS, **rows), again.encode(COLUMNS, **rows)
    assert (one.features != two.features).nnz == 0
    for name in ("lines", "clusters", "groups"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert one.groups.tolist() == [1, -1, 0]
    assert one.clusters[1] == -1
    assert one.clusters[0] != one.clusters[2]
    assert one.parts == two.parts
    assert again.features.names == encoder.features.names


def test_an_encoder_of_empty_texts_comes_back_too():
    encoder = ContextEncoder.fit(FeatureColumns(texts={"headline": [""]}))
    again = ContextEncoder.from_arrays(*encoder.to_arrays())
    assert again.encode(FeatureColumns(texts={"headline": ["x", "y"]})).n_features == 0
    assert (again.encode(FeatureColumns(texts={"headline": ["x"]}), users=["u"], groups=["g"]).groups == -1).all()


def test_an_encoder_without_columns_goes_by_the_ids():
    encoder = ContextEncoder.fit(FeatureColumns(), groups=["a", "b"])
    design = encoder.encode(FeatureColumns(), groups=["b", "x", "a"])
    assert (len(design), design.width) == (3, 0)
    assert design.groups.tolist() == [1, -1, 0]


def test_planted_clusters_are_found_and_users_without_history_have_none():
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=200)
    history = sparse.csr_matrix(
        (np.ones(2000), (np.repeat(np.arange(200), 10), 50 * np.repeat(truth, 10) + rng.integers(50, size=2000))),
        shape=(201, 200),
    )
    labels, centres, cosine = spherical_kmeans(history, 4, seed=0)
    assert labels[200] == -1
    for cluster in range(4):
        assert len(np.unique(truth[labels[:200] == cluster])) == 1
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1.0)
    assert cosine > 0.3
    again, _, _ = spherical_kmeans(history, 4, seed=0)
    assert np.array_equal(labels, again)


def test_scale_does_not_matter_to_clusters():
    rng = np.random.default_rng(1)
    history = sparse.random(50, 20, 0.3, random_state=1, format="csr")
    scaled = sparse.diags(rng.uniform(0.1, 9.0, 50)) @ history
    assert np.array_equal(spherical_kmeans(history, 3, seed=0)[0], spherical_kmeans(scaled, 3, seed=0)[0])


def test_fewer_users_than_clusters_and_nobody_at_all():
    labels, _, _ = spherical_kmeans(sparse.eye(2, 5, format="csr"), 4, seed=0)
    assert len(np.unique(labels)) == 2
    labels, _, _ = spherical_kmeans(sparse.csr_matrix((3, 5)), 4, seed=0)
    assert labels.tolist() == [-1, -1, -1]
    with pytest.raises(ParameterError, match="n_clusters is 0"):
        spherical_kmeans(sparse.eye(2, format="csr"), 0, seed=0)
