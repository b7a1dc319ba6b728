"""From a source to canonical Parquet and manifest; and everything that can be wrong with a source or a disk."""

import errno
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predilect.data_contracts.schemas import check_schema
from predilect.models.errors import DataError, ParameterError
from predilect.tasks import canonical
from predilect.tasks.ingest import IngestSummary, ingest_ratings
from predilect.tasks.ingest_checks import IngestOptions
from predilect.tasks.output import new_folder
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.ratings_source import ingest_source as ingest_parameters

ROWS = ["1,a,3", "1,b,4", "2,a,5", "3,b,1"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def source(tmp_path: Path, *rows: str, name: str = "some ratings.csv", header: str = "user,item,rating") -> str:
    path = tmp_path / name
    path.write_text("".join(f"{line}\n" for line in (header, *rows)), encoding="utf-8")
    return str(path)


def ingest(path: str, out: Path, **options: Any) -> IngestSummary:
    return ingest_ratings(path, None, out, IngestOptions(**options))


def content(summary: IngestSummary) -> list[tuple[Any, ...]]:
    table = pq.read_table(summary.path)
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def refused(path: str, out: Path, message: str, error: type = DataError, **options: Any) -> None:
    """One sentence that matches, and nothing left behind."""
    with pytest.raises(error, match=message) as caught:
        ingest(path, out, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert not out.exists() or not list(out.iterdir())


def test_canonical_table_and_manifest(tmp_path: Path, out: Path) -> None:
    rows = [f"{row},{1700000000 + k}" for k, row in enumerate(ROWS)]
    summary = ingest(source(tmp_path, *rows, header="user,item,rating,timestamp"), out)
    assert content(summary) == [
        (1, "a", 3.0, 1700000000),
        (1, "b", 4.0, 1700000001),
        (2, "a", 5.0, 1700000002),
        (3, "b", 1.0, 1700000003),
    ]
    assert check_schema(pq.read_schema(summary.path)) == []
    assert sorted(path.name for path in summary.folder.iterdir()) == ["manifest.json", "ratings.parquet"]
    manifest = json.loads((summary.folder / "manifest.json").read_text())
    assert manifest == summary.manifest
    assert manifest["name"] == "some ratings"
    assert manifest["source"] == "some ratings.csv"
    assert (manifest["rows"], manifest["n_users"], manifest["n_items"]) == (4, 3, 2)
    assert manifest["scale"] == {"low": 1.0, "high": 5.0, "levels": [1, 2, 3, 4, 5], "inferred": True}
    assert manifest["time_span"] == [1700000000, 1700000003]
    assert manifest["reader"] == "csv"
    assert manifest["options"]["columns"]["rating"] == "rating"
    assert manifest["duplicates"] == {"policy": "error", "merged": 0}
    assert manifest["left_out"] is None
    assert manifest["warnings"] == ["no rating is 2, though the inferred scale has it; check the scale"]
    assert str(tmp_path) not in json.dumps(manifest)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (["5", "10", "9223372036854775807"], [5, 10, 2**63 - 1]),
        (["5", "10", "9223372036854775808"], ["5", "10", "9223372036854775808"]),
        (["5", "007", "10"], ["5", "007", "10"]),
        (["5", "+7", "10"], ["5", "+7", "10"]),
        (["-5", "0", "10"], [-5, 0, 10]),
        ([" 5", "é x", "🙂"], [" 5", "é x", "🙂"]),
        (["NA", "null", "nan"], ["NA", "null", "nan"]),
        (["1.0", "1", "1e0"], ["1.0", "1", "1e0"]),
    ],
)
def test_ids_are_kept_as_given(tmp_path: Path, out: Path, written: list[str], kept: list[Any]) -> None:
    rows = [f"{name},{name},{k}" for k, name in enumerate(written)]
    table = content(ingest(source(tmp_path, *rows), out))
    assert [row[0] for row in table] == kept
    assert [row[1] for row in table] == kept


