"""Explanations of a run: facts, lines and names."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.ratings import RatingsModel, VBConfig
from predilect.tasks.explain import explain, lines
from predilect.tasks.ingest import ingest_ratings
from predilect.tasks.item_names import read_names
from predilect.tasks.ratings_table import read_table
from predilect.tasks.runs import write_json


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items 0 … 9 are liked by those who dislike 10 … 19."""
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    taste = rng.normal(size=80)
    lines = [
        f"{user},{item},{np.clip(np.rint(3 + taste[user] * (1 if item < 10 else -1)), 1, 5):g}"
        for user in range(80) for item in range(20) if rng.random() < 0.6
    ]  # fmt: skip
    (home / "stars.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    table = read_table(ingest_ratings(str(home / "stars.csv"), None, home / "state" / "data").folder)
    folder = home / "state" / "runs" / "one"
    folder.mkdir(parents=True)
    RatingsModel.fit(
        table.users, table.items, table.ratings, table.scale, VBConfig(n_user_latents=1, n_item_latents=1),
        user_ids=table.user_ids, item_ids=table.item_ids, seed=0,
    ).save(folder / "model")  # fmt: skip
    write_json(folder / "results.json", {"run": {"family": "ratings"}, "dataset": {"digest": table.manifest["digest"]}})
    return folder


@pytest.fixture(autouse=True)
def _home(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDILECT_HOME", str(run.parents[2]))


def test_dimensions_have_names_at_both_ends(run: Path, tmp_path: Path) -> None:
    names = tmp_path / "films.csv"
    names.write_text("title,id\n" + "\n".join(f"{'ab'[n // 10]}{n},{n}" for n in range(19)))
    found = explain(run, n=4, names=names)["dimensions"]
    ends = {end: {one["name"][0] for one in found[0][end] if one["item"] != 19} for end in ("low", "high")}
    assert sorted(map(sorted, ends.values())) == [["a"], ["b"]]
    assert {one["name"] for one in explain(run, n=10, names=names)["dimensions"][0]["low"]} >= {"19"} or "19" in {
        one["name"] for one in explain(run, n=10, names=names)["dimensions"][0]["high"]
    }
    said = "\n".join(lines(explain(run, n=4, names=names)))
    assert "Dimension 1 moves ratings by" in said
    assert "a" in said


def test_what_is_like_an_item_or_a_user(run: Path) -> None:
    items = explain(run, item="3", n=5)
    assert items["item"] == 3
    assert all(one["id"] < 10 and one["low"] <= one["similarity"] <= one["high"] for one in items["similar"])
    assert len(lines(items)) == 5
    users = explain(run, user="7", n=3)
    assert len(users["similar"]) == 3
    assert 7 not in [one["id"] for one in users["similar"]]


def test_what_moved_a_prediction(run: Path) -> None:
    found = explain(run, user="7", item="3", n=100)
    assert found["mean"] == pytest.approx(found["base"] + sum(one["moved"] for one in found["influences"]))
    assert 3 not in [one["item"] for one in found["influences"]]
    assert lines(found)[0].startswith("User 7, 3: ")


def test_strangers_and_nonsense(run: Path) -> None:
    for options in ({"user": "x"}, {"item": "777"}, {"user": "7", "item": "x"}):
        with pytest.raises(DataError, match="not in the data"):
            explain(run, **options)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="n = 0"):
        explain(run, n=0)


def test_names_from_published_and_other_files(tmp_path: Path) -> None:
    (tmp_path / "u.item").write_bytes("1|Les Misérables (1995)|x\n".encode("latin-1"))
    (tmp_path / "movies.dat").write_text("5::Amélie (2001)::Comedy\n")
    (tmp_path / "artists.dat").write_text('id\tname\turl\n8\tThe "Who\thttp://x\n')
    pq.write_table(pa.table({"item": ["a", "b"], "name": ["A film", None]}), tmp_path / "t.parquet")
    assert read_names(tmp_path / "u.item")(1) == "Les Misérables (1995)"
    assert read_names(tmp_path / "movies.dat")(5) == "Amélie (2001)"
    assert read_names(tmp_path / "artists.dat")(8) == 'The "Who'
    assert [read_names(tmp_path / "t.parquet")(item) for item in ("a", "b", "c")] == ["A film", "b", "c"]
    (tmp_path / "bad.csv").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match="must be called"):
        read_names(tmp_path / "bad.csv")
    with pytest.raises(DataError, match="cannot be read"):
        read_names(tmp_path / "none.csv")
