"""Retention on the Prefect server: old flow runs with their task runs, logs and artifacts, through the server's API."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Any

from predilect.tasks.parameters_housekeeping import HousekeepingParameters
from predilect.tasks.prefect_server import Json, PrefectServer
from predilect.tasks.settings import Settings

FAILED = ("FAILED", "CRASHED", "CANCELLED")
BATCH = 50  # flow runs that the server deletes in one call at most


def reached(settings: Settings) -> PrefectServer | None:
    """The Prefect server, where one is known and answers."""
    address = settings.addresses().get("prefect")
    # A flow run has its sign-in from its worker, not from the settings.
    server = address and PrefectServer(address, settings.credentials() or os.environ.get("PREFECT_API_AUTH_STRING"))
    return server if server and server.healthy() else None


def housekeep_flow_runs(
    server: PrefectServer, parameters: HousekeepingParameters, kept: Collection[str]
) -> list[dict[str, Any]]:
    """What goes (or would, in a dry run), as rows of the housekeeping's table.

    kept: ids of the flow runs whose run folder stays; they stay too. Raises PredilectError when the server refuses.
    """
    old = list(_old(server, parameters, kept))
    if not parameters.dry_run:
        _delete(server, [run["id"] for run, _, _ in old])
    return [
        {"kind": "flow run", "name": run["name"], "days": round(days, 1), "bytes": 0, "why": why}
        for run, days, why in old
    ]


def _old(
    server: PrefectServer, parameters: HousekeepingParameters, kept: Collection[str]
) -> Iterator[tuple[Json, float, str]]:
    """Ended flow runs to go, each with its age and the reason; the newest finished ones of each flow stay."""
    for states, most, keep in (("COMPLETED",), parameters.days, parameters.keep), (FAILED, parameters.failed_days, 0):
        among = f", not among the newest {keep}" if keep else ""
        newer: dict[str, int] = defaultdict(int)
        asked = {"flow_runs": {"state": {"type": {"any_": list(states)}}}, "sort": "END_TIME_DESC"}
        for run in server.pages("/flow_runs/filter", asked):
            newer[run["flow_id"]] += 1
            ended = datetime.fromisoformat(run["end_time"] or run["created"])
            days = (datetime.now(UTC) - ended).total_seconds() / 86_400
            if days > most and newer[run["flow_id"]] > keep and run["id"] not in kept:
                yield run, days, f"{run['state_type'].lower()}, older than {most} days{among}"


def _delete(server: PrefectServer, ids: list[str]) -> None:
    """The server takes the task runs and, soon after, the logs along, but leaves the artifacts."""
    for start in range(0, len(ids), BATCH):
        some = {"any_": ids[start : start + BATCH]}
        for artifact in list(server.pages("/artifacts/filter", {"artifacts": {"flow_run_id": some}})):
            server.ask(f"/artifacts/{artifact['id']}", method="DELETE")
        server.ask("/flow_runs/bulk_delete", {"flow_runs": {"id": some}, "limit": BATCH})
