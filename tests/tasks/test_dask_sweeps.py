"""Sweeps, passes over ballots and rows of clicks: the same bits however many workers there are, whoever is lost."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sharded import N_ITEMS, N_USERS, InProcess, config, fit, orders

from predilect.models.clicks import ClicksConfig, ClicksModel, Design, contexts
from predilect.models.rankings import Ballots, RankingsConfig, RankingsModel, layout
from predilect.models.ratings import Features, sweep
from predilect.models.ratings.orders import Order
from predilect.models.ratings.shards import bytes_a_sweep
from predilect.tasks import held
from predilect.tasks.dask_passes import HeldLayout, HeldRows
from predilect.tasks.dask_sweeps import ShardedSweeps


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Order, Order]:
    monkeypatch.setattr(sweep, "CHUNK", 1000)
    monkeypatch.setattr(held, "NEW_WORKERS", 0)
    return orders(tmp_path)


def sweeps(workers: InProcess, folder: Path) -> ShardedSweeps:
    return ShardedSweeps(workers, folder)  # type: ignore[arg-type]


@pytest.mark.parametrize("inference", ["mf", "gmf"])
@pytest.mark.parametrize("n_workers", [1, 2, 3, 30])
def test_any_number_of_workers_gives_the_same_bits(
    tmp_path: Path, both: tuple[Order, Order], inference: str, n_workers: int
) -> None:
    workers = InProcess(*map(str, range(n_workers)))
    assert fit(both, config(inference), sweeps(workers, tmp_path)) == fit(both, config(inference))


@pytest.mark.parametrize("rated_set", [False, True])
def test_features_travel_too(tmp_path: Path, both: tuple[Order, Order], rated_set: bool) -> None:
    group = Features(csr_array(np.eye(4)[np.arange(N_USERS) % 4]), tuple("abcd"), ("group",) * 4, np.full(4, 0.5))
    remote = sweeps(InProcess("a", "b"), tmp_path)
    how = config(rated_set=rated_set)
    assert fit(both, how, remote, group) == fit(both, how, None, group)


@pytest.mark.parametrize("inference", ["mf", "gmf"])
def test_workers_that_are_lost_or_come_change_nothing(
    tmp_path: Path, both: tuple[Order, Order], inference: str
) -> None:
    calm, lost = fit(both, config(inference)), []
    for call in range(1, 20):
        workers = InProcess("a", "b", loses={call: "a", call + 3: "c"}, comes={call + 1: "c"})
        remote = sweeps(workers, tmp_path)
        assert fit(both, config(inference), remote) == calm
        lost.append(remote.held.n_lost)
    assert min(lost) >= 1
    assert max(lost) == 2


def test_what_moves_is_what_was_predicted(tmp_path: Path, both: tuple[Order, Order]) -> None:
    for n_workers in (1, 2, 3):
        for inference, correlated in (("mf", ()), ("gmf", (2, 3))):
            remote = sweeps(InProcess(*map(str, range(n_workers))), tmp_path)
            moved: list[int] = []
            fit(both, config(inference), remote, on_sweep=lambda *_, m=moved, r=remote: m.append(r.bytes_moved))
            # Beside the records there are the sums of the chunks, much for so little data.
            per_sweep = moved[-1] - moved[-2] - 40 * 8 * (3 * 6 + 2)
            assert per_sweep == pytest.approx(bytes_a_sweep(N_USERS, N_ITEMS, 5, n_workers, correlated), rel=0.01)


def test_a_worker_that_holds_other_rows_is_sent_them(tmp_path: Path, both: tuple[Order, Order]) -> None:
    """A second fit on the same workers begins from its own factors, not from those left there."""
    remote = sweeps(InProcess("a", "b"), tmp_path)
    first, second = (fit(both, config(), remote) for _ in range(2))
    assert first == second == fit(both, config())


def test_passes_over_ballots_are_the_same_wherever_the_chunks_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "CHUNK_PLACES", 200)
    monkeypatch.setattr(held, "NEW_WORKERS", 0)
    rng = np.random.default_rng(0)
    rows = [rng.permutation(12)[: rng.integers(2, 12)].tolist() for _ in range(400)]
    ballots = Ballots.from_rows(rows, 12, "all")
    how = RankingsConfig(n_components=2, n_starts=2, nu=0.1, max_passes=60)
    alone = RankingsModel.fit(ballots, how, seed=1, n_threads=1)
    for workers in (InProcess("a"), InProcess("a", "b", "c"), InProcess("a", "b", loses={5: "a"}, comes={6: "d"})):
        away = RankingsModel.fit(
            ballots,
            how,
            seed=1,
            n_threads=1,
            layout_of=partial(HeldLayout, workers=workers),  # type: ignore[arg-type]
        )
        assert workers.n_calls > 10
        assert away.log_worths.tobytes() == alone.log_worths.tobytes()
        assert away.trace.tobytes() == alone.trace.tobytes()


@pytest.mark.parametrize("group_effect", ["none", "both"])
def test_rows_of_clicks_are_the_same_wherever_they_are(group_effect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker, several, one that is lost at each of many calls, and one that comes."""
    monkeypatch.setattr(contexts, "_LEAST_WORK", 2000)
    monkeypatch.setattr(contexts, "_WORK_PER_SUM", 1)
    monkeypatch.setattr(held, "NEW_WORKERS", 0)
    rng = np.random.default_rng(0)
    design = Design.of(
        csr_array(rng.random((90, 6)) * (rng.random((90, 6)) < 0.5)),
        lines=rng.integers(90, size=1500),
        clusters=rng.integers(-1, 2, 1500),
        n_clusters=2,
        groups=rng.integers(-1, 30, 1500),
        n_groups=30,
    )
    n = rng.integers(1, 40, 1500)
    v = rng.binomial(n, rng.beta(2, 4, 1500))
    how = ClicksConfig(model="l-prop", group_effect=group_effect, max_rounds=2, n_probes=2, rank=4)
    alone = ClicksModel.fit(design, n, v, how, n_threads=1)
    n_calls = 0
    several = [InProcess("a"), InProcess("a", "b", "c"), InProcess(*map(str, range(40)))]
    for workers in several + [InProcess("a", "b", loses={at: "a"}, comes={at + 2: "d"}) for at in range(1, 14)]:
        rows_of = partial(HeldRows, workers=workers)
        away = ClicksModel.fit(design, n, v, how, n_threads=1, rows_of=rows_of)  # type: ignore[arg-type]
        assert away.coefficients.tobytes() == alone.coefficients.tobytes()
        assert away.posteriors[0].factor.tobytes() == alone.posteriors[0].factor.tobytes()
        assert away.precisions == alone.precisions
        n_calls = max(n_calls, workers.n_calls)
    assert n_calls > 100
