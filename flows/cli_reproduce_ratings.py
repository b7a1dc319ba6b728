"""`predilect reproduce table2` and so on: the tables and figures of the ratings paper."""

import json
from collections.abc import Callable
from typing import Any

import typer
from rich.table import Table

from predilect.flows.cli_common import (
    ConfigOption,
    DataDirOption,
    DataOption,
    JsonOption,
    NameOption,
    SeedOption,
    SetOption,
    ThreadsOption,
    call_flow,
    out,
    plain,
)

ABOUT = {
    "table2": "Accuracy on MovieLens 100k, 1M and 10M (Langseth and Nielsen, 2015).",
    "table3": "Accuracy on Last.fm, Jester and BookCrossing.",
    "figure2": "Time of mean field against exact EM on 16 structures.",
    "figure3": "Cold start: efficiency by the ratings kept of new users; 125 fits a point.",
}


def register(app: typer.Typer) -> None:
    """Add these commands to `predilect reproduce`."""
    for experiment, about in ABOUT.items():
        app.command(experiment, help=about)(_command(experiment))


def _command(experiment: str) -> Callable[..., None]:
    def run(
        data: DataOption = None,
        config: ConfigOption = None,
        assignments: SetOption = None,
        seed: SeedOption = None,
        threads: ThreadsOption = None,
        name: NameOption = None,
        data_dir: DataDirOption = None,
        as_json: JsonOption = False,
    ) -> None:
        from predilect.tasks.parameters_reproduce_ratings import ReproduceRatingsParameters

        parameters = ReproduceRatingsParameters.parse(
            config, assignments or [], experiment=experiment, data=data, seed=seed, threads=threads, name=name,
            data_dir=data_dir,
        )  # fmt: skip
        _run(parameters, as_json)

    return run


def _flow() -> Callable[[Any], dict[str, Any]]:
    from predilect.flows.reproduce_ratings import reproduce_paper

    return reproduce_paper


def _run(parameters: Any, as_json: bool) -> None:
    from predilect.tasks import ratings_reproduce_output as output
    from predilect.tasks.ratings_reproduce import datasets

    datasets(parameters)  # before Prefect is even imported
    stopped = "What was finished is kept: the same command goes on from there."
    summary = call_flow(_flow, parameters, stopped)
    if as_json:
        print(json.dumps(summary))
        return
    table = Table(*output.HEADS[output.kind(summary["experiment"])], box=None)
    for row in output.cells(summary["experiment"], summary["rows"], summary["missing"]):
        table.add_row(*map(plain, row))
    out.print(table)
    for said in output.notes(summary["missing"]):
        out.print(said, soft_wrap=True, highlight=False)
    out.print(f"\nReport  {summary['report_path']}\nTable   {summary['table_path']}", soft_wrap=True, highlight=False)
