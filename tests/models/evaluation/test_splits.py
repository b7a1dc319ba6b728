"""Splits are partitions, repeatable, and hold out what they say."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predilect.models.errors import DataError, ParameterError
from predilect.models.evaluation.splits import k_folds, key_of, latest_rows, mixed, parse_split, split, summarise


@pytest.mark.parametrize("text", ["folds:u1", "random:0.2", "time:0.25", "user:0.1", "stable:0.2"])
def test_a_split_reads_and_prints_itself(text: str) -> None:
    assert str(parse_split(text)) == text
    assert str(parse_split(f"  {text} ")) == text


@pytest.mark.parametrize(
    "text",
    ["", "random", "random:", "random:0", "random:1", "random:-0.1", "random:nan", "random:x", "weekly:0.2", "0.2"],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="split is"):
        parse_split(text)


@settings(deadline=None, max_examples=60)
@given(
    users=st.lists(st.integers(0, 12), min_size=2, max_size=80),
    kind=st.sampled_from(["random:0.2", "time:0.3", "user:0.4"]),
    seed=st.integers(0, 5),
)
def test_a_split_is_repeatable_and_leaves_both_parts(users: list[int], kind: str, seed: int) -> None:
    codes = np.array(users, np.int32)
    times = np.arange(len(codes))[::-1]
    try:
        test = split(parse_split(kind), codes, timestamps=times, seed=seed)
    except DataError:
        return  # a part would be empty
    assert test.dtype == np.bool_
    assert 0 < test.sum() < len(codes)
    np.testing.assert_array_equal(test, split(parse_split(kind), codes, timestamps=times, seed=seed))


def test_stable_holds_out_the_same_rows_however_the_data_grow() -> None:
    rng = np.random.default_rng(4)
    pairs = rng.permutation(300 * 200)[:8000]
    users, items = pairs // 200, pairs % 200
    keys = mixed(key_of(map(str, range(300)), 1)[users], key_of(map(str, range(200)), 1)[items])
    whole = split(parse_split("stable:0.2"), users, keys=keys, seed=1)
    order = rng.permutation(8000)[:3000]  # fewer, and in another order
    np.testing.assert_array_equal(
        split(parse_split("stable:0.2"), users[order], keys=keys[order], seed=1), whole[order]
    )
    assert abs(whole.mean() - 0.2) < 4 * (0.2 * 0.8 / 8000) ** 0.5
    # As if drawn at random: no user or item has many more of them than chance gives.
    for codes, n in ((users, 300), (items, 200)):
        rows, held = np.bincount(codes, minlength=n), np.bincount(codes, whole, n)
        surplus = ((held - 0.2 * rows) ** 2 / (0.16 * rows)).sum()
        assert abs(surplus - n) < 5 * (2 * n) ** 0.5
    other = mixed(key_of(map(str, range(300)), 2)[users], key_of(map(str, range(200)), 2)[items])
    assert (split(parse_split("stable:0.2"), users, keys=other, seed=2) != whole).any()
    with pytest.raises(DataError, match="0 of 8000 rows"):
        split(parse_split("stable:0.0000000001"), users, keys=keys, seed=1)


def test_random_holds_out_the_share_and_depends_on_the_seed() -> None:
    users = np.zeros(1000, np.int32)
    masks = [split(parse_split("random:0.2"), users, seed=seed) for seed in (1, 2)]
    assert [int(mask.sum()) for mask in masks] == [200, 200]
    assert (masks[0] != masks[1]).any()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=60), st.floats(0.05, 0.95))
def test_time_holds_out_each_users_latest(rows: list[tuple[int, int]], share: float) -> None:
    users, times = (np.array(column) for column in zip(*rows, strict=True))
    test = latest_rows(users, times, share, 3)
    for user in np.unique(users):
        theirs = users == user
        n = int(theirs.sum())
        assert test[theirs].sum() == min(max(round(share * n), 1), n - 1)
        if test[theirs].any() and (~test[theirs]).any():
            assert times[theirs & ~test].max() <= times[theirs & test].min()


def test_rows_of_one_instant_are_not_held_out_by_their_place() -> None:
    users, times = np.zeros(400, np.int32), np.zeros(400)
    test = latest_rows(users, times, 0.5, 0)
    assert 60 < test[:200].sum() < 140


def test_user_split_keeps_nothing_of_the_users_held_out() -> None:
    users = np.repeat(np.arange(50), 7)
    test = split(parse_split("user:0.2"), users, seed=5)
    assert not set(users[test]) & set(users[~test])
    assert len(set(users[test])) == 10


def test_named_folds() -> None:
    folds = ["u1", None, "u2", "u1"]
    users = np.arange(4)
    np.testing.assert_array_equal(
        split(parse_split("folds:u1"), users, folds=folds, seed=0), [True, False, False, True]
    )
    with pytest.raises(DataError, match=r"folds are u1, u2"):
        split(parse_split("folds:u9"), users, folds=folds, seed=0)
    with pytest.raises(DataError, match="no folds"):
        split(parse_split("folds:u9"), users, seed=0)


def test_a_missing_timestamp_or_an_empty_part_is_an_error() -> None:
    with pytest.raises(DataError, match="timestamp"):
        split(parse_split("time:0.2"), np.arange(9), seed=0)
    with pytest.raises(DataError, match="0 of 2 rows"):
        split(parse_split("random:0.1"), np.arange(2), seed=0)
    with pytest.raises(DataError, match="0 of 30 rows"):
        split(parse_split("user:0.2"), np.zeros(30, np.int32), seed=0)


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 9), st.integers(0, 200), st.integers(0, 9))
def test_k_folds_are_even_and_repeatable(n_folds: int, more: int, seed: int) -> None:
    folds = k_folds(n_folds + more, n_folds, seed)
    sizes = np.bincount(folds, minlength=n_folds)
    assert len(sizes) == n_folds
    assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(folds, k_folds(n_folds + more, n_folds, seed))


def test_k_folds_refuses_the_impossible() -> None:
    with pytest.raises(ParameterError):
        k_folds(10, 1, 0)
    with pytest.raises(DataError, match="3 rows"):
        k_folds(3, 4, 0)


def test_summary_counts_what_training_never_saw() -> None:
    users: Any = np.array([0, 0, 1, 1, 2, 3])
    items: Any = np.array([0, 1, 0, 2, 0, 2])
    test = np.array([False, True, False, True, True, True])
    assert summarise(parse_split("random:0.5"), test, users, items) == {
        "kind": "random:0.5",
        "train_rows": 2,
        "test_rows": 4,
        "unseen_users": 2,  # 2 and 3
        "unseen_items": 2,  # 1 and 2
        "unseen_rows": 4,
    }


def test_publishers_folds_of_movielens(data_dir: Any) -> None:
    rows = []
    for fold in range(1, 6):
        table = np.loadtxt(data_dir / "ml-100k" / f"u{fold}.test", dtype=np.int64)
        rows.append((table[:, 0], np.full(len(table), f"u{fold}", dtype=object)))
    users = np.concatenate([user for user, _ in rows])
    folds = np.concatenate([fold for _, fold in rows])
    masks = [split(parse_split(f"folds:u{fold}"), users, folds=folds, seed=0) for fold in range(1, 6)]
    np.testing.assert_array_equal(np.sum(masks, axis=0), np.ones(100_000))
