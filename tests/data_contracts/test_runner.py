"""The runner fails closed, leaves nothing behind and writes a page that needs nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from predilect.data_contracts import rules, runner


def contract(*expectations: dict[str, Any]) -> dict[str, Any]:
    return {"name": "t", "expectations": list(expectations)}


def expectation(kind: str, rule: str = "r", **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "meta": {"rule": rule, "table": "t"}}


def run(made: dict[str, Any], table: pa.Table, **rest: Any) -> list[runner.RuleResult]:
    return runner.run(made, table.schema, [("t", table)], {}, **rest)


TABLE = pa.table({"x": [1, 2, 9], "name": ["a", "b", "<img src=x onerror=alert(1)>"]})


def test_shipped_contracts_hold_no_ids_and_great_expectations_takes_them_whole() -> None:
    from great_expectations import ExpectationSuite

    paths = sorted(rules.FOLDER.glob("*.json"))
    assert paths
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-|\"id\"", text)
        shipped = json.loads(text)
        suite = ExpectationSuite(**shipped)
        assert len(suite.expectations) == len(shipped["expectations"])


NULL, BETWEEN = "expect_column_values_to_not_be_null", "expect_column_values_to_be_between"


@pytest.mark.parametrize(
    ("expectations", "says"),
    [
        ([expectation("expect_pigs_to_fly", "pigs", column="x")], "does not know .*expect_pigs_to_fly of .*pigs"),
        ([expectation(BETWEEN, "typo", column="x", min=1)], "does not accept .*typo"),
        ([expectation(BETWEEN, "gone", column="y", min_value=1)], "gone.* cannot be computed"),
        ([expectation(BETWEEN, column="x", min_value={"$PARAMETER": "low"})], "parameter low"),
        ([expectation(NULL, column="x"), expectation(NULL, column="x")], "same name"),
        ([expectation(NULL, column="x") | {"meta": {"rule": "r", "table": "u"}}], "no table .*r"),
    ],
)
def test_a_contract_that_cannot_be_run_is_an_error(expectations: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(rules.ContractError, match=says):
        run(contract(*expectations), TABLE)


def test_the_page_needs_no_network_no_script_and_escapes_the_data(tmp_path: Path) -> None:
    made = contract(
        expectation(BETWEEN, "x in range", column="x", min_value=1, max_value=5),
        expectation("expect_column_values_to_be_in_set", "known name", column="name", value_set=["a", "b", "</td>"]),
        expectation(NULL, "x given", column="x"),
    )
    found = run(made, TABLE, docs=tmp_path / "docs")
    assert [result.success for result in found] == [False, False, True]
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["index.html"]
    page = (tmp_path / "docs" / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[a-z]|<script|<link|<img|url\(|@import|\ssrc=\"", page)
    assert str(tmp_path) not in page
    assert "&lt;img src=x" in page
    assert "2 of 3 rules broken" in page
    for text in ("x in range", "known name", "must never be null"):
        assert text in page


PROBE = """
import socket
def refuse(*_):
    raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
import pyarrow as pa
from pathlib import Path
from predilect.data_contracts import rules, runner
table = pa.table({"x": [1, 2, 9]})
made = {"name": "t", "expectations": [{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "x"},
        "meta": {"rule": "r", "table": "t"}}]}
print(runner.run(made, table.schema, [("t", table)], {}, docs=Path("docs"))[0].success)
"""


def test_nothing_is_left_behind_and_no_network_is_used(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("work", "home", "tmp")}
    for folder in places.values():
        folder.mkdir()
    environment = os.environ | {"HOME": str(places["home"]), "TMPDIR": str(places["tmp"])}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=places["work"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    left = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert left == ["work/docs/index.html"]
