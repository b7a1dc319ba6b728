"""Each published format, on a small hand-made file in that exact format."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.readers import READERS, choose, reader_names
from predilect.tasks.readers.base import Chunk, Reading, gather
from predilect.tasks.readers.lastfm import percentile_stars
from predilect.tasks.readers.source import Source

ML_100K = ["196\t242\t3\t881250949", "186\t302\t3\t891717742", "22\t377\t1\t878887116", "244\t51\t2\t880606923"]


def read(path: Path, reader: str = "auto") -> tuple[str, Reading, Chunk]:
    """The reader's name, the reading, and all its chunks as one."""
    source, member, chosen = choose(Source(path), reader)
    reading = chosen.read(source, member, {})
    return chosen.name, reading, gather(reading.chunks)


def rows(chunk: Chunk) -> list[tuple[object, ...]]:
    return list(zip(*(chunk.table[name].to_pylist() for name in chunk.table.column_names), strict=True))


def save(path: Path, *lines: str, end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


def folds(folder: Path) -> Path:
    """A tiny MovieLens 100k folder: four ratings, four folds of one test row each."""
    save(folder / "u.data", *ML_100K)
    for k, test in enumerate(ML_100K, 1):
        save(folder / f"u{k}.test", test)
        save(folder / f"u{k}.base", *(row for row in ML_100K if row != test))
    return folder


def test_movielens_100k_file(tmp_path: Path) -> None:
    name, reading, chunk = read(save(tmp_path / "u.data", *ML_100K))
    assert name == "ml-100k"
    assert rows(chunk)[0] == ("196", "242", 3.0, 881250949)
    assert chunk.where(2) == "line 3"
    assert reading.scale is not None
    assert reading.scale.levels() == [1, 2, 3, 4, 5]


def test_movielens_100k_folds(tmp_path: Path) -> None:
    chunk = read(folds(tmp_path))[2]
    assert chunk.table["fold"].to_pylist() == ["u1", "u2", "u3", "u4"]


def test_movielens_100k_folds_inside_a_zip(tmp_path: Path) -> None:
    folds(tmp_path / "ml-100k")
    with zipfile.ZipFile(tmp_path / "ml-100k.zip", "w") as archive:
        for path in sorted((tmp_path / "ml-100k").iterdir()):
            archive.write(path, f"ml-100k/{path.name}")
    assert read(tmp_path / "ml-100k.zip")[2].table["fold"].to_pylist() == ["u1", "u2", "u3", "u4"]


def test_movielens_100k_rows_outside_every_test_fold(tmp_path: Path) -> None:
    folds(tmp_path)
    for k in (3, 4):
        (tmp_path / f"u{k}.test").unlink()
        (tmp_path / f"u{k}.base").unlink()
    assert read(tmp_path)[2].table["fold"].to_pylist() == ["u1", "u2", None, None]


@pytest.mark.parametrize(
    ("file", "lines", "message"),
    [
        ("u2.test", ML_100K[:1], "u2.test and u1.test share 1 rows"),
        ("u2.base", ML_100K[:1], "do not make up the 4 rows"),
        ("u2.base", [ML_100K[1], *ML_100K[2:]], "do not make up the 4 rows"),
        ("u3.test", ["22\t377\t5\t878887116"], "u3.test, line 1: this rating is not in u.data"),
        ("u3.base", [*ML_100K[:2], "7\t7\t5\t878887116"], "u3.base, line 3: this rating is not in u.data"),
        ("u3.base", [*ML_100K[:2], ML_100K[1]], "u3.base, line 3: .* or stands twice"),
    ],
)
def test_movielens_100k_folds_that_disagree(tmp_path: Path, file: str, lines: list[str], message: str) -> None:
    folds(tmp_path)
    save(tmp_path / file, *lines)
    with pytest.raises(DataError, match=message):
        read(tmp_path)


def test_movielens_100k_fold_without_its_base(tmp_path: Path) -> None:
    folds(tmp_path)
    (tmp_path / "u1.base").unlink()
    with pytest.raises(DataError, match=r"lacks u1.base"):
        read(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_movielens_1m(tmp_path: Path, end: str) -> None:
    path = save(
        tmp_path / "any.name", "1::1193::5::978300760", "1::661::3::978302109", "2::1357::5::978298709", end=end
    )
    name, reading, chunk = read(path)
    assert (name, reading.scale) == ("ml-1m", None)
    assert rows(chunk)[2] == ("2", "1357", 5.0, 978298709)


def test_movielens_10m_half_stars_by_its_own_name(tmp_path: Path) -> None:
    save(tmp_path / "ratings.dat", "1::122::5::838985046", "1::185::0.5::838983525")
    name, _, chunk = read(tmp_path, "ml-10m")
    assert name == "ml-1m"
    assert chunk.table["rating"].to_pylist() == [5.0, 0.5]


def test_movielens_25m(tmp_path: Path) -> None:
    save(tmp_path / "movies.csv", "movieId,title,genres")
    save(tmp_path / "ratings.csv", "userId,movieId,rating,timestamp", "1,296,5.0,1147880044", "1,306,3.5,1147868817")
    name, reading, chunk = read(tmp_path)
    assert name == "ml-25m"
    assert reading.columns == {"user": "userId", "item": "movieId", "rating": "rating", "timestamp": "timestamp"}
    assert rows(chunk) == [("1", "296", 5.0, 1147880044), ("1", "306", 3.5, 1147868817)]
    assert chunk.where(0) == "line 2"


@pytest.mark.parametrize("header", [["userID\tartistID\tweight"], []])
def test_lastfm_percentile_stars(tmp_path: Path, header: list[str]) -> None:
    """Ten artists: one in the lowest tenth, two to 30 %, four to 70 %, two to 90 %, one above."""
    lines = [f"2\t{50 + k}\t{weight}" for k, weight in enumerate([500, 10, 300, 20, 1000, 40, 50, 60, 30, 400])]
    name, reading, chunk = read(save(tmp_path / "user_artists.dat", *header, *lines, "3\t51\t7", end="\r\n"))
    assert name == "lastfm"
    assert reading.scale is not None
    assert (reading.scale.low, reading.scale.high) == (1, 5)
    assert chunk.table["rating"].to_pylist() == [4, 1, 3, 2, 5, 3, 3, 3, 2, 4, 5]
    assert chunk.where(0) == f"line {1 + len(header)}"


def test_percentile_stars_share_the_rank_of_ties() -> None:
    users = np.array([0, 1, 0, 0, 0, 1], np.int32)
    # User 0: ranks 2, 2, 2, 4 of 4 → 50, 50, 50, 100 %. User 1: both 1.5 of 2 → 75 %.
    assert percentile_stars(users, np.array([7.0, 5, 7, 7, 9, 5])).tolist() == [3, 4, 3, 3, 5, 4]


def test_percentile_stars_equal_pandas_ranks() -> None:
    pd = pytest.importorskip("pandas")
    random = np.random.default_rng(1)
    users, weights = random.integers(0, 20, 500).astype(np.int32), random.integers(1, 40, 500).astype(float)
    shares = pd.Series(weights).groupby(users).rank(pct=True)
    wanted = pd.cut(shares, [0, 0.1, 0.3, 0.7, 0.9, 1], labels=[1, 2, 3, 4, 5]).astype(int)
    assert percentile_stars(users, weights).tolist() == wanted.tolist()


def jester_line(*ratings: float) -> str:
    rated = [r for r in ratings if r != 99]
    return ",".join([str(len(rated)), *map(str, ratings)])


JOKES = [[-7.82, 8.79, 99, 99, 0.0, 99, 99, 99, 99, 10.0], [99.0] * 10, [1.5] * 10]


@pytest.mark.parametrize("packed", [False, True])
def test_jester(tmp_path: Path, packed: bool) -> None:
    path = save(tmp_path / "jester-data-1.csv", *(jester_line(*jokes) for jokes in JOKES))
    if packed:
        with zipfile.ZipFile(tmp_path / "jester-data-1.zip", "w") as archive:
            archive.write(path, path.name)
        path.unlink()
        path = tmp_path  # A folder with nothing but the archive.
    name, reading, chunk = read(path)
    assert name == "jester"
    assert reading.scale is not None
    assert reading.scale.levels() is None
    assert rows(chunk)[:4] == [(1, 1, -7.82), (1, 2, 8.79), (1, 5, 0.0), (1, 10, 10.0)]
    assert rows(chunk)[4:] == [(3, joke, 1.5) for joke in range(1, 11)]
    assert chunk.where(2) == "line 1, column 6"


def test_jester_parts_are_counted_on(tmp_path: Path) -> None:
    for k in (1, 2, 3):
        save(tmp_path / f"jester-data-{k}.csv", *(jester_line(*jokes) for jokes in JOKES[::2]))
    chunk = read(tmp_path)[2]
    assert sorted(set(chunk.table["user"].to_pylist())) == [1, 2, 3, 4, 5, 6]
    assert chunk.where(14) == "line 1, column 2"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("9,1,1", "line 2: the first field promises 9 ratings, but 2 are there"),
        ("2,1,11.5", "line 2, column 3: the rating 11.5 is off the scale"),
        ("2,1", "line 2: 2 fields where 3 are expected"),
        ("2,1,nan", "line 2, column 3: .* off the scale"),
        ("2,1,x", "line 2, column 3: 'x' is not a number"),
    ],
)
def test_jester_bad_lines(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(save(tmp_path / "j.csv", "1,99,3.5", line), "jester")


def test_jester_workbook(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "jester-data-1.zip", "w") as archive:
        archive.writestr("jester-data-1.xls", b"\xd0\xcf\x11\xe0")
    with pytest.raises(DataError, match="Excel workbook; open it and save the sheet as CSV"):
        read(tmp_path / "jester-data-1.zip", "jester")


def test_bookcrossing(tmp_path: Path) -> None:
    lines = [
        '"User-ID";"ISBN";"Book-Rating"',
        '"276725";"034545104X";"0"',
        '"276726";"0155061224";"5"',
        '"276729";"052165615X";"3"',
        '"276736";"3257224281";"8"',
        r'"180651";"\"3453\\148541\"";"9"',
        '"180651";"Bücher;é";"10"',
    ]
    path = tmp_path / "BX-Book-Ratings.csv"
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    name, reading, chunk = read(path)
    assert name == "bookcrossing"
    assert rows(chunk)[0] == ("276726", "0155061224", 5.0)
    assert chunk.table["item"].to_pylist()[-2:] == ['"3453\\148541"', "Bücher;é"]
    assert (reading.left_out, reading.left_out_reason) == (1, "rating 0 means implicit interest, not a rating")
    assert chunk.where(0) == "line 3"
    assert reading.scale is not None
    assert reading.scale.levels() == list(range(1, 11))


YAHOO = ["0|2", "507696\t90", "137915\t50", "1|1", "507696\t0", "12|3", "5\t100", "6\t70", "137915\t30"]


def test_yahoo_music(tmp_path: Path) -> None:
    name, _, chunk = read(save(tmp_path / "trainIdx1.txt", *YAHOO))
    assert name == "yahoo-music"
    pairs = list(zip(chunk.table["user"].to_pylist(), chunk.table["item"].to_pylist(), strict=True))
    expected = [("0", "507696"), ("0", "137915"), ("1", "507696"), ("12", "5"), ("12", "6"), ("12", "137915")]
    assert pairs == expected
    assert chunk.table["rating"].to_pylist() == [90, 50, 0, 100, 70, 30]
    assert [chunk.where(k) for k in (0, 2, 5)] == ["line 2", "line 5", "line 9"]


@pytest.mark.parametrize("size", [3, 7, 20, 64])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_yahoo_blocks_that_run_over_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, end: str
) -> None:
    """The file is read in pieces; a user may start in one and end in another."""
    path = save(tmp_path / "trainIdx1.txt", *YAHOO, end=end)
    blocks = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self, member: blocks(self, member, size))
    chunk = read(path)[2]
    assert chunk.table["user"].to_pylist() == ["0", "0", "1", "12", "12", "12"]
    assert chunk.where(5) == f"line {9 if len(end.strip(chr(13))) == 1 else 17}"


