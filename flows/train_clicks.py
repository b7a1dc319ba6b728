"""The training flow of clicks: ingest → validate → split → fit → evaluate → report, all tracked."""

from typing import Any

from prefect import flow
from prefect.runtime import flow_run

from predilect.flows.progress_artifact import progress_artifact
from predilect.flows.wiring import RETRY, as_task, conclude
from predilect.models.clicks.compile import warm_up
from predilect.tasks.clicks_evaluate import evaluate_clicks
from predilect.tasks.clicks_fit import fit_clicks, split_clicks
from predilect.tasks.clicks_source import ingest_clicks
from predilect.tasks.clicks_validate import validate_clicks
from predilect.tasks.parameters_clicks import ClicksParameters
from predilect.tasks.training_run import training_run

ingest_task = as_task(ingest_clicks, "ingest", 6, **RETRY)
validate_task = as_task(validate_clicks, "validate", 2)
split_task = as_task(split_clicks, "split", 1)
compile_task = as_task(warm_up, "compile kernels", 1)
fit_task = as_task(fit_clicks, "fit", 48)
evaluate_task = as_task(evaluate_clicks, "evaluate", 48)


@flow(name="train-clicks", description="Fit a contextual beta-binomial of clicks, track it and write its report.")
def train_clicks(parameters: ClicksParameters) -> dict[str, Any]:
    """Train on clicks; returns what `predilect train clicks --json` prints."""
    with training_run(parameters, "clicks", flow_run.id) as run, progress_artifact(run.folder.name):
        with run.stage("ingest"):
            dataset = ingest_task(parameters)
        with run.stage("validate"):
            contract, manifest = validate_task(dataset, run.folder)
        with run.stage("split"):
            split = split_task(dataset, run.folder, parameters)
        with run.stage("compile"):
            compile_task()
        with run.stage("fit"):
            fit = fit_task(dataset, run.folder, parameters)
        with run.stage("evaluate"):
            evaluation = evaluate_task(dataset, run.folder, parameters)
        return conclude(
            run,
            {
                "dataset": manifest,
                "contract": contract,
                "split": split,
                "search": {"kind": "empirical Bayes" if parameters.evidence != "fixed" else "none"},
                "fit": fit,
                "evaluation": evaluation,
                "parameters": parameters.model_dump(mode="json"),
            },
        )
