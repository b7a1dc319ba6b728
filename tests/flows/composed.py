"""infra/compose.yaml as a container engine reads it, and its services as plain processes on this machine."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from operated import ROOT, Operated, until

from predilect.tasks import processes

FILE, DOCKERFILE = ROOT / "infra" / "compose.yaml", ROOT / "infra" / "Dockerfile"
HOME = "/var/lib/predilect"  # in the image
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def compose(env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The file with its variables filled in; KeyError for one that is not in `env` and has no default."""
    given = env or {}

    def value(found: re.Match[str]) -> str:
        return given[found[1]] if found[2] is None else given.get(found[1]) or found[2]

    read: dict[str, Any] = yaml.safe_load(VARIABLE.sub(value, FILE.read_text(encoding="utf-8")))
    return read


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each with what follows it."""
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def starting_order(services: Mapping[str, Any]) -> list[str]:
    """The services that start by themselves, each after those it depends on."""
    left = {name: set(found.get("depends_on", {})) for name, found in services.items() if "profiles" not in found}
    order: list[str] = []
    while left:
        ready = [name for name, needs in left.items() if needs <= set(order)]
        assert ready, f"depends_on runs in a circle: {left}"
        order += ready
        left = {name: needs for name, needs in left.items() if name not in ready}
    return order


class Composed:
    """The services of the file as processes: what is another container's name or a mount there is a place here."""

    def __init__(self, folder: Path, postgres: str, secrets: Mapping[str, str]) -> None:
        """postgres: postgresql://USER@HOST:PORT/NAME. secrets: each by its name in the file."""
        self.folder, self._postgres = folder, postgres
        self.operated = Operated(folder / "home")
        self.file = compose(self.operated.env)
        self.services: dict[str, Any] = self.file["services"]
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "secrets").mkdir()
        for name, secret in secrets.items():
            (folder / "secrets" / name).touch(0o600)
            (folder / "secrets" / name).write_text(secret)

    def home(self, name: str) -> Path:
        """What is at the image's home in the container: the shared volume, or a place of its own."""
        mounted = f"home:{HOME}" in self.services[name].get("volumes", [])
        return self.folder / ("home" if mounted else name)

    def environment(self, name: str) -> dict[str, str]:
        """Of the container, with the places of this machine."""
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT", "MLFLOW", "PREDIL"))}
        here = {"/run/secrets/": f"{self.folder}/secrets/", "http://prefect:": "http://127.0.0.1:",
                "http://mlflow:": "http://127.0.0.1:", "postgresql://predilect@postgres/predilect": self._postgres,
                "/data": str(self.folder / "data")}  # fmt: skip
        given = {key: str(value) for key, value in self.services[name]["environment"].items()}
        for there, place in here.items():
            given = {key: value.replace(there, place) for key, value in given.items()}
        return {**plain, **given, "PREDILECT_HOME": str(self.home(name))}

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """`predilect WORDS` as in the container of a service, to its end."""
        command = [str(Path(sys.executable).with_name("predilect")), *words]
        env = self.environment(name)
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=400, check=False)

    def up(self) -> None:
        """Start all in their order, each when what it depends on has ended well or its health check says so."""
        for name in starting_order(self.services):
            service = self.services[name]
            if not service["image"].startswith("predilect"):
                continue  # the database is there
            for other, how in service["depends_on"].items():
                if how["condition"] == "service_healthy" and other in self.started:
                    self._await(other)
            if service["healthcheck"].get("disable"):
                done = self.run(name, *service["command"])
                assert done.returncode == 0, done.stderr
                continue
            command = [str(Path(sys.executable).with_name("predilect")), *service["command"]]
            self.home(name).mkdir(exist_ok=True)
            with open(self.folder / f"{name}.log", "wb") as log:
                self.started[name] = subprocess.Popen(
                    command, env=self.environment(name), stdout=log, stderr=log, start_new_session=True
                )
        for name in self.started:
            self._await(name)

    def _await(self, name: str) -> None:
        kind, program, *words = self.services[name]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "predilect")

        def healthy() -> bool:
            said = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
            assert self.started[name].poll() is None, f"{name} ended: {said}"
            return self.run(name, *words).returncode == 0

        until(f"{name} healthy", 240, healthy)

    def down(self) -> None:
        """Stop them, the last first, as an engine does."""
        for process in reversed(self.started.values()):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)
        for name in self.started:  # what a service left behind, if it did
            processes.stop(processes.marked(self.home(name) / "state" / "services"))
