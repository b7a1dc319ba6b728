"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets; tests that need it skip when PREDILECT_DATA_DIR is not set."""
    folder = os.environ.get("PREDILECT_DATA_DIR")
    if not folder:
        pytest.skip("real data: set PREDILECT_DATA_DIR to the folder that holds it")
    return Path(folder)
