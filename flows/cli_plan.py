"""The command that says what a fit will take before it is begun."""

import json
from typing import Annotated

import typer
from rich.table import Table

from predilect.flows.cli_common import JsonOption, ThreadsOption, out


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)


def plan(
    users: Annotated[int, typer.Option(help="How many users, 1 or more.")],
    items: Annotated[int, typer.Option(help="How many items, 1 or more.")],
    ratings: Annotated[int, typer.Option(help="How many ratings.")],
    k: Annotated[int, typer.Option("--k", help="Factors K = |U| + |M|, 1 or more.")] = 8,
    gmf: Annotated[bool, typer.Option("--gmf", help="With correlated factors, in two blocks of K/2.")] = False,
    threads: ThreadsOption = None,
    workers: Annotated[int, typer.Option(min=0, help="Dask workers; 0: this machine alone.")] = 0,
    worker_threads: Annotated[int, typer.Option(min=1, help="Threads of each worker.")] = 1,
    network: Annotated[float, typer.Option(min=0.001, help="Of the driver's network, in Gbit/s; with workers.")] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Predict memory, disk, time a sweep and bytes moved of a fit from files; the time from samples swept here."""
    from predilect.models.compiled import default_threads
    from predilect.models.ratings.compile import warm_up
    from predilect.models.ratings.plan import Problem, seconds_a_sweep

    problem = Problem(users, items, ratings, k, (k // 2, k - k // 2) if gmf else ())
    n_threads = threads or default_threads()
    warm_up("gmf" if gmf else "mf")
    moved = problem.bytes_moved(workers)
    alone = seconds_a_sweep(problem, 1 if workers else n_threads)
    computing = alone / (workers * worker_threads) if workers else alone
    found = {
        "peak_bytes": problem.driver_bytes if workers else problem.fit_bytes(n_threads),
        "seconds_per_sweep": computing + moved * 8 / (network * 1e9),
        "bytes_moved_per_sweep": moved,
        "worker_peak_bytes": problem.worker_bytes(workers) if workers else 0,
        "ingest_peak_bytes": problem.ingest_bytes(n_threads),
        "disk_bytes": problem.disk_bytes,
        "checkpoint_bytes": problem.checkpoint_bytes,
    }
    if as_json:
        print(json.dumps(found))
        return
    said = {
        "peak_bytes": "memory of the driver" if workers else "memory of the fit, mapped files included",
        "seconds_per_sweep": "time a sweep" if not workers else f"time a sweep, {workers} workers",
        "bytes_moved_per_sweep": "moved a sweep, through the driver's network",
        "worker_peak_bytes": "memory of each worker",
        "ingest_peak_bytes": "memory of ingestion",
        "disk_bytes": "disk, besides the source",
        "checkpoint_bytes": "a checkpoint",
    }
    table = Table("", "", box=None, show_header=False)
    for name, value in found.items():
        if value:
            shown = f"{value:,.2f} s" if name == "seconds_per_sweep" else f"{value / 1e9:,.2f} GB"
            table.add_row(said[name], shown)
    out.print(table)
