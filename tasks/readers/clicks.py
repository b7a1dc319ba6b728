"""Readers of clicks: count tables and impression logs, the Upworthy archive, MIND and the Open Bandit logs.

A count table has a row a context, with `impressions` and `clicks`. A log has a row an impression, with `clicked` 0 or
1: the impressions of one item by one user in one context become one row, as one θ (paper §2), with the latest time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.readers.rankings_cells import Cells, csv_cells, parquet_cells
from predilect.tasks.readers.source import Source, base_name

READERS = ("auto", "table", "mind", "open_bandit", "upworthy")
UPWORTHY = {"impressions", "clicks", "headline", "clickability_test_id", "test_week"}
COMMON_NAMES = {
    "user": "user userid uid visitor visitorid member customer",
    "item": "item itemid article articleid newsid news product ad adid",
    "impressions": "impressions impression shown views displays exposures n",
    "clicks": "clicks picks conversions successes",
    "clicked": "clicked click isclick picked label",
    "time": "time timestamp date day week",
}
WORDS_A_TEXT = 3.0  # columns of more words a value on average are texts
MOST_CATEGORIES = 1000


@dataclass
class ClicksReading:
    """A table with canonical column names, and what is to be said of it. history: users and items of earlier picks."""

    table: pa.Table
    reader: str
    columns: dict[str, str]
    history: pa.Table | None = None
    warnings: list[str] = field(default_factory=list)
    merged: int = 0


@dataclass(frozen=True)
class Wanted:
    """Which columns are what; empty texts, categories and numbers together mean all other columns."""

    columns: Mapping[str, str] = field(default_factory=dict)
    texts: Sequence[str] = ()
    categories: Sequence[str] = ()
    numbers: Sequence[str] = ()
    group: str | None = None

    @property
    def named(self) -> list[tuple[str, str]]:
        """(kind, column) of the named context columns."""
        kinds = (("text", self.texts), ("category", self.categories), ("number", self.numbers))
        return [(kind, name) for kind, names in kinds for name in names]


def choose_clicks(source: Source, reader: str) -> str:
    """The reader of a source, by its name or by what it holds."""
    if reader not in READERS:
        raise ParameterError(f"reader = {reader!r}: choose one of {', '.join(READERS)}.")
    if reader != "auto":
        return reader
    names = {base_name(member) for member in source.members}
    if {"behaviors.tsv", "news.tsv"} <= names:
        return "mind"
    return "open_bandit" if "item_context.csv" in names else "table"


def cells_of(source: Source, member: str) -> Cells:
    """The cells of a CSV or Parquet member."""
    return parquet_cells(source, member) if source.head(member)[:4] == b"PAR1" else csv_cells(source, member)


def one_member(source: Source) -> str:
    """The only file of a source. Raises DataError when there are others."""
    if len(source.members) != 1:
        inside = ", ".join(source.members[:8]) + (", …" if len(source.members) > 8 else "") or "nothing"
        raise DataError(f"{source.path} holds {inside}; give the file of clicks itself.")
    return source.members[0]


def read_cells(cells: Cells, wanted: Wanted, *, counted: bool = True) -> ClicksReading:
    """The canonical table of cells. counted: impressions and clicks are needed; without, the rows are to be scored."""
    if not cells.n_rows:
        raise DataError(f"{cells.label} holds no rows; give a table with at least two.")
    use = _roles(cells, wanted)
    columns: dict[str, Any] = {}
    if counted:
        columns |= _counts(cells, use)
    for role in ("user", "item"):
        if role in use:
            columns[role] = cells.columns[use[role]]
    if wanted.group is not None:
        columns["group"] = _column(cells, wanted.group, "group")
    if "time" in use:
        columns["time"] = times(cells, use["time"])
    warnings: list[str] = []
    kinds = wanted.named or _guess(cells, {*use.values(), *([wanted.group] if wanted.group else [])}, warnings)
    for kind, name in kinds:
        column = _column(cells, name, kind)
        columns[f"{kind}.{name}"] = numbers(cells, name, finite=True) if kind == "number" else pc.fill_null(column, "")
    reading = ClicksReading(pa.table(columns), cells.reader, use, warnings=warnings)
    if counted and "impressions" not in use:
        reading = merge_log(reading)
    return reading


def merge_log(reading: ClicksReading) -> ClicksReading:
    """A row a user, item and context instead of a row an impression; the latest time stays."""
    table = reading.table
    keys = [name for name in table.column_names if name not in ("impressions", "clicks", "time")]
    if "user" not in keys and "item" not in keys:
        return reading  # nothing says which impressions share one θ
    sums = [("impressions", "sum"), ("clicks", "sum"), *([("time", "max")] if "time" in table.column_names else [])]
    merged = table.group_by(keys, use_threads=False).aggregate(sums)
    merged = merged.rename_columns([name.removesuffix("_sum").removesuffix("_max") for name in merged.column_names])
    reading.merged = table.num_rows - merged.num_rows
    reading.table = merged.select(table.column_names)
    return reading


def numbers(cells: Cells, name: str, *, finite: bool = False) -> pa.Array:
    """A column as doubles; empty cells are null. Raises DataError naming the first that is no number."""
    column = cells.columns[name]
    try:
        values = column.cast(pa.float64()).combine_chunks()
    except pa.ArrowException:
        for row, text in enumerate(column.to_pylist()):
            try:
                float(text or "nan")
            except ValueError:
                raise DataError(
                    f"{cells.label}, {cells.where(row)}: {text!r} in column {name} is not a number; correct it."
                ) from None
        values = pa.array([None if text is None else float(text) for text in column.to_pylist()], pa.float64())
    if finite:
        raw = values.to_numpy(zero_copy_only=False)
        if not np.isfinite(raw).all():
            row = int(np.flatnonzero(~np.isfinite(raw))[0])
            raise DataError(
                f"{cells.label}, {cells.where(row)}: the number in column {name} is missing or not finite; fill it "
                "in, drop the row or leave the column out."
            )
    return values


def times(cells: Cells, name: str) -> pa.Array:
    """A column of times as doubles: numbers as they are (seconds, weeks, …), dates as unix seconds."""
    column = cells.columns[name]
    empty = pc.index(pc.is_null(column), pa.scalar(True)).as_py()
    if empty >= 0:
        raise DataError(f"{cells.label}, {cells.where(empty)}: the time is empty; fill it in or map no time column.")
    try:
        return numbers(cells, name, finite=True)
    except DataError:
        dates = column.to_pylist()
    from datetime import UTC, datetime

    out = np.empty(len(dates))
    for row, text in enumerate(dates):
        out[row] = _seconds(text, datetime, UTC)
        if np.isnan(out[row]):
            raise DataError(
                f"{cells.label}, {cells.where(row)}: the time {text!r} is neither a number nor a date such as "
                "2024-05-31 12:00:00; correct it."
            )
    return pa.array(out)


def _seconds(text: str, datetime: Any, utc: Any) -> float:
    for read in (datetime.fromisoformat, lambda said: datetime.strptime(said, "%m/%d/%Y %I:%M:%S %p")):
        try:
            moment = read(text)
        except ValueError:
            continue
        return float((moment if moment.tzinfo else moment.replace(tzinfo=utc)).timestamp())
    return float("nan")


def _roles(cells: Cells, wanted: Wanted) -> dict[str, str]:
    """Which column is what: as mapped, else by common names."""
    use = dict(wanted.columns)
    for role, column in use.items():
        _column(cells, column, role)
    context = {name for _, name in wanted.named} | {wanted.group}
    plain = {"".join(c for c in name.lower() if c.isalnum()): name for name in cells.columns if name not in context}
    for role, common in COMMON_NAMES.items():
        guess = next((plain[word] for word in common.split() if word in plain), None)
        if role not in use and guess is not None and guess not in use.values():
            use[role] = guess
    return use


def _counts(cells: Cells, use: dict[str, str]) -> dict[str, Any]:
    if "impressions" in use and "clicks" in use:
        use.pop("clicked", None)
        found = {role: numbers(cells, use[role]) for role in ("impressions", "clicks")}
        return {role: _whole(values) for role, values in found.items()}
    clicked = use.pop("clicked", use.pop("clicks", None))
    if clicked is None or "impressions" in use:
        missing = "clicks" if "impressions" in use else "impressions and clicks (nor clicked, of a log)"
        raise DataError(
            f"{cells.label} has no column for the {missing} among {', '.join(cells.columns)}; name it with "
            "columns=impressions:COLUMN,clicks:COLUMN or columns=clicked:COLUMN."
        )
    use["clicked"] = clicked
    column = pc.utf8_lower(cells.columns[clicked])
    for word, digit in (("true", "1"), ("false", "0")):
        column = pc.if_else(pc.fill_null(pc.equal(column, word), False), digit, column)
    said = numbers(Cells({clicked: column}, cells.where, cells.label, cells.reader), clicked)
    values: NDArray[np.float64] = said.to_numpy(zero_copy_only=False)
    wrong = ~np.isin(values, (0.0, 1.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{cells.label}, {cells.where(row)}: {cells.columns[clicked][row].as_py()!r} in column {clicked} is "
            "neither 0 nor 1; correct it, or give counts as impressions and clicks."
        )
    return {"impressions": pa.array(np.ones(len(values), np.int64)), "clicks": pa.array(values.astype(np.int64))}


def _whole(values: pa.Array) -> pa.Array:
    """Whole numbers as integers; anything else stays as it is, for the contract to say."""
    raw = values.to_numpy(zero_copy_only=False)
    if not values.null_count and np.isfinite(raw).all() and (raw == np.floor(raw)).all() and np.abs(raw).max() < 2**53:
        return values.cast(pa.int64())
    return values


def _guess(cells: Cells, taken: set[str], warnings: list[str]) -> list[tuple[str, str]]:
    """What the other columns are: numbers, texts of several words, or categories."""
    kinds, left = [], []
    for name, column in cells.columns.items():
        if name in taken:
            continue
        values = pc.drop_null(column)
        if len(values) and pc.all(pc.match_substring_regex(values, r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")).as_py():
            if not column.null_count:
                kinds.append(("number", name))
                continue
            left.append(name)
        elif len(values) and pc.mean(pc.count_substring(values, " ")).as_py() + 1 > WORDS_A_TEXT:
            kinds.append(("text", name))
        elif pc.count_distinct(values).as_py() <= MOST_CATEGORIES:
            kinds.append(("category", name))
        else:
            left.append(name)
    if left:
        warnings.append(
            f"The columns {', '.join(left)} were left out: numbers with gaps, or more than {MOST_CATEGORIES} values; "
            "name them as texts, categories or numbers to use them."
        )
    return kinds


def _column(cells: Cells, name: str, role: str) -> pa.ChunkedArray:
    if name not in cells.columns:
        raise DataError(
            f"{cells.label} has no column {name!r} for the {role} among {', '.join(cells.columns)}; name one of those."
        )
    return cells.columns[name]
