"""What is known about users or items besides their ratings, as one sparse matrix a side."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from predilect.models.errors import DataError
from predilect.models.ratings.orders import Order

CONSTANT, RATED = "constant", "rated set"


@dataclass(frozen=True, eq=False)
class Features:
    """Features of every user (or item) of a model, by code."""

    matrix: csr_array
    """(n_rows, d): a row of zeros where nothing is known."""
    names: tuple[str, ...]
    """(d,): such as "genre: Comedy"."""
    groups: tuple[str, ...]
    """(d,): the column of the table that a feature comes from, such as "genre"."""
    unit: NDArray[np.float64]
    """(d,): the matrix's value that stands for one unit: having the genre, or one standard deviation."""

    def __post_init__(self) -> None:
        n_rows, d = self.matrix.shape
        if not len(self.names) == len(self.groups) == len(self.unit) == d:
            raise DataError(
                f"There are {d} features, {len(self.names)} names and {len(self.groups)} groups; give one of each."
            )
        if not np.isfinite(self.matrix.data).all():
            raise DataError(f"A feature of {n_rows} rows is not finite; leave out what is not known.")

    def of(self, rows: NDArray[np.integer[Any]]) -> "Features":
        """The features of some rows."""
        return Features(csr_array(self.matrix[rows]), self.names, self.groups, self.unit)


def design(order: Order, n_other: int, features: Features | None, rated_set: bool) -> Features:
    """Every row's features with the constant first, the rated set if wanted, then the given ones.

    The rated set of row p is 1/√n_p at each of the n_p rows of the other side that share a rating with it
    (Salakhutdinov & Mnih 2008, "constrained PMF"): only the ratings in `order`, the training part, say who rated what.
    n_other: rows of the other side. Columns: the constant, the n_other of the rated set if wanted, then the others.
    """
    n = order.n_rows
    parts, names, groups = [csr_array(np.ones((n, 1)))], [CONSTANT], [CONSTANT]
    if rated_set:
        counts = order.counts
        weight = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)
        parts.append(csr_array((weight, order.index, order.indptr), shape=(n, n_other)))
        names += [""] * n_other
        groups += [RATED] * n_other
    if features is not None:
        if features.matrix.shape[0] != n:
            raise DataError(f"The features have {features.matrix.shape[0]} rows, but there are {n} ids; give one each.")
        parts.append(features.matrix)
        names += features.names
        groups += features.groups
    units = np.ones(len(names))
    if features is not None:
        units[len(names) - len(features.names) :] = features.unit
    return Features(csr_array(hstack(parts, format="csr")), tuple(names), tuple(groups), units)
