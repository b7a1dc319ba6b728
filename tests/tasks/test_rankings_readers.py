"""Readers of rankings: every format on a small file in exactly that format, and one clear error for each fault."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.readers.rankings import read_rankings
from predilect.tasks.readers.rankings_base import RankingsReading, TieRule
from predilect.tasks.readers.rankings_ratings import rank_ratings
from predilect.tasks.readers.source import Source

NEW_SOC = """# FILE NAME: 00001-00000001.soc
# TITLE: Three towns
# DATA TYPE: soc
# NUMBER ALTERNATIVES: 3
# NUMBER VOTERS: 7
# NUMBER UNIQUE ORDERS: 2
# ALTERNATIVE NAME 1: Bern
# ALTERNATIVE NAME 2: Köln: centre
# ALTERNATIVE NAME 3: Oslo
5: 2,1,3
2: 3,1,2
"""
OLD_SOI = """4
1,Bern
2,Köln, centre
3,Oslo
4,Rom
6,6,3
3,2,1
2,3
1,1,3,2
"""
TOC = """# DATA TYPE: toc
# NUMBER ALTERNATIVES: 4
# NUMBER VOTERS: 4
# NUMBER UNIQUE ORDERS: 2
# ALTERNATIVE NAME 1: a
# ALTERNATIVE NAME 2: b
# ALTERNATIVE NAME 3: c
# ALTERNATIVE NAME 4: d
3: 2,{1,3,4}
1: 1,2,{3,4}
"""
INNER = "# NUMBER ALTERNATIVES: 5\n2: 3,1\n1: 1,{2,3},{4,5}\n4: 5,4\n"


def save(folder: Path, content: str | bytes, name: str = "rankings.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path, **options) -> RankingsReading:
    return read_rankings(Source(path), **options)


def orders(reading: RankingsReading) -> list[tuple[int, list[str]]]:
    """(count, names best first) of every ballot."""
    names = reading.names()
    bounds = zip(reading.offsets[:-1], reading.offsets[1:], strict=True)
    return [
        (int(count), [names[code] for code in reading.items[a:b]])
        for count, (a, b) in zip(reading.counts, bounds, strict=True)
    ]


def test_preflib_with_the_header_of_today(tmp_path):
    reading = read(save(tmp_path, NEW_SOC, "towns.soc"))
    assert (reading.reader, reading.form) == ("preflib", "soc")
    assert reading.item_ids.to_pylist() == [1, 2, 3]
    assert orders(reading) == [(5, ["Köln: centre", "Bern", "Oslo"]), (2, ["Oslo", "Bern", "Köln: centre"])]
    assert reading.where(1) == "line 11"
    assert reading.ballots("ranked").counts.tolist() == [5, 2]
    assert reading.warnings == []


def test_preflib_with_the_header_of_before(tmp_path):
    reading = read(save(tmp_path, OLD_SOI, "towns.soi"))
    assert orders(reading) == [(3, ["Köln, centre", "Bern"]), (2, ["Oslo"]), (1, ["Bern", "Oslo", "Köln, centre"])]
    assert reading.names() == ["Bern", "Köln, centre", "Oslo", "Rom"]  # never ranked, but kept
    assert read(save(tmp_path, OLD_SOI, "towns")).reader == "preflib"  # by content


def test_trailing_ties_make_top_l_ballots(tmp_path):
    reading = read(save(tmp_path, TOC, "x.toc"))
    assert orders(reading) == [(3, ["b"]), (1, ["a", "b"])]
    assert reading.warnings == ["4 ballots end in a tie, which was cut: they are top-l ballots"]


def test_inner_ties_are_refused_with_their_line_or_broken_by_the_rule(tmp_path):
    path = save(tmp_path, INNER, "x.toi")
    with pytest.raises(
        DataError, match=r"x\.toi, line 3: 2, 3 are tied before the end of a ballot.*listed, random or drop"
    ):
        read(path)
    listed = read(path, ties=TieRule("listed"))
    assert orders(listed)[1] == (1, ["1", "2", "3"])
    assert "ties inside 1 ballots were broken in the order of the file" in listed.warnings
    drawn = {tuple(orders(read(path, ties=TieRule("random", seed)))[1][1]) for seed in range(20)}
    assert drawn == {("1", "2", "3"), ("1", "3", "2")}
    dropped = read(path, ties=TieRule("drop"))
    assert [count for count, _ in orders(dropped)] == [2, 4]
    assert (dropped.left_out, dropped.left_out_reason) == (1, "ties inside the ballot")
    with pytest.raises(ParameterError, match="ties is 'coin'"):
        TieRule("coin")


def test_a_ballot_that_ties_all_is_left_out_and_counted(tmp_path):
    reading = read(save(tmp_path, "# NUMBER ALTERNATIVES: 3\n4: {1,2}\n1: 2,1\n", "x.toi"))
    assert orders(reading) == [(1, ["2", "1"])]
    assert (reading.left_out, reading.left_out_reason) == (4, "all items of the ballot tied")


def test_alternatives_without_a_name_are_called_by_number(tmp_path):
    text = "# NUMBER ALTERNATIVES: 4\n# ALTERNATIVE NAME 1: a\n# ALTERNATIVE NAME 2: b\n1: 1,3\n1: 2,1\n"
    reading = read(save(tmp_path, text, "x.soi"))
    assert reading.names() == ["a", "b", "3"]
    assert len(reading.warnings) == 2


def test_counted_text(tmp_path):
    reading = read(save(tmp_path, "# n_items=4 n_rankings=6 ; count: best,...,worst (0-based)\n5: 2,0,1\n1: 1\n"))
    assert reading.reader == "counted"
    assert reading.item_ids.to_pylist() == [0, 1, 2, 3]
    assert orders(reading) == [(5, ["2", "0", "1"]), (1, ["1"])]
    named = read(save(tmp_path, "3: tea, coffee\n1: coffee, water, tea\n"))
    assert orders(named) == [(3, ["tea", "coffee"]), (1, ["coffee", "water", "tea"])]
    packed = save(tmp_path, gzip.compress(b"2: 1,0\n1: 0,1\n"), "r.txt.gz")
    assert orders(read(packed)) == [(2, ["1", "0"]), (1, ["0", "1"])]


def test_long_form_in_any_order_with_gaps_and_weights(tmp_path):
    text = "voter,candidate,rank,weight\nx,b,2,3\ny,a,1,0.5\nx,a,10,3\ny,b,7,0.5\ny,c,,0.5\n"
    reading = read(save(tmp_path, text, "long.csv"))
    assert (reading.reader, reading.form) == ("csv", "long")
    assert orders(reading) == [(1, ["b", "a"]), (1, ["a", "b"])]
    assert reading.weights.tolist() == [3, 0.5]
    assert reading.ballots("ranked").weights.tolist() == [3, 0.5]
    assert reading.where(1) == "line 3"
    assert reading.names() == ["a", "b", "c"]
    assert reading.warnings == ["1 rows without a rank were taken as not ranked"]


def test_columns_can_be_named(tmp_path):
    path = save(tmp_path, "a;b;c\n1;x;1\n1;y;2\n2;y;1\n", "r.csv")
    reading = read(path, columns={"ballot": "a", "item": "b", "rank": "c"})
    assert orders(reading) == [(1, ["x", "y"]), (1, ["y"])]
    with pytest.raises(DataError, match=r"no column 'z' for the item among a, b, c"):
        read(path, columns={"item": "z"})
    with pytest.raises(ParameterError, match="columns maps 'user'"):
        read(path, columns={"user": "a"})


def test_wide_form_with_places(tmp_path):
    reading = read(save(tmp_path, "id,rank1,rank2,rank3,count\n7,x,y,z,2\n8,z,,,1\n", "w.csv"))
    assert reading.form == "items"
    assert orders(reading) == [(2, ["x", "y", "z"]), (1, ["z"])]
    tabs = read(save(tmp_path, "1st\t2nd\n5\t6\n6\t5\n", "w.tsv"))
    assert orders(tabs) == [(1, ["5", "6"]), (1, ["6", "5"])]
    assert tabs.item_ids.type == pa.int64()


def test_wide_form_with_items_over_ranks(tmp_path):
    reading = read(save(tmp_path, "judge,tea,coffee,water\n1,2,1,3\n2,1,,1\n3,1,2,\n", "w.csv"))
    assert reading.form == "ranks"
    assert orders(reading) == [(1, ["coffee", "tea", "water"]), (1, ["tea", "coffee"])]
    assert reading.left_out == 1  # all of the second ballot is tied


def test_a_wide_table_that_may_be_either_must_be_said(tmp_path):
    path = save(tmp_path, "1,2,3\n3,1,2\n1,2,3\n", "w.csv")
    with pytest.raises(DataError, match=r"columns 1, 2, 3 may be places or items; say form=items .* form=ranks"):
        read(path)
    assert orders(read(path, form="items"))[0] == (1, ["3", "1", "2"])
    assert orders(read(path, form="ranks"))[0] == (1, ["2", "3", "1"])


def test_winner_and_loser(tmp_path):
    reading = read(save(tmp_path, "winner,loser,count\ngpt,llama,10\nllama,gpt,3\n", "p.csv"))
    assert reading.form == "pairs"
    assert orders(reading) == [(10, ["gpt", "llama"]), (3, ["llama", "gpt"])]


def test_arena_logs(tmp_path):
    text = "model_a,model_b,winner\nm1,m2,model_a\nm1,m3,model_b\nm2,m3,tie\nm2,m1,m2\nm3,m1,tie (bothbad)\n"
    reading = read(save(tmp_path, text, "arena.csv"))
    assert orders(reading) == [(1, ["m1", "m2"]), (1, ["m3", "m1"]), (1, ["m2", "m1"])]
    assert reading.where(2) == "line 5"
    assert reading.warnings == ["2 comparisons without a winner (ties) were left out"]
    with pytest.raises(DataError, match=r"arena\.csv, line 2: the winner 'm9' is neither"):
        read(save(tmp_path, "model_a,model_b,winner\nm1,m2,m9\n", "arena.csv"))


def test_parquet_in_long_and_wide_form(tmp_path):
    pq.write_table(pa.table({"ballot": [1, 1, 2], "item": ["b", "a", "a"], "rank": [1, 2, 1]}), tmp_path / "l.parquet")
    reading = read(tmp_path / "l.parquet")
    assert (reading.reader, reading.form) == ("parquet", "long")
    assert orders(reading) == [(1, ["b", "a"]), (1, ["a"])]
    wide = pa.table({"tea": pa.array([1, None], pa.float64()), "milk": pa.array([2, 1], pa.int8()), "l": [[1], [2]]})
    pq.write_table(wide, tmp_path / "w.parquet")
    assert orders(read(tmp_path / "w.parquet")) == [(1, ["tea", "milk"]), (1, ["milk"])]
    pq.write_table(pa.table({"ballot": [1, 1], "item": ["b", "b"], "rank": [1, 2]}), tmp_path / "l.parquet")
    with pytest.raises(DataError, match=r"l\.parquet, row 2: item b is ranked twice"):
        read(tmp_path / "l.parquet")


def test_rankings_from_ratings():
    ids = pa.array(["x", "y", "z"])
    users, items = np.array([0, 0, 0, 1, 1], np.int32), np.array([0, 1, 2, 2, 1], np.int32)
    ratings = np.array([3.0, 5, 1, 4, 4])
    reading = rank_ratings(users, items, ratings, ids, label="stars", ties=TieRule())
    assert orders(reading) == [(1, ["y", "x", "z"])]
    assert (reading.left_out, reading.left_out_reason) == (1, "all items of the ballot tied")
    with pytest.raises(DataError, match=r"stars, row 1: x, y are tied"):
        rank_ratings(users[:3], items[:3], np.array([3.0, 3, 1]), ids, label="stars", ties=TieRule())
    with pytest.raises(DataError, match="every user rated one item only"):
        rank_ratings(users[[0, 3]], items[[0, 3]], ratings[:2], ids, label="stars", ties=TieRule())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.soi", "# NUMBER ALTERNATIVES: 3\n1: 1,2\n2: 3,1,3\n", r"x\.soi, line 3: item 3 is ranked twice"),
        ("x.soi", "# NUMBER ALTERNATIVES: 3\n1: 1,2\n2:\n", r"x\.soi, line 3: the ballot is empty"),
        ("x.soi", "# NUMBER ALTERNATIVES: 3\n1: 1;2\n", r"x\.soi, line 2: ';' is out of place"),
        ("x.soi", "# NUMBER ALTERNATIVES: 3\n1, 1,2\n", r"x\.soi, line 2: .* does not begin with a count and ':'"),
        ("x.soi", "# NUMBER ALTERNATIVES: 3\n1: 1,4\n", r"x\.soi, line 2: alternative 4 is not among .* 1 to 3"),
        ("x.soi", "# NUMBER ALTERNATIVES: 3\n1: 1,\n", r"x\.soi, line 2: .* cut short"),
        ("x.toi", "# NUMBER ALTERNATIVES: 3\n1: 1,{2,3\n", r"x\.toi, line 2: .* cut short"),
        ("x.toi", "# NUMBER ALTERNATIVES: 3\n1: 1,{}\n", r"x\.toi, line 2: '}' is out of place"),
        ("x.soi", "# NUMBER ALTERNATIVES: 3\n0: 1,2\n", r"x\.soi, line 2: the number of voters is 0; give one above 0"),
        ("x.soi", "# NUMBER ALTERNATIVES: three\n1: 1,2\n", r"line 1: NUMBER ALTERNATIVES is 'three'"),
        ("x.soc", NEW_SOC.replace("VOTERS: 7", "VOTERS: 8"), r"the header says 8 voters, but the file has 7"),
        ("x.soc", NEW_SOC.replace("ORDERS: 2", "ORDERS: 3"), r"the header says 3 unique orders, but the file has 2"),
        ("x.soc", NEW_SOC.replace("2: 3,1,2", "2: 3,1"), r"x\.soc, line 11: 2 of 3 alternatives are ranked"),
        ("x.soi", OLD_SOI.replace("6,6,3", "6,7,3"), r"the header says 7 voters, but the file has 6"),
        ("x.soi", OLD_SOI.replace("6,6,3", "6;6;3"), r"line 6: '6;6;3' is not `voters,sum of counts,unique orders`"),
        ("x.soi", "5\n1,a\n2,b\n", r"ends within its header of 5 alternatives"),
        ("x.soi", "# NUMBER ALTERNATIVES: 3\n", r"x\.soi holds no ballots"),
        ("x.txt", "# n_items=3 n_rankings=5\n3: 0,1\n1: 1,0\n", r"n_rankings=5, but the counts add up to 4"),
        ("x.txt", "# n_items=3\n3: 0,3\n", r"x\.txt, line 2: item 3 is not among the header's 0 to 2"),
        ("x.txt", "3: 0,1\n2: 1;0\n", r"x\.txt, line 2: '1;0' is not an item; separate items by commas"),
        ("x.txt", "3: 0,1\n2 1,0\n", r"x\.txt, line 2: .* does not begin with a count and a colon"),
        ("x.txt", "3: 0,1\n2: 1,0,1\n", r"x\.txt, line 2: item 1 is ranked twice"),
        ("x.txt", "3: 0,1\n2:\n", r"x\.txt, line 2: the ballot is empty"),
        ("x.txt", "3: a\n2: a\n", r"x\.txt ranks one item only \(a\)"),
        ("x.txt", "", r"x\.txt is empty"),
        ("x.csv", "ballot,item,rank\n", r"x\.csv holds no ballots"),
        ("x.csv", "ballot,item,rank\n1,a,1\n1,a,2\n", r"x\.csv, line 3: item a is ranked twice"),
        ("x.csv", "ballot,item,rank\n1,a,1\n1,b,best\n", r"x\.csv, line 3: the rank 'best' in column rank"),
        ("x.csv", "ballot,item,rank\n1,a,1\n1,,2\n", r"x\.csv, line 3: the item is empty"),
        ("x.csv", "ballot,item,rank\n1,a,1\n2,b,\n", r"x\.csv, line 3: the ballot is empty"),
        ("x.csv", "ballot,item,rank\n1,a,1\n1,b,1\n1,c,2\n", r"x\.csv, line 2: a, b are tied before the end"),
        ("x.csv", "ballot,item,rank,weight\n1,a,1,0\n1,b,2,0\n", r"x\.csv, line 2: the weight is 0; give one above 0"),
        (
            "x.csv",
            "ballot,item,rank,weight\n1,a,1,1\n1,b,2,2\n",
            r"x\.csv, line 3: the weight differs within a ballot",
        ),
        ("x.csv", "ballot,item,rank,weight\n1,a,1,x\n1,b,2,1\n", r"x\.csv, line 2: the weight is 'x', not a number"),
        (
            "x.csv",
            "ballot,item,rank,count\n1,a,1,1.5\n1,b,2,1.5\n",
            r"x\.csv, line 2: the count 1.5 is not a whole number",
        ),
        ("x.csv", "ballot,item,rank\n1,a,1\n1,b\n", r"x\.csv, line 3: 2 fields where 3 are expected"),
        ("x.csv", "ballot;item|rank\n1\n", r"x\.csv"),
        ("x.csv", "nothing to split\nhere\n", r"x\.csv, line 1: .* has no comma, tab, semicolon or bar"),
        ("x.csv", "colour,taste\nred,sour\n", r"x\.csv: the columns colour, taste show neither ballot, item and rank"),
        ("x.csv", "rank1,rank2\n,a\n", r"x\.csv, line 2: a place is empty before one that is filled"),
        ("x.csv", "rank1,rank2\na,b\nb,b\n", r"x\.csv, line 3: item b is ranked twice"),
        ("x.csv", "winner,loser\na,b\na,\n", r"x\.csv, line 3: the loser is empty"),
        ("x.csv", "winner,loser\na,b\na,a\n", r"x\.csv, line 3: item a is ranked twice"),
        ("x.csv", b"winner,loser\na,b\n\xff,a\n", r"x\.csv, line 3: byte 0xff is not UTF-8"),
        ("x.csv", "winner,winner\na,b\n", r"x\.csv, line 1: two columns have the same name"),
        ("x.parquet", b"PAR1 but not really", r"x\.parquet is not a readable Parquet file"),
        ("x.csv.gz", b"winner,loser\na,b\n", r"x\.csv\.gz is not a gzip file"),
    ],
)
def test_one_clear_error_for_each_fault(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message) as caught:
        read(save(tmp_path, content, name))
    assert "\n" not in str(caught.value)


def test_what_to_read_must_be_one_file_and_a_known_reader(tmp_path):
    save(tmp_path, "1: 0,1\n", "a.txt")
    save(tmp_path, "1: 0,1\n", "b.txt")
    with pytest.raises(DataError, match=r"holds a\.txt, b\.txt; give the file of rankings itself"):
        read(tmp_path)
    with pytest.raises(ParameterError, match="reader 'excel' is unknown; choose one of auto, preflib"):
        read(tmp_path / "a.txt", reader="excel")
    with pytest.raises(ParameterError, match="columns cannot be mapped for the reader counted"):
        read(tmp_path / "a.txt", columns={"item": "x"})
    with pytest.raises(ParameterError, match="menu must be chosen"):
        read(tmp_path / "a.txt").ballots(None)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.lists(st.integers(0, 6), min_size=1, max_size=7, unique=True)),
        min_size=1,
        max_size=8,
    ).filter(lambda ballots: len({item for _, order in ballots for item in order}) > 1)
)
def test_every_format_reads_the_same_ballots(tmp_path, ballots):
    text = "".join(f"{count}: {','.join(map(str, order))}\n" for count, order in ballots)
    counted = read(save(tmp_path, text, "r.txt"))
    soi = read(save(tmp_path, "# NUMBER ALTERNATIVES: 7\n" + text.replace("0", "7"), "r.soi"))
    rows = [
        f"{number},{item},{place},{count}"
        for number, (count, order) in enumerate(ballots)
        for place, item in enumerate(order)
    ]
    long = read(save(tmp_path, "\n".join(["ballot,item,rank,count", *rows]), "long.csv"))
    wide = read(
        save(
            tmp_path,
            "\n".join(
                [
                    "p1,p2,p3,p4,p5,p6,p7,count",
                    *(",".join([*map(str, o), *[""] * (7 - len(o)), str(c)]) for c, o in ballots),
                ]
            ),
            "wide.csv",
        ),
        form="items",
    )
    expected = [(count, [str(item) for item in order]) for count, order in ballots]
    assert orders(counted) == orders(long) == orders(wide) == expected
    assert [(c, [i.replace("7", "0") for i in o]) for c, o in orders(soi)] == expected


def test_published_files(data_dir):
    folder = data_dir / "rankings"
    dublin = read(folder / "plmix_gpl" / "d_dublinwest.csv")
    assert (int(dublin.counts.sum()), len(dublin), len(dublin.item_ids)) == (29988, 10230, 9)
    sizes = {"cities.soi": (36, 392), "netflix.soc": (4, 588), "shirt.soc": (11, 30)}
    for name, (n_items, n_ballots) in sizes.items():
        reading = read(folder / "plackettluce_gpl3" / name)
        assert (len(reading.item_ids), int(reading.counts.sum())) == (n_items, n_ballots)
    assert read(folder / "plackettluce_gpl3" / "netflix.soc").names()[3] == "Mission: Impossible II"
    with pytest.raises(DataError, match=r"skaters\.toc, line \d+: .* are tied before the end of a ballot"):
        read(folder / "plackettluce_gpl3" / "skaters.toc")
    skaters = read(folder / "plackettluce_gpl3" / "skaters.toc", ties=TieRule("listed"))
    assert (len(skaters), len(skaters.item_ids)) == (9, 30)
    with pytest.raises(DataError, match="the header says 14 voters, but the file has 12"):
        read(folder / "plackettluce_gpl3" / "education_courses.soi")
