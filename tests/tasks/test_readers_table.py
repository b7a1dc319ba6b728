"""Any table: CSV, TSV and Parquet, packed or not, with columns found or named; and inputs nobody thought of."""

import csv
import gzip
import io
import zipfile
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.canonical import Coded
from predilect.tasks.readers import choose
from predilect.tasks.readers.base import Chunk, Reading, gather
from predilect.tasks.readers.source import Source

HEADER = "user,item,rating"
ROWS = ["1,a,3", "1,b,4.5", "2,a,-1e-1"]
EXPECTED = [("1", "a", 3.0), ("1", "b", 4.5), ("2", "a", -0.1)]


def read(path: Path, **columns: str) -> tuple[Reading, Chunk]:
    source, member, reader = choose(Source(path), by_columns=bool(columns))
    reading = reader.read(source, member, columns)
    return reading, gather(reading.chunks)


def rows(chunk: Chunk) -> list[tuple[object, ...]]:
    return list(zip(*(chunk.table[name].to_pylist() for name in ("user", "item", "rating")), strict=True))


def save(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def table(*lines: str, delimiter: str = ",", end: str = "\n") -> str:
    return "".join(line.replace(",", delimiter) + end for line in lines)


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", "::", " "])
@pytest.mark.parametrize("header", [[HEADER], []])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_headers_and_line_ends(tmp_path: Path, delimiter: str, header: list[str], end: str) -> None:
    reading, chunk = read(save(tmp_path / "t.txt", table(*header, *ROWS, delimiter=delimiter, end=end)))
    assert rows(chunk) == EXPECTED
    assert chunk.where(1) == f"line {2 + len(header)}"
    assert reading.columns["rating"] == ("rating" if header else "3")


def test_empty_lines_byte_order_mark_and_missing_last_line_end(tmp_path: Path) -> None:
    _, chunk = read(save(tmp_path / "t.csv", "\ufeff" + table(HEADER, "", ROWS[0], "", "", *ROWS[1:])[:-1]))
    assert rows(chunk) == EXPECTED
    assert [chunk.where(k) for k in range(3)] == ["line 3", "line 6", "line 7"]


@pytest.mark.parametrize("size", [8, 11, 30])
def test_reading_in_pieces_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    path = save(tmp_path / "t.csv", table(HEADER, *ROWS, "", *ROWS))
    blocks = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self, member: blocks(self, member, size))
    _, chunk = read(path)
    assert rows(chunk) == EXPECTED * 2
    assert chunk.where(3) == "line 6"


@pytest.mark.parametrize("name", ["t.csv.gz", "t.zip", "t.csv"])
def test_packed_files(tmp_path: Path, name: str) -> None:
    text = table(HEADER, *ROWS).encode()
    if name == "t.zip":
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inside/t.csv", text)
            archive.writestr("__MACOSX/t.csv", b"junk")
    else:
        save(tmp_path / name, gzip.compress(text) if name == "t.csv.gz" else text)
    assert rows(read(tmp_path / name)[1]) == EXPECTED


@pytest.mark.parametrize(
    ("header", "order"),
    [
        ("userId,movieId,rating,timestamp", "user item rating timestamp"),
        ("Rating,ITEM_ID,User-ID", "rating item user"),
        ("reviewerID,asin,overall,unixReviewTime", "user item rating timestamp"),
        ("unixReviewTime,parent_asin,stars,user_id,title", "timestamp item rating user"),
        ("uid, isbn ,Book-Rating", "user item rating"),
    ],
)
def test_common_names(tmp_path: Path, header: str, order: str) -> None:
    values = {"user": "7", "item": "x", "rating": "4", "timestamp": "1700000000"}
    line = ",".join([values[name] for name in order.split()] + ["-"] * (header.count(",") + 1 - len(order.split())))
    reading, chunk = read(save(tmp_path / "t.csv", table(header, line)))
    assert rows(chunk) == [("7", "x", 4.0)]
    assert set(reading.columns) == set(order.split())
    if "timestamp" in order:
        assert chunk.table["timestamp"].to_pylist() == [1700000000]


