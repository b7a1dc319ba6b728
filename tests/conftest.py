"""Fixtures shared by all tests."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# What Prefect's temporary servers here do without, as those of the command line.
os.environ.setdefault("PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED", "false")


SERVERS = {"operated": "operated: Operated", "prefect": "prefect: None"}
"""Fixtures that start servers, which stay until a process has done its last test; and how a file asks for them."""


@cache
def _group(path: Path) -> str:
    """Files of one group are run by one process: those that use the same servers, so these are started once."""
    text = path.read_text(encoding="utf-8")
    return next((servers for servers, asked in SERVERS.items() if asked in text), str(path))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The README's commands take longest and come first, then the servers' tests, then files of other long tests, then
    files of many: so all processes end together."""
    n_tests = Counter(_group(item.path) for item in items)
    long = {item.path for item in items if item.get_closest_marker("e2e")}

    def order(item: pytest.Item) -> tuple[bool, int, bool, int, str]:
        group = _group(item.path)
        servers = [*SERVERS, group].index(group)
        return (
            item.path.name != "test_docs.py",
            servers,
            servers == len(SERVERS) and item.path not in long,
            -n_tests[group],
            group,
        )

    items.sort(key=order)


class ByServers(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a process one group after the other, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return _group(self.config.rootpath / nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServers:
    """For `pytest --numprocesses`."""
    return ByServers(config, log)


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
