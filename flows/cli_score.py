"""`predilect score FAMILY`: predictions for a whole table; a family adds its command here."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from predilect.flows.cli_clicks_score import score_clicks
from predilect.flows.cli_common import (
    ComputeOption,
    JsonOption,
    SchedulerOption,
    ThreadsOption,
    WorkersOption,
    out,
    show_progress,
)

OutOption = Annotated[Path, typer.Option("--out", help="The Parquet file to write; replaced when it is there.")]
ModelOption = Annotated[str, typer.Option("--model", help="champion, challenger, a version's number, or a run.")]


def score_ratings(
    data: Annotated[Path, typer.Option("--data", help="Parquet file with the columns user and item.")],
    file: OutOption,
    model: ModelOption = "champion",
    threads: ThreadsOption = None,
    compute: ComputeOption = None,
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the rating of each user and item, with its standard deviation."""
    where = {"threads": threads, "compute": compute, "scheduler": scheduler, "workers": workers}
    _score("ratings", data, file, model, as_json, where)


def score_rankings(
    data: Annotated[Path, typer.Option("--data", help="Parquet file with the columns better and worse.")],
    file: OutOption,
    model: ModelOption = "champion",
    threads: ThreadsOption = None,
    compute: ComputeOption = None,
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give the chance that the one item comes before the other."""
    where = {"threads": threads, "compute": compute, "scheduler": scheduler, "workers": workers}
    _score("rankings", data, file, model, as_json, where)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    score = typer.Typer(help="Score a table with a trained model.", no_args_is_help=True)
    score.command("ratings")(score_ratings)
    score.command("rankings")(score_rankings)
    score.command("clicks")(score_clicks)
    app.add_typer(score, name="score")


def _score(family: str, data: Path, file: Path, model: str, as_json: bool, where: dict[str, Any]) -> None:
    from predilect.tasks.score import ScoreParameters, score

    asked = ScoreParameters.parse(None, [], family=family, data=str(data), out=str(file), model=model, **where)
    with show_progress("loading the model"):
        done: dict[str, Any] = score(asked)
    if as_json:
        print(json.dumps(done))
        return
    by = done.get("predilect.model", done["predilect.run"])
    out.print(f"{done['rows']:,} rows scored by {by} in {done['out']}", highlight=False, soft_wrap=True)
