"""What the commands share: consoles, options, and how a flow is run with its progress and its summary shown."""

import contextlib
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from predilect.models.errors import PredilectError
from predilect.tasks import progress, runs, temporary_server
from predilect.tasks.interrupts import stoppable
from predilect.tasks.output import need_space
from predilect.tasks.settings import Settings

log = logging.getLogger(__name__)
ROOM = 200e6  # bytes that the databases of Prefect and MLflow and a small run take

out, err = Console(), Console(stderr=True)
if not out.is_terminal:
    out = Console(width=200)  # tables in files and pipes are not cut

DataOption = Annotated[str | None, typer.Option("--data", help="A file or folder, or the name of a public set.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file of parameters.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="name=value for any parameter; may be repeated.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Same seed, same result. Default 0.")]
ThreadsOption = Annotated[int | None, typer.Option("--threads", help="Default: every core. No effect on results.")]
ComputeOption = Annotated[
    str | None, typer.Option("--compute", help="threads, processes or dask. Default: threads. No effect on results.")
]
SchedulerOption = Annotated[
    str | None, typer.Option("--scheduler", help="With --compute dask: tcp://HOST:PORT. Default: processes here.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Processes here. Default: one a core.")]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the run. Default: made up.")]
DataDirOption = Annotated[str | None, typer.Option("--data-dir", help="Where named sets are, else PREDILECT_DATA_DIR.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]


def run_flow(flow: Callable[[], Callable[[Any], dict[str, Any]]], parameters: Any, as_json: bool) -> None:
    """Run the flow that `flow()` imports, with progress on stderr, and print its summary, as JSON if asked."""
    summary = call_flow(flow, parameters)
    if as_json:
        print(json.dumps(summary))
        return
    from predilect.tasks.summaries import terminal_summary

    results = runs.read_json(Path(summary["report_path"]).parent / runs.RESULTS)
    out.print(terminal_summary(results))
    settings = Settings()
    out.print(f"\nReport      {summary['report_path']}", soft_wrap=True, highlight=False)
    if summary.get("model_path"):
        out.print(f"Model       {summary['model_path']}", soft_wrap=True, highlight=False)
    if summary["tracked"]:
        out.print(f"MLflow run  {summary['run_id']} in experiment {summary['experiment']}", highlight=False)
        out.print(
            f"            compare: mlflow ui --backend-store-uri {settings.mlflow_uri}", soft_wrap=True, highlight=False
        )


def call_flow(
    flow: Callable[[], Callable[[Any], dict[str, Any]]],
    parameters: Any,
    stopped: str = "The run is marked KILLED and nothing half-written was left.",
) -> dict[str, Any]:
    """Run the flow that `flow()` imports, with progress on stderr; what it returns.

    stopped: what the user is told after Ctrl-C or SIGTERM.
    """
    need_space(Settings().state, ROOM)
    with stoppable() as signals:
        try:
            with contextlib.redirect_stdout(sys.stderr), show_progress():
                wait_for_server = temporary_server.start()
                run = flow()
                from predilect.tasks.training_run import load_libraries

                load_libraries()  # while the server starts
                wait_for_server()
                return run(parameters)
        except BaseException as error:
            if signals or isinstance(error, KeyboardInterrupt):  # an interrupted library may raise anything
                log.debug("Stopped.", exc_info=True)
                err.print(f"Stopped. {stopped}")
                raise typer.Exit(128 + next(iter(signals), signal.SIGINT)) from None
            import httpx

            if isinstance(error, httpx.TransportError):
                raise PredilectError(
                    f"The Prefect server does not answer any more ({error}); what the run has found is kept in its "
                    "folder. Start the server with `predilect up`, and run again."
                ) from error
            raise


@contextlib.contextmanager
def show_progress(loading: str = "loading Prefect and MLflow") -> Iterator[None]:
    """One line a stage on stderr, with a bar while it runs."""
    with Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim"),
        console=err,
    ) as bar:
        stages = {"start": bar.add_task("start", total=1.0, note=loading)}

        def show(stage: str, share: float, note: str) -> None:
            if stage not in stages:
                bar.update(stages["start"], completed=1.0, note="")
                stages[stage] = bar.add_task(stage, total=1.0, note="")
            bar.update(stages[stage], completed=share, note=plain(note))

        with progress.listen(show):
            yield


def plain(text: object) -> str:
    """Text from data or errors, with rich's markup switched off."""
    from rich.markup import escape

    return escape(str(text))