def test_digest_is_of_the_content_not_of_its_encoding(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ingest(source(tmp_path, *ROWS), out)
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(Path(source(tmp_path, *ROWS, name="plain.csv")).read_bytes()))
    monkeypatch.setattr(canonical, "ROWS_A_GROUP", 2)
    again = ingest(str(packed), out)
    assert pq.read_metadata(again.path).num_row_groups == 2
    assert content(again) == content(first)
    assert again.manifest["digest"] == first.manifest["digest"]
    changed = ["1,a,3", "1,c,4", "2,a,5", "3,c,1"]
    for k, rows in enumerate([ROWS[::-1], changed, ["1,a,3", "1,b,4", "2,a,5", "3,b,2"]]):
        other = ingest(source(tmp_path, *rows, name=f"other{k}.csv"), out)
        assert other.manifest["digest"] != first.manifest["digest"]


def test_the_same_source_and_options_are_ingested_once(tmp_path: Path, out: Path) -> None:
    path = source(tmp_path, *ROWS)
    first = ingest(path, out)
    assert not first.reused
    again = ingest(path, out)
    assert again.reused
    assert (again.folder, again.manifest) == (first.folder, first.manifest)
    assert ingest(path, out, scale_low=0, scale_high=6).folder != first.folder
    source(tmp_path, *ROWS, "3,a,2")
    assert not ingest(path, out).reused


def test_a_damaged_earlier_result_is_made_again(tmp_path: Path, out: Path) -> None:
    first = ingest(source(tmp_path, *ROWS), out)
    first.path.write_bytes(b"PAR1")
    again = ingest(source(tmp_path, *ROWS), out)
    assert not again.reused
    assert len(content(again)) == 4


def test_a_folder_is_named_after_a_file_called_ratings(tmp_path: Path, out: Path) -> None:
    (tmp_path / "films").mkdir()
    assert ingest(source(tmp_path / "films", *ROWS, name="ratings.csv"), out).manifest["name"] == "films"


def test_two_processes_at_once_make_one_folder(tmp_path: Path) -> None:
    """Whoever ends second finds the folder there and drops its own."""
    folder = tmp_path / "out" / "same"
    with new_folder(folder, replace=False) as slow:
        (slow / "by").write_text("slow")
        with new_folder(folder, replace=False) as quick:
            (quick / "by").write_text("quick")
    assert (folder / "by").read_text() == "quick"
    assert list((tmp_path / "out").iterdir()) == [folder]


# Repeated pairs


def test_repeated_pairs_are_an_error_with_examples(tmp_path: Path, out: Path) -> None:
    rows = [*ROWS, "1,b,5", "2,a,1", "1,b,4", "3,c,1", "3,c,1", "2,c,1", "2,c,1"]
    refused(
        source(tmp_path, *rows),
        out,
        "4 .* more than once: user 1 and item 'b' on line 3 and line 6; user 2 and item 'a' on line 4 and line 7; "
        "user 3 and item 'c' on line 9 and line 10 and 1 more pairs; .*duplicates=last",
    )


def test_the_last_of_repeated_pairs(tmp_path: Path, out: Path) -> None:
    summary = ingest(source(tmp_path, *ROWS, "1,b,2", "1,b,5"), out, duplicates="last")
    assert content(summary) == [(1, "a", 3.0), (2, "a", 5.0), (3, "b", 1.0), (1, "b", 5.0)]
    assert summary.manifest["duplicates"] == {"policy": "last", "merged": 2}


def test_the_last_is_the_latest_where_times_are_known(tmp_path: Path, out: Path) -> None:
    rows = ["1,a,3,30", "1,a,5,90", "1,a,4,60", "2,b,1,10"]
    summary = ingest(source(tmp_path, *rows, header="user,item,rating,timestamp"), out, duplicates="last")
    assert content(summary) == [(1, "a", 5.0, 90), (2, "b", 1.0, 10)]


def test_the_mean_of_repeated_pairs(tmp_path: Path, out: Path) -> None:
    summary = ingest(source(tmp_path, *ROWS, "1,b,3", "1,b,5"), out, duplicates="mean")
    assert content(summary)[-1] == (1, "b", 4.0)
    assert summary.manifest["scale"]["levels"] == [1, 2, 3, 4, 5]
    between = ingest(source(tmp_path, *ROWS, "1,b,5"), out, duplicates="mean")
    assert content(between)[-1] == (1, "b", 4.5)
    assert between.manifest["scale"]["levels"] is None
    assert "1 means of repeated ratings lie between levels" in between.manifest["warnings"][-1]


