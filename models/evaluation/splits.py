"""Which rows are held out: publisher's folds, random rows, each user's latest rows, whole users, or rows by their keys.

Every split is a boolean mask over the rows (True = test part), so the parts are disjoint and complete by
construction. It depends on the rows, the split and the seed, never on the number of threads.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.models.random import stream

SPLITS = ("folds", "random", "time", "user", "stable")
_EXAMPLES = "folds:u1, random:0.2, time:0.2, user:0.2 or stable:0.2"


@dataclass(frozen=True)
class Split:
    """How the test part is chosen; `str()` gives the text that `parse_split` reads."""

    kind: str
    """"folds", "random", "time", "user" or "stable"."""
    fold: str | None = None
    """Name of the publisher's fold (kind "folds")."""
    share: float | None = None
    """Share held out, between 0 and 1, both excluded (the other kinds)."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.fold if self.share is None else format(self.share, 'g')}"


class SplitSummary(TypedDict):
    """The sizes of both parts, and what the test part holds that the training part has never seen."""

    kind: str
    train_rows: int
    test_rows: int
    unseen_users: int
    unseen_items: int
    unseen_rows: int


def parse_split(text: str) -> Split:
    """Read "folds:NAME", or "random:", "time:", "user:" or "stable:SHARE". Raises ParameterError on anything else."""
    kind, _, argument = text.strip().partition(":")
    if kind not in SPLITS or not argument.strip():
        raise ParameterError(f"split is {text!r}; give {_EXAMPLES}.")
    argument = argument.strip()
    if kind == "folds":
        return Split(kind, fold=argument)
    try:
        share = float(argument)
    except ValueError:
        share = float("nan")
    if not 0 < share < 1:
        raise ParameterError(f"split is {text!r}, but the share must lie between 0 and 1, as in {kind}:0.2.")
    return Split(kind, share=share)


def split(
    how: Split,
    users: NDArray[np.integer[Any]],
    *,
    timestamps: ArrayLike | None = None,
    folds: ArrayLike | None = None,
    keys: NDArray[np.uint64] | None = None,
    seed: int,
) -> NDArray[np.bool_]:
    """The test mask, shape (N,).

    users: integer codes, not negative, shape (N,). timestamps: any increasing unit, shape (N,). folds: name of the
    test fold that holds a row, None where there is none, shape (N,). keys: a hash of what each row is about, (N,).

    - folds: the rows of the named fold.
    - random: that share of the rows, rounded to whole rows.
    - time: the latest share of each user's rows (at least one where the user has two or more, never all of them);
      rows of the same instant are ordered by the seed.
    - user: that share of the users with all their rows; nothing of them is kept for training.
    - stable: the rows whose keys fall in that share of all keys, so that a row is held out from all data that ever
      hold it, however they grow: an earlier model has not been trained on it either.

    Raises DataError when a column that the split needs is missing, or when either part would be empty.
    """
    if how.kind == "folds":
        mask = named_fold(folds, str(how.fold))
    else:
        share = 0.0 if how.share is None else how.share
        if how.kind == "random":
            mask = random_rows(len(users), share, seed)
        elif how.kind == "user":
            mask = whole_groups(users, share, seed)
        elif how.kind == "stable":
            mask = by_key(np.empty(0, np.uint64) if keys is None else keys, share)
        elif timestamps is None:
            raise DataError(
                f"split={how} needs a timestamp on every row, which this data has not; choose random:{share:g} instead."
            )
        else:
            mask = latest_rows(users, np.asarray(timestamps), share, seed)
    n_test = int(np.count_nonzero(mask))
    if not 0 < n_test < len(mask):
        raise DataError(
            f"split={how} puts {n_test} of {len(mask)} rows in the test part, so one part is empty; "
            "choose another split or give more data."
        )
    return mask


def named_fold(folds: ArrayLike | None, name: str) -> NDArray[np.bool_]:
    """The rows whose fold is `name`. Raises DataError, naming the folds there are, when no row has it."""
    names = np.asarray([] if folds is None else folds, dtype=object)
    mask: NDArray[np.bool_] = np.asarray(names == name, dtype=np.bool_)
    if not mask.any():
        found = sorted({str(other) for other in names.tolist() if isinstance(other, str)})
        raise DataError(
            f"split=folds:{name} names a fold that this data has not; "
            + (f"its folds are {', '.join(found)}." if found else "it has no folds, so choose random:0.2 instead.")
        )
    return mask


def random_rows(n_rows: int, share: float, seed: int) -> NDArray[np.bool_]:
    """round(share · n_rows) rows, each set of that size equally likely."""
    mask = np.zeros(n_rows, np.bool_)
    mask[stream(seed, "split", "random").permutation(n_rows)[: round(share * n_rows)]] = True
    return mask


def by_key(keys: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """The rows whose key is below that share of the 64-bit range, shape of `keys`."""
    mask: NDArray[np.bool_] = keys < np.uint64(share * 2.0**64)
    return mask


def key_of(texts: Iterable[str], seed: int) -> NDArray[np.uint64]:
    """A hash of each text (N,), the same on every machine and in every run with the same seed."""
    salt = seed.to_bytes(8, "little")
    digests = b"".join(blake2b(text.encode(), digest_size=8, salt=salt).digest() for text in texts)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def mixed(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each pair of hashes, (N,) and (N,): the finaliser of SplitMix64, whose every bit moves every other."""
    keys = first * np.uint64(0x9E3779B97F4A7C15) + second
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))


