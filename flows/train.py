"""The training flow: ingest → validate → split → search → fit → evaluate → cold start → report, all tracked."""

import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from prefect import flow, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.runtime import flow_run

from predilect.flows.progress_artifact import progress_artifact
from predilect.models.errors import PredilectError
from predilect.models.ratings.compile import warm_up
from predilect.tasks.cold_start import study_cold_start
from predilect.tasks.evaluate import evaluate_ratings
from predilect.tasks.fit import fit_ratings, split_ratings
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.ratings_source import ingest_source
from predilect.tasks.report import write_report
from predilect.tasks.results import log_results, summary, write_results
from predilect.tasks.search import search_structure
from predilect.tasks.summaries import markdown_summary
from predilect.tasks.training_run import training_run
from predilect.tasks.validate import validate


def _not_a_user_mistake(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Retry what may pass by itself; a mistake in data or parameters will not."""
    return not isinstance(state.result(raise_on_failure=False), PredilectError)


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

P = ParamSpec("P")
R = TypeVar("R")


def _task(function: Callable[P, R], name: str, hours: float, **options: Any) -> Callable[P, R]:
    """`function` as a Prefect task: what it writes is kept in the run folder, so Prefect caches and stores nothing."""
    made = task(name=name, timeout_seconds=hours * 3600, cache_policy=NO_CACHE, persist_result=False, **options)
    return cast(Callable[P, R], made(function))


# A download or a busy disk may pass by itself; the other stages fail for good or not at all.
RETRY = {"retries": 2, "retry_delay_seconds": 5, "retry_condition_fn": _not_a_user_mistake}
ingest_task = _task(ingest_source, "ingest", 6, **RETRY)
validate_task = _task(validate, "validate", 2)
split_task = _task(split_ratings, "split", 1)
compile_task = _task(warm_up, "compile kernels", 1)
search_task = _task(search_structure, "search structure", 48)
fit_task = _task(fit_ratings, "fit", 48)
evaluate_task = _task(evaluate_ratings, "evaluate", 12)
cold_start_task = _task(study_cold_start, "cold start", 48)
report_task = _task(write_report, "report", 1)


@flow(name="train-ratings", description="Train and evaluate a ratings model, track it and write its report.")
def train_ratings(parameters: RatingsParameters) -> dict[str, Any]:
    """Train on (user, item, rating) data; returns what `predilect train ratings --json` prints.

    Raises PredilectError, one sentence, when the data or a parameter is at fault.
    """
    experiment = "predilect-ratings"
    with training_run(parameters, "ratings", flow_run.id) as run, progress_artifact(run.folder.name):
        with run.stage("ingest"):
            dataset = ingest_task(parameters)
        with run.stage("validate"):
            contract, dataset, manifest = validate_task(dataset, run.folder, parameters)
        with run.stage("split"):
            split = split_task(dataset, run.folder, parameters)
        with run.stage("compile"):
            compile_task()
        with run.stage("search"):
            search = search_task(dataset, run.folder, parameters)
        with run.stage("fit"):
            fit = fit_task(dataset, run.folder, parameters, search["chosen"])
        with run.stage("evaluate"):
            evaluation = evaluate_task(dataset, run.folder, parameters)
        cold_start = None
        if parameters.cold_start:
            with run.stage("cold start"):
                cold_start = cold_start_task(dataset, run.folder, parameters, search["chosen"])
        with run.stage("track"):
            stages = {
                "dataset": manifest,
                "contract": contract,
                "split": split,
                "search": search,
                "fit": fit,
                "evaluation": evaluation,
                "cold_start": cold_start,
                "parameters": parameters.model_dump(mode="json"),
            }
            run_id = run.tracker.flush()
        with run.stage("report"):
            results = write_results(run.folder, run.facts | {"mlflow_run_id": run_id}, stages, run.timings)
            report_task(results, run.folder / "report.html")
            text = markdown_summary(results)
            create_markdown_artifact(text, key="results", description=f"Results of {run.folder.name}")
            if run_id:
                create_link_artifact(run.run_url(run_id), link_text=f"MLflow run {run.folder.name}", key="mlflow-run")
            log_results(run.tracker, results)
            run.tracker.tags({"mlflow.note.content": text})
            for name in ("report.html", "results.json", "predictions.parquet", "contract.json"):
                run.tracker.artifact(run.folder / name)
        run_id = run.tracker.flush()
        return summary(run.folder, results, run_id, experiment, run.timings)
