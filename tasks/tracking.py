"""Experiment tracking: the only file that imports mlflow (`registry.py` asks for its client here).

A run says everything to a journal in its own folder first; `flush` sends what is new to the MLflow store. So
logging is batched, a store that is away loses nothing, and a run that was killed is closed by the next command.
"""

import fcntl
import importlib.metadata
import json
import logging
import os
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from predilect.models.errors import PredilectError
from predilect.tasks.addresses import first_line, shown
from predilect.tasks.lines import append_line, whole_lines
from predilect.tasks.patience import patience, retried
from predilect.tasks.runs import abandoned, alone, end_servers, read_json, write_json
from predilect.tasks.settings import Settings

JOURNAL, STATE = "journal.jsonl", "tracking.json"
TRAINING = {"mlflow.experimentKind": "custom_model_development"}  # MLflow's pages open in their training view
BATCH = 900  # MLflow takes at most 1,000 values a call
PARAM_LENGTH = 6000
SERVING = ("mlflow", "numpy", "scipy", "numba", "pandas", "scikit-learn", "threadpoolctl")
log = logging.getLogger("predilect")


class TrackingError(PredilectError):
    """The tracking store cannot be written; the results are in the run folder."""


class Tracker:
    """What one run has to say to MLflow. Every method appends to the journal; only `flush` talks to the store."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings

    def start(self, experiment: str, tags: Mapping[str, str]) -> None:
        """Open the run; its name is the folder's."""
        self._say(do="start", experiment=experiment, tags=dict(tags))

    def params(self, values: Mapping[str, Any]) -> None:
        """Parameters, as MLflow shows them: text."""
        self._say(do="params", values={name: _as_text(value)[:PARAM_LENGTH] for name, value in values.items()})

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Figures of the run."""
        self._say(do="metrics", values={name: float(value) for name, value in values.items()}, step=step)

    def series(self, name: str, values: Iterable[float]) -> None:
        """One metric at steps 1, 2, …, sent in one batch."""
        self._say(do="series", name=name, values=[float(value) for value in values])

    def tags(self, values: Mapping[str, str]) -> None:
        """Tags to filter by."""
        self._say(do="tags", values=dict(values))

    def artifact(self, path: Path, to: str | None = None) -> None:
        """A file or folder inside the run folder, logged under `to`; a folder keeps its name."""
        self._say(do="artifact", path=str(path.relative_to(self.folder)), to=to)

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of equal columns, shown as a table in MLflow's pages."""
        columns = list(rows[0]) if rows else []
        values = {"columns": columns, "data": [[row[column] for column in columns] for row in rows]}
        self._say(do="table", name=name, values=values)

    def dataset(self, name: str, digest: str, source: str, profile: Mapping[str, Any]) -> None:
        """The data that the run was trained on."""
        self._say(do="dataset", name=name, digest=digest, source=source, profile=dict(profile))

    def child(
        self, name: str, params: Mapping[str, Any], metrics: Mapping[str, float], tags: Mapping[str, str]
    ) -> None:
        """A finished child run, such as one candidate of a search."""
        texts = {key: _as_text(value) for key, value in params.items()}
        self._say(do="child", name=name, params=texts, metrics=dict(metrics), tags=dict(tags))

    def model(
        self,
        family: str,
        folder: Path,
        example: Mapping[str, list[Any]],
        answer: Sequence[str] = ("mean", "sd"),
    ) -> None:
        """The model folder, as an MLflow model whose code is `pyfunc_<family>.py`.

        example: its input columns. answer: its output columns, all of them numbers.
        """
        path = str(folder.relative_to(self.folder))
        columns = {key: list(value) for key, value in example.items()}
        self._say(do="model", family=family, path=path, example=columns, answer=list(answer))

    def finish(self, status: str, reason: str = "") -> None:
        """status: FINISHED, FAILED or KILLED; reason: one sentence."""
        self._say(do="finish", status=status, reason=reason)

    def finished(self) -> bool:
        """Whether the journal says how the run ended."""
        said = whole_journal(self.folder)
        return bool(said) and said[-1]["do"] == "finish"

    def flush(self) -> str | None:
        """Send what is new; the MLflow run id, or None when the store is away (said once, kept for later)."""
        try:
            with patience(0 if (self.folder / ".untracked").exists() else 1):  # the run has better to do than wait
                return self.send()
        except TrackingError as error:
            if not (self.folder / ".untracked").exists():
                (self.folder / ".untracked").touch()
                log.warning("%s", error)
            return None

    @retried(TrackingError)
    def send(self) -> str | None:
        """Like `flush`, but a store that cannot be written raises TrackingError, with what to do."""
        with alone(self.folder):
            return self._send()

    def _send(self) -> str | None:
        state_file = self.folder / STATE
        state: dict[str, Any] = read_json(state_file) if state_file.is_file() else {"run_id": None, "sent": 0}
        events = whole_journal(self.folder)
        if len(events) > state["sent"]:
            try:
                with store(self.settings) as client:
                    for number, event in enumerate(events[state["sent"] :], state["sent"]):
                        # Begun before, by a process that died or did not hear the answer: it may be in the store.
                        event["again"] = state.get("begun") == number
                        write_json(state_file, state | {"begun": number})
                        _SEND[event["do"]](client, self, state, event)
                        state["sent"] = number + 1
                    write_json(state_file, state)
            except Exception as error:
                raise TrackingError(
                    f"The tracking store {shown(self.settings.mlflow_uri)} cannot be written "
                    f"({first_line(error)}); the results are kept in {self.folder}: "
                    f"log them later with `predilect sync {self.folder.name}`."
                ) from error
            (self.folder / ".untracked").unlink(missing_ok=True)
        run_id: str | None = state["run_id"]
        return run_id

    def _say(self, **event: Any) -> None:
        event["time"] = int(time.time() * 1000)
        append_line(self.folder / JOURNAL, json.dumps(event, ensure_ascii=False, default=str))


