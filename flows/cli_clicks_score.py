"""`predilect score clicks`: what a clicks model says of a table, row by row or as lists to show."""

import json
from pathlib import Path
from typing import Annotated

import typer

from predilect.flows.cli_common import (
    ComputeOption,
    JsonOption,
    SchedulerOption,
    SeedOption,
    ThreadsOption,
    WorkersOption,
    out,
    plain,
    show_progress,
)
from predilect.tasks.settings import Settings


def score_clicks(
    data: Annotated[Path, typer.Option("--data", help="Parquet file with the context columns of the training data.")],
    file: Annotated[Path, typer.Option("--out", help="The Parquet file to write; replaced when it is there.")],
    model: Annotated[
        str, typer.Option("--model", help="champion, challenger, a version's number, or a run.")
    ] = "champion",
    scores: Annotated[
        str | None, typer.Option(help="Some of mean, ucbe, ucqe, euq, ucquq, uqp, thompson. Default: all.")
    ] = None,
    length: Annotated[
        int | None, typer.Option(help="Write lists of so many rows instead of all rows; 1 or more.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="With --length: a list a value of this column. Default: one.")] = None,
    budget: Annotated[float, typer.Option(help="With --length: share of the places that explore, 0 to 1.")] = 0.2,
    explore: Annotated[str, typer.Option(help="With --length: scores that take the exploring places in turn.")] = "uqp",
    nu: Annotated[float, typer.Option(help="Quantile of the optimistic scores: above 0, below 1.")] = 0.95,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    compute: ComputeOption = None,
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a table with a clicks model, or choose what to show under an exploration budget."""
    from predilect.tasks.clicks_score import rank_clicks
    from predilect.tasks.clicks_score import score_clicks as write
    from predilect.tasks.score import ScoreParameters
    from predilect.tasks.score_blocks import choose_model

    where = ScoreParameters.parse(
        None, [], data=str(data), out=str(file), threads=threads, compute=compute, scheduler=scheduler, workers=workers
    )
    with show_progress("loading the model"):
        chosen = choose_model(Settings(), "clicks", model)
        if length is None:
            done = write(
                chosen, data, file, scores=_names(scores), nu=nu, seed=seed or 0, n_threads=threads, where=where
            )
        else:
            done = rank_clicks(
                chosen, data, file, length=length, by=by, budget=budget, explore=_names(explore), nu=nu,
                seed=seed or 0, n_threads=threads, where=where,
            )  # fmt: skip
    if as_json:
        print(json.dumps(done))
        return
    for said in done["warnings"]:
        out.print(f"[bold yellow]![/] {plain(said)}", highlight=False, soft_wrap=True)
    by = done.get("predilect.model", done["predilect.run"])
    said = f"{done['rows']:,} rows scored by {by} in {done['out']}"
    if length is not None:
        said = (
            f"{done['shown']:,} of {done['rows']:,} rows in lists of {length}, "
            f"{done['explored']:,} of them to explore, in {done['out']}"
        )
    out.print(plain(said), highlight=False, soft_wrap=True)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
