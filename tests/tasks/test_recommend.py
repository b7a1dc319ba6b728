"""Recommendations for everybody, read back from the file and checked against the model."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.tasks import recommend as module
from predilect.tasks.ingest import ingest_ratings
from predilect.tasks.ratings_table import RatingsTable, parts, read_table
from predilect.tasks.recommend import recommend
from predilect.tasks.runs import write_json

N_USERS, N_ITEMS = 30, 40


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RatingsTable, RatingsModel]:
    """A home with one run; user u00 and item i00 are in the test part only."""
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(5)
    pairs = rng.choice(N_USERS * N_ITEMS, 500, replace=False)
    lines = [f"u{pair // N_ITEMS:02},i{pair % N_ITEMS:02},{rng.integers(1, 6)}" for pair in pairs]
    (home / "stars.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    table_of = ingest_ratings(str(home / "stars.csv"), None, home / "state" / "data").folder
    table = read_table(table_of)
    test = (table.users == 0) | (table.items == 0) | (rng.random(len(table.users)) < 0.2)
    train, _ = parts(table, test)
    model = RatingsModel.fit(
        train.users, train.items, train.ratings, table.scale, VBConfig(n_user_latents=1, n_item_latents=1),
        user_ids=train.user_ids, item_ids=train.item_ids, seed=0,
    )  # fmt: skip
    run = home / "state" / "runs" / "one"
    run.mkdir(parents=True)
    model.save(run / "model")
    write_json(run / "results.json", {"run": {"family": "ratings"}, "dataset": {"digest": table.manifest["digest"]}})
    return run, table, model


@pytest.fixture(autouse=True)
def _home(made: tuple[Path, RatingsTable, RatingsModel], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDILECT_HOME", str(made[0].parents[2]))


@pytest.mark.parametrize("piece", [7, 1 << 16])
def test_everybody_gets_the_best_of_what_they_have_not_rated(
    made: tuple[Path, RatingsTable, RatingsModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    run, table, model = made
    monkeypatch.setattr(module, "USERS", piece)
    done = recommend(run, tmp_path / "new" / "top.parquet", n=5)
    found = pq.read_table(tmp_path / "new" / "top.parquet").to_pandas()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["top.parquet"]
    assert done["users"] == N_USERS
    assert done["rows"] == len(found) == 5 * N_USERS
    assert found["user"].drop_duplicates().tolist() == table.user_ids.ids.tolist()
    for user, theirs in found.groupby("user"):
        assert theirs["rank"].tolist() == [1, 2, 3, 4, 5]
        rated = table.item_ids.decode(table.items[table.users == table.user_ids.encode([user])[0]])
        left = np.setdiff1d(model.item_ids.ids, rated)
        mean, variance = model.predict_ids(np.full(len(left), user), left)
        best = np.argsort(-mean)[:5]
        np.testing.assert_allclose(theirs["mean"], model.scale.clip(mean[best]), atol=1e-5)
        np.testing.assert_allclose(theirs["sd"], np.sqrt(variance[best]), atol=1e-5)
        assert set(theirs["item"]) <= set(left)


def test_what_was_rated_comes_back_when_asked_for(
    made: tuple[Path, RatingsTable, RatingsModel], tmp_path: Path
) -> None:
    recommend(made[0], tmp_path / "top.parquet", n=100, seen=True)
    found = pq.read_table(tmp_path / "top.parquet")
    assert len(found) == N_USERS * len(made[2].item_ids)


@pytest.mark.parametrize("explore", ["thompson", "quantile"])
def test_exploring_is_repeatable_and_differs(
    made: tuple[Path, RatingsTable, RatingsModel], tmp_path: Path, explore: module.Explore
) -> None:
    for name in ("one", "two"):
        recommend(made[0], tmp_path / name, n=5, explore=explore, threads=1 if name == "one" else 2)
    recommend(made[0], tmp_path / "mean", n=5)
    one, two, mean = (pq.read_table(tmp_path / name)["item"] for name in ("one", "two", "mean"))
    assert one == two != mean


def test_a_failure_leaves_the_old_file_and_no_part_of_a_new_one(
    made: tuple[Path, RatingsTable, RatingsModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "top.parquet"
    recommend(made[0], out, n=2)
    before = out.read_bytes()
    monkeypatch.setattr(module, "USERS", 7)
    calls = []

    def full(*_: object, **__: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.progress, "report", full)
    with pytest.raises(DataError, match="free space"):
        recommend(made[0], out, n=3)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["top.parquet"]


def test_mistakes_are_one_sentence(
    made: tuple[Path, RatingsTable, RatingsModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made[0]
    with pytest.raises(ParameterError, match="n = 0"):
        recommend(run, tmp_path / "top", n=0)
    with pytest.raises(ParameterError, match="folder"):
        recommend(run, tmp_path, n=1)
    with pytest.raises(ParameterError, match="quantile"):
        recommend(run, tmp_path / "top", explore="quantile", quantile=0)
    with pytest.raises(ParameterError, match="no finished model"):
        recommend(run.parent, tmp_path / "top")
    other = tmp_path / "home" / "state" / "runs" / "one"
    shutil.copytree(run, other)
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path / "home"))
    with pytest.raises(DataError, match="no longer"):
        recommend(other, tmp_path / "top")
    write_json(other / "results.json", {"run": {"family": "clicks"}, "dataset": {"digest": ""}})
    with pytest.raises(ParameterError, match="clicks"):
        recommend(other, tmp_path / "top")
    assert not (tmp_path / "top").exists()
