"""The Gram matrix of a tile against NumPy's product in double precision."""

import numpy as np
import pytest
from numpy.typing import DTypeLike

from predilect.models.ratings.gram import gram_matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wide", [8, 24, 40])
@pytest.mark.parametrize("n", [0, 1, 7, 256])
def test_gram_matrix_is_the_product(dtype: DTypeLike, wide: int, n: int) -> None:
    tile = np.random.default_rng(n).standard_normal((256, wide)).astype(dtype)
    gram = np.full((wide, wide), np.nan, dtype)
    gram_matrix(tile, n, gram)
    expected = tile[:n].T.astype(np.float64) @ tile[:n]
    np.testing.assert_allclose(gram, expected, rtol=0, atol=64 * np.finfo(dtype).eps * max(n, 1))
    np.testing.assert_array_equal(gram, gram.T)
