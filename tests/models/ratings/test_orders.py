"""The two orders of the ratings against numpy's sorts, and what they cost."""

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from predilect.models.ratings.orders import Order, by_user_and_item

N_USERS, N_ITEMS = 50, 40


def ratings(n: int, n_levels: int, seed: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Distinct pairs in random order; user 7 and item 9 never rate or are rated."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation([p * N_ITEMS + i for p in range(N_USERS) for i in range(N_ITEMS) if p != 7 and i != 9])[:n]
    values = rng.permutation(np.resize(np.linspace(-3, 4, n_levels), n)).astype(np.float32)
    return (pairs // N_ITEMS).astype(np.int32), (pairs % N_ITEMS).astype(np.int32), values


def check(
    order: Order, rows: NDArray[np.int32], columns: NDArray[np.int32], values: NDArray[np.float32], n: int
) -> None:
    place = np.lexsort((columns, rows))
    np.testing.assert_array_equal(order.counts, np.bincount(rows, minlength=n))
    np.testing.assert_array_equal(order.index, columns[place])
    np.testing.assert_array_equal(order.ratings(0, len(rows)), values[place])
    np.testing.assert_array_equal(order.ratings(3, 11), values[place][3:11])


@pytest.mark.parametrize(("n_levels", "dtype"), [(5, np.uint8), (256, np.uint8), (257, np.uint16)])
def test_both_orders_are_sorted(n_levels: int, dtype: type) -> None:
    users, items, values = ratings(1200, n_levels)
    by_user, by_item = by_user_and_item(users, items, values, N_USERS, N_ITEMS)
    assert by_user.codes.dtype == by_item.codes.dtype == dtype
    assert by_user.index.dtype == np.int32
    assert by_user.indptr.dtype == np.int64
    check(by_user, users, items, values, N_USERS)
    check(by_item, items, users, values, N_ITEMS)


def test_more_values_than_codes_are_kept_as_they_are() -> None:
    n = 2**16 + 5
    values = np.linspace(0, 1, n, dtype=np.float32)
    assert len(np.unique(values)) == n
    users = (np.arange(n) % 300).astype(np.int32)
    items = (np.arange(n) // 300).astype(np.int32)
    by_user, by_item = by_user_and_item(users, items, values, 300, 220)
    assert by_user.codes.dtype == np.float32
    check(by_user, users, items, values, 300)
    check(by_item, items, users, values, 220)


def test_the_order_of_the_input_does_not_matter() -> None:
    users, items, values = ratings(900, 9)
    shuffle = np.random.default_rng(1).permutation(900)
    one = by_user_and_item(users, items, values, N_USERS, N_ITEMS)
    two = by_user_and_item(users[shuffle], items[shuffle], values[shuffle], N_USERS, N_ITEMS)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.index, b.index)
        np.testing.assert_array_equal(a.codes, b.codes)


@pytest.mark.parametrize("n_chunks", [1, 3, 1000])
def test_chunks_cover_every_row_once(n_chunks: int) -> None:
    by_user, _ = by_user_and_item(*ratings(900, 9), N_USERS, N_ITEMS)
    bounds = by_user.chunks(n_chunks)
    assert bounds[0] == 0
    assert bounds[-1] == N_USERS
    assert np.all(np.diff(bounds) > 0)
    assert len(bounds) <= n_chunks + 1


@pytest.mark.parametrize(("n_levels", "size"), [(10, 10), (2000, 12)])
def test_sorting_needs_no_more_memory_than_the_orders(n_levels: int, size: int) -> None:
    n, rng = 600_000, np.random.default_rng(0)
    users, items = (rng.integers(0, 1000, n, dtype=np.int32) for _ in range(2))
    values = rng.integers(0, n_levels, n).astype(np.float32)
    by_user_and_item(users[:9], items[:9], values[:9], 1000, 1000)  # compiled before it is measured
    tracemalloc.start()
    orders = by_user_and_item(users, items, values, 1000, 1000)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(orders) == 2
    assert kept / n < size + 0.1
    assert peak / n < size + 1.5  # pieces and counts: nothing that grows with the ratings
