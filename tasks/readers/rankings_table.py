"""Tables of rankings, CSV or Parquet: long form, wide form, and pairwise comparisons.

long: `ballot`, `item`, `rank`, a row a ranked item. items: a row a ballot, columns are places (`rank1`, `rank2`, …) and
cells are items. ranks: a row a ballot, columns are items and cells are their ranks. pairs: `winner` and `loser`, or two
contestants and a `winner` that says which (`model_a`, `model_b`, `winner`, as arena logs have it).
A `count` column says how many equal ballots a row stands for, a `weight` column what each of those weighs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.canonical import Coded
from predilect.tasks.readers.rankings_base import RankedRows, RankingsReading, TieRule, assemble
from predilect.tasks.readers.rankings_cells import Cells

Form = Literal["auto", "long", "items", "ranks", "pairs"]

COMMON_NAMES = {
    "ballot": "ballot ballotid ranking rankingid voter voterid judge judgeid user userid respondent session id",
    "item": "item itemid option alternative candidate product choice movie movieid",
    "rank": "rank ranking position place order",
    "winner": "winner won preferred chosen better",
    "loser": "loser lost rejected worse",
    "first": "modela a left optiona player1 itema contestanta teama home",
    "second": "modelb b right optionb player2 itemb contestantb teamb away",
    "count": "count counts frequency freq nvoters voters",
    "weight": "weight weights",
}
_NEEDED = {"long": ("ballot", "item", "rank"), "pairs": ("winner",), "items": (), "ranks": ()}
_PLACE = re.compile(
    r"(?:rank|place|position|pos|choice|preference|pref|top)?[ _-]?(\d+)(?:st|nd|rd|th)?", re.IGNORECASE
)
_FIRST = {"first", "a", "left", "1"}
_SECOND = {"second", "b", "right", "2"}


def read(table: Cells, columns: Mapping[str, str], form: Form, ties: TieRule) -> RankingsReading:
    """The ballots of a table. Raises DataError with the file and the line or row of the first fault."""
    if form not in get_args(Form):
        raise ParameterError(f"form is {form!r}; give one of {', '.join(get_args(Form))}.")
    if not table.n_rows:
        raise DataError(f"{table.label} holds no ballots; give a file with at least one ranking.")
    use = _find(table, columns)
    chosen = _form(table, use, columns) if form == "auto" else form
    missing = [name for name in _NEEDED[chosen] if name not in use]
    if missing:
        found = ", ".join(table.columns)
        raise DataError(
            f"{table.label} has no column for the {missing[0]} among {found}; name it with columns={missing[0]}:COLUMN."
        )
    counts = _numbers(table, use, "count", whole=True)
    weights = _numbers(table, use, "weight")
    one = np.ones(table.n_rows)
    if chosen == "long":
        return _long(table, use, counts, weights, ties)
    rows = {"items": _items_form, "ranks": _ranks_form, "pairs": _pairs_form}[chosen](table, use)
    ranked = RankedRows(
        rows.row,
        rows.items.codes,
        rows.rank,
        (one if counts is None else counts).astype(np.int64),
        weights,
        lambda n: table.where(int(rows.row[n])),
    )
    empty = np.setdiff1d(np.arange(table.n_rows), rows.row)
    if len(empty) and chosen != "pairs":
        raise DataError(f"{table.label}, {table.where(int(empty[0]))}: the ballot is empty; leave the row out.")
    if len(empty):
        ranked = _without(ranked, empty)
    return assemble(
        ranked,
        rows.items.names,
        label=table.label,
        reader=table.reader,
        form=chosen,
        ties=ties,
        warnings=rows.warnings,
    )


def _without(rows: RankedRows, empty: NDArray[np.int64]) -> RankedRows:
    """The rows with their ballots numbered anew, without the ballots that have none."""
    kept = np.setdiff1d(np.arange(len(rows.counts)), empty)
    weights = None if rows.weights is None else rows.weights[kept]
    return RankedRows(np.searchsorted(kept, rows.ballot), rows.item, rows.rank, rows.counts[kept], weights, rows.where)


@dataclass(frozen=True)
class _Rows:
    """Ranked items of a table whose rows are ballots: table row, item and rank of each."""

    row: NDArray[np.int64]
    items: Coded
    rank: NDArray[np.float64]
    warnings: Sequence[str] = ()


def _find(table: Cells, columns: Mapping[str, str]) -> dict[str, str]:
    """Which column is what: as mapped, else by common names."""
    unknown = set(columns) - set(COMMON_NAMES)
    if unknown:
        raise ParameterError(f"columns maps {min(unknown)!r}; it may map {', '.join(COMMON_NAMES)}.")
    for name, column in columns.items():
        if column not in table.columns:
            raise DataError(
                f"{table.label} has no column {column!r} for the {name} among {', '.join(table.columns)}; name one of "
                "those."
            )
    use = dict(columns)
    plain = {"".join(c for c in name.lower() if c.isalnum()): name for name in table.columns}
    for name, common in COMMON_NAMES.items():
        guess = next((plain[word] for word in common.split() if word in plain), None)
        if name not in use and guess is not None and guess not in use.values():
            use[name] = guess
    return use


def _form(table: Cells, use: Mapping[str, str], columns: Mapping[str, str]) -> Form:
    """The form that the columns' names show."""
    if "winner" in use and ("loser" in use or ("first" in use and "second" in use)):
        return "pairs"
    if all(name in use for name in _NEEDED["long"]):
        return "long"
    names = _ballot_columns(table, use, columns)
    numbers = all(_is_numeric(table.columns[name]) for name in names)
    if numbers and len(names) > 1 and all(name.isdecimal() for name in names):
        raise DataError(
            f"{table.label}: the columns {', '.join(names[:10])} may be places or items; say form=items when the cells "
            "are items, form=ranks when they are ranks."
        )
    if names and all(_PLACE.fullmatch(name) for name in names):
        return "items"
    if len(names) >= 2 and numbers:
        return "ranks"
    raise DataError(
        f"{table.label}: the columns {', '.join(list(table.columns)[:10])} show neither ballot, item and rank, nor "
        "winner and loser, nor places (rank1, rank2, …), nor items over ranks; say which with form and columns."
    )


