"""Worker processes on Dask: fits there, killed and hanging workers, and mistakes told in a sentence."""

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sharded import config, fit, orders

from predilect.models import fan_out
from predilect.models.errors import ComputeError, DataError, ParameterError
from predilect.models.evaluation.areas import areas
from predilect.models.evaluation.bootstrap import Total, resample
from predilect.models.fan_out import Spread
from predilect.models.ids import IdMap
from predilect.models.rankings import Ballots, RankingsConfig, RankingsModel
from predilect.models.ratings.orders import Order
from predilect.models.ratings.shards import Shard
from predilect.tasks import compute, shard_host
from predilect.tasks import score as scoring
from predilect.tasks.compute import Workers, spread_on
from predilect.tasks.dask_sweeps import ShardedSweeps
from predilect.tasks.runs import write_json
from predilect.tasks.score import ScoreParameters, score
from predilect.tasks.score_blocks import choose_model
from predilect.tasks.shard_host import open_shard

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cluster() -> Iterator[Workers]:
    with compute.workers(None, 2, patience=10) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("orders")


@pytest.fixture(scope="module")
def both(folder: Path) -> tuple[Order, Order]:
    return orders(folder, n_ratings=400_000, n_users=4000, n_items=1000)


@pytest.fixture(scope="module")
def calm(both: tuple[Order, Order]) -> dict[str, bytes]:
    return fit(both, config(max_sweeps=40))


def test_jobs_go_on_when_a_worker_is_killed(cluster: Workers, tmp_path: Path) -> None:
    base, first = 10, tmp_path / "first"

    def work(job: int) -> int:
        if job == 1 and not first.exists():
            first.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return job + base

    assert sorted(cluster.fan_out(work, 5)) == [(job, job + 10) for job in range(5)]


def test_an_error_in_a_job_is_raised(cluster: Workers) -> None:
    def work(job: int) -> int:
        raise ComputeError(f"job {job} is wrong")

    with pytest.raises(ComputeError, match="job 0 is wrong"):
        dict(cluster.fan_out(work, 1))


