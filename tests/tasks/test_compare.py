"""Runs side by side: paired where the test rows are the same, and else the reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import ParameterError
from predilect.models.evaluation.bootstrap import Total
from predilect.tasks.compare import compare, rows, write_page
from predilect.tasks.runs import write_json
from predilect.tasks.settings import Settings
from predilect.tasks.unit_totals import read_totals, write_totals


def _run(home: Path, name: str, error: float, *, seed: int = 0, family: str = "ratings", digest: str = "d") -> Path:
    """A run on ratings or rankings: 40 units with a squared error and how often their best was found."""
    folder = home / "state" / "runs" / name
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    counts = rng.integers(5, 15, 40).astype(float)
    sums = counts * error**2 * np.random.default_rng(9).uniform(0.5, 1.5, 40)
    totals = {
        "rmse": Total(sums, counts, root=True),
        "ndcg_10": Total(counts * (0.9 - error / 2), counts * (counts > 6)),
    }
    write_totals(folder, np.array([f"u{k}" for k in range(40)]), totals, f"{seed}{digest}")
    rmse = float(np.sqrt(sums.sum() / counts.sum()))
    _results(folder, family, digest, seed, {"rmse": rmse, "log_likelihood": -5.0}, tau=error)
    return folder


def _results(folder: Path, family: str, digest: str, seed: int, metrics: dict[str, float], **parameters: Any) -> None:
    write_json(
        folder / "results.json",
        {
            "run": {"family": family, "name": folder.name, "git_revision": "abc"},
            "dataset": {"name": "<stars>", "digest": digest * 64},
            "split": {"kind": "random:0.2"},
            "metrics": {key: {"value": x, "low": x - 0.1, "high": x + 0.1} for key, x in metrics.items()},
            "parameters": {"seed": seed, "resamples": 200} | parameters,
        },
    )  # fmt: skip


def test_same_rows_are_paired_and_others_say_why(tmp_path: Path) -> None:
    good, bad = _run(tmp_path, "good", 0.5), _run(tmp_path, "worse", 0.9)
    other = _run(tmp_path, "other", 0.5, seed=1)
    facts = compare([good, bad, other])
    _, second, third = facts["runs"]
    gap = second["differences"]["rmse"]
    expected = second["metrics"]["rmse"]["value"] - facts["runs"][0]["metrics"]["rmse"]["value"]
    assert gap["value"] == pytest.approx(expected, abs=1e-6)
    assert 0 < gap["low"] < gap["value"] < gap["high"]
    assert second["differences"]["ndcg_10"]["high"] < 0
    assert "log_likelihood" not in second["differences"]  # of the training part
    assert second["unpaired"] is None
    assert third["differences"] == {}
    assert third["unpaired"] == "its test rows are not those of good: its seed is 1, not 0"
    assert [row["name"] for row in facts["parameters"]] == ["seed", "tau"]
    (rmse,) = [row for row in rows(facts) if row["label"] == "RMSE"]
    assert [cell["verdict"] for cell in rmse["cells"]] == ["", "worse", ""]
    page = write_page(facts, Settings(home=tmp_path)).read_text()
    assert "&lt;stars&gt;" in page
    assert "other is not paired with good" in page
    assert rmse["cells"][1]["gap"].split(" [")[0] in page


def test_why_runs_cannot_be_paired(tmp_path: Path) -> None:
    first = _run(tmp_path, "first", 0.5)
    data, kind, bare = (
        _run(tmp_path, "data", 0.5, digest="e"),
        _run(tmp_path, "kind", 0.5, family="rankings"),
        _run(tmp_path, "bare", 0.5),
    )
    (bare / "totals.parquet").unlink()
    said = [run["unpaired"] for run in compare([first, data, kind, bare])["runs"]]
    assert said[1] == (
        "its test rows are not those of first: its data is <stars> (eeeeeeeeeeee), not <stars> (dddddddddddd)"
    )
    assert said[2] == "it is a run on rankings, first one on ratings"
    assert said[3] == "bare keeps no scores of held-out rows; train it again, with rows held out"


def _clicks_run(home: Path, name: str, shift: float, *, rows_seed: int = 0) -> Path:
    folder = home / "state" / "runs" / name
    folder.mkdir(parents=True)
    rng = np.random.default_rng(rows_seed)
    shown, unit = rng.integers(20, 60, 300), rng.integers(0, 50, 300)
    p = rng.uniform(0.05, 0.6, 300)
    clicks = rng.binomial(shown, p)
    said = np.clip(p + shift * np.random.default_rng(3).normal(size=300), 0.01, 0.9)
    low, high = (np.clip(shown * said + sign * 5, 0, shown).astype(int) for sign in (-1, 1))
    columns = {
        "row": np.arange(300), "unit": np.unique(unit, return_inverse=True)[1], "reward": np.ones(300),
        "impressions": shown, "clicks": clicks, "mean": said,
        "log_likelihood": clicks * np.log(said) + (shown - clicks) * np.log1p(-said),
        "clicks_low": low, "clicks_high": high,
    }  # fmt: skip
    pq.write_table(pa.table(columns), folder / "predictions.parquet")
    _results(folder, "clicks", "d", 0, {"auc": 0.7}, group="test")
    return folder


def test_clicks_are_paired_too(tmp_path: Path) -> None:
    first, worse = _clicks_run(tmp_path, "first", 0.0), _clicks_run(tmp_path, "worse", 0.3)
    other = _clicks_run(tmp_path, "other", 0.0, rows_seed=1)
    _, second, third = compare([first, worse, other])["runs"]
    assert set(second["differences"]) == {
        "log_likelihood_row", "log_likelihood_impression", "coverage_90", "auc", "sauc"
    }  # fmt: skip
    assert all(second["differences"][name]["high"] < 0 for name in ("log_likelihood_row", "auc", "coverage_90"))
    assert third["unpaired"] == "its test rows are not those of first"


def test_totals_are_read_as_written(tmp_path: Path) -> None:
    totals = {"rmse": Total(np.array([1.0, 2.0]), np.array([3.0, 0.0]), True), "mae": Total(np.ones(2), np.ones(2))}
    write_totals(tmp_path, np.array(["a", "b"]), totals, "digest")
    units, found, said = read_totals(tmp_path)
    assert (units.tolist(), said) == (["a", "b"], "digest")
    assert list(found) == ["rmse", "mae"]
    for name, total in totals.items():
        assert found[name].root == total.root
        np.testing.assert_array_equal(found[name].sums, total.sums)
        np.testing.assert_array_equal(found[name].counts, total.counts)


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    good = _run(tmp_path, "good", 0.5)
    with pytest.raises(ParameterError, match="give 2 to"):
        compare([good, good])
    (tmp_path / "half").mkdir()
    with pytest.raises(ParameterError, match="did not finish"):
        compare([good, tmp_path / "half"])