def _ballot_columns(table: Cells, use: Mapping[str, str], columns: Mapping[str, str]) -> list[str]:
    """The columns of a wide table that are places or items: all but the ballot's id, count and weight."""
    aside = {use[name] for name in ("ballot", "count", "weight") if name in use}
    return [name for name in table.columns if name not in aside]


def _is_numeric(column: pa.ChunkedArray) -> bool:
    filled = pc.drop_null(column)
    return bool(pc.all(pc.match_substring_regex(filled, r"^\d+(\.\d+)?$")).as_py()) if len(filled) else True


def _numbers(table: Cells, use: Mapping[str, str], name: str, *, whole: bool = False) -> NDArray[np.float64] | None:
    """A column of numbers, one a row, or None when there is none."""
    if name not in use:
        return None
    column = table.columns[use[name]]
    values = np.full(table.n_rows, np.nan)
    for row, text in enumerate(column.to_pylist()):
        try:
            values[row] = float(text)
        except (TypeError, ValueError):
            raise DataError(
                f"{table.label}, {table.where(row)}: the {name} is {text!r}, not a number; correct it."
            ) from None
    wrong = ~np.isfinite(values) | ((values != np.floor(values)) if whole else False)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        kind = "a whole number" if whole else "finite"
        raise DataError(f"{table.label}, {table.where(row)}: the {name} {values[row]:g} is not {kind}; correct it.")
    return values


def _ranks(table: Cells, column: str) -> NDArray[np.float64]:
    """A column of ranks; NaN where empty. Ranks are numbers, the smallest best."""
    texts = table.columns[column]
    bad = pc.index(pc.fill_null(pc.match_substring_regex(texts, r"^\d+(\.\d+)?$"), True), pa.scalar(False)).as_py()
    if bad >= 0:
        raise DataError(
            f"{table.label}, {table.where(bad)}: the rank {texts[bad].as_py()!r} in column {column} is not a number of "
            "0 or more; 1 is best, empty means not ranked."
        )
    return np.asarray(texts.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _long(
    table: Cells,
    use: Mapping[str, str],
    counts: NDArray[np.float64] | None,
    weights: NDArray[np.float64] | None,
    ties: TieRule,
) -> RankingsReading:
    for name in ("ballot", "item"):
        empty = pc.index(pc.is_null(table.columns[use[name]]), pa.scalar(True)).as_py()
        if empty >= 0:
            raise DataError(f"{table.label}, {table.where(empty)}: the {name} is empty; fill it in or remove the row.")
    rank = _ranks(table, use["rank"])
    ranked = np.flatnonzero(~np.isnan(rank))
    encoded = table.columns[use["ballot"]].dictionary_encode().unify_dictionaries()
    group = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks]).astype(np.int64)
    unranked = np.setdiff1d(group, group[ranked])
    if len(unranked):
        row = int(np.flatnonzero(group == unranked[0])[0])
        raise DataError(
            f"{table.label}, {table.where(row)}: the ballot is empty (no item has a rank); remove its rows."
        )
    n_ballots = int(group.max()) + 1
    first = np.full(n_ballots, len(group))
    np.minimum.at(first, group, np.arange(len(group)))
    for name, values in (("count", counts), ("weight", weights)):
        if values is not None and np.any(values != values[first][group]):
            row = int(np.flatnonzero(values != values[first][group])[0])
            raise DataError(
                f"{table.label}, {table.where(row)}: the {name} differs within a ballot; give it one {name}."
            )
    items = Coded.of(table.columns[use["item"]], infer_integers=True)
    skipped = len(group) - len(ranked)
    return assemble(
        RankedRows(
            group[ranked],
            items.codes[ranked],
            rank[ranked],
            (np.ones(n_ballots) if counts is None else counts[first]).astype(np.int64),
            None if weights is None else weights[first],
            lambda n: table.where(int(ranked[n])),
        ),
        items.names,
        label=table.label,
        reader=table.reader,
        form="long",
        ties=ties,
        warnings=[f"{skipped} rows without a rank were taken as not ranked"] if skipped else [],
    )


