"""Pairs of a user and an item that are rated more than once: which row stays, with what rating, or what to complain of.

The one rule of ingestion in memory and out of core; pairs are numbers, user · n_items + item, by codes of sorted ids.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.tasks.readers.base import Scale, Where

EXAMPLES = 3
Pairs = NDArray[np.int64]
Rows = NDArray[np.int64]
Ratings = NDArray[np.float64]


@dataclass(frozen=True)
class Repeats:
    """All rows of some repeated pairs: pair by pair, by time within a pair, by row within a time."""

    rows: Rows
    pairs: Pairs
    ratings: Ratings
    first: Rows
    """Where each pair begins."""

    @classmethod
    def of(cls, rows: Rows, pairs: Pairs, times: NDArray[np.int64], ratings: Ratings) -> Self:
        """From the number, the pair, the time (the number again where there is none) and the rating of each row."""
        order = np.lexsort((rows, times, pairs))
        ordered = pairs[order]
        return cls(rows[order], ordered, ratings[order], np.flatnonzero(np.diff(ordered, prepend=-1)))

    def kept(self, policy: str) -> tuple[Rows, Ratings]:
        """The row of each pair that stays, its latest, and the rating that it then has. policy: "last" or "mean"."""
        last = np.append(self.first[1:], len(self.rows)) - 1
        if policy == "last":
            return self.rows[last], self.ratings[last]
        return self.rows[last], np.add.reduceat(self.ratings, self.first) / np.diff(self.first, append=len(self.rows))

    def examples(self) -> list[tuple[int, int, int]]:
        """(pair, row, row) of a few pairs, the first in the source: their two earliest rows."""
        chosen = self.first[np.argsort(self.rows[self.first], kind="stable")][:EXAMPLES]
        return [(int(self.pairs[start]), *np.sort(self.rows[start : start + 2]).tolist()) for start in chosen]


def repeated_pairs(
    label: str, n_pairs: int, examples: list[tuple[int, int, int]], users: pa.Array, items: pa.Array, where: Where
) -> str:
    """The message on `n_pairs` repeated pairs. users, items: the sorted ids."""
    shown = []
    for pair, *rows in examples:
        user, item = (names[code].as_py() for names, code in zip((users, items), divmod(pair, len(items)), strict=True))
        shown.append(f"user {user!r} and item {item!r} on {' and '.join(map(where, rows))}")
    more = f" and {n_pairs - len(shown):,} more pairs" if n_pairs > len(shown) else ""
    return (
        f"{label}: {n_pairs:,} (user, item) pairs are rated more than once: {'; '.join(shown)}{more}; "
        "remove the repeats, or choose duplicates=last or duplicates=mean."
    )


def scale_of_means(scale: Scale, n_between: int, warnings: list[str]) -> Scale:
    """The scale when `n_between` means of repeated ratings are not on it: continuous, and a warning says so."""
    if not n_between or scale.step is None:
        return scale
    warnings.append(f"{n_between:,} means of repeated ratings lie between levels: the scale counts as continuous")
    return Scale(scale.low, scale.high, None)
