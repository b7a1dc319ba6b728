"""Tables of users and of items, from a file to features: MovieLens's as published, and any CSV or Parquet file."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from predilect.models.errors import DataError
from predilect.models.ids import UNKNOWN, IdMap
from predilect.models.ratings.encoding import Column, encode
from predilect.models.ratings.features import Features
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.ratings_table import RatingsTable
from predilect.tasks.settings import Settings

ID_NAMES = {"users": ("user", "user_id", "userid", "id"), "items": ("item", "item_id", "itemid", "movieid", "id")}
FEW_VALUES = 12
"""Numbers with no more distinct values are categories."""
MULTI_SHARE = 0.05
"""Texts of which a larger share holds "|" are lists."""
WORDS = 2
"""Texts of so many words on average are read word by word, when most differ."""
# fmt: off
GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
    "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)
# fmt: on
_YEAR = re.compile(r"\((\d{4})\)\s*$")


@dataclass(frozen=True)
class SideTable:
    """A row a person or thing."""

    source: str
    ids: list[str]
    columns: list[Column]
    left_out: dict[str, str]
    """Columns that became no feature, with the reason."""

    def to_facts(self) -> dict[str, Any]:
        """What the results say of it."""
        kinds = {column.name: column.kind for column in self.columns}
        return {"source": self.source, "rows": len(self.ids), "columns": kinds, "left_out": self.left_out}


class FitFeatures(TypedDict):
    """Arguments of `RatingsModel.fit`."""

    user_features: Features | None
    item_features: Features | None


@dataclass(frozen=True)
class SideTables:
    """The tables of a run."""

    users: SideTable | None
    items: SideTable | None

    def known_ids(self, table: RatingsTable) -> tuple[IdMap | None, IdMap | None]:
        """The ids in both tables, of the kind that the ratings use."""
        return _ids(self.users, table.user_ids), _ids(self.items, table.item_ids)

    def to_facts(self) -> dict[str, Any] | None:
        """What the results say of them; None without tables."""
        found = {"users": self.users, "items": self.items}
        return {name: table.to_facts() for name, table in found.items() if table is not None} or None

    def features(self, user_ids: IdMap, item_ids: IdMap) -> FitFeatures:
        """What `RatingsModel.fit` takes, for the rows of these id maps."""
        return {"user_features": _features(self.users, user_ids), "item_features": _features(self.items, item_ids)}


def read_side_tables(parameters: RatingsParameters) -> SideTables:
    """The tables that the parameters name. Raises DataError, one sentence."""
    paths = {"users": parameters.users, "items": parameters.items}
    users, items = (
        None if path is None else read_side_table(find(path, parameters), kind) for kind, path in paths.items()
    )
    return SideTables(users, items)


def find(path: str, parameters: RatingsParameters) -> Path:
    """The file: as given, beside the ratings, or in the data folder."""
    folder = parameters.data_dir or Settings().data_dir
    places = [Path(path), Path(parameters.data) / path, Path(parameters.data).parent / path]
    places += [Path(folder) / path, Path(folder) / parameters.data / path] if folder else []
    for place in (place.expanduser() for place in places):
        if place.is_file():
            return place
    raise DataError(f"{path}: no such file, neither here nor beside the ratings; correct the path.")


def read_side_table(path: Path, kind: str) -> SideTable:
    """Read a table of `users` or `items`. Raises DataError for what cannot be read, and for an id that stands twice."""
    published: dict[str, Callable[[Path], SideTable]] = {
        "u.user": _u_user,
        "u.item": _u_item,
        "users.dat": _users_dat,
        "movies.dat": _movies_dat,
    }
    read = published.get(path.name)
    table = _table(path, kind) if read is None else read(path)
    seen, counts = np.unique(np.array(table.ids, np.str_), return_counts=True)
    if not len(seen):
        raise DataError(f"{path} has no rows; give a table with one row for each of the {kind}.")
    if counts.max() > 1:
        raise DataError(f"{path}: the id {str(seen[counts.argmax()])!r} stands twice; keep one row for each id.")
    return table


def _u_user(path: Path) -> SideTable:
    ids, age, sex, occupation, _ = _fields(path, "|", 5)
    columns = [
        Column("age", "numeric", _numbers(path, "age", age)),
        Column("sex", "categorical", sex),
        Column("occupation", "categorical", occupation),
    ]
    return SideTable(path.name, ids, columns, {"zip code": "hardly two people share one"})


def _users_dat(path: Path) -> SideTable:
    ids, sex, age, occupation, _ = _fields(path, "::", 5)
    columns = [
        Column(name, "categorical", values) for name, values in (("age", age), ("sex", sex), ("occupation", occupation))
    ]
    return SideTable(path.name, ids, columns, {"zip code": "hardly two people share one"})


def _u_item(path: Path) -> SideTable:
    ids, _, released, _, _, *flags = _fields(path, "|", 5 + len(GENRES))
    years = [float(date[-4:]) if date[-4:].isdigit() else None for date in released]
    genres = [[name for name, flag in zip(GENRES, row, strict=True) if flag == "1"] for row in zip(*flags, strict=True)]
    columns = [Column("year", "numeric", years), Column("genre", "multi", genres)]
    return SideTable(path.name, ids, columns, {"title": "a name", "address": "a name"})


def _movies_dat(path: Path) -> SideTable:
    ids, titles, genres = _fields(path, "::", 3)
    found = [_YEAR.search(title) for title in titles]
    years = [float(match[1]) if match else None for match in found]
    lists = [[] if text.startswith("(no genres") else text.split("|") for text in genres]
    columns = [Column("year", "numeric", years), Column("genre", "multi", lists)]
    return SideTable(path.name, ids, columns, {"title": "a name"})


def _table(path: Path, kind: str) -> SideTable:
    """A CSV or Parquet file: the id in a column of a common name, else in the first; kinds by content."""
    try:
        table = pq.read_table(path) if path.suffix in (".parquet", ".pq") else _csv(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} is neither CSV nor Parquet that can be read ({str(error).splitlines()[0]})."
        ) from error
    if len(table.column_names) < 2:
        raise DataError(f"{path} has the columns {table.column_names}; give an id and at least one more.")
    plain = [name.lower().replace(" ", "_") for name in table.column_names]
    at = next((plain.index(name) for name in ID_NAMES[kind] if name in plain), 0)
    ids = ["" if value is None else str(value) for value in table.column(at).to_pylist()]
    columns, left_out = [], {}
    for k, name in enumerate(table.column_names):
        if k == at:
            continue
        made = guess(name, table.column(k))
        if isinstance(made, Column):
            columns.append(made)
        else:
            left_out[name] = made
    return SideTable(path.name, ids, columns, left_out)


def guess(name: str, values: pa.ChunkedArray) -> Column | str:
    """The column with its kind by content, or why it is left out."""
    whole = values.to_pylist()
    kept = [value for value in whole if value not in (None, "")]
    texts = [str(value) for value in kept]
    found: Column | str = "hardly two rows share a value"
    if not kept:
        found = "empty"
    elif pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        found = Column(name, "multi", whole)
    elif isinstance(kept[0], int | float) and not isinstance(kept[0], bool):
        found = Column(name, "numeric" if len(set(kept)) > FEW_VALUES else "categorical", whole)
    elif sum("|" in text for text in texts) > MULTI_SHARE * len(texts):
        found = Column(name, "multi", [None if value in (None, "") else str(value).split("|") for value in whole])
    elif len(set(texts)) <= max(FEW_VALUES, len(texts) / 2):
        found = Column(name, "categorical", whole)
    elif np.mean([len(text.split()) for text in texts]) >= WORDS:
        found = Column(name, "text", whole)
    return found


def _csv(path: Path) -> pa.Table:
    content = path.read_bytes()
    first = content.split(b"\n", 1)[0]
    delimiter = max((",", ";", "\t"), key=lambda mark: first.count(mark.encode()))
    return arrow_csv.read_csv(io.BytesIO(content), parse_options=arrow_csv.ParseOptions(delimiter=delimiter))


def _fields(path: Path, delimiter: str, n_fields: int) -> list[list[str]]:
    """The columns of a published file; latin-1, as MovieLens is, unless it is UTF-8."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; give a file that can be read.") from error
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        fields = line.rstrip("\r").split(delimiter)
        if len(fields) != n_fields:
            raise DataError(
                f"{path}, line {number}: {len(fields)} fields where {n_fields} separated by {delimiter!r} are "
                "expected; mend the line."
            )
        rows.append(fields)
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(n_fields)]


def _numbers(path: Path, name: str, texts: list[str]) -> list[float | None]:
    try:
        return [float(text) if text else None for text in texts]
    except ValueError as error:
        raise DataError(f"{path}: the {name} {str(error).split(': ')[-1]} is not a number; correct it.") from error


def _ids(table: SideTable | None, like: IdMap) -> IdMap | None:
    """The ids of a table as the ratings write them; what cannot be such an id is in no rating."""
    if table is None:
        return None
    if like.ids.dtype.kind != "i":
        return IdMap(np.unique(np.array(table.ids, np.str_)))
    return IdMap(np.unique(np.array([int(text) for text in table.ids if _is_id(text)], np.int64)))


def _is_id(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,18}", text) is not None


def _features(table: SideTable | None, ids: IdMap) -> Features | None:
    if table is None:
        return None
    place = {text: row for row, text in enumerate(table.ids)}
    rows = np.array([place.get(str(value), UNKNOWN) for value in ids.ids.tolist()], np.int64)
    if not (rows >= 0).any():
        raise DataError(f"{table.source} has none of the ids in the ratings; check which column holds the ids.")
    return encode(table.columns, rows)
