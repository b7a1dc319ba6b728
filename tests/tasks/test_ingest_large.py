"""Ingestion out of core: what it makes is what ingestion in memory makes; killed anywhere, it goes on."""

import ast
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.ratings.orders import by_user_and_item
from predilect.tasks import ingest_large as large
from predilect.tasks import merge_large, order_build, parts, rating_scale
from predilect.tasks.ingest import ingest_ratings
from predilect.tasks.ingest_checks import IngestOptions
from predilect.tasks.order_files import open_orders
from predilect.tasks.ratings_table import read_table
from predilect.tasks.readers import parquet
from predilect.tasks.simulate import simulate_ratings


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many parts, ranges and blocks of a small table."""
    monkeypatch.setattr(parts, "PART_ROWS", 3000)
    monkeypatch.setattr(parquet, "BATCH_ROWS", 1000)
    monkeypatch.setattr(order_build, "RANGE_BYTES", 20_000)
    monkeypatch.setattr(order_build, "BLOCK_RATINGS", 1500)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return simulate_ratings(tmp_path / "simulated", n_users=300, n_items=120, n_ratings=15_000, seed=3)


def same_as_in_memory(path: Path, tmp_path: Path, **options: Any) -> Path:
    plain = ingest_ratings(str(path), None, tmp_path / "plain", IngestOptions(**options))
    folder = large.ingest_large(str(path), None, tmp_path / "large", IngestOptions(**options))
    assert json.loads((folder / "manifest.json").read_text()) == plain.manifest
    table = read_table(plain.folder)
    for side, ids in (("users", table.user_ids), ("items", table.item_ids)):
        assert pq.read_table(folder / f"{side}.parquet")["id"].to_pylist() == ids.ids.tolist()
    expected = by_user_and_item(table.users, table.items, table.ratings, len(table.user_ids), len(table.item_ids))
    for order, wanted in zip(open_orders(folder / "orders"), expected, strict=True):
        for part in ("indptr", "index", "codes", "levels"):
            np.testing.assert_array_equal(getattr(order, part), getattr(wanted, part))
            assert getattr(order, part).dtype == getattr(wanted, part).dtype
    assert not list((tmp_path / "large").glob(".*"))
    return folder


def test_same_manifest_ids_and_orders_as_in_memory(source: Path, tmp_path: Path) -> None:
    folder = same_as_in_memory(source, tmp_path)
    assert len(large.open_parts(folder).files) == 5


def test_text_with_string_ids_and_times_in_milliseconds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.choice(80 * 50, 2000, replace=False)
    lines = [f"u{p // 50},i{p % 50:03},{1 + p % 9 / 2},{1_600_000_000_000 + k}" for k, p in enumerate(pairs.tolist())]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating,timestamp", *lines, ""]))
    folder = same_as_in_memory(path, tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert "divided by 1,000" in manifest["warnings"][0]


@pytest.mark.parametrize("most", [300, 2**20])
def test_many_different_ratings_are_kept_as_floats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(rating_scale, "MOST_DISTINCT", most)
    rng = np.random.default_rng(1)
    pairs = rng.choice(400 * 400, 70_000, replace=False)
    lines = [f"{p // 400},{p % 400},{x:.9f}" for p, x in zip(pairs.tolist(), rng.normal(size=70_000), strict=True)]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating", *lines, ""]))
    folder = same_as_in_memory(path, tmp_path)
    assert open_orders(folder / "orders")[0].codes.dtype == np.float32


def test_headers_of_arrays_are_read_by_one_thread(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy reads them by `ast`, which is not safe in several (python/cpython issue 106905)."""
    read, by = ast.literal_eval, set[int]()

    def noted(text: str) -> Any:
        by.add(threading.get_ident())
        return read(text)

    monkeypatch.setattr(ast, "literal_eval", noted)
    large.ingest_large(str(source), None, tmp_path / "large", n_threads=3)
    assert by == {threading.get_ident()}


