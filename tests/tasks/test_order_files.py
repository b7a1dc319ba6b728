"""Orders in files: opened as they were written, or refused."""

from pathlib import Path

import numpy as np
import pytest

from predilect.models.errors import DataError
from predilect.models.ratings.orders import by_user_and_item
from predilect.tasks.order_files import open_orders, part_path, write_orders


@pytest.mark.parametrize("n_levels", [5, 300, 70_000])
def test_what_is_opened_is_what_was_written(tmp_path: Path, n_levels: int) -> None:
    rng = np.random.default_rng(0)
    n = max(200, n_levels)
    users, items = (rng.integers(0, size, n).astype(np.int32) for size in (40, 30))
    written = by_user_and_item(users, items, np.arange(n, dtype=np.float32) % n_levels, 40, 30)
    write_orders(tmp_path, *written)
    for order, source in zip(open_orders(tmp_path), written, strict=True):
        for part in ("indptr", "index", "codes", "levels"):
            np.testing.assert_array_equal(getattr(order, part), getattr(source, part))
            assert getattr(order, part).dtype == getattr(source, part).dtype
        assert isinstance(order.index.base, np.memmap)


def test_incomplete_orders_are_refused(tmp_path: Path) -> None:
    codes = np.zeros(3, np.int32)
    with pytest.raises(DataError, match="no complete orders"):
        open_orders(tmp_path)
    write_orders(tmp_path, *by_user_and_item(codes, codes, np.arange(3, dtype=np.float32), 1, 1))
    cut = part_path(tmp_path, "by_item", "index")
    cut.write_bytes(cut.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"by_item\.index\.npy is \d+ B, not \d+"):
        open_orders(tmp_path)
