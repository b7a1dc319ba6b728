"""Batch scores by a registered model, as a flow."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact

from predilect.flows.wiring import as_task
from predilect.tasks.score import ScoreParameters, score
from predilect.tasks.settings import Settings
from predilect.tasks.training_run import mlflow_page

score_task = as_task(score, "score", 24)


@flow(name="score-batch", description="Write a registered model's predictions for every row of a Parquet file.")
def score_batch(parameters: ScoreParameters) -> dict[str, Any]:
    """Score; an interrupted run goes on with the blocks that it has not written."""
    done = score_task(parameters)
    lines = [f"| {name.removeprefix('predilect.')} | {value} |" for name, value in done.items()]
    create_markdown_artifact("\n".join(["| | |", "|---|---|", *lines]), key="scores", description=done["out"])
    if "predilect.model" in done:
        name, number = done["predilect.model"].removeprefix("models:/").split("/")
        page = mlflow_page(Settings(), f"models/{name}/versions/{number}")
        create_link_artifact(page, link_text=f"{name} version {number}", key="model")
    return done
