"""The commands of the rankings family."""

from typing import Annotated, Any

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


def train_rankings(
    data: DataOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    name: NameOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train on rankings: ballots that name items, best first. Needs --set menu=all or --set menu=ranked."""
    from predilect.tasks.parameters_rankings import RankingsParameters

    parameters = RankingsParameters.parse(
        config, assignments or [], data=data, seed=seed, threads=threads, name=name, data_dir=data_dir
    )
    _run(parameters, as_json)


def reproduce_rankings(
    data: Annotated[str | None, typer.Option("--data", help="Real sets by path or name, with commas between.")] = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    seed: SeedOption = None,
    name: NameOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """The paper's synthetic study and real data with all comparators from common starts, as a table and plots."""
    from predilect.tasks.parameters_reproduce_rankings import ReproduceRankingsParameters
    from predilect.tasks.rankings_reproduce import real_sets
    from predilect.tasks.rankings_source import check_name

    parameters = ReproduceRankingsParameters.parse(
        config, assignments or [], data=data, seed=seed, name=name, data_dir=data_dir
    )
    check_name(parameters, Settings())
    real_sets(parameters, Settings())

    def flow() -> Any:
        from predilect.flows.reproduce_rankings import reproduce_rankings as study

        return study

    run_flow(flow, parameters, as_json)


def demo_rankings(as_json: bool) -> None:
    """Simulate ballots of three segments, find them, and say where everything is."""
    from predilect.tasks.parameters_rankings import Menu, RankingsParameters
    from predilect.tasks.simulate_rankings import simulate_rankings

    table = simulate_rankings(Settings().data / "demo-rankings", n_ballots=3_000, seed=1)
    _run(RankingsParameters(data=str(table), menu=Menu.all, k_max=5), as_json)


def _run(parameters: Any, as_json: bool) -> None:
    from predilect.tasks.rankings_source import check_source

    def flow() -> Any:
        from predilect.flows.train_rankings import train_rankings

        return train_rankings

    check_source(parameters, Settings())  # before Prefect is even imported
    run_flow(flow, parameters, as_json)
