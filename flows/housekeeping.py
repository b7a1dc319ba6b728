"""The housekeeping flow: what is old goes, and a table says what."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact

from predilect.flows.wiring import as_task
from predilect.tasks.housekeeping import housekeep
from predilect.tasks.parameters_housekeeping import HousekeepingParameters
from predilect.tasks.settings import Settings

housekeep_task = as_task(housekeep, "housekeep", 6)


@flow(name="housekeeping", description="Take away runs, logs and quarantined rows that are old enough to go.")
def housekeeping(parameters: HousekeepingParameters) -> list[dict[str, Any]]:
    """Returns what went, or would go in a dry run."""
    gone = housekeep_task(Settings(), parameters)
    create_table_artifact(gone, key="housekeeping", description="Would go" if parameters.dry_run else "Gone")
    return gone
