"""PrefLib files of orders, `.soc .soi .toc .toi`, with the header of today (`# KEY: value`) or of before 2022.

Items in braces are tied: `3: 1,{2,4}` is three ballots with 1 before the others. Alternatives keep their numbers as ids
and their names as what they are called; those never ranked are kept.
"""

import re
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from predilect.models.errors import DataError
from predilect.tasks.readers.rankings_base import (
    RankedRows,
    RankingsReading,
    TieRule,
    assemble,
    decode,
    lines_of,
    whole,
)
from predilect.tasks.readers.source import Source

SUFFIXES = (".soc", ".soi", ".toc", ".toi")
_KEY = re.compile(r"#\s*([^:]+?)\s*:\s*(.*)")
_NAME = re.compile(r"ALTERNATIVE NAME (\d+)")
_ORDER = re.compile(r"\d+|[{},]|\S")


@dataclass
class _Header:
    n_items: int | None = None
    n_ballots: int | None = None
    n_orders: int | None = None
    kind: str | None = None
    names: dict[int, str] = field(default_factory=dict)
    separator: str = ":"
    first: int = 0
    """Index of the first line of ballots."""


def looks(name: str, head: bytes) -> bool:
    """By the name's end, or by the header."""
    text = head.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    lines = [line for line in text.splitlines()[:50] if line.strip()]
    return (
        name.lower().endswith(SUFFIXES)
        or any(line.startswith("# NUMBER ALTERNATIVES") for line in lines)
        or (len(lines) > 1 and lines[0].strip().isdecimal() and re.match(r"\s*1\s*,\s*\D", lines[1]) is not None)
    )


def read(source: Source, member: str, ties: TieRule) -> RankingsReading:
    """The ballots of a PrefLib file. Raises DataError with the file and line of the first fault."""
    label = source.label(member)
    with source.open(member) as stream:
        lines = lines_of(decode(stream.read(), label))
    header = _new_header(lines, label) if lines[0][1].startswith("#") else _old_header(lines, label)
    numbers: list[int] = []
    counts: list[int] = []
    rows: list[int] = []
    ballot: list[int] = []
    rank: list[int] = []
    at: list[int] = []
    for number, line in lines[header.first :]:
        count, order = _ballot(line, header, f"{label}, line {number}")
        for place, tied in enumerate(order):
            for item in tied:
                ballot.append(len(counts))
                rank.append(place)
                rows.append(item)
                at.append(number)
        counts.append(count)
        numbers.append(number)
    _check_counts(header, counts, label)
    items, warnings = _items(header, rows, at, label)
    _check_complete(header, items, np.bincount(ballot, minlength=len(counts)).tolist(), numbers, label)
    named = [header.names.get(item, str(item)) for item in items]
    return assemble(
        RankedRows(
            np.array(ballot, np.int64),
            np.searchsorted(items, rows).astype(np.int32),
            np.array(rank, np.float64),
            np.array(counts, np.int64),
            None,
            lambda row: f"line {at[row]}",
        ),
        pa.array(items, pa.int64()),
        label=label,
        reader="preflib",
        form=header.kind or "orders",
        ties=ties,
        item_names=named if header.names else None,
        warnings=warnings,
        count_name="number of voters",
    )


def _new_header(lines: list[tuple[int, str]], label: str) -> _Header:
    header = _Header()
    for index, (number, line) in enumerate(lines):
        if not line.startswith("#"):
            header.first = index
            break
        found = _KEY.fullmatch(line)
        if not found:
            continue
        key, value = found.groups()
        named = _NAME.fullmatch(key)
        if named:
            header.names[int(named[1])] = value or named[1]
        elif key == "DATA TYPE":
            header.kind = value.lower() or None
        elif key in ("NUMBER ALTERNATIVES", "NUMBER VOTERS", "NUMBER UNIQUE ORDERS"):
            amount = whole(value)
            if amount is None:
                raise DataError(f"{label}, line {number}: {key} is {value!r}, not a whole number; correct the header.")
            name = {"NUMBER ALTERNATIVES": "n_items", "NUMBER VOTERS": "n_ballots"}.get(key, "n_orders")
            setattr(header, name, amount)
    else:
        header.first = len(lines)
    return header


