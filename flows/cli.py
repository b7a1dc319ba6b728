"""The `predilect` command. It calls the same flow functions that Prefect deployments call."""

import json
import logging
import os
import sys
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from predilect import __version__
from predilect.flows import (
    cli_compare,
    cli_housekeeping,
    cli_large,
    cli_models,
    cli_operate,
    cli_plan,
    cli_reproduce_ratings,
    cli_retrain,
    cli_score,
    cli_serve,
    cli_use,
)
from predilect.flows.cli_clicks import demo_clicks, register_clicks, train_clicks
from predilect.flows.cli_common import (
    ConfigOption,
    DataDirOption,
    DataOption,
    JsonOption,
    NameOption,
    SeedOption,
    SetOption,
    ThreadsOption,
    err,
    out,
    plain,
    run_flow,
)
from predilect.flows.cli_rankings import demo_rankings, reproduce_rankings, train_rankings
from predilect.models.errors import PredilectError
from predilect.tasks import runs
from predilect.tasks.lines import whole_lines
from predilect.tasks.settings import Settings, prepare_environment

app = typer.Typer(
    help="Probabilistic preference models that a team can retrain every night.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
train = typer.Typer(help="Train a model: ingest, validate, search, fit, evaluate, report, track.", no_args_is_help=True)
app.add_typer(train, name="train")
reproduce = typer.Typer(help="Repeat the study of a paper, with every comparator.", no_args_is_help=True)
app.add_typer(reproduce, name="reproduce")
reproduce.command("rankings")(reproduce_rankings)
cli_large.register(train)
train.command("rankings")(train_rankings)
train.command("clicks")(train_clicks)
register_clicks(reproduce)
cli_use.register(app)
cli_operate.register(app)
cli_serve.register(app)
cli_housekeeping.register(app)
cli_models.register(app)
cli_compare.register(app)
cli_retrain.register(app)
cli_score.register(app)
cli_plan.register(app)
cli_reproduce_ratings.register(reproduce)

UsersOption = Annotated[str | None, typer.Option("--users", help="A table with a row a user.")]
ItemsOption = Annotated[str | None, typer.Option("--items", help="A table with a row an item.")]
QuarantineOption = Annotated[bool | None, typer.Option("--quarantine", help="Set rows that break the contract aside.")]


class Family(StrEnum):
    """The kinds of data there is a demo of."""

    ratings = "ratings"
    rankings = "rankings"
    clicks = "clicks"


def main() -> None:
    """Run the command line; mistakes of the user end in one sentence, not in a traceback."""
    # The command line shows progress and errors itself; a user's own level wins.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        prepare_environment(Settings())
        app()
    except PredilectError as error:
        err.print(f"[bold red]Error:[/] {plain(error)}", soft_wrap=True, highlight=False)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(1)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"predilect {__version__}")
        raise typer.Exit


@app.callback()
def _before_any_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    if context.invoked_subcommand in ("status", "logs"):  # they only look, and health checks ask often
        return
    from predilect.tasks.tracking import catch_up, reconcile

    for name in reconcile(Settings()):
        err.print(f"Run {name} had ended without saying so; it is now marked KILLED.")
    for name in catch_up(Settings()):
        err.print(f"The results of run {name} had waited; they are in MLflow now.")


