"""Training on ratings that do not fit in memory: ingest → validate → split → compile → fit → evaluate → report."""

from typing import Any

from prefect import flow
from prefect.runtime import flow_run

from predilect.flows.progress_artifact import progress_artifact
from predilect.flows.wiring import RETRY, as_task, conclude
from predilect.models.ratings.compile import warm_up
from predilect.tasks.large_evaluate import evaluate_large
from predilect.tasks.large_fit import fit_large, split_large_ratings
from predilect.tasks.parameters_large import LargeRatingsParameters
from predilect.tasks.ratings_source import ingest_large_source
from predilect.tasks.runs import read_json
from predilect.tasks.training_run import training_run
from predilect.tasks.validate_large import validate_large

ingest_task = as_task(ingest_large_source, "ingest out of core", 24, **RETRY)
validate_task = as_task(validate_large, "validate", 6)
split_task = as_task(split_large_ratings, "split", 6)
compile_task = as_task(warm_up, "compile kernels", 1)
fit_task = as_task(fit_large, "fit", 240)
evaluate_task = as_task(evaluate_large, "evaluate", 24)


@flow(
    name="train-ratings-large",
    description="Train a ratings model on data that do not fit in memory, on one machine or on Dask.",
)
def train_ratings_large(parameters: LargeRatingsParameters) -> dict[str, Any]:
    """Train on (user, item, rating) data kept in files; returns what `predilect train ratings-large --json` prints.

    Raises PredilectError, one sentence, when the data or a parameter is at fault.
    """
    with (
        training_run(parameters, "ratings", flow_run.id, called="ratings-large") as run,
        progress_artifact(run.folder.name),
    ):
        with run.stage("ingest"):
            folder = ingest_task(parameters)
        with run.stage("validate"):
            contract = validate_task(folder, run.folder, parameters)
        with run.stage("split"):
            split, sizes = split_task(folder, parameters)
        with run.stage("compile"):
            compile_task(parameters.inference.value)
        with run.stage("fit"):
            fit = fit_task(folder, split, run.folder, parameters)
        with run.stage("evaluate"):
            evaluation = evaluate_task(split, run.folder, parameters)
        return conclude(
            run,
            {
                "dataset": read_json(folder / "manifest.json"),
                "contract": contract,
                "split": sizes,
                "search": {"kind": "auto", "budget": None, "candidates": [], "chosen": None},
                "fit": fit,
                "evaluation": evaluation,
                "cold_start": None,
                "parameters": parameters.model_dump(mode="json"),
            },
        )
