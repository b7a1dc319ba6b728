"""The prior of one side as a regression of its factors on features: A = Xβ + noise, sampled.

Coordinate k of row p is A_pk = x_p·β_k + N(0, 1/α_k) with β_k ~ N(0, I/(α_k λ_k)), α_k and λ_k with Gamma priors. With
the constant as the only feature this is a shared, learned prior mean. Two forms of the same conditional:

- `EigenRegression`: XXᵀ = U diag(s) Uᵀ makes every coordinate r independent scalar problems, and α_k is drawn with β
  integrated out. An n × r matrix is held, so for some thousands of rows or of features.
- `GradientRegression`: β is the solution of (XᵀX + λ_k I) β_k = Xᵀ(A_k + e/√α_k) + √(λ_k/α_k) e' with standard normal e
  and e', by conjugate gradients (Simm et al., "Macau", 2017): O(nnz(X)·K) an iteration.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from predilect.models.compiled import Threads
from predilect.models.ratings.eigenbasis import EigenBasis

SHAPE, RATE = 1.0, 0.5
"""The Gamma priors of α_k and of λ_k; the figures of docs/performance.md are of this rate."""
MOST_EIGEN = 3000
"""Up to so many rows (or features, if fewer) the eigen form is used."""
CG_TOLERANCE, CG_ITERATIONS = 1e-5, 200


class Regression(ABC):
    """X for the rows that have ratings, and the present α and λ."""

    def __init__(self, features: csr_array, n_outputs: int) -> None:
        """features: (n, d). n_outputs: K+1, the offset last."""
        self.features = features
        self.alpha, self.lambda_ = np.ones(n_outputs), np.ones(n_outputs)

    @abstractmethod
    def draw(self, values: NDArray[np.float64], rng: np.random.Generator, pool: Threads) -> NDArray[np.float64]:
        """Draw α, β and λ given `values` (n, K+1); returns Xβ, the prior means (n, K+1)."""

    @abstractmethod
    def weights(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """(d, K+1): the β of the last draw."""

    def _gamma(self, n: int, squares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        drawn: NDArray[np.float64] = rng.gamma(SHAPE + n / 2, 1 / (RATE + squares / 2))
        return drawn


def regression(features: csr_array, n_outputs: int) -> Regression:
    """The form that suits the size."""
    form = EigenRegression if min(features.shape) <= MOST_EIGEN else GradientRegression
    return form(features, n_outputs)


class EigenRegression(Regression):
    """By the eigenvectors of XXᵀ."""

    def __init__(self, features: csr_array, n_outputs: int) -> None:
        super().__init__(features, n_outputs)
        self.basis = EigenBasis.of(features)
        self._drawn = np.zeros((len(self.basis.values), n_outputs))

    def draw(self, values: NDArray[np.float64], rng: np.random.Generator, pool: Threads) -> NDArray[np.float64]:
        n, r = self.basis.vectors.shape
        s = self.basis.values[:, None]
        seen = self.basis.project(values, pool)
        outside = np.sum(values**2, axis=0) - np.sum(seen**2, axis=0)
        shrunken = np.sum(seen**2 * (self.lambda_ / (s + self.lambda_)), axis=0)
        self.alpha = self._gamma(n, np.maximum(outside, 0) + shrunken, rng)
        keep = s / (s + self.lambda_)
        self._drawn = keep * seen + np.sqrt(keep / self.alpha) * rng.standard_normal(seen.shape)
        self.lambda_ = self._gamma(r, self.alpha * np.sum(self._drawn**2 / s, axis=0), rng)
        return self.basis.spread(self._drawn, pool)

    def weights(self, rng: np.random.Generator) -> NDArray[np.float64]:
        # Xβ is drawn already: what β has outside the rows' reach is its prior (Matheron's rule).
        free = rng.standard_normal((self.features.shape[1], len(self.alpha))) / np.sqrt(self.alpha * self.lambda_)
        missing = self._drawn - self.basis.vectors.T @ (self.features @ free)
        found: NDArray[np.float64] = free + self.features.T @ (
            self.basis.vectors @ (missing / self.basis.values[:, None])
        )
        return found


class GradientRegression(Regression):
    """By conjugate gradients with noise injected on the right-hand side."""

    def __init__(self, features: csr_array, n_outputs: int) -> None:
        super().__init__(features, n_outputs)
        self._transposed = features.T.tocsr()
        self._squares = np.asarray(features.multiply(features).sum(axis=0)).reshape(-1, 1)
        self._weights = np.zeros((features.shape[1], n_outputs))

    def draw(self, values: NDArray[np.float64], rng: np.random.Generator, pool: Threads) -> NDArray[np.float64]:
        n, d = self.features.shape
        noisy = values + rng.standard_normal(values.shape) / np.sqrt(self.alpha)
        right = self._transposed @ noisy
        right += np.sqrt(self.lambda_ / self.alpha) * rng.standard_normal(right.shape)
        self._weights = self._solve(right, self._weights)
        means: NDArray[np.float64] = self.features @ self._weights
        size = np.sum(self._weights**2, axis=0)
        self.alpha = self._gamma(n + d, np.sum((values - means) ** 2, axis=0) + self.lambda_ * size, rng)
        self.lambda_ = self._gamma(d, self.alpha * size, rng)
        return means

    def weights(self, rng: np.random.Generator) -> NDArray[np.float64]:
        return self._weights

    def _solve(self, right: NDArray[np.float64], start: NDArray[np.float64]) -> NDArray[np.float64]:
        """(XᵀX + λ_k)⁻¹ right_k for every k at once, preconditioned by the diagonal."""
        diagonal = self._squares + self.lambda_
        x = start.copy()
        residual = right - self._apply(x)
        z = residual / diagonal
        direction, rho = z.copy(), np.sum(residual * z, axis=0)
        goal = CG_TOLERANCE**2 * np.sum(right * right / diagonal, axis=0)
        for _ in range(CG_ITERATIONS):
            if np.all(rho <= goal):
                break
            applied = self._apply(direction)
            step = rho / np.maximum(np.sum(direction * applied, axis=0), np.finfo(float).tiny)
            x += step * direction
            residual -= step * applied
            z = residual / diagonal
            before, rho = rho, np.sum(residual * z, axis=0)
            direction = z + rho / np.maximum(before, np.finfo(float).tiny) * direction
        return x

    def _apply(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        applied: NDArray[np.float64] = self._transposed @ (self.features @ x) + self.lambda_ * x
        return applied
