"""The plan's arithmetic, against what arrays, files and a process really take."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from predilect.models.errors import ParameterError
from predilect.models.ratings import plan
from predilect.models.ratings.checkpoint import save_state
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.fit import Ascent, FitState
from predilect.models.ratings.orders import Order, by_user_and_item
from predilect.models.ratings.plan import Problem, seconds_a_sweep
from predilect.models.ratings.sweep import HalfSweep

USERS, ITEMS, RATINGS = 3000, 500, 200_000


@pytest.mark.parametrize(("k", "correlated"), [(1, ()), (8, ()), (21, ()), (6, (3, 3))])
def test_bytes_of_orders_factors_and_checkpoint(tmp_path: Path, k: int, correlated: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.choice(USERS * ITEMS, RATINGS, replace=False)
    orders = by_user_and_item(
        (pairs // ITEMS).astype(np.int32), (pairs % ITEMS).astype(np.int32),
        rng.integers(1, 6, RATINGS).astype(np.float32), USERS, ITEMS,
    )  # fmt: skip
    problem = Problem(USERS, ITEMS, RATINGS, k, correlated)
    held = sum(array.nbytes for order in orders for array in (order.indptr, order.index, order.codes))
    assert problem.order_bytes == held
    config = VBConfig(n_user_latents=k - sum(correlated[:1]), n_item_latents=sum(correlated[:1]))
    start = Ascent(*map(HalfSweep, orders), 3.0, config).random_start(0, 0)
    sides = start.users, start.items
    if correlated:
        for side in sides:
            side.correlate(correlated[0])
    arrays = [array for side in sides for array in (side.table, side.covariances) if array is not None]
    assert problem.factor_bytes == sum(array.nbytes for array in arrays)
    save_state(tmp_path / "one", FitState(0, start, None))
    written = sum(path.stat().st_size for path in (tmp_path / "one").iterdir())
    # With covariances the file holds them whole, with zeros between the blocks.
    allowed = 1.1 if not correlated else 1.1 * (2 * k + 2 + k * k) / (2 * k + 2 + sum(size**2 for size in correlated))
    assert problem.checkpoint_bytes <= written <= allowed * problem.checkpoint_bytes + 10_000


FIT = """
import sys
from pathlib import Path
import numpy as np
from predilect.models.compiled import threads
from predilect.models.ratings.compile import warm_up
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.fit import Ascent
from predilect.models.ratings.sweep import HalfSweep
from predilect.tasks.order_files import open_orders
warm_up()
def peak():
    return 1024 * int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])
before = peak()
ascent = Ascent(*map(HalfSweep, open_orders(Path(sys.argv[1]))), 3.0, VBConfig(8, 0, max_sweeps=2))
with threads(2) as pool:
    ascent.run(ascent.random_start(0, 0), pool)
print(before, peak())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_of_a_fit_from_files(tmp_path: Path) -> None:
    from predilect.models.ratings.plan import BASE
    from predilect.tasks.order_files import write_orders

    n_users, n_items, n_ratings = 400_000, 20_000, 12_000_000
    rng = np.random.default_rng(0)
    users, items = (rng.integers(0, size, n_ratings).astype(np.int32) for size in (n_users, n_items))
    write_orders(tmp_path, *by_user_and_item(users, items, rng.integers(1, 6, n_ratings).astype(np.float32),
                                             n_users, n_items))  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", FIT, str(tmp_path)], capture_output=True, text=True, check=True)
    before, peak = map(int, ran.stdout.split())
    planned = Problem(n_users, n_items, n_ratings, 8).fit_bytes(2) - BASE
    assert planned == pytest.approx(peak - before, rel=0.15)


@pytest.mark.parametrize("n_ratings", [1_000_000, 20_000_000, 39_999_999])
def test_time_is_that_of_both_samples_in_proportion(monkeypatch: pytest.MonkeyPatch, n_ratings: int) -> None:
    seen: list[tuple[int, int, int]] = []

    def timed(order: Order, n_partners: int, problem: Problem, n_threads: int) -> float:
        seen.append((order.n_rows, n_partners, int(order.index.max())))
        return 1e-6 * len(order.index)

    monkeypatch.setattr(plan, "_timed", timed)
    assert seconds_a_sweep(Problem(20_000, 2_000, n_ratings, 4), 1) == pytest.approx(2e-6 * n_ratings)
    assert [partners for _, partners, _ in seen] == [2_000, 20_000]
    assert all(largest < partners for _, partners, largest in seen)
    monkeypatch.undo()
    assert seconds_a_sweep(Problem(2_000, 200, 40_000, 4), 1) > 0


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ParameterError, match="n_items is 0; give 1 or more"):
        Problem(10, 0, 5, 2)
    with pytest.raises(ParameterError, match="10 users and 10 items make 100 pairs"):
        Problem(10, 10, 101, 2)
