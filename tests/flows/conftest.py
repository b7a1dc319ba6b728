"""A home of its own for the flows' tests, and one Prefect harness for all that run a flow in this process."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from operated import Operated

from predilect.tasks.settings import Settings, prepare_environment


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of an empty home; the environment points at it for the whole session."""
    folder = tmp_path_factory.mktemp("home")
    before = {name: os.environ.get(name) for name in ("PREDILECT_HOME", "PREFECT_HOME", "PREFECT_LOGGING_LEVEL")}
    os.environ["PREDILECT_HOME"] = str(folder)
    os.environ["PREFECT_HOME"] = str(folder / "state" / "prefect")
    os.environ["PREFECT_LOGGING_LEVEL"] = "CRITICAL"
    settings = Settings()
    prepare_environment(settings)
    yield settings
    for name, value in before.items():
        os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


@pytest.fixture(scope="session")
def prefect(home: Settings) -> Iterator[None]:
    """A Prefect server for this process only."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture(scope="session")
def ratings_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small table with structure in it: 120 people, 60 things, 3,000 distinct pairs, times."""
    rng = np.random.default_rng(3)
    pairs = rng.choice(120 * 60, 3000, replace=False)
    users, items = pairs // 60, pairs % 60
    taste, kind = rng.normal(size=(120, 2)), rng.normal(size=(60, 2))
    mean = 3 + (taste[users] * kind[items]).sum(1) + 0.4 * rng.normal(size=60)[items]
    stars = np.clip(np.rint(mean + 0.5 * rng.normal(size=3000)), 1, 5).astype(int)
    path = tmp_path_factory.mktemp("data") / "stars.csv"
    lines = [
        f"u{user},{item},{star},{1000 + k}"
        for k, (user, item, star) in enumerate(zip(users, items, stars, strict=True))
    ]
    path.write_text("user,item,rating,timestamp\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """Servers and worker, started by the commands of infra/README.md; at the end they go and leave nothing."""
    servers = Operated(tmp_path_factory.mktemp("operated"))
    page = (Path(__file__).resolve().parents[2] / "infra" / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^predilect [^#\n]*\b", page.split("```sh\n")[1].split("```")[0], re.MULTILINE)
    assert commands[0] == "predilect up"
    assert commands[-1] == "predilect down"
    try:
        for command in commands[:-1]:
            servers.predilect(*command.split()[1:])
        yield servers
    finally:
        servers.predilect("down")
    assert servers.processes() == []
