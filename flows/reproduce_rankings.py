"""The reproduction of the rankings paper as a flow: synthetic grid and real data, tracked and reported."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run

from predilect.flows.progress_artifact import progress_artifact
from predilect.flows.wiring import as_task, link_runs, report_task
from predilect.models.rankings.compile import warm_up
from predilect.tasks.parameters_reproduce_rankings import ReproduceRankingsParameters
from predilect.tasks.rankings_reproduce import study_real, study_synthetic, summarise
from predilect.tasks.runs import RESULTS, write_json
from predilect.tasks.summaries import markdown_summary
from predilect.tasks.training_run import experiment_name, training_run

compile_task = as_task(warm_up, "compile kernels", 1)
synthetic_task = as_task(study_synthetic, "synthetic data", 48)
real_task = as_task(study_real, "real data", 48)
FILES = ("report.html", RESULTS, "synthetic.csv", "real.csv")


@flow(name="reproduce-rankings", description="Compare the algorithms of the rankings paper from common starts.")
def reproduce_rankings(parameters: ReproduceRankingsParameters) -> dict[str, Any]:
    """Run the study; returns what `predilect reproduce rankings --json` prints.

    Raises PredilectError, one sentence, when the data or a parameter is at fault.
    """
    with (
        training_run(parameters, "rankings", flow_run.id, "reproduce") as run,
        progress_artifact(run.folder.name),
    ):
        with run.stage("compile"):
            compile_task()
        with run.stage("synthetic"):
            synthetic = synthetic_task(run.folder, parameters)
        with run.stage("real"):
            real = real_task(run.folder, parameters)
        run.tracker.tags({"predilect.part": "reproduction"})
        run_id = run.tracker.flush()
        timings = {name: round(seconds, 3) for name, seconds in run.timings.items()}
        facts = run.facts | {
            "family": "rankings-reproduction",
            "mlflow_run_id": run_id,
            "mlflow_url": run.run_url(run_id) if run_id else None,
            "duration_s": round(sum(timings.values()), 3),
        }
        shown = parameters.model_dump(mode="json")
        results = {"run": facts, "synthetic": synthetic, "real": real, "timings": timings, "parameters": shown}
        write_json(run.folder / RESULTS, results)
        report_task(results, run.folder / "report.html")
        text = markdown_summary(results)
        create_markdown_artifact(text, key="results", description=f"Results of {run.folder.name}")
        link_runs(run, text)
        for name in FILES:
            run.tracker.artifact(run.folder / name)
        run_id = run.tracker.flush()
    cell = ("n_items", "n_informative", "n_components", "n_ballots")
    return {
        "run": run.folder.name,
        "run_id": run_id or run.folder.name,
        "tracked": run_id is not None,
        "experiment": experiment_name("rankings"),
        "report_path": str(run.folder / "report.html"),
        "results_path": str(run.folder / RESULTS),
        "synthetic": summarise(synthetic, cell, ("error", "ratio", "log_likelihood", "seconds", "iterations")),
        "real": summarise(real, ("set", "n_components"), ("held_out", "log_likelihood", "seconds", "iterations")),
        "timings": timings,
        "parameters": shown,
    }
