"""Fixtures shared by all tests."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# What Prefect's temporary servers here do without, as those of the command line.
os.environ.setdefault("PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED", "false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The README's commands take longest and come first, then files of many tests: so all processes end together."""
    n_tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.name != "test_docs.py", -n_tests[item.path]))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real data sets; tests that need it skip when PREDILECT_DATA_DIR is not set."""
    folder = os.environ.get("PREDILECT_DATA_DIR")
    if not folder:
        pytest.skip("real data: set PREDILECT_DATA_DIR to the folder that holds it")
    return Path(folder)


@pytest.fixture(scope="module")  # no longer: while it is open, asyncio runs in this thread
def browser() -> "Iterator[Browser]":
    """A headless Chromium; tests that need it skip when none is installed."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        if os.environ.get("PREDILECT_REQUIRE_BROWSER"):
            pytest.fail("browser: no Chromium found, and PREDILECT_REQUIRE_BROWSER asks for one")
        pytest.skip("browser: no Chromium found; install one, such as by `apt-get install chromium`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()
