"""MovieLens 100k: `u.data`, and the publisher's five folds `u1.base`/`u1.test` … `u5.base`/`u5.test` beside it."""

import re
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.tasks.readers.base import Chunk, Reader, Reading, Scale, gather
from predilect.tasks.readers.source import Source
from predilect.tasks.readers.text import Layout, read_delimited

COLUMNS = {"user": "user id", "item": "item id", "rating": "rating", "timestamp": "timestamp"}
_LAYOUT = Layout("\t", 4, {"user": 0, "item": 1, "rating": 2, "timestamp": 3}, quoted=False)
_ROW = re.compile(rb"\d+\t\d+\t[1-5]\t8[789]\d{7}\r?\n")


def _looks(name: str, head: bytes) -> bool:
    """Its times lie between September 1997 and April 1998; other files with four such columns are plain tables."""
    return _ROW.match(head) is not None and (name == "u.data" or all(map(_ROW.match, head.splitlines(True)[:-1])))


def _folds(source: Source) -> list[str]:
    """The folds of which any file is there; each needs its base and its test part."""
    return [f"u{k}" for k in range(1, 6) if source.find(f"u{k}.base") or source.find(f"u{k}.test")]


def _part(source: Source, name: str) -> str:
    member = source.find(name)
    if member is None:
        raise DataError(
            f"{source.path} lacks {name}; a fold needs its .base and its .test file, so add or remove both."
        )
    return member


def _members(source: Source, member: str) -> tuple[str, ...]:
    return (member, *(_part(source, f"{fold}.{part}") for fold in _folds(source) for part in ("base", "test")))


def _read(source: Source, member: str, columns: Mapping[str, str]) -> Reading:
    return Reading(_chunks(source, member), dict(COLUMNS), Scale(1, 5, 1))


def _chunks(source: Source, member: str) -> Iterator[Chunk]:
    whole = gather(read_delimited(source, member, _LAYOUT))
    folds = _folds(source)
    if not folds or not whole.table.num_rows:
        yield whole
        return
    keys = _keys(whole, source.label(member))
    order = np.argsort(keys, kind="stable")
    assigned = np.full(len(keys), -1, np.int8)
    for k, fold in enumerate(folds):
        test = _find(source, f"{fold}.test", whole.table, keys, order)
        base = _find(source, f"{fold}.base", whole.table, keys, order)
        taken = assigned[test] >= 0
        if taken.any():
            other = folds[assigned[test[taken][0]]]
            raise DataError(
                f"{source.path}: {fold}.test and {other}.test share {int(taken.sum())} rows of {member}, "
                "but a row belongs to one test fold; restore the publisher's files."
            )
        assigned[test] = k
        if len(base) + len(test) != len(keys) or (assigned[base] == k).any():
            raise DataError(
                f"{source.path}: {fold}.base ({len(base)} rows) and {fold}.test ({len(test)} rows) do not make up "
                f"the {len(keys)} rows of {member}; restore the publisher's files."
            )
    column = pa.array(folds).take(pa.array(assigned, mask=assigned < 0))
    yield Chunk(whole.table.append_column("fold", column), whole.where)


def _keys(chunk: Chunk, label: str) -> NDArray[np.int64]:
    """One number a (user, item) pair."""
    try:
        user, item = (chunk.table[name].cast(pa.string()).cast(pa.int64()).to_numpy() for name in ("user", "item"))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{label}: ids of MovieLens 100k are whole numbers ({error}); choose the reader csv."
        ) from error
    keys: NDArray[np.int64] = (user << 32) + item
    return keys


def _find(
    source: Source, part: str, whole: pa.Table, keys: NDArray[np.int64], order: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The rows of u.data that the rows of a part are; DataError when one is not there, or stands twice."""
    member = _part(source, part)
    chunk = gather(read_delimited(source, member, _LAYOUT))
    if not chunk.table.num_rows:
        return np.empty(0, np.intp)
    wanted = _keys(chunk, source.label(member))
    rows = order[np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)]
    strange = keys[rows] != wanted
    for name in ("rating", "timestamp"):
        strange |= whole[name].to_numpy()[rows] != chunk.table[name].to_numpy()
    strange[np.setdiff1d(np.arange(len(rows)), np.unique(rows, return_index=True)[1])] = True
    if strange.any():
        raise DataError(
            f"{source.label(member)}, {chunk.where(int(np.argmax(strange)))}: this rating is not in u.data, "
            "or stands twice; restore the publisher's files."
        )
    return rows


READER = Reader("ml-100k", "MovieLens 100k", ("u.data",), _looks, _read, ("movielens-100k",), _members)
