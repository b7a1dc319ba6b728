"""What a Prefect server must hold for Predilect: work pool, deployments, limits, automation; and runs put right.

Everything goes through the server's own API, so this file needs no Prefect in this process.
"""

import hashlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from predilect import __version__
from predilect.models.errors import PredilectError
from predilect.tasks.runs import read_json, write_json

POOL = "predilect"
HERE = Path(__file__).resolve().parents[1]
DEPLOYMENTS = HERE / "infra" / "prefect.yaml"
ZOMBIES = "Crash flow runs without a heartbeat"
HEARTBEAT, SILENCE = 30, 90  # seconds between heartbeats; seconds without one after which a run is called crashed
PAUSES = (0.5, 1, 2, 4, 8, 8, 8)  # seconds between attempts
OPEN = ("RUNNING", "PENDING", "CANCELLING")
Json = dict[str, Any]


class PrefectServer:
    """A Prefect server's API."""

    def __init__(self, address: str, credentials: str | None = None) -> None:
        user, _, password = (credentials or "").partition(":")
        auth = httpx.BasicAuth(user, password) if credentials else None
        self._client = httpx.Client(base_url=f"{address}/api", auth=auth, timeout=30, trust_env=False)
        self.address = address

    def ask(self, path: str, body: Any = None, method: str = "") -> Any:
        """What the API answers; PredilectError, one sentence, when it refuses, or is away or busy for long."""
        for pause in (*PAUSES, None):
            try:
                answer = self._client.request(method or ("GET" if body is None else "POST"), path, json=body)
            except httpx.HTTPError as error:
                if pause is None:
                    raise PredilectError(f"The Prefect server {self.address} does not answer ({error}).") from error
            else:
                if answer.status_code != 503 or pause is None:  # a database locked for the moment is 503
                    break
            time.sleep(pause)
        if answer.status_code >= 400:
            raise PredilectError(f"The Prefect server refused {path} ({answer.status_code}): {answer.text[:300]}")
        return answer.json() if answer.content else None

    def healthy(self) -> bool:
        """Whether it answers."""
        try:
            return bool(self._client.get("/health", timeout=5).status_code == 200)
        except httpx.HTTPError:
            return False

    def pages(self, path: str, body: Mapping[str, Any], size: int = 200) -> Iterator[Json]:
        """Everything that a filter finds."""
        offset = 0
        while True:
            found: list[Json] = self.ask(path, {**body, "limit": size, "offset": offset})
            yield from found
            if len(found) < size:
                return
            offset += size


