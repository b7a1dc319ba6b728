"""Names of items for people to read, from MovieLens's and Last.fm's own files or any CSV or Parquet table."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from predilect.models.errors import DataError

IDS = ("item", "item_id", "itemid", "movieid", "id")
NAMES = ("title", "name", "item_name", "label")
PUBLISHED = {"u.item": "|", "movies.dat": "::"}
"""Files without a header: the separator; id and name come first."""


def read_names(path: Path) -> Callable[[Any], str]:
    """A function from an item's id to its name, or to the id as text when the file has none.

    Raises DataError when the file cannot be read or has no column of ids or of names.
    """
    try:
        pairs = _published(path) if path.name in PUBLISHED else _table(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{path} cannot be read ({str(error).splitlines()[0]}); give u.item, movies.dat, a CSV or a Parquet file."
        ) from error
    names = {str(key): str(name) for key, name in pairs if name}
    return lambda item: names.get(str(item), str(item))


def _published(path: Path) -> Iterable[tuple[str, str]]:
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    rows = (line.split(PUBLISHED[path.name]) for line in text.splitlines())
    return [(row[0], row[1]) for row in rows if len(row) > 1]


def _table(path: Path) -> Iterable[tuple[Any, Any]]:
    if path.suffix in (".parquet", ".pq"):
        table = pq.read_table(path)
    else:
        tabs = b"\t" in path.read_bytes().split(b"\n", 1)[0]
        options = arrow_csv.ParseOptions(delimiter="\t" if tabs else ",", quote_char=False if tabs else '"')
        table = arrow_csv.read_csv(path, parse_options=options)
    found = [next((name for name in table.column_names if name.lower() in known), None) for known in (IDS, NAMES)]
    if None in found:
        raise DataError(
            f"{path} has the columns {', '.join(table.column_names)}; one must be called {' or '.join(IDS)} and one "
            f"{' or '.join(NAMES)}."
        )
    return zip(*(table[name].to_pylist() for name in found), strict=True)
