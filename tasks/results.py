"""results.json: everything a run found, gathered from its stages; and what the command prints of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from predilect.tasks.runs import RESULTS, read_json, write_json
from predilect.tasks.tracking import Tracker
from predilect.tasks.training_run import experiment_name

Json = dict[str, Any]

FIT_FIGURES = ("n_sweeps", "effective_dimensions", "n_components", "n_passes", "certificate",
               "n_rounds", "n_iterations", "gradient_norm")  # fmt: skip
SERIES = ("bound", "noise_sd", "log_likelihood_trace")  # one value a sweep or iteration, in the fit part


def write_results(run: Path, facts: Json, stages: Mapping[str, Json | None], timings: Mapping[str, float]) -> Json:
    """Merge the stages' findings into results.json. `stages["evaluation"]` holds several parts, the others one each."""
    evaluation = stages["evaluation"] or {}
    results = {
        "run": facts | {"duration_s": round(sum(timings.values()), 3)},
        **{name: part for name, part in stages.items() if name != "evaluation"},
        **evaluation,
        "timings": {name: round(seconds, 3) for name, seconds in timings.items()},
    }
    write_json(run / RESULTS, results)
    return results


def log_results(tracker: Tracker, results: Json) -> None:
    """Say the results to the tracker: figures with intervals, series a sweep, the data set and tags to filter by."""
    dataset, fit = results["dataset"], results["fit"]
    figures: dict[str, float] = {}
    for name, estimate in results["metrics"].items():
        figures |= {name: estimate["value"], f"{name}_low": estimate["low"], f"{name}_high": estimate["high"]}
    for baseline, metrics in results.get("baselines", {}).items():
        figures |= {f"{name}_{baseline.replace(' ', '_')}": estimate["value"] for name, estimate in metrics.items()}
    figures |= {f"seconds_{stage.replace(' ', '_')}": seconds for stage, seconds in results["timings"].items()}
    figures |= {name: float(fit[name]) for name in FIT_FIGURES if name in fit}
    if results.get("cold_start"):
        study = results["cold_start"]
        for kappa, mae, efficiency in zip(study["kappa"], study["mae"], study["efficiency"], strict=True):
            tracker.metrics({"cold_start_mae": mae, "cold_start_efficiency": efficiency}, step=kappa)
    tracker.metrics(figures)
    for name in SERIES:
        if name in fit:
            tracker.series(name, fit[name])
    profile = {name: value for name, value in dataset.items() if isinstance(value, int | float | str)}
    tracker.dataset(dataset["name"], dataset["digest"], json.dumps(dataset["source"]), profile)
    tracker.tags(
        {
            "predilect.dataset": dataset["name"],
            "predilect.digest": dataset["digest"],
            "predilect.split": results["split"]["kind"],
            "predilect.search": results["search"]["kind"],
            **({"predilect.inference": asked} if (asked := results["parameters"].get("inference")) else {}),
            "predilect.contract": "passed" if results["contract"]["success"] else "rows set aside",
        }
    )


def summary(run: Path, results: Json, run_id: str | None, timings: Mapping[str, float]) -> Json:
    """What `train --json` prints."""
    return {
        "run": run.name,
        "run_id": run_id or run.name,
        "tracked": run_id is not None,
        "experiment": experiment_name(results["run"]["family"]),
        "model_path": str(run / "model"),
        "report_path": str(run / "report.html"),
        "results_path": str(run / RESULTS),
        "dataset": {name: value for name, value in results["dataset"].items() if isinstance(value, int | str)},
        "split": results["split"],
        "metrics": results["metrics"],
        "baselines": results.get("baselines", {}),
        "differences": results.get("differences", {}),
        "timings": {name: round(seconds, 3) for name, seconds in timings.items()},
        "parameters": results["parameters"],
    }


def read_results(run: Path) -> Json:
    """The results of a finished run."""
    results: Json = read_json(run / RESULTS)
    return results
