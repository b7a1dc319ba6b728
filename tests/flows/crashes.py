"""Retraining killed on the way: the points, the victims, and what they leave in Prefect, MLflow and the run folders."""

import json
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from nights import batch
from operated import Operated, until

from predilect.tasks import registry
from predilect.tasks.runs import RESULTS, read_json
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import whole_journal

QUICK = {
    "resamples": 200, "max_sweeps": 40, "max_latency_ratio": 50, "search": "greedy", "search_budget": 8,
    "search_folds": 2, "threads": 1,
}  # fmt: skip
TASKS = "predilect.tasks"
# In the order of a run: module, function, a text among its arguments, whether it does its work first, which call it is.
POINTS: dict[str, tuple[str, str, str, bool, int]] = {
    "files found": (f"{TASKS}.retrain_data", "find", "", True, 1),
    "run opened": ("mlflow", "MlflowClient.create_run", "", True, 1),
    "checking": (f"{TASKS}.progress", "report", "check new data", False, 1),
    "table written": (f"{TASKS}.retrain_data", "write_table", "", True, 1),
    "ingesting": (f"{TASKS}.progress", "report", "ingest", False, 1),
    "validating": (f"{TASKS}.progress", "report", "validate", False, 1),
    "splitting": (f"{TASKS}.progress", "report", "split", False, 1),
    "searching": (f"{TASKS}.tracking", "Tracker.child", "", False, 2),
    "fitting": (f"{TASKS}.progress", "report", "fit", False, 4),
    "saving": ("predilect.models.ratings.model", "RatingsModel.save", "", False, 1),
    "evaluating": (f"{TASKS}.progress", "report", "evaluate", False, 1),
    "candidate sent": ("mlflow", "MlflowClient.set_terminated", "", False, 1),
    "model sent": ("mlflow", "MlflowClient.log_model_artifacts", "", True, 1),
    "model logged": ("mlflow", "MlflowClient.finalize_logged_model", "", True, 1),
    "reporting": (f"{TASKS}.progress", "report", "report", False, 1),
    "results sent": ("mlflow", "MlflowClient.log_inputs", "", True, 1),
    "registering": (f"{TASKS}.registry", "register", "", False, 1),
    "version made": ("mlflow", "MlflowClient.create_model_version", "", True, 1),
    "challenger": ("mlflow", "MlflowClient.set_registered_model_alias", "challenger", True, 1),
    "comparing": (f"{TASKS}.progress", "report", "compare", False, 1),
    "decided": (f"{TASKS}.promotion", "decide", "", True, 1),
    "described": (f"{TASKS}.registry", "describe", "", True, 1),
    "moving": ("mlflow", "MlflowClient.set_registered_model_tag", "", True, 1),
    "promoted": ("mlflow", "MlflowClient.set_registered_model_alias", "champion", True, 1),
    "remembering": (f"{TASKS}.retrain_data", "Memory.note", "", False, 1),
}
SERVICES = ("worker", "prefect", "mlflow")
VICTIMS = {name: [name] for name in ("flow", *SERVICES)} | {"machine": [*SERVICES, "ratings", "flow"]}


@dataclass
class Found:
    """What is there after a death and its repair."""

    at: str
    state: str
    """Of the disturbed run, in the end."""
    seconds: float
    running: list[str] = field(default_factory=list)
    """Runs in either server that no process is at work on and nobody closed."""
    lost: list[str] = field(default_factory=list)
    """Results in a run folder that MLflow lacks."""
    halves: list[str] = field(default_factory=list)
    """Versions, models, runs or files that were begun and not ended, or made twice."""
    undecided: list[str] = field(default_factory=list)
    """Champions that no decision made."""

    def faults(self) -> list[str]:
        """All of them."""
        return [*self.running, *self.lost, *self.halves, *self.undecided]


