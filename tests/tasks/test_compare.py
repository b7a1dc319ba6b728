"""Runs side by side: paired where the test rows are the same, and else the reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import ParameterError
from predilect.tasks.compare import compare, rows, write_page
from predilect.tasks.runs import write_json
from predilect.tasks.settings import Settings


def _run(home: Path, name: str, noise: float, *, seed: int = 0, family: str = "ratings") -> Path:
    folder = home / "state" / "runs" / name
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(40 * 30)[:400]
    ratings = rng.integers(1, 6, 400).astype(np.float32)
    mean = ratings + noise * np.random.default_rng(9).normal(size=400)
    order = np.random.default_rng(len(name)).permutation(400)  # the rows' order does not matter
    columns = {"user": pairs // 30, "item": pairs % 30, "rating": ratings, "mean": mean, "sd": np.full(400, noise)}
    pq.write_table(pa.table({key: column[order] for key, column in columns.items()}), folder / "predictions.parquet")
    rmse = float(np.sqrt(np.mean((ratings - np.clip(mean, 1, 5)) ** 2)))
    results: dict[str, Any] = {
        "run": {"family": family, "name": name, "git_revision": "abc"},
        "dataset": {"name": "<stars>", "digest": "d" * 64, "scale": {"low": 1, "high": 5, "levels": [1, 2, 3, 4, 5]}},
        "split": {"kind": "random:0.2"},
        "metrics": {"rmse": {"value": rmse, "low": rmse - 0.1, "high": rmse + 0.1}},
        "parameters": {"seed": 0, "resamples": 200, "tau": noise},
    }
    write_json(folder / "results.json", results)
    return folder


def test_same_rows_are_paired_and_others_say_why(tmp_path: Path) -> None:
    good, bad = _run(tmp_path, "good", 0.5), _run(tmp_path, "worse", 0.9)
    other = _run(tmp_path, "other", 0.5, seed=1)
    facts = compare([good, bad, other])
    first, second, third = facts["runs"]
    gap = second["differences"]["rmse"]
    expected = second["metrics"]["rmse"]["value"] - first["metrics"]["rmse"]["value"]
    assert gap["value"] == pytest.approx(expected, abs=1e-6)
    assert 0 < gap["low"] < gap["value"] < gap["high"]
    assert second["unpaired"] is None
    assert third["differences"] == {}
    assert "its test rows are not those of good" in third["unpaired"]
    assert [row["name"] for row in facts["parameters"]] == ["tau"]
    (rmse,) = [row for row in rows(facts) if row["label"] == "RMSE"]
    assert [cell["verdict"] for cell in rmse["cells"]] == ["", "worse", ""]
    page = write_page(facts, Settings(home=tmp_path)).read_text()
    assert "&lt;stars&gt;" in page
    assert "other is not paired with good" in page
    assert rmse["cells"][1]["gap"].split(" [")[0] in page


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    good = _run(tmp_path, "good", 0.5)
    with pytest.raises(ParameterError, match="give 2 to"):
        compare([good, good])
    (tmp_path / "half").mkdir()
    with pytest.raises(ParameterError, match="did not finish"):
        compare([good, tmp_path / "half"])
