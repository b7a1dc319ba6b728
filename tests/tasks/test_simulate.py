"""Simulated ratings: sizes, shapes, scale and truth as promised; streamed, reproducible, complete or absent."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from predilect.data_contracts.schemas import check_schema
from predilect.models.errors import DataError, ParameterError
from predilect.models.ratings import simulate
from predilect.models.ratings.simulate import SimulationConfig, draw_blocks, draw_truth
from predilect.tasks.ingest import ingest_ratings
from predilect.tasks.simulate import read_truth, simulate_ratings

SIZES: dict[str, Any] = {"n_users": 300, "n_items": 200, "n_ratings": 9_000}


def draw(config: SimulationConfig, seed: int = 1) -> tuple[np.ndarray, ...]:
    blocks = list(draw_blocks(config, draw_truth(config, seed), seed))
    names = ("users", "items", "ratings", "timestamps")
    return tuple(np.concatenate([getattr(block, name) for block in blocks]) for name in names)


@pytest.mark.parametrize("sizes", [(300, 200, 9_000), (50, 1000, 20_000), (40, 30, 600), (20, 10, 20), (2, 2, 2)])
def test_sizes_and_distinct_pairs(sizes: tuple[int, int, int]) -> None:
    config = SimulationConfig(*sizes)
    users, items, ratings, _ = draw(config)
    assert len(users) == config.n_ratings
    assert len(np.unique(users.astype(np.int64) * config.n_items + items)) == config.n_ratings
    counts = np.bincount(users, minlength=config.n_users)
    assert counts.min() >= 1
    assert counts.max() <= config.most
    assert (counts == draw_truth(config, 1).user_counts).all()
    assert items.max() < config.n_items
    assert set(ratings.tolist()) <= {1.0, 2.0, 3.0, 4.0, 5.0}


def test_few_are_busy_and_most_are_not() -> None:
    users, items, _, _ = draw(SimulationConfig(2_000, 1_000, 100_000))
    for codes in (users, items):
        counts = np.sort(np.bincount(codes))[::-1]
        assert counts[0] > 5 * counts.mean()
        assert counts[: len(counts) // 10].sum() > 0.35 * counts.sum()
        assert np.median(counts) < 0.6 * counts.mean()


def test_popularity_does_not_depend_on_how_items_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users above and below the share at which items are drawn all at once see the same popularity."""
    config = SimulationConfig(4_000, 100, 40_000, user_exponent=1.01)
    popular = {}
    for share in (0.0, 1.0):
        monkeypatch.setattr(simulate, "EXACT_SHARE", share)
        truth = draw_truth(config, 5)
        _, items, _, _ = draw(config, 5)
        popular[share] = np.bincount(items, minlength=100)[truth.item_ranks]
    spread = np.sqrt(popular[0.0] + popular[1.0])
    assert np.abs(popular[0.0] - popular[1.0]).max() < 5 * spread.max()
    assert (np.abs(popular[0.0] - popular[1.0]) / spread).mean() < 1.5


def test_ratings_are_the_truth_plus_noise() -> None:
    config = SimulationConfig(400, 300, 20_000, step=0, low=-50, high=50, noise_sd=0.7, factor_sd=0.6, n_latents=3)
    truth = draw_truth(config, 3)
    users, items, ratings, _ = draw(config, 3)
    residual = ratings - truth.expected(users, items)
    assert residual.mean() == pytest.approx(0, abs=0.02)
    assert residual.std() == pytest.approx(0.7, rel=0.02)
    latent = np.einsum("uk,ik->ui", truth.user_factors, truth.item_factors)
    assert latent.std() == pytest.approx(0.6, rel=0.1)
    u, i = users[:5], items[:5]
    by_hand = truth.mean + truth.user_offsets[u] + truth.item_offsets[i] + latent[u, i]
    assert truth.expected(u, i) == pytest.approx(by_hand, rel=1e-5)


def test_star_rounding() -> None:
    config = SimulationConfig(**SIZES, low=0.5, high=5, step=0.5, noise_sd=0)
    truth = draw_truth(config, 1)
    users, items, ratings, _ = draw(config)
    expected = np.clip(np.round(truth.expected(users, items) * 2) / 2, 0.5, 5)
    assert np.abs(ratings - expected).max() == 0