def register(server: PrefectServer, flow_runs: int, env: Mapping[str, str], folder: Path) -> list[str]:
    """Make the work pool, the deployments and the automation what they should be; the deployments' names.

    flow_runs: that the pool lets run at the same time. env: of the process that reads the flows. folder: remembers
    what was registered, so that a second time is quick and leaves schedules paused by hand alone.
    """
    _pool(server, flow_runs)
    _automation(server)
    names = [deployment["name"] for deployment in yaml.safe_load(_file().read_text(encoding="utf-8"))["deployments"]]
    known = {found["name"]: found for found in server.pages("/deployments/filter", {})}
    digest, memory = _digest(), folder / "deployments.json"
    if not (set(names) <= set(known) and memory.is_file() and read_json(memory) == digest):
        command = ["--no-prompt", "deploy", "--prefect-file", str(DEPLOYMENTS), "--all"]
        ran = subprocess.run(
            [sys.executable, "-m", "prefect", *command],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            said = (ran.stderr.strip() or ran.stdout.strip() or "no reason given").splitlines()[-1]
            raise PredilectError(f"The deployments of {DEPLOYMENTS.name} cannot be registered: {said}")
        for found in server.pages("/deployments/filter", {}):
            if found["name"] in names:
                _forbid_unknown(server, found)
        write_json(memory, digest)
    return names


def _file() -> Path:
    if not DEPLOYMENTS.is_file():
        raise PredilectError(f"{DEPLOYMENTS} is missing; install Predilect again.")
    return DEPLOYMENTS


def _digest() -> str:
    """Of everything that decides the deployments: their file, and the code that makes their forms."""
    made = hashlib.sha256(__version__.encode())
    for path in (DEPLOYMENTS, *sorted((HERE / "flows").glob("*.py")), *sorted((HERE / "tasks").glob("parameters*.py"))):
        made.update(path.read_bytes())
    return made.hexdigest()


def _forbid_unknown(server: PrefectServer, deployment: Json) -> None:
    """Let the server refuse a parameter that the flow does not have; it would crash the run later."""
    schema = {**deployment["parameter_openapi_schema"], "additionalProperties": False}
    server.ask(f"/deployments/{deployment['id']}", {"parameter_openapi_schema": schema}, "PATCH")


def _pool(server: PrefectServer, flow_runs: int) -> None:
    found = list(server.pages("/work_pools/filter", {"work_pools": {"name": {"any_": [POOL]}}}))
    if found:
        if found[0]["concurrency_limit"] != flow_runs:
            server.ask(f"/work_pools/{POOL}", {"concurrency_limit": flow_runs}, "PATCH")
        return
    server.ask("/work_pools/", {"name": POOL, "type": "process", "concurrency_limit": flow_runs})


def _automation(server: PrefectServer) -> None:
    ended = ("Completed", "Failed", "Cancelled", "Crashed")
    wanted = {
        "name": ZOMBIES,
        "description": f"A flow run that sends no heartbeat for {SILENCE} seconds has lost its process.",
        "enabled": True,
        "trigger": {
            "type": "event",
            "posture": "Proactive",
            "match": {"prefect.resource.id": ["prefect.flow-run.*"]},
            "for_each": ["prefect.resource.id"],
            "after": ["prefect.flow-run.heartbeat"],
            "expect": ["prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in ended)],
            "threshold": 1,
            "within": SILENCE,
        },
        "actions": [
            {
                "type": "change-flow-run-state",
                "state": "CRASHED",
                "message": f"No heartbeat for {SILENCE} seconds: the process of this run is gone.",
            }
        ],
    }
    same = list(server.pages("/automations/filter", {"automations": {"name": {"any_": [ZOMBIES]}}}))
    if same:
        return
    server.ask("/automations/", wanted)


def crash_orphans(server: PrefectServer, alive: set[str], dead: set[str]) -> list[str]:
    """Mark flow runs CRASHED whose process on this machine is gone; their names.

    alive: ids of flow runs that a process is at work on. dead: ids of runs known to have ended, such as those of the
    command line. Runs of other machines' workers are left to the automation.
    """
    crashed = []
    machine = socket.gethostname()
    for run in list(server.pages("/flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": list(OPEN)}}}})):
        here = str(run.get("infrastructure_pid") or "").partition(":")[0] == machine or run["id"] in dead
        # Given to a worker, but its process had not started: only our own worker could have taken it.
        starting = run["state_type"] == "PENDING" and not run.get("infrastructure_pid") and _ours(run)
        if run["id"] in alive or not (here or starting):
            continue
        state = {"type": "CRASHED", "name": "Crashed", "message": "The process of this run ended without saying so."}
        server.ask(f"/flow_runs/{run['id']}/set_state", {"state": state, "force": True})
        crashed.append(run["name"])
    return crashed


def _ours(run: Json) -> bool:
    return bool(run.get("work_pool_name") == POOL)


def worker_name() -> str:
    """The worker's name, one a machine."""
    return f"predilect-{socket.gethostname()}"


def worker_online(server: PrefectServer, since: str) -> bool:
    """Whether this machine's worker has reported to the server after the time `since` (ISO 8601, UTC)."""
    found = server.ask(f"/work_pools/{POOL}/workers/filter", {})
    return any(
        worker["name"] == worker_name() and worker["status"] == "ONLINE" and worker["last_heartbeat_time"] >= since
        for worker in found
    )