def load() -> None:
    """Load MLflow, which takes seconds; else the first use does."""
    import mlflow  # noqa: F401


def reconcile(settings: Settings) -> list[str]:
    """Close every run whose process died without saying so; the names of those closed.

    Every command calls this first, so no run stays RUNNING. It costs nothing when there is none.
    """
    closed = []
    for folder, lock in abandoned(settings):
        end_servers(lock)
        tracker = Tracker(folder, settings)
        if (folder / JOURNAL).is_file():
            if not tracker.finished():
                tracker.finish("KILLED", "The process ended without finishing the run.")
            if tracker.flush() is None:
                continue  # the store is away: the lock file stays, the next command tries again
        for part in folder.glob(".*.part"):
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        (folder / "running.lock").unlink(missing_ok=True)
        closed.append(folder.name)
    return closed


def waiting(settings: Settings) -> list[Path]:
    """Run folders with results that have not been logged."""
    return sorted(path.parent for path in settings.runs.glob("*/.untracked"))


def catch_up(settings: Settings) -> list[str]:
    """Log what waits, as long as the store takes it; the names of the runs. Every command does so first."""
    logged = []
    for folder in waiting(settings):
        if Tracker(folder, settings).flush() is None:
            break
        logged.append(folder.name)
    return logged


def flow_run_of(folder: Path) -> str | None:
    """The Prefect flow run of a run folder, None when it has none."""
    with open(folder / JOURNAL, encoding="utf-8") as journal:
        line = journal.readline()
    first = json.loads(line) if line.endswith("\n") else {}
    found: str | None = first.get("tags", {}).get("prefect.flow_run_id")
    return found


def whole_journal(folder: Path) -> list[dict[str, Any]]:
    """Everything that a run has said."""
    return whole_lines(folder / JOURNAL)


def delete_run(settings: Settings, run_id: str) -> None:
    """Delete a run with its children, logged models and all their artifacts; what is gone already is passed over."""
    with store(settings) as client, as_default(settings.mlflow_uri):
        from mlflow.exceptions import MlflowException
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        try:
            run = client.get_run(run_id)
        except MlflowException:
            return
        experiment = [run.info.experiment_id]
        for child in client.search_runs(experiment, f"tags.`mlflow.parentRunId` = '{run_id}'", max_results=10_000):
            client.delete_run(child.info.run_id)
        for model in client.search_logged_models(experiment, f"source_run_id = '{run_id}'"):
            get_artifact_repository(model.artifact_location).delete_artifacts()
            client.delete_logged_model(model.model_id)
        get_artifact_repository(run.info.artifact_uri).delete_artifacts()
        if run.info.lifecycle_stage == "active":
            client.delete_run(run_id)


