"""Scores and lists of a clicks run, read back from the files and checked against the model and plain sorting."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from predilect.models.clicks import SCORES, ClicksConfig, ClicksModel, score
from predilect.models.errors import DataError, ParameterError
from predilect.tasks import clicks_score as module
from predilect.tasks.canonical_clicks import ClicksTable
from predilect.tasks.clicks_fit import Parts, design_for, fit_model, make_encoder, split_clicks
from predilect.tasks.clicks_score import rank_clicks, score_clicks
from predilect.tasks.clicks_source import ingest_clicks
from predilect.tasks.parameters_clicks import ClicksParameters
from predilect.tasks.runs import write_json
from predilect.tasks.score_blocks import Chosen
from predilect.tasks.simulate_clicks import simulate_clicks

N_ROWS = 400


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, ClicksModel, ClicksTable]:
    """A run of l-prop on the first half of some headlines, all of them as Parquet, the model and the table."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PREDILECT_HOME", str(home))
    csv = simulate_clicks(home / "raw", n_headlines=N_ROWS, seed=3)
    frame = pd.read_csv(csv)
    frame["size"] = np.arange(N_ROWS) % 7
    parquet = home / "headlines.parquet"
    frame.to_parquet(parquet)
    parameters = ClicksParameters(
        data=str(parquet), texts=["title"], categories=["place"], numbers=["size"], group="test"
    )
    table = ClicksTable.read(ingest_clicks(parameters))
    monkeypatch.undo()
    run = home / "state" / "runs" / "one"
    run.mkdir(parents=True)
    model = _fit(table, run, parameters, "l-prop")
    return run, parquet, model, table


