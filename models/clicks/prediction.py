"""What a model says of a row: normals of ζ and η."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """ζ ~ N(zeta, zeta_sd²) and η ~ N(eta, eta_sd²) of every row, independent (paper eq. 5); all (n_rows,).

    The click probability is θ ~ Beta(e^(ζ+η), e^η): σ(ζ) is expected, a larger η means less variability. The m- models
    have zero standard deviations; the log models have η = 300, at which θ does not vary.
    """

    zeta: Array
    zeta_sd: Array
    eta: Array
    eta_sd: Array

    def __len__(self) -> int:
        return len(self.zeta)

    def take(self, rows: Any) -> "Prediction":
        """Some of the rows."""
        return Prediction(self.zeta[rows], self.zeta_sd[rows], self.eta[rows], self.eta_sd[rows])
