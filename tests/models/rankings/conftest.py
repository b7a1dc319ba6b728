"""BLAS on one thread, as the estimators have it: spinning threads make small problems slow on a busy machine."""

from collections.abc import Iterator

import pytest

from predilect.models.compiled import threads


@pytest.fixture(autouse=True)
def _one_blas_thread() -> Iterator[None]:
    with threads(1):
        yield
