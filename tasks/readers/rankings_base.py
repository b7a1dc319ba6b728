"""What every reader of rankings gives: checked ballots with the ids and places they had in the file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.models.random import stream
from predilect.models.rankings import Ballots, Menu
from predilect.models.rankings.kernels import first_fault

Ties = Literal["error", "drop", "listed", "random"]
Ints = NDArray[np.int64]
Where = Callable[[int], str]


@dataclass(frozen=True)
class TieRule:
    """What becomes of ties inside a ballot. (Ties at its end make it a top-l ballot and are cut, whatever the rule.)

    error: refuse them. drop: leave the ballot out. listed: in the order in which the file lists them. random: in an
    order drawn from `seed`.
    """

    rule: Ties = "error"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rule not in get_args(Ties):
            raise ParameterError(f"ties is {self.rule!r}; give one of {', '.join(get_args(Ties))}.")


@dataclass(frozen=True)
class RankingsReading:
    """Ballots as a file holds them, equal ones not yet collapsed.

    items (int32), offsets (int64): compressed rows of item codes, best first. counts (m,): how many equal ballots a
    row stands for. weights (m,): what each of those weighs, or None. item_ids: int64 or string, sorted, by code;
    item_names: what to call them, or None when the ids are the names. where(row): the place of a ballot in the file.
    left_out: ballots left out, with the reason.
    """

    items: NDArray[np.int32]
    offsets: Ints
    counts: Ints
    weights: NDArray[np.float64] | None
    item_ids: pa.Array
    item_names: list[str] | None
    where: Where
    reader: str
    form: str
    left_out: int = 0
    left_out_reason: str = ""
    warnings: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.counts)

    def names(self) -> list[str]:
        """What each item is called, by code."""
        return self.item_names or [str(value) for value in self.item_ids.to_pylist()]

    def ballots(self, menu: Menu) -> Ballots:
        """The ballots for the model; raises ParameterError, explaining the difference, when the menu is not chosen."""
        each = np.ones(len(self)) if self.weights is None else self.weights
        return Ballots.of(
            self.items, self.offsets, len(self.item_ids), menu, counts=self.counts, weights=self.counts * each
        )


@dataclass(frozen=True)
class RankedRows:
    """One ranked item a row. ballot (N,): 0..m-1; item (N,): codes; rank (N,): 1 is best, equal ranks are ties.

    counts, weights: by ballot. where(n): the place of row n in the file.
    """

    ballot: Ints
    item: NDArray[np.int32]
    rank: NDArray[np.float64]
    counts: Ints
    weights: NDArray[np.float64] | None
    where: Where


@dataclass(frozen=True)
class _Sorted:
    """Rows in the order of ballots and, in each, of ranks. order (N,): which row of the input each is."""

    order: Ints
    ballot: Ints
    item: NDArray[np.int32]
    group: Ints
    """Number of the set of equal ranks that a row is in."""
    offsets: Ints


def assemble(
    rows: RankedRows,
    item_ids: pa.Array,
    *,
    label: str,
    reader: str,
    form: str,
    ties: TieRule,
    item_names: list[str] | None = None,
    warnings: Sequence[str] = (),
    count_name: str = "count",
) -> RankingsReading:
    """Ballots of rows in any order. Raises DataError with the file and the place of the first fault.

    Faults: fewer than two items, counts or weights that are not above zero, an item twice on a ballot, and (by the
    rule) a tie that is not at a ballot's end. A ballot that ties all its items says nothing and is left out.
    """
    n_ballots = len(rows.counts)
    names = item_names or [str(value) for value in item_ids.to_pylist()]
    if not n_ballots or not len(rows.item):
        raise DataError(f"{label} holds no ballots; give a file with at least one ranking.")
    given = _sort(rows)
    first_row = given.order[given.offsets[:-1]]
    for what, values in ((count_name, rows.counts), ("weight", rows.weights)):
        if values is not None and not np.all(values > 0):
            wrong = int(np.flatnonzero(~(values > 0))[0])
            raise DataError(
                f"{label}, {rows.where(int(first_row[wrong]))}: the {what} is {values[wrong]:g}; give one above 0."
            )
    _refuse_repeats(given, rows, names, label)
    if len(names) < 2:
        raise DataError(f"{label} ranks one item only ({names[0]}); a ranking model needs at least two.")
    item, kept, dropped, cut, said = _settle_ties(given, rows, names, label, ties)
    lengths = np.bincount(given.ballot[kept], minlength=n_ballots)
    silent = np.setdiff1d(np.flatnonzero(lengths == 0), dropped)
    cut = np.setdiff1d(cut, silent)
    if len(cut):
        said.append(f"{int(rows.counts[cut].sum())} ballots end in a tie, which was cut: they are top-l ballots")
    n_dropped, n_silent = int(rows.counts[dropped].sum()), int(rows.counts[silent].sum())
    reasons = [(n_dropped, "ties inside the ballot"), (n_silent, "all items of the ballot tied")]
    filled = np.flatnonzero(lengths)
    if not len(filled):
        raise DataError(f"{label}: every ballot is left out because of ties; rank the items apart.")
    bounds = np.zeros(len(filled) + 1, np.int64)
    np.cumsum(lengths[filled], out=bounds[1:])
    at = first_row[filled]
    return RankingsReading(
        items=item[kept].astype(np.int32),
        offsets=bounds,
        counts=rows.counts[filled],
        weights=None if rows.weights is None else rows.weights[filled],
        item_ids=item_ids,
        item_names=item_names,
        where=lambda row: rows.where(int(at[row])),
        reader=reader,
        form=form,
        left_out=n_dropped + n_silent,
        left_out_reason=" and ".join(reason for count, reason in reasons if count),
        warnings=[*warnings, *said],
    )


def _sort(rows: RankedRows) -> _Sorted:
    order = np.lexsort((rows.rank, rows.ballot))
    ballot, rank = rows.ballot[order], rows.rank[order]
    starts = np.ones(len(rank), np.bool_)
    starts[1:] = (ballot[1:] != ballot[:-1]) | (rank[1:] != rank[:-1])
    offsets = np.zeros(len(rows.counts) + 1, np.int64)
    np.cumsum(np.bincount(ballot, minlength=len(rows.counts)), out=offsets[1:])
    return _Sorted(order, ballot, rows.item[order], np.cumsum(starts) - 1, offsets)


def _refuse_repeats(given: _Sorted, rows: RankedRows, names: list[str], label: str) -> None:
    ballot, fault, code = first_fault(given.item, given.offsets, len(names))
    if fault == 3:
        own = slice(given.offsets[ballot], given.offsets[ballot + 1])
        second = int(given.order[own][given.item[own] == code].max())
        raise DataError(f"{label}, {rows.where(second)}: item {names[code]} is ranked twice on one ballot; keep one.")


def _settle_ties(
    given: _Sorted, rows: RankedRows, names: list[str], label: str, ties: TieRule
) -> tuple[NDArray[np.int32], NDArray[np.bool_], Ints, Ints, list[str]]:
    """The items in their settled order, which of them stay, the ballots dropped and those cut, and what to say."""
    group, item = given.group, given.item
    tied = np.bincount(group) > 1
    ends = np.zeros(len(tied), np.bool_)
    ends[group[given.offsets[1:] - 1]] = True
    kept = ~(tied & ends)[group]
    cut = np.unique(given.ballot[~kept])
    inner = np.flatnonzero((tied & ~ends)[group])
    none = np.empty(0, np.int64)
    if not len(inner):
        return item, kept, none, cut, []
    if ties.rule == "error":
        place = inner[np.argmin(given.order[inner])]
        members = item[group == group[place]]
        shown = ", ".join(names[member] for member in members[:5]) + (", …" if len(members) > 5 else "")
        raise DataError(
            f"{label}, {rows.where(int(given.order[place]))}: {shown} are tied before the end of a ballot; rank them "
            "apart, or set ties to listed, random or drop."
        )
    broken = np.unique(given.ballot[inner])
    if ties.rule == "drop":
        return item, kept & ~np.isin(given.ballot, broken), broken, np.setdiff1d(cut, broken), []
    affected = int(rows.counts[broken].sum())
    if ties.rule == "listed":
        return item, kept, none, cut, [f"ties inside {affected} ballots were broken in the order of the file"]
    lottery = stream(ties.seed, "ties").random(len(group))
    said = [f"ties inside {affected} ballots were broken at random (seed {ties.seed})"]
    return item[np.lexsort((lottery, group))], kept, none, cut, said


def lines_of(text: str) -> list[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def decode(content: bytes, label: str) -> str:
    """The text of a file. Raises DataError with the line of the first byte that is not UTF-8, and for an empty file."""
    try:
        text = content.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(
            f"{label}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8."
        ) from None
    if not text.strip():
        raise DataError(f"{label} is empty; give a file with at least one ranking.")
    return text


def whole(value: str) -> int | None:
    """A text as a non-negative integer, or None."""
    return int(value) if value.strip().isascii() and value.strip().isdecimal() else None