@train.command("ratings")
def train_ratings(
    data: DataOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    name: NameOption = None,
    data_dir: DataDirOption = None,
    quarantine: QuarantineOption = None,
    users: UsersOption = None,
    items: ItemsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train on (user, item, rating) data."""
    from predilect.tasks.parameters import RatingsParameters

    parameters = RatingsParameters.parse(
        config,
        assignments or [],
        data=data,
        seed=seed,
        threads=threads,
        name=name,
        data_dir=data_dir,
        quarantine=quarantine,
        users=users,
        items=items,
    )
    _run_ratings(parameters, as_json)


@app.command()
def demo(
    family: Annotated[Family, typer.Argument(help="Which kind of data.")] = Family.ratings, as_json: JsonOption = False
) -> None:
    """Simulate realistic data, train on them, and say where everything is."""
    demos = {Family.ratings: _demo_ratings, Family.rankings: demo_rankings, Family.clicks: demo_clicks}
    demos[family](as_json)


def _demo_ratings(as_json: bool) -> None:
    from predilect.tasks.parameters import RatingsParameters
    from predilect.tasks.simulate import simulate_ratings

    settings = Settings()
    table = simulate_ratings(settings.data / "demo", n_users=2_000, n_items=1_000, n_ratings=120_000, seed=1)
    _run_ratings(RatingsParameters(data=str(table), cold_start=True, cold_start_repeats=1), as_json)


@app.command()
def simulate(
    folder: Annotated[Path, typer.Argument(help="Where to write ratings.parquet (or .csv) and the truth.")],
    users: Annotated[int, typer.Option(help="How many people, 2 or more.")] = 2_000,
    items: Annotated[int, typer.Option(help="How many things, 2 or more.")] = 1_000,
    ratings: Annotated[int, typer.Option(help="How many ratings.")] = 120_000,
    seed: Annotated[int, typer.Option(help="Same seed, same table.")] = 0,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV instead of Parquet.")] = False,
) -> None:
    """Simulate a realistic ratings table; the truth is kept beside it."""
    from predilect.tasks.simulate import simulate_ratings

    simulated = simulate_ratings(
        folder, n_users=users, n_items=items, n_ratings=ratings, seed=seed, file_format="csv" if csv else "parquet"
    )
    print(simulated)


@app.command("runs")
def list_runs(as_json: JsonOption = False) -> None:
    """List the training runs, newest first."""
    rows = [_run_row(folder) for folder in _run_folders(Settings())]
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        out.print("No runs yet: start with `predilect demo`.")
        return
    table = Table("run", "status", "data", "figures", "seconds", "MLflow run", box=None)
    for row in rows:
        seconds = f"{row['seconds']:.0f}" if row["seconds"] is not None else "–"
        data, figures = plain(row["data"] or "–"), plain(row["figures"] or "–")
        table.add_row(row["run"], row["status"], data, figures, seconds, row["run_id"] or "not logged")
    out.print(table)


@app.command()
def report(
    run: Annotated[str, typer.Argument(help="Run name, the start of it, or MLflow run id.")],
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
) -> None:
    """Show a run's report page."""
    from predilect.models.errors import ParameterError

    page = runs.find(Settings(), run) / "report.html"
    if not page.is_file():
        raise ParameterError(f"RUN = {run!r}: the run {page.parent.name} has no report; it did not finish.")
    print(page)
    if open_it:
        webbrowser.open(page.as_uri())


@app.command()
def sync(run: Annotated[str | None, typer.Argument(help="One run; default: all that wait.")] = None) -> None:
    """Log results that could not be logged when the run ended."""
    from predilect.tasks.tracking import Tracker, waiting

    settings = Settings()
    folders = [runs.find(settings, run)] if run else waiting(settings)
    for folder in folders:
        print(f"{folder.name}: MLflow run {Tracker(folder, settings).send()}")
    if not folders:
        print("Nothing waits: every run is logged.")


@app.command()
def doctor(data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Check versions, threads, ports, the data folder and the tracking store."""
    from predilect.tasks.doctor import examine

    checks = examine(Settings(), Path(data_dir) if data_dir else None)
    if as_json:
        print(json.dumps([check.__dict__ for check in checks]))
    else:
        table = Table("", "check", "found", box=None)
        for check in checks:
            table.add_row("[green]ok[/]" if check.ok else "[red]![/]", check.name, plain(check.found))
        out.print(table)
    if not all(check.ok for check in checks):
        sys.exit(1)


def _run_ratings(parameters: Any, as_json: bool) -> None:
    from predilect.tasks.ratings_source import check_source

    def flow() -> Any:
        from predilect.flows.train import train_ratings

        return train_ratings

    check_source(parameters, Settings())  # before Prefect is even imported
    run_flow(flow, parameters, as_json)


def _run_folders(settings: Settings) -> list[Path]:
    folders = {path.parent for path in settings.runs.glob("*/journal.jsonl")}
    return sorted(folders, key=lambda folder: (folder / "journal.jsonl").stat().st_mtime, reverse=True)


def _run_row(folder: Path) -> dict[str, Any]:
    said = whole_lines(folder / "journal.jsonl")
    end = said[-1]["status"] if said and said[-1]["do"] == "finish" else "RUNNING"
    results = runs.read_json(folder / runs.RESULTS) if (folder / runs.RESULTS).is_file() else {}
    from predilect.tasks.summaries import figures

    return {
        "run": folder.name,
        "status": end,
        "data": (results.get("dataset") or {}).get("name"),
        "family": results.get("run", {}).get("family"),
        "metrics": {name: estimate.get("value") for name, estimate in (results.get("metrics") or {}).items()},
        "figures": figures(results),
        "seconds": results.get("run", {}).get("duration_s"),
        "run_id": runs.mlflow_id(folder),
    }


if __name__ == "__main__":
    main()