def whole_groups(groups: NDArray[np.integer[Any]], share: float, seed: int) -> NDArray[np.bool_]:
    """All rows of round(share · n_groups) groups. groups: integer codes, not negative, shape (N,)."""
    present = np.unique(groups)
    chosen = np.zeros(int(present[-1]) + 1 if len(present) else 0, np.bool_)
    chosen[present[random_rows(len(present), share, seed)]] = True
    mask: NDArray[np.bool_] = chosen[groups]
    return mask


def latest_rows(
    users: NDArray[np.integer[Any]], timestamps: NDArray[Any], share: float, seed: int
) -> NDArray[np.bool_]:
    """The latest share of each user's rows, rounded, but at least one of two or more and never all of them."""
    order = stream(seed, "split", "time").permutation(len(users))
    order = order[np.argsort(timestamps[order], kind="stable")]
    order = order[np.argsort(users[order], kind="stable")]
    counts = np.bincount(users)
    held_out = np.clip(np.rint(share * counts).astype(np.int64), 1, np.maximum(counts - 1, 0))
    ends = np.cumsum(counts)
    sorted_users = users[order]
    mask = np.zeros(len(users), np.bool_)
    mask[order] = np.arange(len(users)) >= (ends - held_out)[sorted_users]
    return mask


def k_folds(n_rows: int, n_folds: int, seed: int) -> NDArray[np.int8]:
    """The fold of each row, 0..n_folds-1, shape (n_rows,); sizes differ by one row at most.

    Raises ParameterError unless 2 ≤ n_folds ≤ 127, DataError when there are fewer rows than folds.
    """
    if not 2 <= n_folds <= 127:
        raise ParameterError(f"folds is {n_folds}, but must lie between 2 and 127.")
    if n_rows < n_folds:
        raise DataError(f"{n_rows} rows cannot fill {n_folds} folds; give more data or fewer folds.")
    folds = (np.arange(n_rows) % n_folds).astype(np.int8)
    stream(seed, "folds").shuffle(folds)
    return folds


def summarise(
    how: Split, test: NDArray[np.bool_], users: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]]
) -> SplitSummary:
    """Sizes of the parts; test users and items without a training row, and the test rows that have either.

    test: the mask of `split`. users, items: codes over the whole data, shape (N,).
    """
    new_users, new_items = (_unseen(codes, test) for codes in (users, items))
    return {
        "kind": str(how),
        "train_rows": int(np.count_nonzero(~test)),
        "test_rows": int(np.count_nonzero(test)),
        "unseen_users": len(np.unique(users[new_users])),
        "unseen_items": len(np.unique(items[new_items])),
        "unseen_rows": int(np.count_nonzero(new_users | new_items)),
    }


def _unseen(codes: NDArray[np.integer[Any]], test: NDArray[np.bool_]) -> NDArray[np.bool_]:
    trained = np.zeros(int(codes.max(initial=-1)) + 1, np.bool_)
    trained[codes[~test]] = True
    unseen: NDArray[np.bool_] = test & ~trained[codes]
    return unseen
