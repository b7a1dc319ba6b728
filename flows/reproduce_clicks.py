"""The reproduction of the clicks paper as a flow: all models and scores on the data at hand, tracked and reported."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run

from predilect.flows.progress_artifact import progress_artifact
from predilect.flows.wiring import RETRY, as_task, link_runs, report_task
from predilect.models.clicks.compile import warm_up
from predilect.tasks.clicks_fit import split_clicks
from predilect.tasks.clicks_reproduce import study_clicks
from predilect.tasks.clicks_source import ingest_clicks
from predilect.tasks.clicks_validate import validate_clicks
from predilect.tasks.parameters_reproduce_clicks import ReproduceClicksParameters
from predilect.tasks.runs import RESULTS, write_json
from predilect.tasks.summaries import markdown_summary
from predilect.tasks.training_run import experiment_name, training_run

ingest_task = as_task(ingest_clicks, "ingest", 6, **RETRY)
validate_task = as_task(validate_clicks, "validate", 2)
split_task = as_task(split_clicks, "split", 1)
compile_task = as_task(warm_up, "compile kernels", 1)
study_task = as_task(study_clicks, "cells", 240)
FILES = ("report.html", RESULTS, "comparison.csv")


@flow(name="reproduce-clicks", description="Compare the models and scores of Takahashi and Zhang (2017).")
def reproduce_clicks(parameters: ReproduceClicksParameters) -> dict[str, Any]:
    """Run the comparison; returns what `predilect reproduce clicks --json` prints.

    An interrupted run is resumed by starting it again. Raises PredilectError, one sentence, when the data or a
    parameter is at fault.
    """
    with (
        training_run(parameters, "clicks", flow_run.id, "reproduce") as run,
        progress_artifact(run.folder.name),
    ):
        with run.stage("ingest"):
            dataset = ingest_task(parameters)
        with run.stage("validate"):
            contract, manifest = validate_task(dataset, run.folder)
        with run.stage("split"):
            split = split_task(dataset, run.folder, parameters)
        with run.stage("compile"):
            compile_task()
        with run.stage("cells"):
            study = study_task(dataset, run.folder, parameters)
        run.tracker.tags({"predilect.part": "reproduction"})
        run_id = run.tracker.flush()
        timings = {name: round(seconds, 3) for name, seconds in run.timings.items()}
        facts = run.facts | {
            "family": "clicks-reproduction",
            "mlflow_run_id": run_id,
            "mlflow_url": run.run_url(run_id) if run_id else None,
            "duration_s": round(sum(timings.values()), 3),
        }
        shown = parameters.model_dump(mode="json")
        results = {
            "run": facts,
            "dataset": manifest,
            "contract": contract,
            "split": split,
            "study": study,
            "timings": timings,
            "parameters": shown,
        }
        write_json(run.folder / RESULTS, results)
        report_task(results, run.folder / "report.html")
        text = markdown_summary(results)
        create_markdown_artifact(text, key="results", description=f"Results of {run.folder.name}")
        link_runs(run, text)
        for name in FILES:
            run.tracker.artifact(run.folder / name)
        run_id = run.tracker.flush()
    return {
        "run": run.folder.name,
        "run_id": run_id or run.folder.name,
        "tracked": run_id is not None,
        "experiment": experiment_name("clicks"),
        "report_path": str(run.folder / "report.html"),
        "results_path": str(run.folder / RESULTS),
        "split": split,
        **{name: study[name] for name in ("rows", "reference", "cells_run", "cells_resumed")},
        "timings": timings,
        "parameters": shown,
    }
