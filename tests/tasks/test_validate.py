"""The validate task: what it writes, what it says, and that nothing is set aside in silence."""

import errno
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.data_contracts import rules, runner
from predilect.data_contracts.schemas import RATINGS_REQUIRED, RATINGS_SCHEMA_FIELDS
from predilect.models.errors import DataError
from predilect.tasks import validate as module
from predilect.tasks.ingest import ingest_ratings
from predilect.tasks.ingest_checks import IngestOptions
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.validate import validate

NAN, INF = float("nan"), float("inf")
Make = Callable[..., Path]


def parameters(**changes: Any) -> RatingsParameters:
    return RatingsParameters(data="toy", **changes)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a canonical folder of 10 users who rated 10 items each, with some ratings replaced."""

    def write(changes: dict[int, Any] | None = None, **columns: Any) -> Path:
        data: dict[str, Any] = {
            "user": [f"user {user}" for user in range(10) for _ in range(10)],
            "item": [*range(10)] * 10,
            "rating": [float(1 + (user + item) % 5) for user in range(10) for item in range(10)],
            "timestamp": [1_000 + row for row in range(100)],
            "fold": ["u1" if row % 5 == 0 else None for row in range(100)],
        }
        for row, rating in (changes or {}).items():
            data["rating"][row] = rating
        table = pa.table({name: column for name, column in (data | columns).items() if column is not None})
        folder = tmp_path / "toy"
        folder.mkdir()
        pq.write_table(table, folder / "ratings.parquet")
        manifest = {
            "name": "toy",
            "source": "toy.csv",
            "digest": "0" * 64,
            "rows": len(table),
            "n_users": 10,
            "n_items": 10,
            "scale": {"low": 1.0, "high": 5.0, "levels": [1.0, 2.0, 3.0, 4.0, 5.0], "inferred": False},
            "time_span": [1_000, 1_099],
            "folds": ["u1"],
            "reader": "columns",
            "options": {},
            "duplicates": {"policy": "error", "merged": 0},
            "left_out": {"count": 3, "reason": "0 means implicit"},
            "warnings": ["look"],
        }
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    return write


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_good_ratings_pass_and_are_used_as_they_are(make: Make, tmp_path: Path) -> None:
    folder, out = make(), tmp_path / "run"
    contract, path, manifest = validate(folder, out, parameters())
    assert path == folder
    assert manifest == json.loads((folder / "manifest.json").read_text())
    assert files(out) == ["contract.json", "data_docs/index.html"]
    assert json.loads((out / "contract.json").read_text()) == contract
    assert contract["success"] is True
    assert (contract["rows"], contract["quarantined"], contract["quarantine"]) == (100, 0, None)
    assert contract["data_docs"] == "data_docs/index.html"
    assert {rule["rule"]: rule["observed"] for rule in contract["rules"]}["enough users"] == 10
    assert str(tmp_path) not in (out / "contract.json").read_text() + (out / "data_docs/index.html").read_text()


def test_a_violation_names_the_expectation_the_count_and_rows(make: Make, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(DataError) as caught:
        validate(make({3: 7.0, 40: 2.5, 41: None}), out, parameters())
    assert str(caught.value) == (
        "toy breaks the data contract: "
        "“rating given” (expect_column_values_to_not_be_null) fails for 1 of 100 rows, such as "
        "row 41 (user user 4, item 1, rating missing, timestamp 1041); "
        "“rating within the scale” (expect_column_values_to_be_between, 1.0 to 5.0) fails for 1 of 100 rows, such as "
        "row 3 (user user 0, item 3, rating 7.0, timestamp 1003); "
        "“rating a level of the scale” (expect_column_values_to_be_in_set, one of 1.0, 2.0, 3.0, 4.0, 5.0) fails for "
        "2 of 100 rows, such as row 3 (user user 0, item 3, rating 7.0, timestamp 1003), "
        "row 40 (user user 4, item 0, rating 2.5, timestamp 1040); "
        "correct the rows, or choose quarantine=true to set them aside."
    )
    assert files(out) == ["contract.json", "data_docs/index.html"]
    contract = json.loads((out / "contract.json").read_text())
    assert contract["success"] is False
    broken = [rule for rule in contract["rules"] if not rule["success"]]
    assert [(rule["rule"], rule["unexpected_count"], rule["unexpected_share"]) for rule in broken] == [
        ("rating given", 1, 0.01),
        ("rating within the scale", 1, 0.01),
        ("rating a level of the scale", 2, 0.02),
    ]


ONE_OF = "(expect_column_values_to_be_in_set, one of int64, string)"
TWO = "(expect_table_row_count_to_be_between, at least 2)"
HALF = {"min_user_ratings": 2, "min_user_share": 0.5}
FEW = (
    "“enough ratings a user” (expect_column_values_to_be_between, at least 2 for 50% or more) fails for "
    "100 of 100 users, such as user 0, ratings 1, user 1, ratings 1, user 2, ratings 1; bring more data, or lower min_"
)


@pytest.mark.parametrize(
    ("columns", "changes", "says"),
    [
        ({"rating": None}, {}, "“rating column” (expect_column_to_exist): found absent; correct the data."),
        ({"user": [0.5] * 100}, {}, f"“user type” {ONE_OF}: found double"),
        ({"rating": [3.0] * 100}, {}, "“ratings differ”"),
        ({"user": ["one"] * 100, "item": [*range(100)]}, {}, f"“enough users” {TWO}: found 1"),
        ({"item": [1] * 100, "user": [*range(100)]}, {}, f"“enough items” {TWO}: found 1"),
        ({"user": [*range(100)]}, HALF, FEW),
    ],
)
def test_what_no_quarantine_mends(
    make: Make, tmp_path: Path, columns: dict[str, Any], changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(DataError) as caught:
        validate(make(**columns), tmp_path / "run", parameters(quarantine=True, **changes))
    assert says in str(caught.value)
    assert files(tmp_path / "run") == ["contract.json", "data_docs/index.html"]


def test_quarantine_sets_rows_aside_with_their_reasons(make: Make, tmp_path: Path) -> None:
    out = tmp_path / "run"
    item = [*range(10)] * 10
    item[1] = 0  # rows 0 and 1: a repeated pair
    folder = make({3: 7.0, 41: NAN}, item=item)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    contract, path, manifest = validate(folder, out, parameters(quarantine=True))

    clean = ["clean/manifest.json", "clean/ratings.parquet"]
    assert files(out) == [*clean, "contract.json", "data_docs/index.html", "quarantine.parquet"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert contract["success"] is False
    assert contract["quarantined"] == 4
    assert contract["quarantine"] == {
        "share": 0.04,
        "reasons": {
            "rating given": 1,
            "rating within the scale": 1,
            "rating a level of the scale": 1,
            "one rating a user and item": 2,
        },
        "file": "quarantine.parquet",
    }
    left = pq.read_table(out / "quarantine.parquet").to_pylist()
    assert [(row["row"], row["reason"]) for row in left] == [
        (0, "one rating a user and item"),
        (1, "one rating a user and item"),
        (3, "rating within the scale; rating a level of the scale"),
        (41, "rating given"),
    ]
    assert left[2] == {"user": "user 0", "item": 3, "rating": 7.0, "timestamp": 1003, "fold": None, "row": 3,
                       "reason": "rating within the scale; rating a level of the scale"}  # fmt: skip

    assert path == out / "clean"
    kept, source = pq.read_table(path / "ratings.parquet"), pq.read_table(folder / "ratings.parquet")
    assert kept.to_pylist() == source.take([row for row in range(100) if row not in (0, 1, 3, 41)]).to_pylist()
    assert manifest == json.loads((path / "manifest.json").read_text())
    assert (manifest["rows"], manifest["n_users"], manifest["n_items"]) == (96, 10, 10)
    assert manifest["time_span"] == [1_002, 1_099]
    assert manifest["left_out"]["count"] == 7
    assert manifest["left_out"]["reason"].startswith(
        "0 means implicit; set aside by the data contract: “rating given” 1"
    )
    assert manifest["warnings"][0] == "look"
    assert manifest["warnings"][1].startswith("4 rows were set aside by the data contract")


def test_what_is_kept_has_the_digest_that_ingestion_gives_the_same_rows(tmp_path: Path) -> None:
    lines = [f"{user},x{item},{1 + (user * item) % 5}" for user in range(20) for item in range(10)]
    for name, rows in (("whole", lines), ("dirty", [*lines, "3,x4,2", "3,x5,9"])):
        (tmp_path / f"{name}.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n", encoding="utf-8")
    options = IngestOptions(scale_low=1.0, scale_high=5.0, scale_step=1.0, leave_to_contract=True)
    dirty = ingest_ratings(str(tmp_path / "dirty.csv"), None, tmp_path / "data", options)
    result = validate(dirty.folder, tmp_path / "run", parameters(quarantine=True))
    assert result.contract["quarantined"] == 4  # both rows of both repeated pairs
    same = [line for line in lines if not line.startswith(("3,x4,", "3,x5,"))]
    (tmp_path / "same.csv").write_text("user,item,rating\n" + "\n".join(same) + "\n", encoding="utf-8")
    expected = ingest_ratings(str(tmp_path / "same.csv"), None, tmp_path / "data", options)
    assert result.manifest["digest"] == expected.manifest["digest"]
    assert {name: result.manifest[name] for name in expected.manifest if name.startswith("n_")} == {
        name: expected.manifest[name] for name in expected.manifest if name.startswith("n_")
    }


def test_more_than_the_ceiling_is_refused(make: Make, tmp_path: Path) -> None:
    folder = make({row: 9.0 for row in range(6)})
    with pytest.raises(
        DataError, match=r"6 of 100 rows \(6.00%\).*“rating within the scale” 6.*max_quarantine_share = 0.05"
    ):
        validate(folder, tmp_path / "run", parameters(quarantine=True))
    assert files(tmp_path / "run") == ["contract.json", "data_docs/index.html"]
    result = validate(folder, tmp_path / "run", parameters(quarantine=True, max_quarantine_share=0.06))
    assert result.contract["quarantined"] == 6


def test_everything_broken_leaves_nothing(make: Make, tmp_path: Path) -> None:
    folder = make({row: 9.0 for row in range(100)})
    with pytest.raises(DataError, match=r"100 of 100 rows .* so none is left; correct the data\.$"):
        validate(folder, tmp_path / "run", parameters(quarantine=True, max_quarantine_share=1))


def test_the_rest_must_keep_the_contract_too(make: Make, tmp_path: Path) -> None:
    folder = make({0: 2.5}, rating=[2.5, *[3.0] * 99])
    with pytest.raises(DataError, match="toy, 1 rows set aside, breaks the data contract: “ratings differ”"):
        validate(folder, tmp_path / "run", parameters(quarantine=True))
    assert files(tmp_path / "run") == ["contract.json", "data_docs/index.html"]


def test_a_later_run_replaces_what_an_earlier_one_left(make: Make, tmp_path: Path) -> None:
    out = tmp_path / "run"
    folder = make({3: 7.0})
    (out).mkdir()
    (out / "report.html").write_text("mine")
    validate(folder, out, parameters(quarantine=True))
    with pytest.raises(DataError):
        validate(folder, out, parameters())
    assert files(out) == ["contract.json", "data_docs/index.html", "report.html"]


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()])
def test_levels_are_compared_as_they_are_stored(make: Make, tmp_path: Path, dtype: pa.DataType) -> None:
    folder = make(rating=pa.array(np.tile([0.1, 0.2, 0.3, 0.7], 25), dtype))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["scale"] = {"low": 0.1, "high": 0.7, "levels": [0.1, 0.2, 0.3, 0.7], "inferred": False}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert validate(folder, tmp_path / "run", parameters()).contract["success"]


@pytest.mark.parametrize("damage", ["no manifest", "no table", "not Parquet"])
def test_what_is_no_canonical_folder(make: Make, tmp_path: Path, damage: str) -> None:
    folder = make()
    if damage == "no manifest":
        (folder / "manifest.json").unlink()
    elif damage == "no table":
        (folder / "ratings.parquet").unlink()
    else:
        (folder / "ratings.parquet").write_text("user,item")
    with pytest.raises(DataError, match="not a folder of canonical ratings"):
        validate(folder, tmp_path / "run", parameters())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt("Ctrl-C")])
def test_an_interrupted_run_leaves_nothing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def fail(*_: Any) -> None:
        raise failure

    monkeypatch.setattr(module, "write_json", fail)
    with pytest.raises((DataError, KeyboardInterrupt), match=r"^Ctrl-C$|run cannot be written: No space left"):
        validate(make({3: 7.0}), tmp_path / "run", parameters(quarantine=True))
    assert [*(tmp_path / "run").iterdir()] == []


def test_the_contract_allows_the_types_of_the_schema() -> None:
    allowed = {
        entry["kwargs"]["column"]: (entry["kwargs"]["value_set"], not entry["meta"].get("optional"))
        for entry in rules.load("ratings")["expectations"]
        if entry["meta"]["table"] == runner.TYPES and "value_set" in entry["kwargs"]
    }
    assert {name: sorted(types) for name, (types, _) in allowed.items()} == {
        name: sorted(map(str, types)) for name, types in RATINGS_SCHEMA_FIELDS.items()
    }
    assert {name for name, (_, required) in allowed.items() if required} == set(RATINGS_REQUIRED)


def test_a_million_rows_and_no_table_is_held_afterwards(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    pairs = rng.choice(30_000 * 4_000, 1_000_000, replace=False)
    ratings = rng.integers(1, 6, len(pairs)).astype(np.float64)
    ratings[::1000] = 6.0
    folder = tmp_path / "million"
    folder.mkdir()
    pq.write_table(
        pa.table({"user": pairs // 4_000, "item": pairs % 4_000, "rating": ratings}), folder / "ratings.parquet"
    )
    scale = {"low": 1.0, "high": 5.0, "levels": [1.0, 2.0, 3.0, 4.0, 5.0], "inferred": False}
    (folder / "manifest.json").write_text(json.dumps({"name": "million", "rows": 1_000_000, "scale": scale}))
    allocated = pa.total_allocated_bytes()
    result = validate(folder, tmp_path / "run", parameters(quarantine=True))
    assert pa.total_allocated_bytes() - allocated < 1_000_000
    assert [len(frame) for frame in gc.get_objects() if isinstance(frame, pd.DataFrame) and len(frame) > 1_000] == []
    assert result.contract["quarantined"] == 1_000
    assert result.manifest["rows"] == 999_000