def migrate(settings: Settings, uri: str) -> None:
    """Make the database `uri` if need be, and bring it to the version of this MLflow; one process at a time."""
    settings.mlruns.mkdir(parents=True, exist_ok=True)
    with open(settings.mlruns / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        from mlflow.store.db.utils import _initialize_tables, _upgrade_db, create_sqlalchemy_engine
        from sqlalchemy import inspect

        for library in ("alembic", "mlflow"):
            logging.getLogger(library).setLevel(logging.ERROR)
        engine = create_sqlalchemy_engine(uri)
        (_upgrade_db if inspect(engine).has_table("metrics") else _initialize_tables)(engine)
        engine.dispose()


def store_summary(settings: Settings) -> str:
    """The store's address and what it holds. Raises TrackingError when it does not answer."""
    try:
        with store(settings) as client:
            names = [experiment.name for experiment in client.search_experiments()]
    except Exception as error:
        raise TrackingError(f"{shown(settings.mlflow_uri)} does not answer ({first_line(error)})") from error
    return f"{shown(settings.mlflow_uri)}, experiments: {', '.join(sorted(names))}"


@contextmanager
def store(settings: Settings) -> Iterator[Any]:
    """A client of the store; a fresh database is made and migrated by one process at a time."""
    settings.mlruns.mkdir(parents=True, exist_ok=True)
    for library in ("alembic", "urllib3"):
        logging.getLogger(library).setLevel(logging.ERROR)
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    if settings.mlflow_uri.startswith("sqlite"):
        _open_proxied_artifacts(settings.mlruns / "artifacts")
    with open(settings.mlruns / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        client = MlflowClient(settings.mlflow_uri)
        client.search_experiments(max_results=1)
    yield client


def _open_proxied_artifacts(folder: Path) -> None:
    """Read and write what the server of `predilect up` keeps in `folder` also while it is down.

    Experiments made through it have artifact locations `mlflow-artifacts:/…`, which MLflow resolves by server only.
    """
    from mlflow.store.artifact import artifact_repository_registry as registry
    from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
    from mlflow.store.artifact.mlflow_artifacts_repo import MlflowArtifactsRepository
    from mlflow.tracking import get_tracking_uri

    def repository(uri: str, tracking_uri: str | None = None, registry_uri: str | None = None) -> Any:
        if (tracking_uri or get_tracking_uri()).startswith("http"):
            return MlflowArtifactsRepository(uri, tracking_uri, registry_uri)
        return LocalArtifactRepository((folder / urlsplit(uri).path.lstrip("/")).as_uri())

    registry._artifact_repository_registry.register("mlflow-artifacts", repository)


def fetch_model(settings: Settings, uri: str, into: Path) -> Path:
    """Copy a logged model (`models:/…`) below the folder `into`; the model folder that it was made of."""
    import mlflow

    with as_default(settings.mlflow_uri):
        got = Path(mlflow.artifacts.download_artifacts(uri, dst_path=str(into)))
    return got / "artifacts" / "model"


@contextmanager
def as_default(uri: str) -> Iterator[None]:
    """Make `uri` MLflow's own default store inside the block.

    It would stay in the environment otherwise, as would the code of a model that was loaded on the path where this
    process and those that it starts look for modules.
    """
    import mlflow

    before, path = os.environ.get("MLFLOW_TRACKING_URI"), sys.path.copy()
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        sys.path = path
        mlflow.set_tracking_uri(before)
        if before is None:
            os.environ.pop("MLFLOW_TRACKING_URI", None)


def _experiment_id(client: Any, settings: Settings, name: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    local = settings.mlflow_uri.startswith("sqlite")
    place = (settings.mlruns / "artifacts" / name).as_uri() if local else None
    return str(client.create_experiment(name, artifact_location=place, tags=TRAINING))


def _start(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    state["experiment_id"] = _experiment_id(client, tracker.settings, event["experiment"])
    found = _made_before(client, state, event, tracker.folder.name)
    state["run_id"] = found or _create_run(client, state, event, tracker.folder.name, event["tags"])


def _create_run(client: Any, state: dict[str, Any], event: dict[str, Any], name: str, tags: dict[str, str]) -> str:
    run = client.create_run(state["experiment_id"], run_name=name, start_time=event["time"], tags=tags)
    return str(run.info.run_id)


def _made_before(client: Any, state: dict[str, Any], event: dict[str, Any], name: str) -> str | None:
    """The run that an earlier attempt at this event made; no other has its name and time."""
    if not event["again"]:
        return None
    found = client.search_runs([state["experiment_id"]], f"attributes.start_time = {event['time']}")
    return next((str(run.info.run_id) for run in found if run.info.run_name == name), None)


def _params(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    from mlflow.entities import Param

    params = [Param(name, value) for name, value in event["values"].items()]
    for start in range(0, len(params), 100):
        client.log_batch(state["run_id"], params=params[start : start + 100])


def _metrics(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    from mlflow.entities import Metric

    values = [Metric(name, value, event["time"], event["step"]) for name, value in event["values"].items()]
    client.log_batch(state["run_id"], metrics=values)


def _series(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    from mlflow.entities import Metric

    values = [Metric(event["name"], value, event["time"], step) for step, value in enumerate(event["values"], 1)]
    for start in range(0, len(values), BATCH):
        client.log_batch(state["run_id"], metrics=values[start : start + BATCH])


def _tags(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    from mlflow.entities import RunTag

    client.log_batch(state["run_id"], tags=[RunTag(name, value) for name, value in event["values"].items()])


def _artifact(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    path = tracker.folder / event["path"]
    if path.is_dir():
        client.log_artifacts(state["run_id"], str(path), event["to"] or path.name)
    else:
        client.log_artifact(state["run_id"], str(path), event["to"])


def _table(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    client.log_dict(state["run_id"], event["values"], event["name"])
    # How MLflow's pages know which JSON files are tables.
    listed = json.dumps([{"path": event["name"], "type": "table"}])
    client.set_tag(state["run_id"], "mlflow.loggedArtifacts", listed)


def _dataset(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    dataset = Dataset(
        name=event["name"],
        digest=event["digest"][:32],
        source_type="local",
        source=json.dumps({"uri": event["source"]}),
        profile=json.dumps(event["profile"]),
    )
    tags = [InputTag("mlflow.data.context", "training")]
    client.log_inputs(state["run_id"], datasets=[DatasetInput(dataset, tags)])


def _child(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    from mlflow.entities import Metric, Param

    tags = event["tags"] | {"mlflow.parentRunId": state["run_id"]}
    found = _made_before(client, state, event, event["name"])
    run_id = found or _create_run(client, state, event, event["name"], tags)
    client.log_batch(
        run_id,
        params=[Param(name, value) for name, value in event["params"].items()],
        metrics=[Metric(name, value, event["time"], 0) for name, value in event["metrics"].items()],
    )
    client.set_terminated(run_id, "FINISHED", event["time"])


def _model(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    import mlflow
    import pandas as pd
    from mlflow.models import infer_signature

    if event["again"] and (logged_before := _whole_model(client, state)):
        state["model_id"] = logged_before
        return
    here = Path(__file__).resolve().parent
    example = pd.DataFrame(event["example"])
    # The numerics travel with the model, so that it loads where Predilect is not installed.
    code = tracker.folder / f".code.{os.getpid()}.part" / "predilect"
    try:
        shutil.copytree(here.parent / "models", code / "models", ignore=shutil.ignore_patterns("__pycache__"))
        (code / "__init__.py").write_text("")
        with (
            warnings.catch_warnings(),  # hints on integer columns and on MLflow's own use of pandas
            as_default(tracker.settings.mlflow_uri),
            mlflow.start_run(run_id=state["run_id"]),
        ):
            warnings.simplefilter("ignore")
            logged = mlflow.pyfunc.log_model(
                name="model",
                python_model=str(here / f"pyfunc_{event['family']}.py"),
                artifacts={"model": str(tracker.folder / event["path"])},
                code_paths=[str(code)],
                signature=infer_signature(example, pd.DataFrame({name: [0.0] for name in event["answer"]})),
                input_example=example,
                pip_requirements=_pinned(*SERVING),
            )
        state["model_id"] = logged.model_id
    finally:
        shutil.rmtree(code.parent, ignore_errors=True)


def _whole_model(client: Any, state: dict[str, Any]) -> str | None:
    """The model that an earlier attempt logged; what one left that died meanwhile is taken away."""
    whole = None
    for model in client.search_logged_models([state["experiment_id"]], f"source_run_id = '{state['run_id']}'"):
        if str(model.status) == "READY":
            whole = str(model.model_id)
        else:
            client.delete_logged_model(model.model_id)
    return whole


def _finish(client: Any, tracker: Tracker, state: dict[str, Any], event: dict[str, Any]) -> None:
    if event["reason"]:
        client.set_tag(state["run_id"], "predilect.reason", event["reason"][:5000])
    client.set_terminated(state["run_id"], event["status"], event["time"])


_SEND = {
    "start": _start,
    "params": _params,
    "metrics": _metrics,
    "series": _series,
    "tags": _tags,
    "artifact": _artifact,
    "table": _table,
    "dataset": _dataset,
    "child": _child,
    "model": _model,
    "finish": _finish,
}


def _pinned(*packages: str) -> list[str]:
    return [f"{package}=={importlib.metadata.version(package)}" for package in packages]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