def test_columns_by_name_and_by_number(tmp_path: Path) -> None:
    path = save(tmp_path / "t.csv", table("who,what,opinion,part", "1,a,3,u1", "2,b,4,"))
    reading, chunk = read(path, user="who", item="2", rating="opinion", fold="part")
    assert rows(chunk) == [("1", "a", 3.0), ("2", "b", 4.0)]
    assert chunk.table["fold"].to_pylist() == ["u1", None]
    assert reading.columns == {"user": "who", "item": "what", "rating": "opinion", "fold": "part"}
    assert rows(read(save(tmp_path / "n.csv", table("9,x,3,1,a", "9,x,4,2,b")), user="4", item="5", rating="3")[1]) == [
        ("1", "a", 3.0),
        ("2", "b", 4.0),
    ]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (
            {},
            DataError,
            "no column with a usual name for the user among who, what, opinion; name it with columns=user:",
        ),
        ({"user": "whom"}, DataError, "no column 'whom' for the user among who, what, opinion"),
        ({"user": "who", "item": "who", "rating": "opinion"}, ParameterError, "two names to one column"),
        ({"people": "who"}, ParameterError, "columns maps 'people'"),
    ],
)
def test_columns_that_are_not_there(tmp_path: Path, columns: dict[str, str], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        read(save(tmp_path / "t.csv", table("who,what,opinion", "1,a,3")), **columns)


def test_many_columns_without_a_header(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"5 columns and no header .* columns=user:1,item:2,rating:3"):
        read(save(tmp_path / "t.csv", "1,a,3,4,5\n2,b,3,4,5\n"))


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (["1700000000", "-5"], [1700000000, -5]),
        (["1700000000.9", "3"], [1700000000, 3]),
        (["2023-11-14 22:13:20", "1970-01-02"], [1700000000, 86400]),
        (["2023-11-14T22:13:20.75Z", "2023-11-14T23:13:20+01:00"], [1700000000, 1700000000]),
    ],
)
def test_ways_to_write_times(tmp_path: Path, times: list[str], seconds: list[int]) -> None:
    lines = [f"{k},a,3,{time}" for k, time in enumerate(times)]
    assert (
        read(save(tmp_path / "t.csv", table(HEADER + ",timestamp", *lines)))[1].table["timestamp"].to_pylist()
        == seconds
    )


def test_a_guessed_time_column_that_holds_none(tmp_path: Path) -> None:
    path = save(tmp_path / "t.csv", table(HEADER + ",date", "1,a,3,last week"))
    reading, chunk = read(path)
    assert "timestamp" not in chunk.table.column_names
    assert reading.warnings == ["the column date is left out: 'last week' is not a time"]
    with pytest.raises(DataError, match=r"'last week' in the column for columns.timestamp is not a time"):
        read(path, timestamp="date")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["2,b"], "line 4: 2 fields where 3 separated by comma are expected"),
        (["", "2,b,4,5"], "line 5: 4 fields where 3"),
        (["2,b,good"], "line 4: the rating 'good' is not a number"),
        (["2,b,"], "line 4: the rating '' is not a number"),
        (["2,b,nan"], "line 4: the rating nan is not a finite number"),
        (["2,b,inf"], "line 4: the rating inf is not a finite number"),
        (["2,b,1e400"], "line 4: the rating inf is not a finite number"),
        (["2,b,12345678901"], "line 4: the rating .* is not a finite number below 1e"),
        (['2,b,"3,5"'], "line 4: the rating '3,5' is not a number"),
        ([",b,3"], "line 4: the user id is empty"),
        (['2,"",3'], "line 4: the item id is empty"),
        (['2,"b,3', '3,c",4'], "line 4: a quoted field is not closed on its line"),
        (["2,b\0,3"], "holds NUL bytes"),
    ],
)
def test_bad_rows_are_named_by_their_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(save(tmp_path / "t.csv", table(HEADER, *ROWS[:2], *lines, "9,z,1")))


def test_bad_time(tmp_path: Path) -> None:
    lines = [f"{k},a,3,17000000{k:02}" for k in range(10, 99)] * 3
    with pytest.raises(DataError, match="line 269: the timestamp 'soon' is not a whole number of seconds"):
        read(save(tmp_path / "t.csv", table(HEADER + ",time", *lines, "1,b,3,soon")))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf\r\n", "is empty"),
        (b"user^item^rating\n1^a^3\n", r"line 1: 'user\^item\^rating' does not split"),
        ("user,item,rating\n1,é,3\n".encode("latin-1"), "line 2: byte 0xe9 is not UTF-8"),
        ("user,item,rating\n1,a,3\n".encode("utf-16"), "holds NUL bytes, so it is not UTF-8 text"),
        (b"a" * 200_000, "line 1: .* does not split"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(save(tmp_path / "t.csv", content))


def write_parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "t.parquet",
        item=pa.array(["a", "b"]).dictionary_encode(),
        extra=[None, None],
        user=pa.array([7, 2**63 - 1]),
        stars=pa.array([3, 4], pa.int8()),
        time=pa.array([datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]),
        fold=["u1", None],
    )
    reading, chunk = read(path)
    assert rows(chunk) == [(7, "a", 3.0), (2**63 - 1, "b", 4.0)]
    assert chunk.table["timestamp"].to_pylist() == [1700000000, 0]
    assert chunk.table["fold"].to_pylist() == ["u1", None]
    assert chunk.where(1) == "row 2"
    assert reading.columns["timestamp"] == "time"
    assert reading.typed_ids


