"""The training flow of rankings: ingest → validate → split → search K → fit → evaluate → report, all tracked."""

from typing import Any

from prefect import flow
from prefect.runtime import flow_run

from predilect.flows.progress_artifact import progress_artifact
from predilect.flows.wiring import RETRY, as_task, conclude
from predilect.models.rankings.compile import warm_up
from predilect.tasks.parameters_rankings import RankingsParameters
from predilect.tasks.rankings_evaluate import evaluate_rankings
from predilect.tasks.rankings_fit import fit_rankings, split_rankings
from predilect.tasks.rankings_search import search_components
from predilect.tasks.rankings_source import ingest_rankings
from predilect.tasks.rankings_validate import validate_rankings
from predilect.tasks.training_run import training_run

ingest_task = as_task(ingest_rankings, "ingest", 6, **RETRY)
validate_task = as_task(validate_rankings, "validate", 2)
split_task = as_task(split_rankings, "split", 1)
compile_task = as_task(warm_up, "compile kernels", 1)
search_task = as_task(search_components, "search number of segments", 48)
fit_task = as_task(fit_rankings, "fit", 48)
evaluate_task = as_task(evaluate_rankings, "evaluate", 48)


@flow(name="train-rankings", description="Fit a mixture of Plackett-Luce models, track it and write its report.")
def train_rankings(parameters: RankingsParameters) -> dict[str, Any]:
    """Train on rankings; returns what `predilect train rankings --json` prints.

    Raises PredilectError, one sentence, when the data or a parameter is at fault.
    """
    with training_run(parameters, "rankings", flow_run.id) as run, progress_artifact(run.folder.name):
        with run.stage("ingest"):
            dataset = ingest_task(parameters)
        with run.stage("validate"):
            contract, manifest = validate_task(dataset, run.folder, parameters)
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
        return conclude(
            run,
            {
                "dataset": manifest,
                "contract": contract,
                "split": split,
                "search": search,
                "fit": fit,
                "evaluation": evaluation,
                "parameters": parameters.model_dump(mode="json"),
            },
        )
