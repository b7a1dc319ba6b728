"""Tables of users and items: as published, CSV and Parquet, kinds by content, ids, errors."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError
from predilect.models.ids import IdMap
from predilect.models.ratings.encoding import Column, encode
from predilect.tasks.side_tables import SideTables, read_side_table


def test_movielens_tables_are_read_as_published(data_dir: Path) -> None:
    users = read_side_table(data_dir / "ml-100k" / "u.user", "users")
    assert len(users.ids) == 943
    assert [(column.name, column.kind) for column in users.columns] == [
        ("age", "numeric"), ("sex", "categorical"), ("occupation", "categorical")
    ]  # fmt: skip
    items = read_side_table(data_dir / "ml-100k" / "u.item", "items")
    assert len(items.ids) == 1682
    assert items.columns[1].values[0] == ["Animation", "Children's", "Comedy"]
    assert items.columns[0].values[0] == 1995
    made = SideTables(users, items).features(IdMap(np.array([1, 5, 10**6])), IdMap(np.array([1])))
    assert made["user_features"] is not None
    assert made["user_features"].matrix[[2]].nnz == 0
    assert made["user_features"].matrix[[0]].sum() == pytest.approx(1.5)


def test_the_files_of_movielens_1m_are_read_as_published(tmp_path: Path) -> None:
    (tmp_path / "users.dat").write_text("1::F::1::10::48067\n2::M::56::16::70072\n")
    (tmp_path / "movies.dat").write_bytes(
        "1::Amélie (2001)::Comedy|Romance\n2::X::(no genres listed)\n".encode("latin-1")
    )
    users = read_side_table(tmp_path / "users.dat", "users")
    assert [column.values for column in users.columns] == [["1", "56"], ["F", "M"], ["10", "16"]]
    items = read_side_table(tmp_path / "movies.dat", "items")
    assert items.columns[0].values == [2001.0, None]
    assert items.columns[1].values == [["Comedy", "Romance"], []]


@pytest.mark.parametrize("form", ["csv", "semicolon", "parquet"])
def test_any_table_has_its_kinds_by_content(tmp_path: Path, form: str) -> None:
    n = 40
    table = pa.table(
        {
            "colour": ["red", "blue"] * (n // 2),
            "Item": [f"i{k}" for k in range(n)],
            "price": [float(k) for k in range(n)],
            "stars": [k % 3 for k in range(n)],
            "tags": ["a|b", "b", "", "a|c"] * (n // 4),
            "plot": [f"a tale number {k} of {'love' if k % 2 else 'war'}" for k in range(n)],
            "code": [f"x{k}" for k in range(n)],
        }
    )
    path = tmp_path / ("t.parquet" if form == "parquet" else "t.csv")
    if form == "parquet":
        pq.write_table(table, path)
    else:
        mark = "," if form == "csv" else ";"
        lines = [mark.join(table.column_names)]
        lines += [mark.join(str(value) for value in row.values()) for row in table.to_pylist()]
        path.write_text("\n".join(lines))
    found = read_side_table(path, "items")
    assert {column.name: column.kind for column in found.columns} == {
        "colour": "categorical", "price": "numeric", "stars": "categorical", "tags": "multi", "plot": "text"
    }  # fmt: skip
    assert list(found.left_out) == ["code"]
    assert found.ids[:2] == ["i0", "i1"]
    features = encode(found.columns, np.array([0, 1, -1]))
    assert set(features.groups) == {"colour", "price", "stars", "tags", "plot"}
    assert features.matrix[[2]].nnz == 0


def test_features_say_what_the_columns_say() -> None:
    columns = [
        Column("age", "numeric", [10.0, 20.0, 30.0, None]),
        Column("job", "categorical", ["cook", "cook", "king", ""]),
        Column("likes", "multi", [["a", "b"], ["a"], [], None]),
        Column("about", "text", ["tea time", "tea", "tea and time", None]),
    ]
    features = encode(columns, np.array([0, 1, 2, 3]))
    dense = dict(zip(features.names, features.matrix.toarray().T, strict=True))
    assert "job: king" not in dense  # one person's
    np.testing.assert_allclose(dense["job: cook"], [0.5, 0.5, 0, 0])
    np.testing.assert_allclose(dense["likes: a"], [0.5 / np.sqrt(2), 0.5, 0, 0])
    ages = np.array([dense[name] for name in features.names if name.startswith("age")])
    np.testing.assert_allclose(ages.sum(axis=0), [0.5, 0.5, 0.5, 0])
    words = np.array([dense[name] for name in features.names if name.startswith("about")])
    np.testing.assert_allclose(np.linalg.norm(words, axis=0), [0.5, 0.5, 0.5, 0])


def test_ids_without_ratings_are_known(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,k\n1,a\n7,a\nx,b\n")
    table = read_side_table(tmp_path / "t.csv", "users")
    sides = SideTables(table, None)
    like = type("Table", (), {"user_ids": IdMap(np.array([1, 2])), "item_ids": IdMap(np.array([1]))})
    known = sides.known_ids(like)  # type: ignore[arg-type]
    assert known[0] is not None
    assert known[0].ids.tolist() == [1, 7]
    assert known[1] is None


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.csv", "id,k\n1,a\n1,b\n", "'1' stands twice"),
        ("t.csv", "id\n1\n", "give an id and at least one more"),
        ("t.csv", "id,k\n", "has no rows"),
        ("t.parquet", "nonsense", "neither CSV nor Parquet"),
        ("u.user", "1|24|M|technician\n", "line 1: 4 fields where 5"),
        ("u.user", "1|old|M|technician|1\n", "age 'old' is not a number"),
        ("movies.dat", "1::a (1999)::b\n2::c\n", "line 2: 2 fields where 3"),
    ],
)
def test_bad_tables_give_one_sentence(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=says) as caught:
        read_side_table(tmp_path / name, "users")
    assert str(tmp_path / name) in str(caught.value)
    assert str(caught.value).endswith(".")


def test_a_table_of_other_people_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,k\n1,a\n2,a\n")
    sides = SideTables(read_side_table(tmp_path / "t.csv", "users"), None)
    with pytest.raises(DataError, match="none of the ids"):
        sides.features(IdMap(np.array(["Ann", "Bo"])), IdMap(np.array([1])))
