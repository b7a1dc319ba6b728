"""Commands that use a trained ratings model: recommendations for everybody, and what the model has learned."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from predilect.flows.cli_common import JsonOption, SeedOption, ThreadsOption, out, show_progress
from predilect.tasks import runs
from predilect.tasks.settings import Settings

RunArgument = Annotated[str, typer.Argument(help="Run name, the start of it, or MLflow run id.")]


class Explore(StrEnum):
    """What recommendations are ranked by, besides the predicted rating."""

    none = "none"
    thompson = "thompson"
    quantile = "quantile"


def recommend(
    run: RunArgument,
    file: Annotated[Path, typer.Option("--out", help="The Parquet file to write; replaced when it is there.")],
    n: Annotated[int, typer.Option("--n", help="Items a user, 1 or more.")] = 10,
    explore: Annotated[
        Explore, typer.Option(help="thompson: one draw from the posterior; quantile: an upper quantile.")
    ] = Explore.none,
    quantile: Annotated[float, typer.Option(help="With --explore quantile: above 0, below 1.")] = 0.9,
    seen: Annotated[bool, typer.Option("--seen", help="Also what a user has rated already.")] = False,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the best items for every user of a ratings run."""
    from predilect.tasks.recommend import recommend as write

    settings = Settings()
    with show_progress("loading the model"):
        done = write(
            runs.find(settings, run),
            file,
            n=n,
            explore=explore.value,
            quantile=quantile,
            seed=seed or 0,
            seen=seen,
            threads=threads,
        )
    if as_json:
        print(json.dumps(done))
        return
    out.print(
        f"{done['rows']:,} recommendations for {done['users']:,} users in {done['out']}",
        highlight=False,
        soft_wrap=True,
    )


def explain(
    run: RunArgument,
    user: Annotated[
        str | None, typer.Option(help="Users like this one; with --item, what moved the prediction.")
    ] = None,
    item: Annotated[str | None, typer.Option(help="Items like this one.")] = None,
    n: Annotated[int, typer.Option("--n", help="How many to show, 1 or more.")] = 5,
    names: Annotated[Path | None, typer.Option(help="u.item, movies.dat, or a table with item and title.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a ratings run has learned: its dimensions, what is alike, which ratings moved a prediction."""
    from predilect.tasks import explain as task

    found = task.explain(runs.find(Settings(), run), user=user, item=item, n=n, names=names)
    print(json.dumps(found) if as_json else "\n".join(task.lines(found)))


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(recommend)
    app.command()(explain)