def test_a_block_is_the_same_alone_and_another_seed_is_another_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "BLOCK_ROWS", 1_000)
    config = SimulationConfig(**SIZES)
    truth = draw_truth(config, 1)
    first, again = list(draw_blocks(config, truth, 1)), list(draw_blocks(config, truth, 1))
    assert len(first) > 5
    assert max(len(block.users) for block in first) < 2_000
    for one, two in zip(first, again, strict=True):
        assert (one.items == two.items).all()
        assert (one.ratings == two.ratings).all()
    assert (draw(config, 1)[1] != draw(config, 2)[1]).any()


def test_timestamps_lie_in_the_span() -> None:
    timestamps = draw(SimulationConfig(**SIZES, days=10))[3]
    assert timestamps.min() >= 1_577_836_800
    assert timestamps.max() <= 1_577_836_800 + 10 * 86_400


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_ratings": 299}, "n_ratings = 299 is impossible: 300 users rate 1 to 100 of 200 items; give 300 to 30000"),
        ({"n_ratings": 30_001}, "n_ratings = 30001 is impossible"),
        ({"n_users": 1}, "n_users = 1 is too few"),
        ({"noise_sd": -1}, "noise_sd = -1 must be 0 or more"),
        ({"noise_sd": float("nan")}, "noise_sd = nan must be 0 or more"),
        ({"item_exponent": 1}, "item_exponent = 1 must be above 1"),
        ({"low": 5}, r"low = 5 must be below high = 5"),
    ],
)
def test_impossible_simulations(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SimulationConfig(**SIZES | changes)


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_the_table_on_disk(tmp_path: Path, file_format: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "BLOCK_ROWS", 2_000)
    path = simulate_ratings(tmp_path / "sim", **SIZES, seed=1, file_format=file_format)
    table = pq.read_table(path) if file_format == "parquet" else arrow_csv.read_csv(path)
    if file_format == "parquet":
        assert check_schema(table.schema) == []
    users, items, ratings, timestamps = draw(SimulationConfig(**SIZES))
    assert (table["user"].to_numpy() == users + 1).all()
    assert (table["item"].to_numpy() == items + 1).all()
    assert (table["rating"].to_numpy() == ratings).all()
    assert (table["timestamp"].to_numpy() == timestamps).all()
    truth = read_truth(path.parent)
    assert (truth.expected(users, items) == draw_truth(SimulationConfig(**SIZES), 1).expected(users, items)).all()
    facts = json.loads((path.parent / "simulation.json").read_text())
    assert (facts["seed"], facts["parameters"]["n_ratings"]) == (1, 9_000)
    manifest = ingest_ratings(str(path), None, tmp_path / "out").manifest
    assert (manifest["name"], manifest["rows"], manifest["n_users"]) == ("sim", 9_000, 300)
    assert manifest["warnings"] == []


def test_the_same_simulation_is_made_once(tmp_path: Path) -> None:
    path = simulate_ratings(tmp_path / "sim", **SIZES)
    before = path.stat().st_mtime_ns
    assert simulate_ratings(tmp_path / "sim", **SIZES) == path
    assert path.stat().st_mtime_ns == before
    simulate_ratings(tmp_path / "sim", **SIZES, seed=2)
    assert path.stat().st_mtime_ns != before


def test_too_little_space_is_said_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(DataError, match=r"sim needs about .* GB, but its disk has 0.0 GB free; free space"):
        simulate_ratings(tmp_path / "new" / "sim", **SIZES)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(DataError, match="sim cannot be written: No space left on device"):
        simulate_ratings(tmp_path / "sim", **SIZES)
    assert list(tmp_path.iterdir()) == []


def test_unknown_parameters(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="n_factors is not a parameter of the simulation"):
        simulate_ratings(tmp_path / "sim", **SIZES, n_factors=3)
    with pytest.raises(ParameterError, match="file_format = 'xls' is unknown"):
        simulate_ratings(tmp_path / "sim", **SIZES, file_format="xls")  # type: ignore[arg-type]