def test_parquet_parts_in_a_folder(tmp_path: Path) -> None:
    write_parquet(tmp_path / "part-1.parquet", user=["b"], item=[1], rating=[2.0])
    write_parquet(tmp_path / "part-0.parquet", user=["a"], item=[1], rating=[1.0])
    assert rows(read(tmp_path)[1]) == [("a", 1, 1.0), ("b", 1, 2.0)]
    write_parquet(tmp_path / "part-2.parquet", user=[5], item=[1], rating=[1.0])
    with pytest.raises(DataError, match=r"part-2.parquet has other types of ids"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [1, None]}, "row 2: the user is missing"),
        ({"item": [1.0, 2.0]}, "the column for the item holds double, not integers or strings"),
        ({"rating": ["3", "4"]}, "the column for the rating holds string, not numbers"),
        ({"rating": [3.0, None]}, "row 2: the rating is missing"),
        ({"rating": [3.0, float("nan")]}, "row 2: the rating nan is not a finite number"),
        (
            {"user": pa.array([1, 2**64 - 1], pa.uint64())},
            "the column for the user: Integer value 18446744073709551615",
        ),
        ({"user": ["", "b"]}, "row 1: the user id is empty"),
        ({"timestamp": [date(2023, 1, 1), None]}, "row 2: the timestamp is missing"),
        ({"timestamp": ["a", "b"]}, "the column for the timestamp holds string, not times"),
    ],
)
def test_bad_parquet(tmp_path: Path, columns: dict[str, object], message: str) -> None:
    path = write_parquet(tmp_path / "t.parquet", **({"user": [1, 2], "item": [1, 2], "rating": [1.0, 2.0]} | columns))
    with pytest.raises(DataError, match=message):
        read(path)


def test_damaged_parquet(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", user=[1, 2], item=[1, 2], rating=[1.0, 2.0])
    save(path, path.read_bytes()[:-30])
    with pytest.raises(DataError, match="is not a readable Parquet file"):
        read(path)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=8)
IDS = st.one_of(TEXT, st.integers(-(2**63), 2**63 - 1).map(str), st.sampled_from(["007", "+1", " a", "a ", '"', "NA"]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(IDS, IDS, st.floats(-1e8, 1e8)), min_size=1, max_size=6), st.sampled_from(",;\t|"))
def test_any_id_and_rating_come_back_as_written(
    tmp_path: Path, written: list[tuple[str, str, float]], delimiter: str
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([HEADER.split(","), *written])
    assert rows(read(save(tmp_path / "t.csv", text.getvalue()))[1]) == written


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=80), st.text(st.sampled_from('12ab,;\t|:"\\\n\r .-eé'), max_size=60)))
def test_any_bytes_are_a_table_or_one_clear_error(tmp_path: Path, content: bytes | str) -> None:
    path = save(tmp_path / "t.csv", content)
    try:
        chunk = read(path)[1]
    except DataError as error:
        assert str(path) in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert chunk.table.num_rows == 0 or set(rows(chunk))


@settings(max_examples=60, deadline=None)
@given(st.lists(IDS, min_size=1, max_size=20))
def test_ids_are_integers_only_when_all_are_plain(ids: list[str]) -> None:
    coded = Coded.of(pa.chunked_array([ids[:7], ids[7:]], pa.string()), infer_integers=True)
    plain = all(text.lstrip("-").isdecimal() and str(int(text)) == text and abs(int(text)) < 2**63 for text in ids)
    back = coded.decode(coded.codes).to_pylist()
    if coded.names.type == pa.int64():
        assert plain or "-9223372036854775808" in ids
        assert [str(value) for value in back] == ids
    else:
        assert not plain
        assert back == ids
    names = coded.names.to_pylist()
    assert names == sorted(set(back))