def _old_header(lines: list[tuple[int, str]], label: str) -> _Header:
    header = _Header(n_items=whole(lines[0][1]), separator=",")
    if header.n_items is None:
        raise DataError(
            f"{label}, line {lines[0][0]}: {lines[0][1]!r:.60} is neither a `# KEY: value` header nor the number of "
            "alternatives; give a PrefLib file."
        )
    if len(lines) < header.n_items + 2:
        raise DataError(f"{label} ends within its header of {header.n_items} alternatives; copy or download it again.")
    for number, line in lines[1 : header.n_items + 1]:
        item, comma, name = line.partition(",")
        code = whole(item)
        if not comma or code is None:
            raise DataError(
                f"{label}, line {number}: {line!r:.60} is not `number,name` of one of the {header.n_items} "
                "alternatives; correct the header."
            )
        header.names[code] = name.strip() or item
    number, line = lines[header.n_items + 1]
    totals = [whole(part) for part in line.split(",")]
    if len(totals) != 3 or None in totals:
        raise DataError(
            f"{label}, line {number}: {line!r:.60} is not `voters,sum of counts,unique orders`; correct the header."
        )
    header.n_ballots, header.n_orders = totals[1], totals[2]
    header.first = header.n_items + 2
    return header


def _ballot(line: str, header: _Header, place: str) -> tuple[int, list[list[int]]]:
    """A ballot's count, and its items, best first, in groups of tied ones."""
    before, found, after = line.partition(header.separator)
    count = whole(before)
    if not found or count is None:
        raise DataError(
            f"{place}: {line!r:.60} does not begin with a count and {header.separator!r}; write "
            f"`count{header.separator} best,next,…`."
        )
    order: list[list[int]] = []
    group: list[int] | None = None
    expects_item = True
    for token in _ORDER.findall(after):
        if token.isdecimal() and expects_item:
            if group is None:
                order.append([int(token)])
            else:
                group.append(int(token))
            expects_item = False
        elif token == "," and not expects_item:
            expects_item = True
        elif token == "{" and expects_item and group is None:
            group = []
        elif token == "}" and group and not expects_item:
            order.append(group)
            group = None
        else:
            raise DataError(
                f"{place}: {token!r} is out of place in {after.strip()!r:.60}; separate numbers by commas and put "
                "ties in braces."
            )
    if not order and group is None:
        raise DataError(f"{place}: the ballot is empty; leave the line out.")
    if group is not None or expects_item:
        raise DataError(f"{place}: {after.strip()!r:.60} is cut short; complete the ballot.")
    return count, order


def _check_counts(header: _Header, counts: list[int], label: str) -> None:
    for what, said, found in (
        ("voters", header.n_ballots, sum(counts)),
        ("unique orders", header.n_orders, len(counts)),
    ):
        if said is not None and said != found:
            raise DataError(
                f"{label}: the header says {said} {what}, but the file has {found}; correct the header or restore the "
                "missing lines."
            )


def _items(header: _Header, rows: list[int], at: list[int], label: str) -> tuple[list[int], list[str]]:
    """All alternatives, sorted: those of the header, named, or ranked."""
    n_items = header.n_items
    for item, number in zip(rows, at, strict=True):
        if n_items is not None and not 1 <= item <= n_items and item not in header.names:
            raise DataError(
                f"{label}, line {number}: alternative {item} is not among the header's 1 to {n_items}; correct the "
                "line or the header."
            )
    known = set(header.names) | set(rows)
    if not header.names and n_items is not None:
        known |= set(range(1, n_items + 1))
    warnings = []
    if n_items is not None and len(known) != n_items:
        warnings.append(
            f"the header says {n_items} alternatives, but {len(known)} are named or ranked; only those are kept"
        )
    unnamed = sorted(known - set(header.names)) if header.names else []
    if unnamed:
        warnings.append(f"alternatives without a name are called by number: {', '.join(map(str, unnamed[:5]))}")
    return sorted(known), warnings


def _check_complete(header: _Header, items: list[int], lengths: list[int], numbers: list[int], label: str) -> None:
    if header.kind in ("soc", "toc"):
        for length, number in zip(lengths, numbers, strict=True):
            if length != len(items):
                raise DataError(
                    f"{label}, line {number}: {length} of {len(items)} alternatives are ranked, but the header's type "
                    f"{header.kind} means complete orders; correct the line or the type."
                )
