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


SERVERS = ("operated", "prefect")
"""Fixtures that start servers, which stay until a process has done its last test."""


@pytest.hookimpl(wrapper=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Which process runs what, and when.

    A file is run by one process, and all files that use the same servers by one, so these are started once. The
    README's commands take longest and come first, then the servers' tests, then files of other long tests, then files
    of many: so all processes end together.
    """
    group = {item.path: str(item.path) for item in items}
    for servers in reversed(SERVERS):
        group |= {item.path: servers for item in items if servers in getattr(item, "fixturenames", ())}
    n_tests = Counter(group[item.path] for item in items)
    long = {item.path for item in items if item.get_closest_marker("e2e")}

    def order(item: pytest.Item) -> tuple[bool, int, bool, int, str]:
        name = group[item.path]
        servers = SERVERS.index(name) if name in SERVERS else len(SERVERS)
        return item.path.name != "test_docs.py", servers, item.path not in long, -n_tests[name], name

    items.sort(key=order)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group[item.path]))
    yield


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