def test_yahoo_day_and_time_are_left_out(tmp_path: Path) -> None:
    _, reading, chunk = read(
        save(tmp_path / "trainIdx1.txt", "0|1", "507696\t90\t0\t12:10:00", "3|1", "5\t7\t1\t00:00:00")
    )
    assert chunk.table["rating"].to_pylist() == [90, 7]
    assert "2 fields after the rating are left out" in reading.warnings[0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*YAHOO[:2], *YAHOO[3:]], "line 1: user 0 has 1 ratings where 2 are promised"),
        (YAHOO[:-1], "line 6: user 12 has 2 ratings where 3 are promised"),
        ([*YAHOO, "9|x", "5\t1"], r"line 10: .*9\|x.* is not user\|count"),
        ([*YAHOO[:6], "5", *YAHOO[7:]], "line 7: 1 field where 2 separated by tab"),
        (["5\t3", *YAHOO], "no block of a line"),
    ],
)
def test_yahoo_bad_blocks(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(save(tmp_path / "trainIdx1.txt", *lines), "yahoo-music")


def test_every_reader_has_its_own_name() -> None:
    names = [name for reader in READERS for name in (reader.name, *reader.aliases)]
    assert len(set(names)) == len(names)
    assert reader_names()[0] == "auto"


def test_unknown_reader(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"reader 'nope' is unknown; choose one of auto, parquet"):
        read(save(tmp_path / "u.data", *ML_100K), "nope")


@pytest.mark.parametrize("reader", [r.name for r in READERS])
def test_another_format_is_refused(tmp_path: Path, reader: str) -> None:
    """A forced reader names the line, or the file, that is not of its format."""
    with pytest.raises(DataError, match="other"):
        read(save(tmp_path / "other.txt", "<html>", "<p>not ratings</p>"), reader)
