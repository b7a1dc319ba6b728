"""One training run from its first line in the journal to its last, whatever happens in between."""

import importlib.metadata
import logging
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from predilect import __version__
from predilect.data_contracts import runner
from predilect.models.compiled import default_threads
from predilect.models.errors import DataError, PredilectError
from predilect.tasks import progress, tracking
from predilect.tasks.compute import workers_kept
from predilect.tasks.interrupts import stop_asked
from predilect.tasks.parameters import Parameters
from predilect.tasks.processes import own_output
from predilect.tasks.runs import RunFolder, experiment_id, write_json
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import Tracker

log = logging.getLogger("predilect")


@dataclass
class TrainingRun:
    """The run under way: its folder, its tracker, and how long each stage took."""

    folder: Path
    tracker: Tracker
    settings: Settings
    facts: dict[str, Any]
    timings: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage, show it, and send what the run has said so far when it ends."""
        progress.report(name, 0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.timings[name] = time.perf_counter() - start
        progress.report(name, 1.0)

    def run_url(self, run_id: str) -> str:
        """Where MLflow's pages show the run: the tracking server's, or a local `mlflow ui`."""
        page = mlflow_page(self.settings, f"experiments/{experiment_id(self.folder)}/runs/{run_id}")
        return f"{page}?workflowType=machine_learning"  # the training view


def load_libraries() -> None:
    """Load the slow libraries that every run uses, at a time when there is nothing else to do."""
    tracking.load()
    runner.load()


def mlflow_page(settings: Settings, path: str) -> str:
    """A page of the tracking server, or of a local `mlflow ui`."""
    uri = settings.mlflow_uri
    server = uri if uri.startswith("http") else f"http://127.0.0.1:{settings.mlflow_port}"
    return f"{server.rstrip('/')}/#/{path}"


@contextmanager
def training_run(
    parameters: Parameters,
    family: str,
    flow_run_id: str | None,
    verb: str = "train",
    experiment: str | None = None,
    called: str | None = None,
) -> Iterator[TrainingRun]:
    """Open a run, and close it as FINISHED, FAILED or KILLED; errors pass on as they are.

    verb, called: of the command line that repeats the run; `called` by default the family. experiment: in MLflow;
    default: the family's.

    What the disk refuses (no space, no permission) becomes a DataError that says so.
    """
    own_output()
    settings = Settings()
    held = RunFolder.create(settings, parameters.name, f"{family}-{_stem(parameters.data)}")
    tracker = Tracker(held.path, settings)
    end = ("FINISHED", "")
    try:
        facts = {
            "name": held.path.name,
            "family": family,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seed": parameters.seed,
            "threads": parameters.threads or default_threads(),
            "git_revision": git_revision(),
            "prefect_flow_run_id": flow_run_id,
            "command": command(parameters, called or family, verb),
            "predilect_version": __version__,
        }
        tracker.start(experiment or experiment_name(family), _tags(facts))
        tracker.params(parameters.model_dump(mode="json", exclude={"name", "data_dir"}))
        tracker.artifact(write_json(held.path / "environment.json", _environment()))
        tracker.flush()
        with workers_kept():
            yield TrainingRun(held.path, tracker, settings, facts)
    except BaseException as error:
        end = _end(error)
        if isinstance(error, OSError) and end[0] == "FAILED":
            raise DataError(
                f"{error.filename or held.path}: {error.strerror or error}; free space or set PREDILECT_HOME to a "
                "folder that can be written, then run again."
            ) from error
        raise
    finally:
        noted = False
        try:
            tracker.finish(*end)
            noted = True
            tracker.flush()
        except OSError as error:  # a full disk: the next command closes the run
            log.warning("The end of the run could not be noted in %s (%s).", held.path, error)
        held.release(ended=noted)


def _end(error: BaseException) -> tuple[str, str]:
    """How a run has ended that raised this, and why."""
    if stop_asked() or not isinstance(error, Exception):  # or a cancelled flow run
        return "KILLED", "Stopped by the user."
    return "FAILED", str(error) if isinstance(error, PredilectError | OSError) else f"{type(error).__name__}: {error}"


def _stem(data: str) -> str:
    """The part of a made-up run name that tells the data: the file's name, or its folder's if that says nothing."""
    path = Path(data).expanduser()
    name = path.resolve().parent.name if path.stem in ("ratings", "ballots", "clicks") else path.stem
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")[:60] or "data"


def experiment_name(family: str) -> str:
    """The MLflow experiment of a family."""
    return f"predilect-{family}"


def git_revision() -> str | None:
    """The commit that this code is of, with `+` when files differ from it; None outside a checkout."""
    here = Path(__file__).resolve().parents[1]
    try:
        run = ["git", "-C", str(here), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
        answer = subprocess.run(run, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def command(parameters: Parameters, called: str, verb: str = "train") -> str:
    """The command line that repeats the run."""
    words = ["predilect", verb, called, *(["--data", parameters.data] if parameters.data else [])]
    shown = parameters.model_dump(mode="json", exclude={"data", "name", "data_dir", "threads"}, exclude_defaults=True)
    for name, value in shown.items():
        parts = [f"{key}:{column}" for key, column in value.items()] if isinstance(value, dict) else value
        text = ",".join(map(str, parts)) if isinstance(parts, list) else parts
        words += ["--set", f"{name}={text}"]
    return shlex.join(words)


def _environment() -> dict[str, str]:
    """Python and every installed package with its version."""
    packages = {found.name: found.version for found in importlib.metadata.distributions()}
    return {"python": platform.python_version(), "platform": platform.platform(), **dict(sorted(packages.items()))}


def _tags(facts: Mapping[str, Any]) -> dict[str, str]:
    tags = {
        "predilect.family": facts["family"],
        "predilect.version": __version__,
        "predilect.seed": str(facts["seed"]),
        "predilect.threads": str(facts["threads"]),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "mlflow.source.name": Path(sys.argv[0]).name,
    }
    if facts["git_revision"]:
        tags["mlflow.source.git.commit"] = facts["git_revision"]
    if facts["prefect_flow_run_id"]:
        tags["prefect.flow_run_id"] = facts["prefect_flow_run_id"]
    return tags
