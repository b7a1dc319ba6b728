"""The reproduction flow: the paper's protocol on every set that is there, one child run a cell, all resumable."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run

from predilect.flows.progress_artifact import progress_artifact
from predilect.flows.wiring import as_task, link_runs
from predilect.models.ratings.compile import warm_up
from predilect.tasks import ratings_reproduce_output as output
from predilect.tasks.parameters_reproduce_ratings import ReproduceRatingsParameters
from predilect.tasks.ratings_reproduce import datasets, reproduce
from predilect.tasks.report import write_report
from predilect.tasks.runs import RESULTS, write_json
from predilect.tasks.training_run import TrainingRun, training_run

data_task = as_task(datasets, "find data", 6)
compile_task = as_task(warm_up, "compile kernels", 1)
cells_task = as_task(reproduce, "cells", 240)


@flow(name="reproduce-ratings", description="Reproduce a table or figure of Langseth and Nielsen (2015).")
def reproduce_paper(parameters: ReproduceRatingsParameters) -> dict[str, Any]:
    """Returns what `predilect reproduce --json` prints: `rows`, `missing`, and where the files are.

    An interrupted run is resumed by starting it again. Raises PredilectError, one sentence, when the data or a
    parameter is at fault.
    """
    experiment = parameters.experiment.value
    with (
        training_run(parameters, experiment, flow_run.id, "reproduce", "predilect-reproduce") as run,
        progress_artifact(run.folder.name),
    ):
        with run.stage("data"):
            folders, missing = data_task(parameters)
        with run.stage("compile"):
            compile_task()
        with run.stage("cells"):
            found = cells_task(parameters, folders) | {"experiment": experiment, "missing": missing}
        with run.stage("report"):
            text = _write(run, parameters, found)
            create_markdown_artifact(text, key="reproduction", description=f"{experiment} of {run.folder.name}")
            link_runs(run, text)
        return {
            "run_id": run.tracker.flush(),
            "experiment": experiment,
            "rows": found["rows"],
            "missing": missing,
            "cells_run": found["run"],
            "cells_resumed": found["resumed"],
            "report_path": str(run.folder / "report.html"),
            "table_path": str(run.folder / "table.csv"),
        }


def _write(run: TrainingRun, parameters: ReproduceRatingsParameters, found: dict[str, Any]) -> str:
    """Results, table and page in the run folder; a child run a row. Returns the table as Markdown."""
    experiment = found["experiment"]
    heads = output.HEADS[output.kind(experiment)]
    table = output.cells(experiment, found["rows"], found["missing"])
    results = {
        "run": run.facts | {"family": "ratings-reproduction", "duration_s": round(sum(run.timings.values()), 3)},
        "reproduction": found,
        "parameters": parameters.model_dump(mode="json"),
        "timings": run.timings,
    }
    write_json(run.folder / RESULTS, results)
    output.write_csv(run.folder / "table.csv", heads, table)
    write_report(results, run.folder / "report.html")
    for row in found["rows"]:
        names = [str(row[key]) for key in ("dataset", "method", "s", "t", "kappa") if key in row]
        figures = {
            key: value for key, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)
        }
        params = {key: value for key, value in row.items() if key not in figures}
        run.tracker.child(" ".join(names), params, figures, {"predilect.part": f"reproduction {experiment}"})
    text = output.markdown(heads, table, output.notes(found["missing"]))
    for name in (RESULTS, "table.csv", "report.html"):
        run.tracker.artifact(run.folder / name)
    return text
