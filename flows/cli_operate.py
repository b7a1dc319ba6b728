"""Commands that run the servers: `predilect up`, `down`, `status`, `logs`."""

import json
import os
import sys
import time
from enum import StrEnum
from typing import Annotated, Any

import typer
from pydantic import SecretStr
from rich.table import Table

from predilect.flows.cli_common import JsonOption, err, out, plain
from predilect.tasks.settings import Settings


class Service(StrEnum):
    """What `predilect up` starts."""

    prefect = "prefect"
    mlflow = "mlflow"
    worker = "worker"


def up(
    prefect_port: Annotated[int | None, typer.Option(help="Else PREDILECT_PREFECT_PORT, else 4200.")] = None,
    mlflow_port: Annotated[int | None, typer.Option(help="Else PREDILECT_MLFLOW_PORT, else 5000.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to bind; beyond loopback PREDILECT_AUTH is asked for.")
    ] = None,
    postgres: Annotated[
        str | None, typer.Option(help="postgresql://USER:PASSWORD@HOST/NAME for both servers, else PREDILECT_POSTGRES.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a Prefect server, an MLflow server and a worker; a second time puts right what is not running."""
    from predilect.tasks import services

    asked: dict[str, Any] = {"prefect_port": prefect_port, "mlflow_port": mlflow_port, "host": host}
    asked["postgres"] = SecretStr(postgres) if postgres else None
    settings = Settings(**{name: value for name, value in asked.items() if value is not None})
    began = time.monotonic()
    with err.status("starting") as line:
        found = services.up(settings, lambda text: line.update(plain(text)))
    if as_json:
        print(json.dumps([status.__dict__ for status in found]))
        return
    _show(found)
    out.print(f"Up after {time.monotonic() - began:.0f} s. Stop it with `predilect down`.", highlight=False)


def down() -> None:
    """Stop what `predilect up` started, and nothing else."""
    from predilect.tasks import services

    with err.status("stopping"):
        stopped = services.down(Settings())
    print(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing was running.")


def status(as_json: JsonOption = False) -> None:
    """Say whether the servers and the worker run, and where."""
    from predilect.tasks import services

    found = services.status(Settings())
    if as_json:
        print(json.dumps([status.__dict__ for status in found]))
    else:
        _show(found)
    if not all(status.state == "up" for status in found):
        sys.exit(1)


def logs(
    service: Annotated[Service | None, typer.Argument(help="One of them; default: all.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 40,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on showing what comes.")] = False,
) -> None:
    """Show what the servers and the worker have said."""
    from predilect.tasks import processes

    folder = Settings().services
    processes.rotate_logs(folder)
    names = [service.value] if service else [each.value for each in Service]
    files = {name: processes.log_file(folder, name) for name in names}
    for name, path in files.items():
        for line in processes.tail(path, lines):
            print(f"{name}: {line}" if len(names) > 1 else line)
    ends = {name: path.stat().st_size if path.is_file() else 0 for name, path in files.items()}
    while follow:
        time.sleep(0.5)
        for name, path in files.items():
            size = path.stat().st_size if path.is_file() else 0
            start = ends[name] if size >= ends[name] else 0  # it was rotated
            if size > start:
                with open(path, "rb") as file:
                    os.lseek(file.fileno(), start, os.SEEK_SET)
                    text = file.read(size - start).decode("utf-8", errors="replace")
                print(
                    "".join(f"{name}: {line}\n" if len(names) > 1 else f"{line}\n" for line in text.splitlines()),
                    end="",
                )
            ends[name] = size


def _show(found: list[Any]) -> None:
    table = Table("", "state", "process", "address", "log", box=None)
    for each in found:
        colour = "green" if each.state == "up" else "red"
        pid = str(each.pid) if each.pid else "–"
        table.add_row(each.name, f"[{colour}]{each.state}[/]", pid, each.address or "–", plain(each.log))
    out.print(table)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(up)
    app.command()(down)
    app.command()(status)
    app.command()(logs)