def test_published_set_is_the_same(data_dir: Path, tmp_path: Path) -> None:
    same_as_in_memory(data_dir / "hetrec2011-lastfm-2k", tmp_path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["1,1,2", "1,1,3", "2,3,4"], r"1 \(user, item\) pairs are rated .* user 1 and item 1 on line 2 and line 3"),
        (["1,1,2", "2,1,4"], "every rating is of the item 1"),
        (["1,1,2", "2,2,2"], "all 2 ratings are 2"),
        (["1,1,2", "2,2,x"], "line 3"),
        ([], "holds no ratings"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(tmp_path: Path, rows: list[str], message: str) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating", *rows, ""]))
    with pytest.raises(DataError, match=message):
        large.ingest_large(str(path), None, tmp_path / "large")
    assert list((tmp_path / "large").iterdir()) == []


def test_file_is_not_in_memory_while_it_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {"user": rng.integers(0, 1 << 60, 400_000), "item": rng.integers(0, 1 << 60, 400_000),
               "rating": rng.random(400_000)}  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "r.parquet", row_group_size=10_000)
    del columns
    before = pa.total_allocated_bytes()
    reading = large.ask(str(tmp_path / "r.parquet"), None, tmp_path, IngestOptions(), "-large").read()
    held = [pa.total_allocated_bytes() - before for _ in reading.chunks]
    assert len(held) == 400
    assert max(held) < (tmp_path / "r.parquet").stat().st_size / 4


