"""Have the chains forgotten where they started, and how many independent draws are theirs worth?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Convergence:
    """How the chains mixed."""

    noise: NDArray[np.float64]
    """(n_chains, n_sweeps): θ after each sweep that counts."""
    rhat: NDArray[np.float64]
    """(W,): R̂ of the expected ratings of a sample of training pairs."""
    size: NDArray[np.float64]
    """(W,): their effective sample sizes."""

    @property
    def noise_rhat(self) -> float:
        """R̂ of θ."""
        return float(split_rhat(self.noise))

    @property
    def noise_size(self) -> float:
        """Effective sample size of θ."""
        return float(effective_size(self.noise))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays for `artifact.save`."""
        return {"chain_noise": self.noise, "watched_rhat": self.rhat, "watched_size": self.size}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `to_arrays`."""
        return cls(arrays["chain_noise"], arrays["watched_rhat"], arrays["watched_size"])


def split_rhat(traces: NDArray[Any]) -> NDArray[np.float64]:
    """R̂ of each quantity from (n_chains, n_sweeps, …) traces, each chain split in two (Gelman et al., BDA3, §11.4).

    Near 1 when the halves agree; 1.01 is a common limit. NaN where nothing moved.
    """
    halves = _halves(traces)
    n = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = n * halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rhat: NDArray[np.float64] = np.sqrt(((n - 1) / n * within + between / n) / within)
    return rhat


def effective_size(traces: NDArray[Any]) -> NDArray[np.float64]:
    """Effective sample size of each quantity from (n_chains, n_sweeps, …) traces.

    Autocorrelations over all half-chains, summed up to Geyer's initial monotone sequence (Vehtari et al., "Rank-
    normalization, folding, and localization", 2021, eq. 10). NaN where nothing moved.
    """
    halves = _halves(traces)
    m, n = halves.shape[:2]
    flat = halves.reshape(m, n, -1)
    centred = flat - flat.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n] / n
    within = covariance[:, 0].mean(axis=0) * n / (n - 1)
    total = (n - 1) / n * within + flat.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = 1 - (within - covariance.mean(axis=0) * n / (n - 1)) / total
    pairs = correlation[: n - n % 2].reshape(n // 2, 2, -1).sum(axis=1)
    # The sum of two neighbours is positive and falls in theory: from where it does not, it is noise.
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time = np.maximum(2 * monotone.sum(axis=0) - 1, 1 / np.log10(m * n))
    size: NDArray[np.float64] = np.where(np.isnan(pairs[0]), np.nan, m * n / time).reshape(halves.shape[2:])
    return size


def _halves(traces: NDArray[Any]) -> NDArray[np.float64]:
    n = traces.shape[1] // 2
    return np.concatenate([traces[:, :n], traces[:, -n:]]).astype(np.float64)
