"""The training flow: ingest → validate → split → search → fit → evaluate → cold start → report, all tracked."""

from typing import Any

from prefect import flow
from prefect.runtime import flow_run

from predilect.flows.progress_artifact import progress_artifact
from predilect.flows.wiring import RETRY, as_task, conclude
from predilect.models.ratings.compile import warm_up
from predilect.tasks.cold_start import study_cold_start
from predilect.tasks.evaluate import evaluate_ratings
from predilect.tasks.fit import fit_ratings, split_ratings
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.ratings_source import ingest_source
from predilect.tasks.search import search_structure
from predilect.tasks.training_run import training_run
from predilect.tasks.validate import validate

ingest_task = as_task(ingest_source, "ingest", 6, **RETRY)
validate_task = as_task(validate, "validate", 2)
split_task = as_task(split_ratings, "split", 1)
compile_task = as_task(warm_up, "compile kernels", 1)
search_task = as_task(search_structure, "search structure", 48)
fit_task = as_task(fit_ratings, "fit", 48)
evaluate_task = as_task(evaluate_ratings, "evaluate", 12)
cold_start_task = as_task(study_cold_start, "cold start", 48)


@flow(name="train-ratings", description="Train and evaluate a ratings model, track it and write its report.")
def train_ratings(parameters: RatingsParameters) -> dict[str, Any]:
    """Train on (user, item, rating) data; returns what `predilect train ratings --json` prints.

    Raises PredilectError, one sentence, when the data or a parameter is at fault.
    """
    with training_run(parameters, "ratings", flow_run.id) as run, progress_artifact(run.folder.name):
        with run.stage("ingest"):
            dataset = ingest_task(parameters)
        with run.stage("validate"):
            contract, dataset, manifest = validate_task(dataset, run.folder, parameters)
        with run.stage("split"):
            split = split_task(dataset, run.folder, parameters)
        with run.stage("compile"):
            compile_task(parameters.inference.value)
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
        return conclude(
            run,
            {
                "dataset": manifest,
                "contract": contract,
                "split": split,
                "search": search,
                "fit": fit,
                "evaluation": evaluation,
                "cold_start": cold_start,
                "parameters": parameters.model_dump(mode="json"),
            },
        )