@pytest.fixture
def chances(cluster: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Scores 700 pairs by a rankings model in blocks of 100, on the cluster or on threads; the file."""
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path))
    monkeypatch.setattr(scoring, "BLOCK", 100)
    ballots = Ballots.from_rows([[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 2, 1]], 3, "ranked")
    model = RankingsModel.fit(ballots, RankingsConfig(n_components=1), item_ids=IdMap(["a", "b", "c"]), seed=0)
    model.save(tmp_path / "state" / "runs" / "one" / "model")
    write_json(tmp_path / "state" / "runs" / "one" / "results.json", {})
    names = np.array(["a", "b", "c", "x"])[np.random.default_rng(0).integers(0, 4, (2, 700))]
    pq.write_table(pa.table({"better": names[0], "worse": names[1]}), tmp_path / "pairs.parquet")

    def scored(data: str = "pairs.parquet", **where: object) -> Path:
        out = tmp_path / f"scored {len(where)}.parquet"
        given = where or {"compute": "dask", "scheduler": cluster.client.scheduler.address}
        asked = {"family": "rankings", "data": tmp_path / data, "out": out, "model": "one"}
        done = score(ScoreParameters.parse(None, [f"{name}={value}" for name, value in (asked | given).items()]))
        assert (done["rows"], done["blocks"], done["blocks_resumed"]) == (700, 7, 0)
        return out

    return scored


def test_scores_are_the_same_bytes_with_a_worker_killed_amid_a_block(
    chances: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, first = scoring._answer, tmp_path / "first"

    def dying(*words: object) -> Callable[[pa.Table, int], pa.Table]:
        answer = whole(*words)  # type: ignore[arg-type]

        def dies(block: pa.Table, number: int) -> pa.Table:
            if number == 3 and not first.exists():
                first.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return answer(block, number)

        return dies

    expected = chances(threads=1).read_bytes()
    monkeypatch.setattr(scoring, "_answer", dying)
    assert chances().read_bytes() == expected
    assert first.exists()
    assert not list(tmp_path.glob(".scored*"))


def test_mistakes_in_scoring_at_workers_are_one_sentence(
    chances: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"better": ["a"] * 700, "worse": ["b"] * 650 + [None] * 50}), tmp_path / "gap.parquet")
    with pytest.raises(DataError, match=r"gap.parquet, column 'worse', row 651: the id is missing"):
        chances("gap.parquet")
    assert not list(tmp_path.glob("*scored*"))
    with monkeypatch.context() as patch:
        patch.setattr(scoring, "choose_model", lambda *_: replace(choose_model(*_), folder=tmp_path / "elsewhere"))
        with pytest.raises(ComputeError, match=r"A worker on .* does not see .*elsewhere; keep the data, the model"):
            chances()


def test_resamples_are_the_same_bits_at_workers(cluster: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "WORTHWHILE", 1.0)
    rng = np.random.default_rng(0)
    totals = {"mae": Total(rng.random(50_000), np.ones(50_000))}
    units, scores = rng.integers(0, 9000, 50_000), rng.random(50_000)

    def draws(spread: Spread) -> list[bytes]:
        area = areas(scores, np.ones((1, 50_000)), np.ones(50_000), units,
                     seed=1, resamples=300, spread=spread)  # fmt: skip
        return [resample(totals, seed=1, resamples=300, spread=spread)[1]["mae"].tobytes(), area[1].tobytes()]

    assert draws(spread_on(cluster, 1)) == draws(spread_on(None, 2))


def test_ratings_that_a_worker_does_not_see(cluster: Workers, folder: Path) -> None:
    address = next(iter(cluster.wait()))
    with pytest.raises(ComputeError, match=r"does not see the ratings.*share under the same path"):
        cluster.place(open_shard, {address: (str(folder / "elsewhere"), Shard([(0, 1)], [(0, 1)]), 1)})


def test_workers_with_other_software(
    cluster: Workers, folder: Path, both: tuple[Order, Order], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compute, "versions", lambda: shard_host.versions() | {"numba": "0.1"})
    with pytest.raises(ComputeError, match=r"has numba .* and the run has 0.1; install the same"):
        fit(both, config(), ShardedSweeps(cluster, folder))


def test_a_busy_machine_and_ctrl_c_cost_no_worker(cluster: Workers) -> None:
    """Dask gives up the place of a worker that is not there again in time; a terminal interrupts every process."""
    assert dask.utils.parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout")) > compute.RESTART
    blocked = cluster.client.run(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, []))
    assert [signals >= {signal.SIGINT} for signals in blocked.values()] == [True] * len(blocked)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_fit_goes_on_when_a_worker_is_lost(
    cluster: Workers, folder: Path, both: tuple[Order, Order], calm: dict[str, bytes], how: signal.Signals
) -> None:
    """Killed at some moment, or hanging: the shards go elsewhere, and every bit is the same."""
    n_kills = (5 if os.environ.get("PREDILECT_SLOW") else 1) if how == signal.SIGKILL else 1
    victims: list[int] = []
    for _ in range(n_kills):
        sweeps = ShardedSweeps(cluster, folder)
        delay = random.uniform(0, 0.1)

        def hit(
            sweep: int, bound: float, noise_sd: float, sweeps: ShardedSweeps = sweeps, delay: float = delay
        ) -> None:
            if sweep == 5:
                victim = cluster.client.run(os.getpid, workers=[next(iter(sweeps.held.parts()))])
                victims.extend(victim.values())
                threading.Timer(delay, os.kill, (victims[-1], how)).start()

        assert fit(both, config(max_sweeps=40), sweeps, on_sweep=hit) == calm
        if how == signal.SIGSTOP:
            os.kill(victims[-1], signal.SIGCONT)
        assert sweeps.held.n_lost >= 1  # a busy machine may seem to lose another


def test_no_scheduler_there() -> None:
    with (
        pytest.raises(ParameterError, match=r"tcp://127.0.0.1:9: no Dask scheduler answers there"),
        compute.workers("tcp://127.0.0.1:9", None, patience=1),
    ):
        pass
