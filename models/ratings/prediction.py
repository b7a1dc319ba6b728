"""What a ratings model says about a (user, item) pair."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Prediction(NamedTuple):
    """Mean and variance of the predicted rating, one a pair; the mean is not clipped to the scale.

    The variance is that of the rating, the noise included: 1/⟨θ⟩ + Var φ + Var ψ + V_pi.
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
