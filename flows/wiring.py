"""What the training flows share: how a function becomes a task, and how a run is concluded."""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.base import PrefectHttpxAsyncClient, PrefectHttpxSyncClient
from prefect.client.schemas.objects import State, TaskRun
from prefect.utilities.urls import url_for

from predilect.models.errors import PredilectError
from predilect.tasks.processes import FLOW_RUN
from predilect.tasks.report import write_report
from predilect.tasks.results import log_results, summary, write_results
from predilect.tasks.summaries import markdown_summary
from predilect.tasks.training_run import TrainingRun

P = ParamSpec("P")
R = TypeVar("R")


def as_task(function: Callable[P, R], name: str, hours: float, **options: Any) -> Callable[P, R]:
    """`function` as a Prefect task: what it writes is kept in the run folder, so Prefect caches and stores nothing."""
    made = task(name=name, timeout_seconds=hours * 3600, cache_policy=NO_CACHE, persist_result=False, **options)
    return cast(Callable[P, R], made(function))


def _not_a_user_mistake(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Retry what may pass by itself; a mistake in data or parameters will not."""
    return not isinstance(state.result(raise_on_failure=False), PredilectError)


# A download or a busy disk may pass by itself; the other stages fail for good or not at all.
RETRY = {"retries": 2, "retry_delay_seconds": 5, "retry_condition_fn": _not_a_user_mistake}

report_task = as_task(write_report, "report", 1)
# Files of the run folder that are logged, where a family writes them.
ARTIFACTS = ("report.html", "results.json", "predictions.parquet", "contract.json", "data_docs",
             "worths.parquet", "leaderboard.csv", "leaderboard.md")  # fmt: skip


def link_runs(run: TrainingRun, text: str) -> str | None:
    """A link each way between the flow run and its MLflow run, which `text` (Markdown) describes; the latter's id."""
    run_id = run.tracker.flush()
    if run_id:
        create_link_artifact(run.run_url(run_id), link_text=f"MLflow run {run.folder.name}", key="mlflow-run",
                             description="Parameters, metrics and artifacts in MLflow")  # fmt: skip
    flow_run_id = run.facts["prefect_flow_run_id"]
    page = url_for("flow-run", obj_id=flow_run_id) if flow_run_id else None
    run.tracker.tags({"mlflow.note.content": f"{text}\n\n[Flow run in Prefect]({page})\n" if page else text})
    return run_id


def conclude(run: TrainingRun, stages: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
    """Write results and report, log everything, show it in Prefect; returns what `train --json` prints.

    stages: what each stage found, by the names of results.json; `evaluation` is spread over several of them.
    """
    with run.stage("track"):
        run_id = run.tracker.flush()
    with run.stage("report"):
        facts = run.facts | {"mlflow_run_id": run_id, "mlflow_url": run.run_url(run_id) if run_id else None}
        results = write_results(run.folder, facts, stages, run.timings)
        report_task(results, run.folder / "report.html")
        text = markdown_summary(results)
        create_markdown_artifact(text, key="results", description=f"Results of {run.folder.name}")
        log_results(run.tracker, results)
        link_runs(run, text)
        for name in ARTIFACTS:
            if (run.folder / name).exists():
                run.tracker.artifact(run.folder / name)
    run_id = run.tracker.flush()
    return summary(run.folder, results, run_id, run.timings)


class _NoTraceback(logging.Filter):
    """User mistakes are logged as their sentence."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, PredilectError):
            record.exc_info, record.exc_text = None, None
            record.msg, record.args = str(error), ()
        return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_NoTraceback())

if FLOW_RUN in os.environ:
    # A worker started this run, so there was a server. Prefect's clients wait for one that is away only if they have
    # reached it before, and a run makes new clients on its way: let those wait too.
    for _client in (PrefectHttpxSyncClient, PrefectHttpxAsyncClient):
        setattr(_client, "_has_connected", property(lambda _: True, lambda _, reached: None))  # noqa: B010