def test_what_is_left_to_the_contract(tmp_path: Path, out: Path) -> None:
    path = source(tmp_path, *ROWS, "1,b,9")
    summary = ingest(path, out, leave_to_contract=True, scale_low=1, scale_high=5)
    assert content(summary)[-1] == (1, "b", 9.0)


def test_the_flow_s_parameters_reach_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path / "home"))
    path = source(tmp_path, *ROWS, "1,b,9", header="who,what,stars")
    parameters = RatingsParameters(
        data=path,
        columns={"user": "who", "item": "what"},
        quarantine=True,
        scale_low=1,
        scale_high=5,
        scale_step=0,
    )
    folder = ingest_parameters(parameters)
    assert folder.parent == tmp_path / "home" / "state" / "data"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["rows"], manifest["scale"]["levels"]) == (5, None)
    assert manifest["options"]["columns"] == {"user": "who", "item": "what", "rating": "stars"}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=12))
def test_merging_equals_a_dictionary(rows: list[tuple[int, int, int]]) -> None:
    fixed = [(8, 8, 1), (9, 9, 5), *rows]
    last = {(user, item): rating for user, item, rating in fixed}
    mean = {pair: float(np.mean([r for u, i, r in fixed if (u, i) == pair])) for pair in last}
    with tempfile.TemporaryDirectory() as folder:
        path = source(Path(folder), *(",".join(map(str, row)) for row in fixed))
        for policy, expected in (("last", last), ("mean", mean)):
            table = content(ingest(path, Path(folder) / "out", duplicates=policy))
            assert len(table) == len(expected)
            assert {(user, item): rating for user, item, rating in table} == pytest.approx(expected)


# The scale


def test_ids_read_as_ratings_are_doubted(tmp_path: Path, out: Path) -> None:
    rows = [f"{k % 20},{k % 5},{100_000 + 37 * k}" for k in range(400)]
    warnings = ingest(source(tmp_path, *rows), out, duplicates="last").manifest["warnings"]
    assert any("they look like ids" in text for text in warnings)


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({"scale_low": 0, "scale_high": 10}, {"low": 0, "high": 10, "levels": list(range(11)), "inferred": False}),
        (
            {"scale_low": 1, "scale_high": 5, "scale_step": 0.5},
            {"low": 1, "high": 5, "levels": [1 + k / 2 for k in range(9)], "inferred": False},
        ),
        ({"scale_low": 1, "scale_high": 5, "scale_step": 0}, {"low": 1, "high": 5, "levels": None, "inferred": False}),
        ({"scale_step": 0}, {"low": 1, "high": 5, "levels": None, "inferred": True}),
    ],
)
def test_given_scales(tmp_path: Path, out: Path, options: dict[str, float], scale: dict[str, Any]) -> None:
    assert ingest(source(tmp_path, *ROWS), out, **options).manifest["scale"] == scale


def test_ratings_off_a_given_scale(tmp_path: Path, out: Path) -> None:
    path = source(tmp_path, *ROWS, "3,a,4.5")
    refused(path, out, r"line 3: the rating 4 is off the scale 1 to 3 .*3 of 5", scale_low=1, scale_high=3)
    refused(path, out, "line 6: the rating 4.5 is off .* in steps of 1", scale_low=1, scale_high=5, scale_step=1)


def test_impossible_options(tmp_path: Path, out: Path) -> None:
    path = source(tmp_path, *ROWS)
    refused(path, out, "scale_low = 5 must be below", ParameterError, scale_low=5, scale_high=1)
    refused(path, out, "scale 9 to 5 is empty", ParameterError, scale_low=9)
    refused(
        path, out, "scale_step = 3 does not lead from 1 to 5", ParameterError, scale_low=1, scale_high=5, scale_step=3
    )
    refused(path, out, "scale_high = nan is not a finite", ParameterError, scale_high=float("nan"))
    refused(path, out, "scale_step = -1 is negative", ParameterError, scale_step=-1)
    refused(path, out, "duplicates = 'first' is unknown", ParameterError, duplicates="first")
    refused(path, out, "cannot be mapped for the reader ml-1m", ParameterError, reader="ml-1m", columns={"user": "u"})


