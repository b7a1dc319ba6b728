"""The prior of one side as a regression on features, within the variational bound.

Coordinate k of all n rows together has the prior A_k ~ N(0, (I + XXᵀ/λ_k)/α_k): A_pk = x_p·β_k + noise with the weights
β_k ~ N(0, I/(α_k λ_k)) integrated out, so that no factor of q stands between the rows and what they share. With
XXᵀ = U diag(s) Uᵀ and H = U diag(s/(s + λ)) Uᵀ, the hat matrix, q(A) enters the bound by

    ½ Σ_j log α/(1 + s_j/λ) − ½ α [ Σ_p ⟨A_p²⟩ − ⟨Aᵀ H A⟩ ].

⟨AᵀHA⟩ is convex in the means, so above its tangent where they are: against that, every row has the prior mean
(H⟨A⟩)_p and the precision α, and rows can be updated one by one, in any order, without the bound ever falling. The
variances need no tangent: their prior precision is α(1 − H_pp), H_pp being the row's leverage. (With a factor q(β) of
its own, as is usual, both are tight and wrong together, and the fit gets worse as K grows.)
"""

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads
from predilect.models.ratings.eigenbasis import EigenBasis
from predilect.models.ratings.features import Features
from predilect.models.ratings.orders import Order
from predilect.models.ratings.posterior import Prior, Side

SHAPE, RATE = 1.0, 1.0
"""The Gamma priors of α_k and λ_k, maximised over."""
FIRST_LAMBDA = 10.0
"""λ at the start: the features explain little yet."""
MOST_ROWS = 3000
"""Up to so many rows (or features, if fewer) every eigenvector is used, beyond that the leading ones."""
LEADING = 512
PASSES = 5
"""Updates of α and λ a sweep."""


class FeatureBasis:
    """A side's features and their eigenvectors: what does not change during a fit."""

    def __init__(self, order: Order, features: Features, base: float) -> None:
        """features: the whole design, the constant first. base: where the offsets' prior is centred before it."""
        self.features, self.base = features, base
        self.rated, self.unrated = np.flatnonzero(order.counts), np.flatnonzero(order.counts == 0)
        self.matrix = features.of(self.rated).matrix
        small = min(self.matrix.shape) <= MOST_ROWS
        self.basis = EigenBasis.of(self.matrix) if small else EigenBasis.leading(self.matrix, LEADING)
        self.squares = EigenBasis(self.basis.vectors**2, self.basis.values)


class SidePrior:
    """α and λ of one side, and the rows' prior means and leverages that they give."""

    def __init__(
        self, basis: FeatureBasis, side: Side, pool: Threads, lambda_: NDArray[np.float64] | None = None
    ) -> None:
        """Begin with the side's prior precisions as α, and with λ as given."""
        self.basis, self.alpha = basis, side.prior.precisions.copy()
        self.lambda_ = np.full(len(self.alpha), FIRST_LAMBDA) if lambda_ is None else lambda_
        side.row_means = np.zeros((side.n_rows, len(self.alpha)))
        side.leverage = np.zeros((side.n_rows, len(self.alpha)))
        self.update(side, pool, learn=False)

    def update(self, side: Side, pool: Threads, learn: bool = True) -> float:
        """Maximise over α and λ, then move the tangent to the present means; returns the side's part of the bound."""
        basis = self.basis
        values, variances = self._moments(side)
        seen = basis.basis.project(values, pool)
        squares = seen**2 + basis.squares.project(variances, pool)
        outside = np.sum(values**2 + variances, axis=0) - np.sum(squares, axis=0)
        s, n = basis.basis.values[:, None], len(values)
        for _ in range(PASSES if learn else 0):
            keep = s / (s + self.lambda_)
            self.alpha = (SHAPE - 1 + n / 2) / (RATE + (outside + np.sum(squares * (1 - keep), axis=0)) / 2)
            # One step of EM: ⟨‖β‖²⟩ given A has the mean's square and its variance.
            size = np.sum((keep**2 * squares + keep / self.alpha) / s, axis=0)
            self.lambda_ = (SHAPE - 1 + len(s) / 2) / (RATE + self.alpha * size / 2)
        keep = s / (s + self.lambda_)
        means = basis.basis.spread(keep * seen, pool)
        means[:, -1] += basis.base
        assert side.row_means is not None
        assert side.leverage is not None
        side.row_means[basis.rated] = means
        side.leverage[basis.rated] = basis.squares.spread(keep, pool)
        self._weights = basis.matrix.T @ (basis.basis.vectors @ (keep * seen / s))
        side.prior = Prior(self.alpha, self._weights[0] + basis.base * (np.arange(len(self.alpha)) == side.n_factors))
        rest = self.alpha * (outside + np.sum(squares * (1 - keep), axis=0))
        parts = n * np.log(self.alpha) - np.sum(np.log1p(s / self.lambda_), axis=0) - rest + n
        hyper = (SHAPE - 1) * (np.log(self.alpha) + np.log(self.lambda_)) - RATE * (self.alpha + self.lambda_)
        return float(np.sum(parts) / 2 + np.sum(hyper))

    def finish(self, side: Side) -> None:
        """Set the rows without ratings to what their features predict."""
        basis = self.basis
        known = basis.features.of(basis.unrated).matrix
        means = known @ self._weights
        means[:, -1] += basis.base
        # The variance of x·β given A: what the rows with ratings did not settle of it.
        settled = (known @ (basis.matrix.T @ basis.basis.vectors)) ** 2 / basis.basis.values
        keep = basis.basis.values[:, None] / (basis.basis.values[:, None] + self.lambda_)
        size = np.asarray(known.multiply(known).sum(axis=1)).reshape(-1, 1)
        side.place(basis.unrated, means, (1 + np.maximum(size - settled @ keep, 0) / self.lambda_) / self.alpha)
        side.row_means = side.leverage = None

    @property
    def weights(self) -> NDArray[np.float64]:
        """(d, K+1): ⟨β⟩."""
        weights: NDArray[np.float64] = self._weights
        return weights

    def _moments(self, side: Side) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The rated rows' means, offsets about the base, and variances."""
        rated = self.basis.rated
        values = np.column_stack([side.means[rated], side.offsets[rated] - np.float64(self.basis.base)])
        variances = np.column_stack([side.variances[rated], side.offset_variances[rated]])
        return np.asarray(values, np.float64), np.asarray(variances, np.float64)
