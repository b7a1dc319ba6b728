"""The rows of a click table as arrays: counts, features, user clusters, groups. Nothing wide is ever stored."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from predilect.models.errors import DataError
from predilect.models.ids import UNKNOWN

Codes = NDArray[np.int32]

RESERVED = ("intercept", "clusters", "group")
"""Names of blocks of coefficients that no part of the features may have."""


@dataclass(frozen=True)
class Design:
    """The context x of every row, kept factored (math page §7).

    x = [1, features of the row, a copy of them in the block of the user's cluster, one-hot of the group]. Rows that
    show the same item share one line of `features`, so the (1 + n_clusters)·n_features columns are never built.
    """

    features: Any
    """CSR matrix (n_lines, n_features), float32; the context of an item, unit-norm TF-IDF for example."""
    lines: Codes
    """(n_rows,) the line of `features` of each row."""
    clusters: Codes
    """(n_rows,) the user's cluster, -1 = cold or unknown (only the shared copy is used)."""
    groups: Codes
    """(n_rows,) the row's group, -1 = none or unknown."""
    n_clusters: int = 0
    n_groups: int = 0
    parts: tuple[tuple[str, int], ...] = ()
    """Names and widths of consecutive column ranges of `features`; each has a prior precision of its own."""

    @classmethod
    def of(
        cls,
        features: Any,
        *,
        lines: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        n_clusters: int = 0,
        groups: ArrayLike | None = None,
        n_groups: int = 0,
        parts: tuple[tuple[str, int], ...] | None = None,
    ) -> Self:
        """Check the arrays and make the design; without `lines`, line r of `features` belongs to row r.

        Raises DataError naming the first value that is not finite or out of range.
        """
        matrix = sparse.csr_matrix(features, dtype=np.float32, copy=False)
        matrix.sum_duplicates()
        if not np.isfinite(matrix.data).all():
            place = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
            line = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
            raise DataError(
                f"Line {line} of the features holds {matrix.data[place]} in column {matrix.indices[place]}; "
                "every feature must be a finite number, so fill or drop it."
            )
        row_lines = np.arange(matrix.shape[0]) if lines is None else lines
        codes = _codes("lines", row_lines, None, matrix.shape[0], lowest=0)
        named = (("features", matrix.shape[1]),) if parts is None else parts
        names = [name for name, _ in named]
        taken = [name for name in names if name in RESERVED or names.count(name) > 1]
        if taken:
            raise DataError(f"A part of the features is called {taken[0]}, which is taken; rename that column.")
        if sum(width for _, width in named) != matrix.shape[1]:
            raise DataError(
                f"The parts {dict(named)} do not add up to {matrix.shape[1]} feature columns; give each column a part."
            )
        return cls(
            features=matrix,
            lines=codes,
            clusters=_codes("clusters", clusters, len(codes), n_clusters),
            groups=_codes("groups", groups, len(codes), n_groups),
            n_clusters=n_clusters,
            n_groups=n_groups,
            parts=tuple((name, width) for name, width in named if width),
        )

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def width(self) -> int:
        """The number of columns of the shared copy and all cluster copies."""
        return self.n_features * (1 + self.n_clusters)

    def take(self, rows: Any) -> Self:
        """The design of some rows (an index array, mask or slice), with the same features."""
        return replace(self, lines=self.lines[rows], clusters=self.clusters[rows], groups=self.groups[rows])

    def expand(self, *, with_features: bool = True) -> Any:
        """The rows as an explicit CSR matrix (n_rows, 1 + width) in float64: meant for blocks of rows.

        Columns: the intercept, the shared copy, then the copies of cluster 0, 1, …; without features the intercept.
        """
        ones = sparse.csr_matrix(np.ones((len(self), 1)))
        if not with_features:
            return ones
        shared = self.features[self.lines].astype(np.float64)
        if not self.n_clusters:
            return sparse.hstack([ones, shared], format="csr")
        lengths = np.diff(shared.indptr)
        cluster = np.repeat(self.clusters, lengths)
        columns = shared.indices.astype(np.int64) + self.n_features * np.maximum(cluster, 0).astype(np.int64)
        copies = sparse.csr_matrix(
            (np.where(cluster >= 0, shared.data, 0.0), columns, shared.indptr.copy()),
            shape=(len(self), self.n_features * self.n_clusters),
        )
        copies.eliminate_zeros()
        return sparse.hstack([ones, shared, copies], format="csr")


def check_counts(impressions: ArrayLike, clicks: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Impressions and clicks as int32 arrays (n_rows,), or a DataError naming the first row that breaks a rule.

    Rows (counted from 0) need whole finite numbers with 0 ≤ clicks ≤ impressions < 2³¹; zero impressions are allowed.
    """
    columns = {}
    for name, values in (("impressions", impressions), ("clicks", clicks)):
        array = np.asarray(values)
        if array.ndim != 1 or array.dtype.kind not in "iufb":
            raise DataError(f"The {name} are a {array.ndim}-d {array.dtype} array; give one whole number a row.")
        for bad, rule in (
            (~np.isfinite(array), "a number is missing, so fill or drop the row"),
            (array < 0, "counts cannot be negative, so correct or drop the row"),
            (array >= 2**31, "counts must stay below 2147483648, so aggregate less"),
            (array != np.floor(array), "counts must be whole numbers, so correct or drop the row"),
        ):
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise DataError(f"Row {row} has {array[row]} {name}; {rule}.")
        columns[name] = array.astype(np.int32)
    if len(columns["impressions"]) != len(columns["clicks"]):
        raise DataError(
            f"There are {len(columns['impressions'])} impression counts but {len(columns['clicks'])} click counts; "
            "give one of each for every row."
        )
    over = columns["clicks"] > columns["impressions"]
    if over.any():
        row = int(np.flatnonzero(over)[0])
        raise DataError(
            f"Row {row} has {columns['clicks'][row]} clicks on {columns['impressions'][row]} impressions; "
            "clicks cannot exceed impressions, so correct or drop the row."
        )
    return columns["impressions"], columns["clicks"]


def _codes(name: str, values: ArrayLike | None, n_rows: int | None, n_codes: int, lowest: int = UNKNOWN) -> Codes:
    if values is None:
        return np.full(n_rows or 0, UNKNOWN, np.int32)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (n_rows is not None and len(array) != n_rows):
        raise DataError(f"The {name} are {array.dtype} of shape {array.shape}; give one integer code a row.")
    bad = (array < lowest) | (array >= n_codes)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(f"Row {row} has {name} code {array[row]}; codes lie in {lowest}..{n_codes - 1}.")
    return array.astype(np.int32)