def _items_form(table: Cells, use: Mapping[str, str]) -> _Rows:
    names = _ballot_columns(table, use, {})
    places = {name: int(found[1]) if (found := _PLACE.fullmatch(name)) else k for k, name in enumerate(names)}
    names.sort(key=lambda name: places[name])
    filled = np.column_stack([pc.is_valid(table.columns[name]).to_numpy(zero_copy_only=False) for name in names])
    gap = np.flatnonzero((filled[:, 1:] & ~filled[:, :-1]).any(axis=1))
    if len(gap):
        raise DataError(
            f"{table.label}, {table.where(int(gap[0]))}: a place is empty before one that is filled; close the gap."
        )
    cells = pa.chunked_array([chunk for name in names for chunk in table.columns[name].chunks], pa.string())
    row = np.tile(np.arange(table.n_rows), len(names))
    rank = np.repeat(np.arange(len(names), dtype=np.float64), table.n_rows)
    there = np.flatnonzero(filled.T.ravel())
    order = there[np.argsort(row[there], kind="stable")]
    return _Rows(row[order], Coded.of(cells.take(pa.array(order)), infer_integers=True), rank[order])


def _ranks_form(table: Cells, use: Mapping[str, str]) -> _Rows:
    names = _ballot_columns(table, use, {})
    ranks = np.column_stack([_ranks(table, name) for name in names])
    row, place = np.nonzero(~np.isnan(ranks))
    known = Coded.of(pa.chunked_array([pa.array(names, pa.string())]), infer_integers=True)
    return _Rows(row, Coded(known.names, known.codes[place]), ranks[row, place])


def _pairs_form(table: Cells, use: Mapping[str, str]) -> _Rows:
    winner = table.columns[use["winner"]]
    if "loser" in use:
        better, worse = winner, table.columns[use["loser"]]
        decided = np.arange(table.n_rows)
    else:
        better, worse, decided = _contestants(table, use)
    for name, column in (("winner", better), ("loser", worse)):
        empty = pc.index(pc.is_null(column), pa.scalar(True)).as_py()
        if empty >= 0:
            raise DataError(
                f"{table.label}, {table.where(int(decided[empty]))}: the {name} is empty; fill it in or remove the row."
            )
    undecided = table.n_rows - len(decided)
    items = Coded.of(pa.chunked_array([*better.chunks, *worse.chunks], pa.string()), infer_integers=True)
    order = np.argsort(np.tile(np.arange(len(decided)), 2), kind="stable")
    return _Rows(
        np.repeat(decided, 2),
        items.take(order),
        np.tile([0.0, 1.0], len(decided)),
        [f"{undecided} comparisons without a winner (ties) were left out"] if undecided else [],
    )


def _contestants(table: Cells, use: Mapping[str, str]) -> tuple[pa.ChunkedArray, pa.ChunkedArray, NDArray[np.int64]]:
    """Winners and losers of the rows that have a winner, and which rows those are."""
    if "first" not in use or "second" not in use:
        raise DataError(
            f"{table.label} has a winner but neither a loser nor two contestants; name them with columns=loser:COLUMN "
            "or columns=first:COLUMN,second:COLUMN."
        )
    first, second = (np.array(table.columns[use[name]].to_pylist(), dtype=object) for name in ("first", "second"))
    said = table.columns[use["winner"]].to_pylist()
    firsts = _FIRST | {use["first"].lower()}
    seconds = _SECOND | {use["second"].lower()}
    outcome = np.zeros(table.n_rows, np.int64)
    for row, text in enumerate(said):
        word = (text or "").lower()
        if text == first[row] or (word in firsts and text != second[row]):
            outcome[row] = 1
        elif text == second[row] or word in seconds:
            outcome[row] = 2
        elif word and not word.startswith(("tie", "draw", "both", "neither", "bothbad")):
            raise DataError(
                f"{table.label}, {table.where(row)}: the winner {text!r} is neither of the two contestants nor a tie; "
                "correct it."
            )
    decided = np.flatnonzero(outcome)
    if not len(decided):
        raise DataError(f"{table.label}: no comparison has a winner; give at least one.")
    won = outcome[decided] == 1
    better = np.where(won, first[decided], second[decided])
    worse = np.where(won, second[decided], first[decided])
    return pa.chunked_array([pa.array(better, pa.string())]), pa.chunked_array([pa.array(worse, pa.string())]), decided
