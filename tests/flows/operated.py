"""The servers of `predilect up` in a home and at ports of their own, and short ways to ask them."""

import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from predilect.tasks.processes import marked

ROOT = Path(__file__).resolve().parents[2]
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
T = TypeVar("T")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(what: str, seconds: float, ready: Callable[[], T]) -> T:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = ready()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {seconds} s")


class Operated:
    """A home, the environment of commands in it, and the servers' addresses.

    plan: a file that makes the next flow run kill somebody on its way; see `crashing/`.
    """

    def __init__(self, home: Path, **extra: str) -> None:
        theirs = ("PREFECT", "MLFLOW", "PREDILECT")
        plain = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
        ports = {"PREDILECT_PREFECT_PORT": str(free_port()), "PREDILECT_MLFLOW_PORT": str(free_port())}
        ports["PREDILECT_RATINGS_PORT"] = str(free_port())
        data = {name: value for name, value in os.environ.items() if name == "PREDILECT_DATA_DIR"}
        self.plan = home / "plan.json"
        path = [str(Path(__file__).with_name("crashing")), *filter(None, [os.environ.get("PYTHONPATH")])]
        crashing = {"CRASH_PLAN": str(self.plan), "PYTHONPATH": os.pathsep.join(path)}
        self.env = {**plain, **data, **ports, **crashing, "PREDILECT_HOME": str(home), **extra}
        self.home = home
        self.credentials: str | None = None
        self.prefect = f"http://127.0.0.1:{ports['PREDILECT_PREFECT_PORT']}"
        self.ratings = f"http://127.0.0.1:{ports['PREDILECT_RATINGS_PORT']}"
        self.mlflow = f"http://127.0.0.1:{ports['PREDILECT_MLFLOW_PORT']}"

    def predilect(self, *words: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command; with `ok` it must end well."""
        command = [str(Path(sys.executable).with_name("predilect")), *words]
        ran = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=400, check=False)
        if ok:
            assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """What Prefect's API answers."""
        data = None if body is None else json.dumps(body).encode()
        head = {"Content-Type": "application/json"}
        if self.credentials:
            head["Authorization"] = f"Basic {base64.b64encode(self.credentials.encode()).decode()}"
        request = urllib.request.Request(f"{self.prefect}/api{path}", data, head, method=method)
        for last in (False, False, False, False, True):
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.loads(answer.read() or "null")  # changes are answered by nothing
            except urllib.error.HTTPError as error:
                if error.code != 503 or last:  # busy with its database: to be asked again, as Prefect's client does
                    raise
                time.sleep(2)

    def forget_champion(self, model: str) -> None:
        """Take a registered model away, which another file of tests may have left."""
        body, head = json.dumps({"name": model}).encode(), {"Content-Type": "application/json"}
        url = f"{self.mlflow}/api/2.0/mlflow/registered-models/delete"
        try:
            urllib.request.urlopen(urllib.request.Request(url, body, head, method="DELETE"), timeout=30).close()
        except urllib.error.HTTPError as error:
            if error.code != 404:  # there is none
                raise

    def deployment(self, name: str) -> dict[str, Any]:
        """The deployment of that name, of whichever flow."""
        (found,) = self.ask("/deployments/filter", {"deployments": {"name": {"any_": [name]}}})
        answer: dict[str, Any] = found
        return answer

    def trigger(self, name: str, parameters: dict[str, Any]) -> str:
        """The id of a new run of a deployment."""
        body = {"parameters": {"parameters": parameters}}
        run: str = self.ask(f"/deployments/{self.deployment(name)['id']}/create_flow_run", body)["id"]
        return run

    def state(self, run: str) -> str:
        """The type of a flow run's state."""
        found: str = self.ask(f"/flow_runs/{run}")["state"]["type"]
        return found

    def ended(self, run: str, seconds: float = 240) -> str:
        """The type of the state in which a flow run has ended."""
        return until("the run", seconds, lambda: (state := self.state(run)) in ENDED and state)  # type: ignore[return-value]

    def pids(self) -> dict[str, int]:
        """The processes of the services."""
        return {each["name"]: each["pid"] for each in self.status()}

    def status(self) -> list[dict[str, Any]]:
        """What `predilect status --json` prints."""
        found: list[dict[str, Any]] = json.loads(self.predilect("status", "--json", ok=False).stdout)
        return found

    def processes(self) -> list[int]:
        """Every process that bears the mark of this home's services."""
        return [process.pid for process in marked(self.home / "state" / "services")]