def test_fine_times_become_seconds(tmp_path: Path, out: Path) -> None:
    rows = [f"{row},{1700000000123 + k}" for k, row in enumerate(ROWS)]
    manifest = ingest(source(tmp_path, *rows, header="user,item,rating,timestamp"), out).manifest
    assert manifest["time_span"] == [1700000000, 1700000000]
    assert any("divided by 1,000" in text for text in manifest["warnings"])


def test_users_with_one_rating_each_are_doubted(tmp_path: Path, out: Path) -> None:
    warnings = ingest(source(tmp_path, *(f"{k},{k % 3},{k % 5}" for k in range(200))), out).manifest["warnings"]
    assert "every user has one rating only: check which column is which" in warnings


# Bad input


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"holds no ratings \(no rows\)"),
        (["1,a,3", "1,b,4"], "every rating is of the user 1; a model needs two users"),
        (["1,a,3", "2,a,4"], "every rating is of the item 'a'; a model needs two items"),
        (["1,a,3", "2,b,3"], "all 2 ratings are 3, so there is nothing to learn"),
        ([*ROWS, "2,b,nan"], "line 6: the rating nan is not a finite number"),
        ([*ROWS, "2,b,good"], "line 6: the rating 'good' is not a number"),
        ([*ROWS, "2,b,1e300"], r"line 6: the rating 1e\+300 is not a finite number below"),
        ([*ROWS, "2;b;3"], "line 6: 1 field where 3 separated by comma"),
    ],
)
def test_bad_tables(tmp_path: Path, out: Path, rows: list[str], message: str) -> None:
    refused(source(tmp_path, *rows), out, message)


def test_too_large_times(tmp_path: Path, out: Path) -> None:
    path = source(tmp_path, *(f"{row},170000000" for row in ROWS * 60), "9,z,3,99999999999999999999", header="u,i,r,t")
    columns = {"user": "u", "item": "i", "rating": "r", "timestamp": "t"}
    refused(path, out, "line 242: the timestamp '9+' is not a whole number", columns=columns)


def test_empty_and_missing_files(tmp_path: Path, out: Path) -> None:
    (tmp_path / "empty.csv").touch()
    refused(str(tmp_path / "empty.csv"), out, "empty.csv is empty")
    refused(str(tmp_path / "gone.csv"), out, "gone.csv does not exist; give a file, a folder or the name")


def test_a_folder_for_a_file(tmp_path: Path, out: Path) -> None:
    (tmp_path / "folder").mkdir()
    refused(str(tmp_path / "folder"), out, r"folder is a folder without .* \(it holds nothing\)")
    for name in ("a.csv", "b.csv"):
        source(tmp_path / "folder", *ROWS, name=name)
    refused(str(tmp_path / "folder"), out, r"it holds a.csv, b.csv\); give the ratings file itself")
    (tmp_path / "folder" / "b.csv").rename(tmp_path / "folder" / "readme")
    assert ingest(str(tmp_path / "folder"), out).manifest["source"] == "a.csv"


def test_files_that_are_not_what_their_names_say(tmp_path: Path, out: Path) -> None:
    refused(source(tmp_path, *ROWS, name="t.csv.gz"), out, r"is not a gzip file \(it starts with b'user'\)")
    refused(source(tmp_path, *ROWS, name="t.zip"), out, "is not a zip archive")
    packed = gzip.compress(Path(source(tmp_path, *ROWS * 999)).read_bytes())
    (tmp_path / "cut.csv.gz").write_bytes(packed[:-40])
    refused(str(tmp_path / "cut.csv.gz"), out, "is damaged or cut short")
    (tmp_path / "bad.csv.gz").write_bytes(packed[:30] + b"\xff" * 60 + packed[90:])
    refused(str(tmp_path / "bad.csv.gz"), out, "is damaged or cut short")


