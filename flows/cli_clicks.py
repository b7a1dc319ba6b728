"""The commands of the clicks family."""

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


def train_clicks(
    data: DataOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    name: NameOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train on clicks: impressions and clicks in context, as a table of counts or a log."""
    from predilect.tasks.parameters_clicks import ClicksParameters

    parameters = ClicksParameters.parse(
        config, assignments or [], data=data, seed=seed, threads=threads, name=name, data_dir=data_dir
    )
    _run(parameters, as_json)


def demo_clicks(as_json: bool) -> None:
    """Simulate headlines with what was clicked, learn what draws clicks, and say where everything is."""
    from predilect.tasks.parameters_clicks import ClicksParameters
    from predilect.tasks.simulate_clicks import simulate_clicks

    table = simulate_clicks(Settings().data / "demo-clicks", n_headlines=4_000, seed=1)
    _run(ClicksParameters(data=str(table), texts=["title"], categories=["place"], group="test", resamples=200), as_json)


def _run(parameters: Any, as_json: bool) -> None:
    from predilect.tasks.clicks_source import check_source

    def flow() -> Any:
        from predilect.flows.train_clicks import train_clicks

        return train_clicks

    check_source(parameters, Settings())  # before Prefect is even imported
    run_flow(flow, parameters, as_json)


def reproduce_clicks(
    data: DataOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    name: NameOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """The paper's comparison of models and scores on the data at hand; an interrupted one goes on when repeated."""
    from predilect.tasks.clicks_source import check_source
    from predilect.tasks.parameters_reproduce_clicks import ReproduceClicksParameters

    parameters = ReproduceClicksParameters.parse(
        config, assignments or [], data=data, seed=seed, threads=threads, name=name, data_dir=data_dir
    )
    check_source(parameters, Settings())

    def flow() -> Any:
        from predilect.flows.reproduce_clicks import reproduce_clicks as study

        return study

    run_flow(flow, parameters, as_json)


def register_clicks(reproduce: typer.Typer) -> None:
    """Add the paper's comparison to the command line."""
    reproduce.command("clicks")(reproduce_clicks)
