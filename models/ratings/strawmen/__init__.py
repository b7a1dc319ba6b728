"""The straw men of Langseth and Nielsen (2015), section 4.3: item-based neighbours, and SVD by gradient descent."""

from predilect.models.ratings.strawmen.neighbours import Neighbours
from predilect.models.ratings.strawmen.svd import Svd

__all__ = ["Neighbours", "Svd"]