def _fit(table: ClicksTable, run: Path, parameters: ClicksParameters, name: Any) -> ClicksModel:
    half = np.arange(N_ROWS // 2)
    encoder = make_encoder(table, Parts(half[:0], half, half + N_ROWS // 2), parameters)
    columns = table.contexts.some(table.contexts.lines[half].astype(np.int64))
    assert table.groups is not None
    design = encoder.encode(columns, groups=table.groups.values[half])
    config = ClicksConfig(model=name, evidence="fixed", start_precision=3.0)
    model = ClicksModel.fit(design, table.impressions[half], table.clicks[half], config, encoder=encoder)
    model.save(run / "model")
    write_json(
        run / "results.json",
        {
            "run": {"family": "clicks"},
            "dataset": {"options": {"reader": "table"}, "columns": {}},
            "parameters": parameters.model_dump(mode="json"),
        },
    )
    return model


@pytest.mark.parametrize("rows", [150, 1 << 16])
def test_every_row_gets_every_score_in_its_place(
    made: tuple[Path, Path, ClicksModel, ClicksTable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    run, parquet, model, table = made
    monkeypatch.setattr(module, "BLOCK_ROWS", rows)
    done = score_clicks(Chosen.of_run("clicks", run), parquet, tmp_path / "new" / "scored.parquet", n_threads=2)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["scored.parquet"]
    assert done["rows"] == N_ROWS
    assert done["scores"] == list(SCORES)
    found = pd.read_parquet(tmp_path / "new" / "scored.parquet")
    pd.testing.assert_frame_equal(found[list(pd.read_parquet(parquet).columns)], pd.read_parquet(parquet))
    design = design_for(model, table, np.arange(N_ROWS))
    expected = score(model, design)
    for name in SCORES:
        if name == "thompson" and rows < N_ROWS:  # noise of unknown groups is drawn block by block
            known = design.groups >= 0
            np.testing.assert_allclose(found[name][known], expected[name][known], rtol=1e-12)
        else:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, err_msg=name)
    p = 1 / (1 + np.exp(-model.predict(design).zeta))
    np.testing.assert_allclose(found["error"], p * (1 - p) * model.predict(design).zeta_sd)
    shapes = np.exp(model.predict(design).eta) / (1 - p)
    np.testing.assert_allclose(found["risk"], np.sqrt(p * (1 - p) / (shapes + 1)))


def test_lists_follow_the_mean_and_keep_places_for_exploring(
    made: tuple[Path, Path, ClicksModel, ClicksTable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, parquet, *_ = made
    monkeypatch.setattr(module, "BLOCK_ROWS", 64)
    score_clicks(Chosen.of_run("clicks", run), parquet, tmp_path / "all.parquet", scores=("mean", "uqp", "ucqe"))
    done = rank_clicks(
        Chosen.of_run("clicks", run), parquet, tmp_path / "lists.parquet", length=5, by="place", budget=0.4,
        explore=("uqp", "ucqe"),
    )  # fmt: skip
    assert (done["lists"], done["shown"], done["explored"]) == (2, 10, 4)
    every, lists = pd.read_parquet(tmp_path / "all.parquet"), pd.read_parquet(tmp_path / "lists.parquet")
    for place, shown in lists.groupby("place"):
        assert shown["rank"].tolist() == [1, 2, 3, 4, 5]
        mine = every[every["place"] == place]
        best = mine.sort_values("mean", ascending=False)
        assert shown["title"][shown["chosen_by"] == "mean"].tolist() == best["title"].head(3).tolist()
        left = best.iloc[3:]
        assert shown["title"][shown["chosen_by"] == "uqp"].item() == left.loc[left["uqp"].idxmax(), "title"]
        left = left[left["uqp"] < left["uqp"].max()]
        assert shown["title"][shown["chosen_by"] == "ucqe"].item() == left.loc[left["ucqe"].idxmax(), "title"]
        same = shown.merge(every, on=["title", "test"])
        np.testing.assert_array_equal(same["uqp_x"], same["uqp_y"])


def test_what_died_goes_on_and_both_files_say_by_which_model(
    made: tuple[Path, Path, ClicksModel, ClicksTable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, parquet, *_ = made
    chosen, out = Chosen.of_run("clicks", run), tmp_path / "scored.parquet"
    monkeypatch.setattr(module, "BLOCK_ROWS", 100)
    whole, blocks = module.score_block, []

    def dies(*words: Any, **more: Any) -> Any:
        blocks.append(words)
        if len(blocks) == 3:
            raise KeyboardInterrupt
        return whole(*words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(module, "score_block", dies)
        with pytest.raises(KeyboardInterrupt):
            score_clicks(chosen, parquet, out, scores=("mean",), n_threads=1)
    assert not out.exists()
    done = score_clicks(chosen, parquet, out, scores=("mean",))
    assert (done["blocks"], done["blocks_resumed"]) == (4, 2)
    score_clicks(chosen, parquet, tmp_path / "again.parquet", scores=("mean",), n_threads=3)
    assert out.read_bytes() == (tmp_path / "again.parquet").read_bytes()
    rank_clicks(chosen, parquet, tmp_path / "lists.parquet", length=2)
    for file in (out, tmp_path / "lists.parquet"):
        said = pq.read_schema(file).metadata
        assert (said[b"predilect.run"], said[b"predilect.family"]) == (b"one", b"clicks")
        assert said[b"predilect.data_digest"].decode() == done["predilect.data_digest"]
    assert not list(tmp_path.glob(".scored*"))


def test_unknown_words_values_and_groups_and_empty_texts_are_scored(
    made: tuple[Path, Path, ClicksModel, ClicksTable], tmp_path: Path
) -> None:
    run, _, model, _ = made
    frame = pd.DataFrame({"title": ["xyzzy", None], "place": ["attic", ""], "size": [3.0, 3.0]})
    frame.to_parquet(tmp_path / "odd.parquet")
    done = score_clicks(Chosen.of_run("clicks", run), tmp_path / "odd.parquet", tmp_path / "scored.parquet")
    assert done["warnings"] == ["There is no column 'test', so every row counts as of an unknown group."]
    found = pd.read_parquet(tmp_path / "scored.parquet")
    assert np.isfinite(found[list(SCORES)].to_numpy()).all()
    assert found["mean"].nunique() == 1
    assert found["error"][0] > np.sqrt(1 / model.precisions["mean.group"]) * found["mean"][0] * (1 - found["mean"][0])


def test_what_cannot_be_scored_is_one_sentence_and_leaves_the_old_file(
    made: tuple[Path, Path, ClicksModel, ClicksTable], tmp_path: Path
) -> None:
    run, parquet, *_ = made
    frame, bad, out = pd.read_parquet(parquet), tmp_path / "bad.parquet", tmp_path / "out.parquet"
    out.write_text("old")
    for change, said in (
        (frame.drop(columns="title"), r"no column 'title' for the text .* among place"),
        (frame.assign(size=np.inf), r"row 1: the number in column 'size' is missing or not finite"),
        (frame.assign(size="big"), r"the column 'size' is not of numbers"),
        (frame.assign(uqp=1.0), r"has a column 'uqp' already"),
    ):
        change.to_parquet(bad)
        with pytest.raises(DataError, match=said):
            score_clicks(Chosen.of_run("clicks", run), bad, out)
    with pytest.raises(DataError, match="no such file"):
        score_clicks(Chosen.of_run("clicks", run), tmp_path / "none.parquet", out)
    with pytest.raises(DataError, match="not a readable Parquet file"):
        score_clicks(Chosen.of_run("clicks", run), out, out)
    with pytest.raises(ParameterError, match="There is no score 'greedy'"):
        score_clicks(Chosen.of_run("clicks", run), parquet, out, scores=("greedy",))
    with pytest.raises(ParameterError, match="budget is 2"):
        rank_clicks(Chosen.of_run("clicks", run), parquet, out, length=3, budget=2.0)
    with pytest.raises(DataError, match="no column 'reader' for the lists"):
        rank_clicks(Chosen.of_run("clicks", run), parquet, out, length=3, by="reader")
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.parquet", "out.parquet"]


def test_other_runs_are_refused(tmp_path: Path, made: tuple[Path, Path, ClicksModel, ClicksTable]) -> None:
    with pytest.raises(ParameterError, match="has no finished model"):
        score_clicks(Chosen.of_run("clicks", tmp_path), made[1], tmp_path / "out.parquet")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "manifest.json").write_text("{}")
    write_json(tmp_path / "results.json", {"run": {"family": "ratings"}})
    with pytest.raises(ParameterError, match="a run on ratings, but this needs one on clicks"):
        score_clicks(Chosen.of_run("clicks", tmp_path), made[1], tmp_path / "out.parquet")


def test_a_log_of_users_is_scored_by_their_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three kinds of users like a topic each: their lists are of it; of unknown users less is expected."""
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path))
    rng = np.random.default_rng(0)
    users, items = rng.integers(60, size=(2, 12_000))
    likes = users % 3 == items % 3
    frame = pd.DataFrame(
        {
            "user": [f"u{user}" for user in users],
            "item": [f"i{item}" for item in items],
            "title": np.array(["sea sand", "snow ice", "wood moss"])[items % 3],
            "clicked": (rng.random(12_000) < np.where(likes, 0.8, 0.02)).astype(int),
            "time": np.arange(12_000),
        }
    )
    frame.to_parquet(tmp_path / "log.parquet")
    parameters = ClicksParameters(
        data=str(tmp_path / "log.parquet"), texts=["title"], history=0.4, clusters=3, min_lines=1, model="l-bbl"
    )
    folder = ingest_clicks(parameters)
    run = tmp_path / "run"
    run.mkdir()
    split_clicks(folder, run, parameters)
    table = ClicksTable.read(folder)
    fit_model(table, Parts.read(run), parameters, "l-bbl", "fit").save(run / "model")
    dataset = {"options": table.manifest["options"], "columns": table.manifest["columns"]}
    write_json(
        run / "results.json",
        {"run": {"family": "clicks"}, "dataset": dataset, "parameters": parameters.model_dump(mode="json")},
    )
    every = pd.DataFrame(
        [(f"u{user}", item) for user in [*range(60), 99] for item in range(3)], columns=["user", "kind"]
    )
    every["title"] = np.array(["sea sand", "snow ice", "wood moss"])[every["kind"]]
    every.to_parquet(tmp_path / "every.parquet")
    done = rank_clicks(
        Chosen.of_run("clicks", run),
        tmp_path / "every.parquet",
        tmp_path / "top.parquet",
        length=1,
        by="user",
        budget=0.0,
    )
    assert done["warnings"] == []
    top = pd.read_parquet(tmp_path / "top.parquet")
    own = top[top["user"] != "u99"]
    assert (own["user"].str[1:].astype(int) % 3 == own["kind"]).mean() > 0.95
    assert own["mean"].mean() > top.loc[top["user"] == "u99", "mean"].item() + 0.1
    every.drop(columns="user").to_parquet(tmp_path / "anonymous.parquet")
    said = score_clicks(
        Chosen.of_run("clicks", run), tmp_path / "anonymous.parquet", tmp_path / "scored.parquet", scores=("mean",)
    )["warnings"]
    assert said == ["There is no column 'user', so every user counts as unknown."]