class Crashes:
    """A champion of the first night, whose retraining was killed once, and deaths in the second.

    undisturbed: checksum of the champion that a second night without deaths makes.
    """

    def __init__(self, operated: Operated, *, compare: bool) -> None:
        self.at = operated
        self.settings = Settings(home=operated.home, tracking_uri=operated.mlflow)
        self.nights = operated.home / "nights"
        self.nights.mkdir()
        until("runs of other tests to end", 200, lambda: not (self._open() or self._due()))
        self._forget_models()
        batch(self.nights / "first", 0)
        self.first = self._killed("version made", "flow", "first")
        assert self.at.ended(self.retrain("first")) == "COMPLETED"
        (self.base,) = self.versions()
        assert "champion" in self.base.aliases
        self.undisturbed: str | None = None
        if compare:
            assert self.at.ended(self.retrain(self.second_night())) == "COMPLETED"
            self.undisturbed = self.champion()

    def _forget_models(self) -> None:
        """Other tests in this home have registered some: they would be compared with."""
        from mlflow import MlflowClient

        if self.versions():
            MlflowClient(self.at.mlflow).delete_registered_model(registry.model_name("ratings"))

    def retrain(self, place: str) -> str:
        """A run of the deployment."""
        return self.at.trigger("retrain-ratings", QUICK | {"data": str(self.nights / place)})

    def second_night(self) -> str:
        """A new place with both nights' ratings, the first night's champion, and nothing to take up."""
        place = f"night-{len(list(self.nights.iterdir()))}"
        for night in (0, 1):
            batch(self.nights / place, night)
        registry.promote(self.settings, self.base, basis=registry.ANY, reason="as before")
        for folder in ("searches", "data"):
            shutil.rmtree(self.at.home / "state" / folder, ignore_errors=True)
        return place

    def champion(self) -> str:
        """Checksum of the champion's arrays."""
        folder = registry.model_folder(self.settings, registry.find(self.settings, "ratings", "champion"))
        checksum: str = read_json(folder / "manifest.json")["sha256"]
        return checksum

    def versions(self) -> list[registry.Version]:
        """All that are registered."""
        return registry.versions(self.settings, "ratings")

    def flow_dies(self, points: Iterable[str], victim: str = "flow") -> Iterator[Found]:
        """One night's retraining is killed at each point, one after the other, before it may come to its end."""
        place = self.second_night()
        for point in points:
            yield self._killed(point, victim, place)
        run = self.retrain(place)
        assert self.at.ended(run) == "COMPLETED", self.at.ask(f"/flow_runs/{run}")["state"]

    def service_dies(self, points: Iterable[str], victim: str) -> Iterator[Found]:
        """A service is killed at each point, each in a night of its own, which the flow itself survives."""
        for point in points:
            place = self.second_night()
            before = self.champion()
            found = self._killed(point, victim, place)
            now = self.champion()
            if now == before or self.undisturbed not in (None, now):
                found.lost.append("the challenger is not champion")
            yield found

    def _killed(self, point: str, victim: str, place: str) -> Found:
        where = dict(zip(("place", "name", "only", "after", "nth"), POINTS[point], strict=True))
        self.at.plan.write_text(json.dumps({**where, "victims": VICTIMS[victim]}))
        began = time.monotonic()
        run = self.retrain(place)
        done = self.at.plan.with_name(f"{self.at.plan.name}.done")
        until(f"{victim} to die at {point}", 180, done.exists)
        done.unlink()
        self.at.predilect("up")
        found = Found(point, self.at.ended(run), round(time.monotonic() - began, 1))
        self._count(found)
        return found

    def _open(self) -> list[str]:
        """Flow runs that Prefect takes for running."""
        wanted = {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}}}}
        return [each["name"] for each in self.at.ask("/flow_runs/filter", wanted)]

    def _due(self) -> int:
        """How many flow runs are to start within a minute."""
        soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
        wanted = {"state": {"type": {"any_": ["SCHEDULED"]}}, "next_scheduled_start_time": {"before_": soon}}
        return len(self.at.ask("/flow_runs/filter", {"flow_runs": wanted}))

    def _count(self, found: Found) -> None:
        from mlflow import MlflowClient

        client = MlflowClient(self.at.mlflow)
        found.running += [f"Prefect {name}" for name in self._open()]
        ids = [each.experiment_id for each in client.search_experiments()]
        runs = list(client.search_runs(ids, max_results=10_000))
        found.running += [f"MLflow {run.info.run_name}" for run in runs if run.info.status == "RUNNING"]
        tops = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
        found.halves += _twice("runs", [run.info.run_name for run in tops])
        by_name = {run.info.run_name: run for run in tops}
        for folder in self.settings.runs.iterdir():
            children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == _id(by_name.get(folder.name))]
            found.lost += [f"{folder.name}: {what}" for what in _lost(folder, by_name.get(folder.name), children)]
            found.halves += [str(path) for path in folder.rglob("*.part")]
        models = list(client.search_logged_models(ids))
        found.halves += [
            f"model {model.model_id} is {model.status}" for model in models if str(model.status) != "READY"
        ]
        found.halves += _twice("models", [model.source_run_id for model in models])
        versions = self.versions()
        found.halves += _twice("versions", [version.run_id for version in versions])
        for version in versions:
            whole = (registry.model_folder(self.settings, version) / "manifest.json").is_file()
            found.halves += [] if whole and "predilect.digest" in version.tags else [version.name]
        tags = client.get_registered_model(registry.model_name("ratings")).tags if versions else {}
        champions = json.loads(tags.get(registry.HISTORY, "[]"))
        champions += [version.number for version in versions if "champion" in version.aliases]
        decided = {version.number for version in versions if version.tags.get("predilect.decision") == "promote"}
        found.undecided += [f"version {number}" for number in sorted({*champions} - decided)]


def _id(run: Any) -> str | None:
    return None if run is None else run.info.run_id


def _twice(what: str, names: list[str]) -> list[str]:
    return [f"two {what} {name}" for name in sorted(set(names)) if names.count(name) > 1]


def _lost(folder: Any, run: Any, children: list[Any]) -> Iterator[str]:
    """What a run folder's journal says and MLflow does not know."""
    said = whole_journal(folder) if (folder / "journal.jsonl").is_file() else []
    if not said:
        return
    if run is None:
        yield "the run"
        return
    if (folder / ".untracked").exists():
        yield "what waits"
    values = {name: value for event in said if event["do"] == "metrics" for name, value in event["values"].items()}
    yield from (name for name, value in values.items() if run.data.metrics.get(name) != value)
    wanted = sum(event["do"] == "child" for event in said)
    if len(children) != wanted:
        yield f"{len(children)} search candidates of {wanted}"
    modelled = (folder / RESULTS).is_file() and any(event["do"] == "model" for event in said)
    if modelled and not getattr(run.outputs, "model_outputs", None):
        yield "the model"
