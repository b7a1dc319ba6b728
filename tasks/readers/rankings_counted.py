"""Count-prefixed text: `count: best,…,worst`, one distinct ballot a line, after an optional `#` header.

The header may say `n_items=9 n_rankings=29988`; items are then numbered from 0, or from 1 where the header says
`1-based`. Without `n_items` the items are those that occur.
"""

import re

import numpy as np
import pyarrow as pa

from predilect.models.errors import DataError
from predilect.tasks.canonical import Coded
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

_LINE = re.compile(rb"\s*\d+\s*:\s*\S")
_SETTING = re.compile(r"(n_items|n_rankings)\s*=\s*(\S+)")


def looks(name: str, head: bytes) -> bool:
    """Whether the first line that is no comment is `count: …`."""
    lines = head.removeprefix(b"\xef\xbb\xbf").splitlines()
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith(b"#")), b"")
    return _LINE.match(first) is not None


def read(source: Source, member: str, ties: TieRule) -> RankingsReading:
    """The ballots of a count-prefixed file. Raises DataError with the file and line of the first fault."""
    label = source.label(member)
    with source.open(member) as stream:
        lines = lines_of(decode(stream.read(), label))
    said: dict[str, int] = {}
    base = 0
    counts: list[int] = []
    ballot: list[int] = []
    rank: list[int] = []
    names: list[str] = []
    at: list[int] = []
    for number, line in lines:
        if line.startswith("#"):
            said |= _settings(line, f"{label}, line {number}")
            base = 1 if "1-based" in line else base
            continue
        before, colon, after = line.partition(":")
        count = whole(before)
        if not colon or count is None:
            raise DataError(
                f"{label}, line {number}: {line!r:.60} does not begin with a count and a colon; write "
                "`count: best,next,…`."
            )
        fields = [part.strip() for part in after.split(",")]
        if fields == [""]:
            raise DataError(f"{label}, line {number}: the ballot is empty; leave the line out.")
        for place, name in enumerate(fields):
            if not name or re.search(r"[;\t|]", name) or ("n_items" in said and whole(name) is None):
                raise DataError(
                    f"{label}, line {number}: {name!r:.60} is not an item; separate items by commas, as in "
                    "`count: best,next,…`."
                )
            ballot.append(len(counts))
            rank.append(place)
            names.append(name)
            at.append(number)
        counts.append(count)
    if "n_rankings" in said and said["n_rankings"] != sum(counts):
        raise DataError(
            f"{label}: the header says n_rankings={said['n_rankings']}, but the counts add up to {sum(counts)}; "
            "correct the header or restore the missing lines."
        )
    items, ids = _items(names, at, said.get("n_items"), base, label)
    return assemble(
        RankedRows(
            np.array(ballot, np.int64),
            items,
            np.array(rank, np.float64),
            np.array(counts, np.int64),
            None,
            lambda row: f"line {at[row]}",
        ),
        ids,
        label=label,
        reader="counted",
        form="counted",
        ties=ties,
    )


def _settings(line: str, place: str) -> dict[str, int]:
    found = {}
    for name, value in _SETTING.findall(line):
        amount = whole(value)
        if amount is None:
            raise DataError(f"{place}: {name} is {value!r}, not a whole number; correct the header.")
        found[name] = amount
    return found


def _items(names: list[str], at: list[int], n_items: int | None, base: int, label: str) -> tuple[np.ndarray, pa.Array]:
    """Codes of the ranked items, and the ids of all."""
    if n_items is None:
        coded = Coded.of(pa.chunked_array([pa.array(names, pa.string())]), infer_integers=True)
        return coded.codes, coded.names
    numbers = np.array([int(name) for name in names], np.int64)
    beyond = np.flatnonzero((numbers < base) | (numbers >= base + n_items))
    if len(beyond):
        raise DataError(
            f"{label}, line {at[beyond[0]]}: item {numbers[beyond[0]]} is not among the header's {base} to "
            f"{base + n_items - 1}; correct the line or n_items."
        )
    return (numbers - base).astype(np.int32), pa.array(np.arange(base, base + n_items))
