"""One side's posterior: every user's, or every item's, factors and offset."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from predilect.models.ratings.kernels import width


@dataclass(frozen=True)
class Prior:
    """The prior of one side, the same for all its rows: independent Gaussians, the offset's last."""

    precisions: NDArray[np.float64]
    """(K+1,): α_1 … α_K and κ."""
    means: NDArray[np.float64]
    """(K+1,): zeros in the paper, and μ."""


@dataclass
class Side:
    """The posterior of all rows of one side, in the kernels' table, and their prior.

    The table has a row more than there are users (or items): the last stands for whoever is unknown and holds the
    prior, as do the rows without ratings.
    """

    table: NDArray[Any]
    """(n_rows + 1, 2W): see `kernels`."""
    prior: Prior
    row_means: NDArray[np.float64] | None = None
    """(n_rows, K+1): each row's prior mean while fitting with features; None: `prior.means` for all."""
    leverage: NDArray[np.float64] | None = None
    """(n_rows, K+1): how much each row's features follow its own factors (see `side_prior`); None: not at all."""
    covariances: NDArray[Any] | None = None
    """(n_rows + 1, K, K): of each row's factors, where they are not independent; their diagonals are in `table` too."""
    n_first: int = 0
    """Factors of the first of two blocks that are independent of each other, where there are covariances."""

    @classmethod
    def at_prior(cls, n_rows: int, prior: Prior, dtype: DTypeLike = np.float32) -> "Side":
        """Every row as if it had no ratings."""
        n_factors = len(prior.means) - 1
        side = cls(_aligned_zeros(n_rows + 1, 2 * width(n_factors), np.dtype(dtype)), prior)
        side.table[:, n_factors] = 1
        side.reset(np.arange(n_rows))
        return side

    def reset(self, rows: NDArray[np.integer[Any]]) -> None:
        """Set `rows`, and the row of the unknown, to the prior."""
        own = np.append(np.arange(self.n_factors), self.n_factors + 1)
        rows = np.append(rows, -1)
        self.table[np.ix_(rows, own)] = self.prior.means
        self.table[np.ix_(rows, own + self._half)] = 1 / self.prior.precisions
        if self.covariances is not None:
            self.covariances[rows] = np.diag(1 / self.prior.precisions[:-1])

    def place(self, rows: NDArray[np.integer[Any]], means: NDArray[Any], variances: NDArray[Any]) -> None:
        """Set some rows' (n, K+1) means and variances: those that features predict."""
        own = np.append(np.arange(self.n_factors), self.n_factors + 1)
        self.table[np.ix_(rows, own)] = means
        self.table[np.ix_(rows, own + self._half)] = variances
        if self.covariances is not None:
            self.covariances[rows] = variances[:, :-1, None] * np.eye(self.n_factors)

    def correlate(self, n_first: int) -> None:
        """Let the factors be correlated from now on, the first `n_first` among themselves and the others."""
        diagonals = self.table[:, self._half : self._half + self.n_factors]
        self.covariances = np.ascontiguousarray(diagonals[:, :, None] * np.eye(self.n_factors, dtype=diagonals.dtype))
        self.n_first = n_first

    @property
    def blocks(self) -> NDArray[np.int64]:
        """(3,): bounds of the two blocks."""
        return np.array([0, self.n_first, self.n_factors])

    def row_priors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Prior means and leverage as the kernels take them: (n_rows, K+1), or (1, K+1) for all rows alike."""
        if self.row_means is None or self.leverage is None:
            return self.prior.means[None], np.zeros((1, self.n_factors + 1))
        return self.row_means, self.leverage

    def to_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Arrays for `artifact.save`, without the table's padding."""
        more = {} if self.covariances is None else {f"{name}_covariances": self.covariances}
        return more | {
            f"{name}_prior_precisions": self.prior.precisions,
            f"{name}_prior_means": self.prior.means,
            f"{name}_means": self.means,
            f"{name}_variances": self.variances,
            f"{name}_offsets": self.offsets,
            f"{name}_offset_variances": self.offset_variances,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> "Side":
        """The inverse of `to_arrays`."""
        prior = Prior(arrays[f"{name}_prior_precisions"], arrays[f"{name}_prior_means"])
        side = cls.at_prior(len(arrays[f"{name}_means"]), prior, arrays[f"{name}_means"].dtype)
        side.means[:] = arrays[f"{name}_means"]
        side.variances[:] = arrays[f"{name}_variances"]
        side.offsets[:] = arrays[f"{name}_offsets"]
        side.offset_variances[:] = arrays[f"{name}_offset_variances"]
        side.covariances = arrays.get(f"{name}_covariances")
        return side

    @property
    def n_rows(self) -> int:
        """Known users or items."""
        return len(self.table) - 1

    @property
    def n_factors(self) -> int:
        """K."""
        return len(self.prior.means) - 1

    @property
    def means(self) -> NDArray[Any]:
        """(n_rows, K) view: ⟨A⟩."""
        return self.table[:-1, : self.n_factors]

    @property
    def variances(self) -> NDArray[Any]:
        """(n_rows, K) view: Var A."""
        return self.table[:-1, self._half : self._half + self.n_factors]

    @property
    def offsets(self) -> NDArray[Any]:
        """(n_rows,) view: ⟨φ⟩."""
        return self.table[:-1, self.n_factors + 1]

    @property
    def offset_variances(self) -> NDArray[Any]:
        """(n_rows,) view: Var φ."""
        return self.table[:-1, self._half + self.n_factors + 1]

    @property
    def _half(self) -> int:
        half: int = self.table.shape[1] // 2
        return half


def _aligned_zeros(n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros from the start of a cache line on, so that a record lies in as few lines as it can."""
    line, n_bytes = 64, n_rows * n_columns * dtype.itemsize
    room = np.zeros(n_bytes + line, np.uint8)
    start = -room.ctypes.data % line
    return room[start : start + n_bytes].view(dtype).reshape(n_rows, n_columns)
