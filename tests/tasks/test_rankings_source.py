"""From a source to canonical ballots: names of sets, ids kept, equal ballots collapsed, ingested once; the contract."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.canonical_ballots import BALLOTS, ITEMS, RankingsTable
from predilect.tasks.parameters_rankings import RankingsParameters
from predilect.tasks.rankings_fit import fit_rankings, split_rankings
from predilect.tasks.rankings_search import search_components
from predilect.tasks.rankings_source import check_source, find_rankings, ingest_rankings
from predilect.tasks.rankings_validate import validate_rankings
from predilect.tasks.settings import Settings

TOWNS = """# DATA TYPE: soi
# NUMBER ALTERNATIVES: 4
# NUMBER VOTERS: 9
# NUMBER UNIQUE ORDERS: 3
# ALTERNATIVE NAME 1: Bern
# ALTERNATIVE NAME 2: Oslo
# ALTERNATIVE NAME 3: Rom
# ALTERNATIVE NAME 4: Wien
4: 2,1
3: 3,2,1
2: 1,3
"""


def parameters(data: Path | str, **values: Any) -> RankingsParameters:
    return RankingsParameters(data=str(data), **{"menu": "ranked"} | values)


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path / "home"))
    return tmp_path


def test_names_ids_and_never_ranked_items_are_kept(at_home: Path) -> None:
    path = at_home / "towns.soi"
    path.write_text(TOWNS)
    table = RankingsTable.read(ingest_rankings(parameters(path)), "ranked")
    assert table.item_ids.ids.tolist() == [1, 2, 3, 4]
    assert table.item_names == ["Bern", "Oslo", "Rom", "Wien"]
    assert [table.ballots.row(k).tolist() for k in range(3)] == [[1, 0], [2, 1, 0], [0, 2]]
    assert table.ballots.counts.tolist() == [4, 3, 2]
    assert table.manifest["n_items_unranked"] == 1
    assert (table.manifest["n_ballots"], table.manifest["rows"], table.manifest["lengths"]) == (9, 3, {"2": 6, "3": 3})


def test_equal_ballots_are_collapsed_with_weights(at_home: Path) -> None:
    path = at_home / "battles.csv"
    path.write_text("winner,loser,weight\nx,y,2\ny,x,1\nx,y,0.5\n")
    table = RankingsTable.read(ingest_rankings(parameters(path)), "ranked")
    assert table.item_ids.ids.tolist() == ["x", "y"]
    assert table.ballots.counts.tolist() == [2, 1]
    assert table.ballots.weights.tolist() == [2.5, 1.0]
    assert table.manifest["weighted"] is True


def test_ingested_once_and_again_when_read_otherwise(at_home: Path) -> None:
    path = at_home / "towns.soi"
    path.write_text(TOWNS)
    first = ingest_rankings(parameters(path))
    written = (first / BALLOTS).stat().st_mtime_ns
    assert ingest_rankings(parameters(path, seed=5)) == first  # the seed decides nothing without ties at random
    assert (first / BALLOTS).stat().st_mtime_ns == written
    assert ingest_rankings(parameters(path, ties="random")) != first
    path.write_text(TOWNS.replace("2: 1,3", "2: 3,1"))
    assert ingest_rankings(parameters(path)) != first


def test_damaged_folder_is_made_again(at_home: Path) -> None:
    path = at_home / "towns.soi"
    path.write_text(TOWNS)
    folder = ingest_rankings(parameters(path))
    (folder / ITEMS).unlink()
    with pytest.raises(DataError, match="ingest the data again"):
        RankingsTable.read(folder, "ranked")
    assert ingest_rankings(parameters(path)) == folder
    assert len(RankingsTable.read(folder, "ranked").ballots) == 3


def test_sets_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "rankings" / "preflib").mkdir(parents=True)
    for name in ("towns.soi", "towns.toc", "rivers.csv.gz"):
        (tmp_path / "rankings" / "preflib" / name).touch()
    assert find_rankings("Rivers", tmp_path).name == "rivers.csv.gz"
    assert find_rankings("towns.toc", tmp_path).name == "towns.toc"
    with pytest.raises(DataError, match=r"is the name of towns\.soi, towns\.toc; give one of those"):
        find_rankings("towns", tmp_path)
    with pytest.raises(DataError, match="data = 'lakes': no such file, and none named so below"):
        find_rankings("lakes", tmp_path)
    with pytest.raises(DataError, match="no data folder is set"):
        find_rankings("lakes", None)


@pytest.mark.parametrize(
    ("assignments", "said"),
    [
        ([], 'menu: must be given ("all" when every item was on offer'),
        (["menu=some"], "the two are different models"),
        (["menu=all", "k=0"], "k = '0'"),
        (["menu=all", "k=many"], "1 to 100, or auto"),
        (["menu=all", "split=time:0.2"], "ballots are split at random, by a hash, or not at all"),
        (["menu=all", "nu=-1"], "nu = '-1'"),
        (["menu=all", "solver=em"], "solver = 'em'"),
        (["menu=all", "starts=0", "spectral=false"], "there is no start"),
        (["menu=all", "search_budget=4"], "needs 5 fits"),
        (["menu=all", "kk=2"], "kk: no such parameter"),
    ],
)
def test_impossible_parameters_are_refused(assignments: list[str], said: str) -> None:
    with pytest.raises(ParameterError) as error:
        RankingsParameters.parse(None, ["data=x", *assignments])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_k_is_a_number_or_auto() -> None:
    assert RankingsParameters(data="x", menu="all", k=3).k == "3"
    assert RankingsParameters(data="x", menu="all").config(2).n_components == 2
    assert RankingsParameters(data="x", menu="all").k == "auto"


def test_mistakes_are_found_before_any_work(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, data_dir=None)
    with pytest.raises(DataError, match="no such file"):
        check_source(parameters("nowhere.csv"), settings)
    with pytest.raises(ParameterError, match="reader = 'excel'"):
        check_source(parameters(tmp_path, reader="excel"), settings)
    with pytest.raises(ParameterError, match="no such folder"):
        check_source(parameters("d_apa", data_dir=str(tmp_path / "none")), settings)
    (settings.runs / "taken").mkdir(parents=True)
    with pytest.raises(ParameterError, match="choose another"):
        check_source(parameters(tmp_path, name="taken"), settings)


def test_ratings_become_rankings(at_home: Path) -> None:
    path = at_home / "stars.csv"
    rows = ["u,a,5", "u,b,3", "u,c,1", "v,b,4", "v,c,2", "w,a,1", "w,c,4"]
    path.write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    asked = parameters(path, reader="ratings")
    check_source(asked, Settings())
    table = RankingsTable.read(ingest_rankings(asked), "ranked")
    ids = table.item_ids.ids
    assert [ids[table.ballots.row(k)].tolist() for k in range(3)] == [["a", "b", "c"], ["b", "c"], ["c", "a"]]


def test_real_sets_by_name(data_dir: Path, at_home: Path) -> None:
    table = RankingsTable.read(ingest_rankings(parameters("d_dublinwest", data_dir=str(data_dir))), "all")
    assert (len(table.ballots), table.ballots.counts.sum(), len(table.item_ids)) == (10_230, 29_988, 9)
    named = RankingsTable.read(ingest_rankings(parameters("netflix", data_dir=str(data_dir))), "all")
    assert named.item_names[0] == "Mean Girls"


def test_contract_names_the_ballot_that_breaks_it(at_home: Path) -> None:
    path = at_home / "towns.soi"
    path.write_text(TOWNS)
    asked = parameters(path)
    folder = ingest_rankings(asked)
    outcome, manifest = validate_rankings(folder, at_home / "good", asked)
    assert outcome["success"]
    assert manifest["n_items"] == 4
    assert (at_home / "good" / "data_docs" / "index.html").is_file()
    bad = at_home / "bad"
    shutil.copytree(folder, bad)
    table = pq.read_table(bad / BALLOTS)
    items = pa.array([[2, 1, 2], [9], [1, 3]], table.schema.field("items").type)
    broken = pa.table([items, pa.array([4, 3, 0]), pa.array([4.0, np.inf, 2])], schema=table.schema)
    pq.write_table(broken, bad / BALLOTS)
    with pytest.raises(DataError) as error:
        validate_rankings(bad, at_home / "checked", asked)
    said = str(error.value)
    for part in ("no item twice on a ballot", "row 0 (items 2 > 1 > 2", "items known", "count 1 or more",
                 "weight above 0 and finite"):  # fmt: skip
        assert part in said
    assert (at_home / "checked" / "contract.json").is_file()


def test_items_in_the_way_of_a_fit_are_called_by_name(at_home: Path) -> None:
    path = at_home / "towns.soi"
    path.write_text(TOWNS)
    asked = parameters(path, split="none", k=1)
    folder = ingest_rankings(asked)
    split_rankings(folder, at_home, asked)
    with pytest.raises(DataError, match="item Wien is never ranked before another item; set nu above 0"):
        fit_rankings(folder, at_home, asked, {"k": 1})
    asked = parameters(path, split="none", k="auto", search_folds=2)
    with pytest.raises(DataError, match=r"Without fold 1: .* Wien "):
        search_components(folder, at_home, asked)


def test_contract_can_ask_for_ballots_an_item(at_home: Path) -> None:
    path = at_home / "towns.soi"
    path.write_text(TOWNS)
    asked = parameters(path, min_item_ballots=1, min_item_share=1.0)
    with pytest.raises(DataError, match=r"“enough ballots an item” .* fails for 1 of 4 items.*Wien"):
        validate_rankings(ingest_rankings(asked), at_home / "run", asked)
    asked = parameters(path, min_item_ballots=5, min_item_share=0.75)
    assert validate_rankings(ingest_rankings(asked), at_home / "run", asked)[0]["success"]
