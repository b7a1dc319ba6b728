"""Public logs of impressions: MIND (news shown to readers) and the Open Bandit data (clothes shown by a policy)."""

import csv
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from predilect.models.errors import DataError
from predilect.tasks.readers.clicks import ClicksReading, Wanted, cells_of, merge_log, read_cells, times
from predilect.tasks.readers.rankings_base import decode
from predilect.tasks.readers.rankings_cells import Cells
from predilect.tasks.readers.source import Source, base_name

NEWS = ("item", "category", "subcategory", "title", "abstract", "url", "title_entities", "abstract_entities")
BEHAVIORS = ("impression", "user", "time", "history", "shown")
MIND_CONTEXT = Wanted(texts=("title",), categories=("category",))


def read_mind(source: Source, wanted: Wanted) -> ClicksReading:
    """`behaviors.tsv` and `news.tsv`: who was shown which article and picked it, and what they had picked before.

    Context columns: title and abstract (texts), category and subcategory; by default title and category.
    """
    news = _rows(source, "news.tsv", NEWS, needed=4)
    behaviors = _rows(source, "behaviors.tsv", BEHAVIORS, needed=5)
    place = {item: row for row, item in enumerate(news["item"])}
    users, items, clicked, when, past_users, past_items = [], [], [], [], [], []
    seen: set[str] = set()
    label = source.label(_member(source, "behaviors.tsv"))
    for row, (user, time, history, shown) in enumerate(
        zip(*(behaviors[name] for name in ("user", "time", "history", "shown")), strict=True), 1
    ):
        if user not in seen:  # the history of a user is the same on every line
            seen.add(user)
            before = history.split()
            past_users += [user] * len(before)
            past_items += before
        for entry in shown.split():
            item, _, mark = entry.rpartition("-")
            if mark not in ("0", "1") or item not in place:
                problem = "is not ITEM-0 or ITEM-1" if mark not in ("0", "1") else "names an article not in news.tsv"
                raise DataError(f"{label}, line {row}: the impression {entry!r} {problem}; correct the file.")
            users.append(user)
            items.append(item)
            clicked.append(int(mark))
            when.append(time)
    if not users:
        raise DataError(f"{label} holds no impressions; give a file with some.")
    moments = times(Cells({"time": pa.chunked_array([pa.array(when)])}, lambda row: f"impression {row + 1}", label,
                          "mind"), "time")  # fmt: skip
    lines = pa.array([place[item] for item in items])
    columns: dict[str, Any] = {
        "impressions": pa.array(np.ones(len(users), np.int64)),
        "clicks": pa.array(clicked, pa.int64()),
        "user": pa.array(users),
        "item": pa.array(items),
    }
    if wanted.group is not None:
        columns["group"] = _news_column(news, wanted.group).take(lines)
    columns["time"] = moments
    for kind, name in wanted.named or MIND_CONTEXT.named:
        if kind == "number":
            raise DataError(f"{label}: MIND has no number {name!r}; its texts are title and abstract.")
        columns[f"{kind}.{name}"] = _news_column(news, name).take(lines)
    history = pa.table({"user": pa.array(past_users, pa.string()), "item": pa.array(past_items, pa.string())})
    return merge_log(ClicksReading(pa.table(columns), "mind", {}, history if len(history) else None))


def read_open_bandit(source: Source, wanted: Wanted) -> ClicksReading:
    """The log of a campaign (`timestamp`, `item_id`, `position`, `click`, `user_feature_…`) and `item_context.csv`.

    Users are not identified: their features and the position are categories, as are the item's.
    """
    logs = [member for member in source.members if base_name(member) not in ("item_context.csv",)]
    logs = [member for member in logs if base_name(member).endswith((".csv", ".parquet"))]
    if len(logs) != 1:
        raise DataError(f"{source.path} holds {', '.join(logs) or 'no log'}; give a folder with one campaign's log.")
    cells = cells_of(source, logs[0])
    for name in ("timestamp", "item_id", "click"):
        if name not in cells.columns:
            raise DataError(f"{cells.label} has no column {name}, so it is no Open Bandit log; choose reader=table.")
    columns = dict(cells.columns)
    if "item_context.csv" in map(base_name, source.members):
        context = cells_of(source, _member(source, "item_context.csv"))
        place = pc.index_in(columns["item_id"], context.columns["item_id"].combine_chunks())
        if place.null_count:
            row = pc.index(pc.is_null(place), pa.scalar(True)).as_py()
            raise DataError(
                f"{cells.label}, {cells.where(row)}: the item {columns['item_id'][row].as_py()} is not in "
                "item_context.csv; complete that file."
            )
        features = [name for name in context.columns if name.startswith("item_feature")]
        columns |= {name: context.columns[name].take(place) for name in features}
    if not wanted.named:
        categories = [name for name in columns if name.startswith(("user_feature", "item_feature"))]
        wanted = replace(wanted, categories=(*categories, *(["position"] if "position" in columns else [])))
    mapped = {"item": "item_id", "clicked": "click", "time": "timestamp"} | dict(wanted.columns)
    known = Cells(columns, cells.where, cells.label, "open_bandit")
    return read_cells(known, replace(wanted, columns=mapped))


def _member(source: Source, name: str) -> str:
    for member in source.members:
        if base_name(member) == name:
            return member
    raise DataError(f"{source.path} holds no {name}; give the folder that has it.")


def _rows(source: Source, name: str, columns: tuple[str, ...], needed: int) -> dict[str, list[str]]:
    """The columns of a tab-separated file without header or quotes. Raises DataError for a line too short."""
    member = _member(source, name)
    label = source.label(member)
    with source.open(member) as stream:
        text = decode(stream.read(), label)
    found: dict[str, list[str]] = {column: [] for column in columns}
    for number, row in enumerate(csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE), 1):
        if not row:
            continue
        if len(row) < needed:
            raise DataError(f"{label}, line {number}: {len(row)} fields where {len(columns)} are expected; mend it.")
        for column, value in zip(columns, row + [""] * (len(columns) - len(row)), strict=False):
            found[column].append(value)
    return found


def _news_column(news: dict[str, list[str]], name: str) -> pa.Array:
    if name not in news:
        raise DataError(f"MIND has no column {name!r} among {', '.join(NEWS)}; name one of those.")
    return pa.array(news[name], pa.string())