def test_damaged_zip_archives(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("t.csv", Path(source(tmp_path, *ROWS)).read_bytes())
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"1,b,4", b"1,b,2"))
    refused(str(path), out, "t.zip/t.csv is a damaged zip archive .*CRC")
    path.write_bytes(whole[:-40])
    refused(str(path), out, "t.zip is a damaged zip archive")
    with zipfile.ZipFile(path, "w"):
        pass
    refused(str(path), out, "is an empty zip archive")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter, but not write in; the test goes on as that user when it runs as root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_no_permission(open_folder: Path) -> None:
    path = open_folder / "r.csv"
    path.write_text("user,item,rating\n" + "\n".join(ROWS))
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        else:
            open_folder.chmod(0o555)
        refused(str(path), open_folder / "out", "out/r-.* cannot be written: Permission denied; change its permissions")
        if root:
            os.seteuid(0)
        path.chmod(0o000)
        if root:
            os.seteuid(65534)
        refused(str(path), open_folder / "out", r"r.csv may not be read by this user; change its permissions")
    finally:
        if root:
            os.seteuid(0)
        open_folder.chmod(0o755)


def test_output_folder_is_a_file(tmp_path: Path, out: Path) -> None:
    out.write_text("in the way")
    with pytest.raises(DataError, match=r"cannot be written: .*; choose another folder"):
        ingest(source(tmp_path, *ROWS), out)


def test_disk_full(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    refused(source(tmp_path, *ROWS), out, "cannot be written: No space left on device; free space on that disk")


LIMITED = """
import resource, sys
from pathlib import Path
from predilect.models.errors import DataError
from predilect.tasks.ingest import ingest_ratings
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
    ingest_ratings(sys.argv[1], None, Path(sys.argv[2]))
except DataError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit on file sizes here")
def test_a_real_refusal_of_the_disk(tmp_path: Path, out: Path) -> None:
    """The system itself stops the write half way: the temporary folder goes."""
    path = source(tmp_path, *ROWS)
    run = subprocess.run([sys.executable, "-c", LIMITED, path, str(out)], capture_output=True, text=True, check=True)
    assert "cannot be written: File too large; raise the limit" in run.stdout
    assert list(out.iterdir()) == []


def test_stopping_leaves_nothing(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetWriter, "write_table", stop)
    with pytest.raises(KeyboardInterrupt):
        ingest(source(tmp_path, *ROWS), out)
    assert list(out.iterdir()) == []


# Real data


def test_real_movielens_100k(data_dir: Path, out: Path) -> None:
    summary = ingest_ratings("ml-100k", data_dir, out)
    assert (summary.manifest["rows"], summary.manifest["n_users"], summary.manifest["n_items"]) == (100_000, 943, 1682)
    folds = pq.read_table(summary.path, columns=["fold"])["fold"].value_counts().to_pylist()
    assert {entry["values"]: entry["counts"] for entry in folds} == {f"u{k}": 20_000 for k in range(1, 6)}
    assert summary.manifest["time_span"] == [874724710, 893286638]


@pytest.mark.parametrize("name", ["lastfm", "hetrec2011-lastfm-2k"])
def test_real_lastfm(data_dir: Path, out: Path, name: str) -> None:
    summary = ingest_ratings(name, data_dir, out)
    assert (summary.manifest["rows"], summary.manifest["n_users"]) == (92_834, 1_892)
    stars = np.bincount(pq.read_table(summary.path)["rating"].to_numpy().astype(int))[1:] / 92_834
    assert stars == pytest.approx([0.1, 0.2, 0.4, 0.2, 0.1], abs=0.006)


def test_real_jester(data_dir: Path, out: Path) -> None:
    manifest = ingest_ratings("jester", data_dir, out).manifest
    assert (manifest["rows"], manifest["n_users"], manifest["n_items"]) == (1_810_455, 24_983, 100)
    assert manifest["scale"] == {"low": -10, "high": 10, "levels": None, "inferred": False}
