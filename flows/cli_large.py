"""The commands for ratings that do not fit in memory."""

from typing import Any

import typer

from predilect.flows.cli_common import (
    ConfigOption,
    DataDirOption,
    DataOption,
    JsonOption,
    NameOption,
    SeedOption,
    SetOption,
    ThreadsOption,
    run_flow,
)
from predilect.tasks.settings import Settings


def register(train: typer.Typer) -> None:
    """Add the commands."""
    train.command("ratings-large")(train_ratings_large)


def train_ratings_large(
    data: DataOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    name: NameOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train on (user, item, rating) data that do not fit in memory: from files, with checkpoints, or on Dask."""
    from predilect.tasks.parameters_large import LargeRatingsParameters
    from predilect.tasks.ratings_source import check_source

    parameters = LargeRatingsParameters.parse(
        config, assignments or [], data=data, seed=seed, threads=threads, name=name, data_dir=data_dir
    )
    check_source(parameters, Settings())

    def flow() -> Any:
        from predilect.flows.train_large import train_ratings_large

        return train_ratings_large

    run_flow(flow, parameters, as_json)