def test_rating_off_the_scale_is_found_where_it_is(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row \d+: the rating 5 is off the scale 1 to 4 in steps of 1 \([\d,]+ of"):
        large.ingest_large(
            str(source), None, tmp_path / "large", IngestOptions(scale_low=1, scale_high=4, scale_step=1)
        )


def test_of_more_different_ratings_than_are_kept_all_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rating_scale, "MOST_DISTINCT", 300)
    rng = np.random.default_rng(1)
    pairs = rng.choice(100 * 100, 5000, replace=False)
    ratings = rng.permutation(np.arange(5000) % 1000 / 250 + 1)  # 5 times each of 1,000 ratings
    pq.write_table(pa.table({"user": pairs // 100, "item": pairs % 100, "rating": ratings}), tmp_path / "r.parquet")
    with pytest.raises(DataError, match=r"off the scale 1 to 5 in steps of 0.5 \(4,960 of 5,000 ratings are\)"):
        large.ingest_large(
            str(tmp_path / "r.parquet"), None, tmp_path / "large", IngestOptions(scale_high=5, scale_step=0.5)
        )


def repeated(path: Path, *, timed: bool) -> Path:
    """15,000 rows in Parquet: pairs rated once, and 4,000 rated up to 4 times, the first 3,000 rows all of these."""
    rng = np.random.default_rng(7)
    pairs = rng.permutation(300 * 120)[:10_000]
    again = np.concatenate([pairs[:3000], rng.choice(pairs[:4000], 2000)])
    rows = np.concatenate([pairs[:3000], rng.permutation(np.concatenate([pairs[3000:], again]))])
    columns: dict[str, Any] = {"user": rows // 120, "item": [f"i{item}" for item in rows % 120]}
    columns["rating"] = rng.integers(1, 11, len(rows)) / 2
    columns["rating"][0] = 5.5  # A level that goes with the row.
    if timed:  # Milliseconds, many of the same second.
        columns["timestamp"] = 1_600_000_000_000 + rng.integers(0, 20_000, len(rows))
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("policy", "timed", "at_once"), [("last", True, 900), ("last", False, 1 << 23), ("mean", True, 1 << 23),
                                     ("mean", False, 900)]
)  # fmt: skip
def test_repeated_pairs_are_merged_as_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, timed: bool, at_once: int
) -> None:
    monkeypatch.setattr(merge_large, "ROWS_AT_ONCE", at_once)
    runs = []
    settle = merge_large._settle
    monkeypatch.setattr(merge_large, "_settle", lambda *given: runs.append(len(given[1])) or settle(*given))
    folder = same_as_in_memory(repeated(tmp_path / "r.parquet", timed=timed), tmp_path, duplicates=policy)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["rows"], manifest["duplicates"]["merged"]) == (10_000, 5000)
    assert any("lie between levels" in text for text in manifest["warnings"]) == (policy == "mean")
    assert (manifest["scale"]["levels"] is None) == (policy == "mean")
    assert sum(runs) > 3000
    assert (len(runs) > 5) == (at_once == 900)
    # Of the first part nothing is left where the row counts.
    sizes = [pq.read_metadata(file).num_rows for file in large.open_parts(folder).files]
    assert len(sizes) == 5
    assert (sizes[0] == 0) == (not timed)
    assert sorted(path.name for path in folder.iterdir()) == [
        "items.parquet", "manifest.json", "orders", "parts", "users.parquet"
    ]  # fmt: skip


def test_means_on_the_scale_leave_it_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n1,a,1\n2,a,5\n1,a,3\n2,b,4\n1,b,2\n1,b,2\n1,a,2\n")
    folder = same_as_in_memory(path, tmp_path, duplicates="mean")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["scale"]["levels"] == [1, 2, 3, 4, 5]
    assert manifest["duplicates"] == {"policy": "mean", "merged": 3}


@pytest.mark.parametrize("policy", ["last", "mean"])
def test_policy_changes_nothing_without_repeats(source: Path, tmp_path: Path, policy: str) -> None:
    same_as_in_memory(source, tmp_path, duplicates=policy)


def test_repeats_are_refused_in_the_same_words_as_in_memory(tmp_path: Path) -> None:
    path = repeated(tmp_path / "r.parquet", timed=True)
    said = []
    for ingest in (ingest_ratings, large.ingest_large):
        with pytest.raises(DataError, match="choose duplicates=last or duplicates=mean") as refused:
            ingest(str(path), None, tmp_path / "out")
        said.append(str(refused.value))
    assert said[0] == said[1]


class Died(BaseException):
    """As if killed: nothing but the end of the process takes notice."""


def test_dead_before_every_rename_of_a_merge_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_large, "ROWS_AT_ONCE", 3000)
    path, out = repeated(tmp_path / "r.parquet", timed=True), tmp_path / "out"
    options = IngestOptions(duplicates="mean")
    undisturbed = large.ingest_large(str(path), None, tmp_path / "undisturbed", options)
    died = list[str]()

    def once(move: Any) -> Any:
        def moved(self: Path, goal: Path) -> Path:
            merged = bool(list(out.glob(".*/merged/old-orders")))
            step = f"{self.parent.name}/{self.name}{' of the merged' * merged}"
            if step not in died:
                died.append(step)
                raise Died
            return move(self, goal)

        return moved

    for name in ("rename", "replace"):
        monkeypatch.setattr(Path, name, once(getattr(Path, name)))
    folder = None
    while folder is None:
        try:
            folder = large.ingest_large(str(path), None, out, options)
        except Died:
            assert [path.name[0] for path in out.iterdir()] == ["."]
    # 5 parts written, sorted, 4 runs of users settled, the parts written anew, sorted, put in place
    assert sum("part-0000" in step for step in died) == 15
    assert sum("by_" in step for step in died) == 12
    assert sum(step.startswith("settled/") for step in died) == 4
    assert contents(folder) == contents(undisturbed)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


KILLED_AT = """
import os, signal, sys
from pathlib import Path
from predilect.tasks import ingest_large, order_build, parts
from predilect.tasks.readers import parquet
parts.PART_ROWS, parquet.BATCH_ROWS, order_build.RANGE_BYTES, order_build.BLOCK_RATINGS = 3000, 1000, 20_000, 1500
left = int(sys.argv[3])
rename = Path.rename
def counted(path, goal):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, goal)
Path.rename = counted
ingest_large.ingest_large(sys.argv[1], None, Path(sys.argv[2]))
"""


def test_killed_before_any_of_its_renames_it_goes_on(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "large"
    undisturbed = large.ingest_large(str(source), None, tmp_path / "undisturbed")
    for at in (1, 3, 2, 2, 3, 2):  # each attempt goes on where the one before was killed
        ran = subprocess.run([sys.executable, "-c", KILLED_AT, str(source), str(out), str(at)], check=False)
        assert ran.returncode == -signal.SIGKILL
        assert [path.name[0] for path in out.iterdir()] == ["."]  # nothing that looks complete
    kept = {path: path.stat().st_mtime_ns for path in out.glob(".*/parts/part-*.parquet")}
    assert len(kept) == 5
    folder = large.ingest_large(str(source), None, out)
    for path, written in kept.items():
        assert (folder / "parts" / path.name).stat().st_mtime_ns == written  # taken up, not made again
    assert contents(folder) == contents(undisturbed)


def test_two_at_once_are_refused(source: Path, tmp_path: Path) -> None:
    asked = large.ask(str(source), None, tmp_path, IngestOptions(), "-large")
    with large._draft(asked.folder), pytest.raises(ParameterError, match="Another process is ingesting"):
        large.ingest_large(str(source), None, tmp_path)
    assert os.listdir(tmp_path / asked.folder.name) == []
