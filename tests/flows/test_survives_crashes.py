"""Retraining through the deployment, with somebody killed at every stage: nothing stays open, is lost, or is promoted
by accident, and the next run ends where an undisturbed one does.

In the gate a few points; `PREDILECT_SLOW=1` runs all of them for every victim and prints what it found.
"""

import os
from collections.abc import Iterable

import pytest
from crashes import POINTS, SERVICES, Crashes, Found
from operated import Operated

SLOW = bool(os.environ.get("PREDILECT_SLOW"))
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(7200 if SLOW else 600)]
# Points for services: one a stage.
STAGES = (
    "files found", "run opened", "ingesting", "splitting", "searching", "fitting", "evaluating", "candidate sent",
    "model sent", "results sent", "registering", "comparing", "moving", "remembering",
)  # fmt: skip


FEW = ("searching", "fitting", "model sent", "version made", "moving", "promoted")
needs_time = pytest.mark.skipif(not SLOW, reason="slow: set PREDILECT_SLOW=1 for every victim at every point")


@pytest.fixture(scope="module")
def crashes(operated: Operated) -> Crashes:
    return Crashes(operated, compare=SLOW)


def _holds(victim: str, deaths: Iterable[Found], state: str) -> None:
    faults = []
    for found in deaths:
        there = found.faults() if found.state == state else [*found.faults(), f"the run is {found.state}"]
        print(f"{found.at:15} {victim:8} {found.state:10} {found.seconds:6.1f} s  {', '.join(there) or 'no fault'}")
        faults += [f"{victim} at {found.at}: {fault}" for fault in there]
    assert not faults


def test_flow_dies_once_its_version_is_made(crashes: Crashes) -> None:
    """The run after it has registered no second version and promoted the first."""
    _holds("flow", [crashes.first], "CRASHED")


def test_tracking_server_dies_where_it_is_needed(crashes: Crashes) -> None:
    _holds("mlflow", crashes.service_dies(STAGES if SLOW else ["registering"], "mlflow"), "COMPLETED")


@needs_time
@pytest.mark.parametrize("victim", [name for name in SERVICES if name != "mlflow"])
def test_service_dies(crashes: Crashes, victim: str) -> None:
    _holds(victim, crashes.service_dies(STAGES, victim), "COMPLETED")


@needs_time
@pytest.mark.parametrize("victim", ["machine", "flow"])
def test_flow_dies_again_and_again(crashes: Crashes, victim: str) -> None:
    """The last run goes on from what those before it left, and promotes what an undisturbed one does, once."""
    before = len(crashes.versions())
    _holds(victim, crashes.flow_dies(POINTS if victim == "flow" else FEW, victim), "CRASHED")
    assert crashes.champion() == crashes.undisturbed
    assert len(crashes.versions()) == before + 1
