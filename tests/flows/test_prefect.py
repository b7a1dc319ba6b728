"""From Prefect: a server and a worker run the deployment, the form shows every parameter, bad values are refused."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.settings import Settings

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[2]
PREFECT = str(Path(sys.executable).with_name("prefect"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _until(what: str, seconds: float, ready: Any) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = ready()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {seconds} s")


class Server:
    """A Prefect server and worker with a home of their own."""

    def __init__(self, home: Path) -> None:
        self.address = f"http://127.0.0.1:{_free_port()}"
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))}
        self.env = plain | {
            "PREDILECT_HOME": str(home),
            "PREFECT_HOME": str(home / "state" / "prefect"),
            "PREFECT_API_URL": f"{self.address}/api",
            "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "true",
        }
        (home / "state" / "prefect").mkdir(parents=True)
        self.home = home
        self._log = open(home / "processes.log", "w")  # noqa: SIM115
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> None:
        self._processes.append(
            subprocess.Popen(
                [PREFECT, *words], env=self.env, cwd=ROOT, stdout=self._log, stderr=self._log, start_new_session=True
            )
        )

    def run(self, *words: str) -> None:
        ran = subprocess.run([PREFECT, *words], env=self.env, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def ask(self, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(f"{self.address}/api{path}", headers={"Content-Type": "application/json"})
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=30) as answer:
            return json.load(answer)

    def healthy(self) -> bool:
        try:
            return bool(self.ask("/health"))
        except OSError:
            return False

    def stop(self) -> None:
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._log.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The commands of infra/README.md, at ports and in a home of their own."""
    started = Server(tmp_path_factory.mktemp("prefect") / "home")
    try:
        port = started.address.rpartition(":")[2]
        block = re.findall(r"```sh\n(.*?)```", (ROOT / "infra" / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]
        commands = [line.replace("4200", port).split() for line in block.splitlines() if line.startswith("prefect ")]
        for _, *words in commands:
            if words[1] != "start":
                started.run(*words)
                continue
            started.start(*words)
            if words[0] == "server":
                _until("the server", 120, started.healthy)
        assert [words[1] for words in commands].count("server") == 1
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def deployment(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.ask("/deployments/name/train-ratings/train-ratings")
    return found


def test_form_explains_every_parameter(deployment: dict[str, Any]) -> None:
    schema = deployment["parameter_openapi_schema"]
    shown = schema["definitions"]["RatingsParameters"]["properties"]
    assert set(shown) == set(RatingsParameters.model_fields)
    assert all(field["description"] and ("title" in field or "$ref" in field) for field in shown.values())
    assert schema["definitions"]["Search"]["enum"] == ["auto", "greedy", "none"]


def test_bad_values_are_refused_before_the_run(server: Server, deployment: dict[str, Any]) -> None:
    for bad in ({"data": "x", "tau": -1}, {"data": "x", "tua": 1}, {"data": "x", "search": "all"}, {}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.ask(f"/deployments/{deployment['id']}/create_flow_run", {"parameters": {"parameters": bad}})
        assert refused.value.code in (409, 422)


def test_triggered_run_finishes_and_is_linked_both_ways(
    server: Server, deployment: dict[str, Any], ratings_csv: Path
) -> None:
    parameters = {"data": str(ratings_csv), "name": "from-prefect", "resamples": 100, "restarts": 1}
    run = server.ask(f"/deployments/{deployment['id']}/create_flow_run", {"parameters": {"parameters": parameters}})

    def ended() -> Any:
        state = server.ask(f"/flow_runs/{run['id']}")["state"]
        return state if state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

    state = _until("the run", 240, ended)
    assert state["type"] == "COMPLETED", state
    artifacts = server.ask("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}})
    kinds = {artifact["key"]: artifact for artifact in artifacts}
    assert kinds["progress"]["data"] == 100.0
    assert "MAE" in kinds["results"]["data"]
    settings = Settings(home=server.home, tracking_uri=f"sqlite:///{server.home / 'mlruns' / 'mlflow.db'}")
    from mlflow import MlflowClient

    client = MlflowClient(settings.mlflow_uri)
    (experiment,) = client.search_experiments(filter_string="name = 'predilect-ratings'")
    (tracked,) = client.search_runs([experiment.experiment_id])
    assert tracked.info.status == "FINISHED"
    assert tracked.data.tags["prefect.flow_run_id"] == run["id"]
    assert tracked.info.run_id in kinds["mlflow-run"]["data"]


def test_user_mistake_is_a_sentence_in_the_log(server: Server, deployment: dict[str, Any], tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("user,item,rating\na,b,3\na,b,4\n")
    run = server.ask(
        f"/deployments/{deployment['id']}/create_flow_run", {"parameters": {"parameters": {"data": str(bad)}}}
    )

    def ended() -> Any:
        state = server.ask(f"/flow_runs/{run['id']}")["state"]
        return state if state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

    state = _until("the run", 240, ended)
    assert state["type"] == "FAILED"
    logs = server.ask("/logs/filter", {"logs": {"flow_run_id": {"any_": [run["id"]]}}})
    said = "\n".join(entry["message"] for entry in logs)
    assert "bad.csv" in said
    assert "Traceback" not in said


def test_run_form_in_a_browser(server: Server, deployment: dict[str, Any], browser: Any, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1400})
    page.goto(f"{server.address}/deployments/deployment/{deployment['id']}/run")
    page.get_by_text("Structure search").first.wait_for(timeout=60_000)
    page.get_by_text("auto: one empirical-Bayes fit").first.wait_for()
    page.screenshot(path=os.environ.get("PREDILECT_SCREENSHOTS", str(tmp_path)) + "/run_form.png", full_page=True)
    page.close()
