"""Scores in blocks: the model's own answers, told apart by metadata, resumed after a death, complete or absent."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.rankings import Ballots, RankingsConfig, RankingsModel
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.models.ratings.scale import RatingScale
from predilect.tasks import score as module
from predilect.tasks.runs import write_json
from predilect.tasks.score import ScoredFamily, ScoreParameters, score


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ratings run, not registered; blocks of ten rows."""
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path))
    monkeypatch.setattr(module, "BLOCK", 10)
    rng = np.random.default_rng(2)
    model = RatingsModel.fit(
        rng.integers(0, 9, 60).astype(np.int32), rng.integers(0, 7, 60).astype(np.int32),
        rng.integers(1, 6, 60).astype(np.float32), RatingScale(1, 5, (1.0, 2.0, 3.0, 4.0, 5.0)),
        VBConfig(n_user_latents=1, n_item_latents=0, max_sweeps=3, restarts=1),
        user_ids=IdMap([f"u{k}" for k in range(9)]), item_ids=IdMap(np.arange(7)), seed=0,
    )  # fmt: skip
    folder = tmp_path / "state" / "runs" / "one"
    model.save(folder / "model")
    write_json(folder / "results.json", {})
    return folder


def _pairs(folder: Path, rows: int = 34) -> Path:
    rng = np.random.default_rng(3)
    users = [f"u{k}" for k in rng.integers(0, 11, rows)]  # two of them nobody knows
    pq.write_table(pa.table({"user": users, "item": rng.integers(0, 8, rows).astype(str)}), folder / "pairs.parquet")
    return folder / "pairs.parquet"


def _asked(
    data: Path, out: Path, model: str = "one", family: ScoredFamily = ScoredFamily.ratings, threads: int | None = None
) -> ScoreParameters:
    return ScoreParameters(family=family, data=str(data), out=str(out), model=model, threads=threads)


def test_every_row_gets_the_models_answer_and_the_file_says_whose(run: Path, tmp_path: Path) -> None:
    data, out = _pairs(tmp_path), tmp_path / "new" / "scores.parquet"
    done = score(_asked(data, out))
    assert (done["rows"], done["blocks"], done["blocks_resumed"]) == (34, 4, 0)
    found = pq.read_table(out)
    users, items = found["user"].to_numpy(), found["item"].to_numpy().astype(int)
    model = RatingsModel.load(run / "model")
    expected = model.predict_ids(users, items)
    np.testing.assert_allclose(found["mean"], model.scale.clip(expected.mean), atol=1e-6)
    np.testing.assert_allclose(found["sd"], np.sqrt(expected.variance), atol=1e-6)
    said = {key.decode(): value.decode() for key, value in pq.read_schema(out).metadata.items()}
    assert said["predilect.run"] == "one"
    assert said["predilect.data_digest"] == done["predilect.data_digest"]
    assert [path.name for path in out.parent.iterdir()] == ["scores.parquet"]


def test_what_died_goes_on_and_leaves_no_half_file(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = _pairs(tmp_path), tmp_path / "scores.parquet"
    whole, calls = module._scored, []

    def dies(*words: object) -> pa.Table:
        calls.append(words)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(*words)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(module, "_scored", dies)
        with pytest.raises(KeyboardInterrupt):
            score(_asked(data, out, threads=1))
    assert not out.exists()
    done = score(_asked(data, out))
    assert done["blocks_resumed"] == 2
    assert pq.read_table(out)["user"].to_pylist() == pq.read_table(data)["user"].to_pylist()
    assert not list(tmp_path.glob(".scores*"))


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_same_bytes_on_any_number_of_threads(run: Path, tmp_path: Path, threads: int) -> None:
    data = _pairs(tmp_path, rows=333)
    score(_asked(data, tmp_path / "one.parquet", threads=1))
    score(_asked(data, tmp_path / "more.parquet", threads=threads))
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "more.parquet").read_bytes()


def test_rankings_give_chances(run: Path, tmp_path: Path) -> None:
    ballots = Ballots.from_rows([[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 2, 1]], 3, "ranked")
    model = RankingsModel.fit(ballots, RankingsConfig(n_components=1), item_ids=IdMap(["a", "b", "c"]), seed=0)
    model.save(run / "model")
    pq.write_table(pa.table({"better": ["a", "b", "x"], "worse": ["b", "a", "a"]}), tmp_path / "pairs.parquet")
    out = tmp_path / "chances.parquet"
    score(_asked(tmp_path / "pairs.parquet", out, family=ScoredFamily.rankings))
    chance = pq.read_table(out)["probability"].to_pylist()
    assert chance[0] + chance[1] == pytest.approx(1)
    assert np.isnan(chance[2])


def test_mistakes_are_one_sentence(run: Path, tmp_path: Path) -> None:
    data = _pairs(tmp_path)
    with pytest.raises(ParameterError, match="has no champion yet"):
        score(_asked(data, tmp_path / "x.parquet", model="champion"))
    with pytest.raises(ParameterError, match="no run matches"):
        score(_asked(data, tmp_path / "x.parquet", model="nine"))
    with pytest.raises(DataError, match="no such file"):
        score(_asked(tmp_path / "nothing", tmp_path / "x.parquet"))
    pq.write_table(pa.table({"user": ["u1"]}), tmp_path / "half.parquet")
    with pytest.raises(DataError, match="no column 'item'"):
        score(_asked(tmp_path / "half.parquet", tmp_path / "x.parquet"))
    with pytest.raises(ParameterError, match="that is a folder"):
        score(_asked(data, tmp_path))
    pq.write_table(pa.table({"item": [1] * 30, "user": ["u1"] * 25 + [None] * 5}), tmp_path / "gap.parquet")
    with pytest.raises(DataError, match=r"gap.parquet, column 'user', row 26: the id is missing; fill it in"):
        score(_asked(tmp_path / "gap.parquet", tmp_path / "x.parquet"))
    pq.write_table(pa.table({"item": [1.5], "user": ["u1"]}), tmp_path / "odd.parquet")
    with pytest.raises(DataError, match="column 'item' holds double, not ids"):
        score(_asked(tmp_path / "odd.parquet", tmp_path / "x.parquet"))
    with pytest.raises(ParameterError, match=r"scheduler = tcp://10.0.0.1:8786 goes with compute = dask"):
        ScoreParameters.parse(None, [], data="x", out="y", scheduler="tcp://10.0.0.1:8786")
    assert sorted(path.name for path in tmp_path.glob("*")) == [
        "gap.parquet", "half.parquet", "mlruns", "odd.parquet", "pairs.parquet", "state"
    ]  # fmt: skip
