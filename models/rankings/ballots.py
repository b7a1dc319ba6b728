"""Ballots: rankings of some of the items, best first, as ragged arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.models.rankings import kernels

Menu = Literal["all", "ranked"]

MENU_HELP = (
    'menu must be chosen: "all" when every item was on offer and a ballot names its best ones (what is not named '
    'came after), "ranked" when only the items named on a ballot were on offer (comparisons, partial lists); '
    "the two are different models and give different worths"
)


def check_menu(menu: object) -> None:
    """Raises ParameterError, with the difference explained, unless `menu` is "all" or "ranked"."""
    if menu not in get_args(Menu):
        raise ParameterError(f"{MENU_HELP}; found {menu!r}.")


@dataclass(frozen=True)
class Ballots:
    """m ballots over n items in compressed rows: ballot l is items[offsets[l]:offsets[l + 1]], best first.

    items: int32 codes 0..n-1; offsets: int64 (m + 1,); counts: int64 (m,), how many equal ballots a row stands for;
    weights: float64 (m,), what a row weighs in the likelihood in all (its count, when no weights were given).
    menu: "all" (A_t is every item not yet chosen) or "ranked" (A_t is what is left of the ballot itself).
    """

    items: NDArray[np.int32]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    weights: NDArray[np.float64]
    n_items: int
    menu: Menu

    @classmethod
    def of(
        cls,
        items: ArrayLike,
        offsets: ArrayLike,
        n_items: int,
        menu: Menu,
        *,
        counts: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Checked ballots from compressed rows. `weights` are per row, in all (not per counted ballot).

        Raises DataError for no ballot, fewer than two items, an empty ballot, an item twice or out of range, counts
        below one and weights that are not above zero; ParameterError for a menu that is neither kind. Ballots and
        items are numbered from 1 and 0 in the messages: callers that know lines and ids say those instead.
        """
        check_menu(menu)
        codes = np.ascontiguousarray(items, np.int32)
        bounds = np.ascontiguousarray(offsets, np.int64)
        n_ballots = len(bounds) - 1
        if n_ballots < 1:
            raise DataError("There is no ballot; give at least one ranking.")
        if n_items < 2:
            raise DataError(f"There is {n_items} item; a ranking model needs at least two.")
        if bounds[0] != 0 or bounds[-1] != len(codes) or np.any(np.diff(bounds) < 0):
            raise DataError("The offsets of the ballots do not cut their items; they go from 0 to the number of items.")
        ballot, fault, item = kernels.first_fault(codes, bounds, n_items)
        if fault == 1:
            raise DataError(f"Ballot {ballot + 1} is empty; leave it out.")
        if fault == 2:
            raise DataError(f"Ballot {ballot + 1} names item {item}; item codes go from 0 to {n_items - 1}.")
        if fault == 3:
            raise DataError(f"Ballot {ballot + 1} names item {item} twice; a ranking has every item at most once.")
        many = np.ones(n_ballots, np.int64) if counts is None else np.ascontiguousarray(counts, np.int64)
        weigh = many.astype(np.float64) if weights is None else np.ascontiguousarray(weights, np.float64)
        for name, values in (("count", many), ("weight", weigh)):
            if values.shape != (n_ballots,):
                raise DataError(f"There are {n_ballots} ballots but {values.size} {name}s; give one a ballot.")
            wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
            if len(wrong):
                found = values[wrong[0]]
                raise DataError(f"Ballot {wrong[0] + 1} has {name} {found:g}; {name}s are finite and above 0.")
        return cls(codes, bounds, many, weigh, n_items, menu)

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Sequence[int]],
        n_items: int,
        menu: Menu,
        *,
        counts: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Checked ballots from one sequence of item codes a ballot, best first; raises as `of`."""
        lists = [list(row) for row in rows]
        offsets = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(row) for row in lists], out=offsets[1:])
        items = np.array([item for row in lists for item in row], np.int64)
        if len(items) and (items.min() < 0 or items.max() >= n_items):
            wrong = int(np.flatnonzero((items < 0) | (items >= n_items))[0])
            ballot = int(np.searchsorted(offsets, wrong, side="right"))
            raise DataError(f"Ballot {ballot} names item {items[wrong]}; item codes go from 0 to {n_items - 1}.")
        return cls.of(items, offsets, n_items, menu, counts=counts, weights=weights)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many items each ballot names (m,)."""
        return np.diff(self.offsets)

    @property
    def stages(self) -> NDArray[np.int64]:
        """How many choices each ballot tells of (m,): its length, or one less where the last item had no rival."""
        alone = self.lengths == self.n_items if self.menu == "all" else np.ones(len(self), np.bool_)
        return self.lengths - alone

    def row(self, ballot: int) -> NDArray[np.int32]:
        """The items of one ballot, best first."""
        return self.items[self.offsets[ballot] : self.offsets[ballot + 1]]

    def take(self, rows: NDArray[np.int64]) -> Self:
        """The ballots `rows`, in that order."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(self.lengths[rows], out=offsets[1:])
        items = kernels.take_ballots(self.items, self.offsets, rows, offsets)
        return type(self)(items, offsets, self.counts[rows], self.weights[rows], self.n_items, self.menu)

    def with_counts(self, counts: NDArray[np.integer[Any]]) -> Self:
        """The ballots counted anew (m,), weights in proportion; those counted 0 times are left out."""
        kept = np.flatnonzero(counts)
        part = self.take(kept)
        many = np.asarray(counts, np.int64)[kept]
        return type(self)(part.items, part.offsets, many, part.weights * (many / part.counts), self.n_items, self.menu)

    def collapse(self) -> tuple[Self, NDArray[np.int64]]:
        """Equal ballots as one row with their counts and weights added, and the row that each ballot went to (m,)."""
        salt = 0
        while True:
            hashes = kernels.ballot_hashes(self.items, self.offsets, np.uint64(salt))
            _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
            if kernels.all_equal(self.items, self.offsets, first[group]):
                break
            salt += 1  # two different ballots share a hash: never seen, but cheap to survive
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        index = rank[group]
        if len(first) == len(self):
            return self, index
        distinct = self.take(first[order])
        counts = np.zeros(len(first), np.int64)
        np.add.at(counts, index, self.counts)
        weights = np.bincount(index, self.weights, len(first)).astype(np.float64)
        return type(self)(distinct.items, distinct.offsets, counts, weights, self.n_items, self.menu), index

    def split(self, n_parts: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """How many of the ballots of each row fall in each part (m, n_parts): parts equal in size up to one ballot."""
        rows = np.repeat(np.arange(len(self)), self.counts)
        part = generator.permutation(len(rows)) % n_parts
        return np.bincount(rows * n_parts + part, minlength=len(self) * n_parts).reshape(len(self), n_parts)
