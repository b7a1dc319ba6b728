"""Commands that run the servers: `predilect up`, `down`, `status`, `logs`, and `migrate`, `service` for containers."""

import json
import os
import sys
import time
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from pydantic import SecretStr
from rich.table import Table

from predilect.flows.cli_common import JsonOption, err, out, plain
from predilect.models.errors import ParameterError
from predilect.tasks.settings import Settings


class Service(StrEnum):
    """What `predilect up` starts."""

    prefect = "prefect"
    mlflow = "mlflow"
    worker = "worker"
    ratings = "ratings"


def up(
    prefect_port: Annotated[int | None, typer.Option(help="Else PREDILECT_PREFECT_PORT, else 4200.")] = None,
    mlflow_port: Annotated[int | None, typer.Option(help="Else PREDILECT_MLFLOW_PORT, else 5000.")] = None,
    ratings_port: Annotated[int | None, typer.Option(help="Else PREDILECT_RATINGS_PORT, else 8000.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to bind; beyond loopback PREDILECT_AUTH is asked for.")
    ] = None,
    postgres: Annotated[
        str | None,
        typer.Option(help="postgresql://USER@HOST/NAME for both servers, else PREDILECT_POSTGRES; no password here."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start Prefect, MLflow, a worker and the service; a second time puts right what is not running."""
    from predilect.tasks import services

    if postgres and urlsplit(postgres).password is not None:
        raise ParameterError(
            "--postgres holds a password, and every user of this machine sees it in the list of processes: give the "
            "address without it, and the password in PREDILECT_POSTGRES_PASSWORD or PREDILECT_POSTGRES_PASSWORD_FILE."
        )
    asked: dict[str, Any] = {"prefect_port": prefect_port, "mlflow_port": mlflow_port, "ratings_port": ratings_port}
    asked |= {"host": host, "postgres": SecretStr(postgres) if postgres else None}
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


def status(
    only: Annotated[Service | None, typer.Argument(metavar="SERVICE", help="One of them; default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether the servers, the worker and the service run, and where; ends with 1 when one does not."""
    from predilect.tasks import services

    found = services.status(Settings(), [only.value] if only else [each.value for each in Service])
    if as_json:
        print(json.dumps([status.__dict__ for status in found]))
    else:
        _show(found)
    if not all(status.state == "up" for status in found):
        sys.exit(1)


def service(
    name: Annotated[Service, typer.Argument(metavar="SERVICE", help="prefect, mlflow, worker, ratings.")],
) -> None:
    """Run one of them here in the foreground, such as in a container; `predilect migrate` comes first."""
    from predilect.tasks import services

    services.service(Settings(), name.value)


def migrate() -> None:
    """Bring both databases to the installed versions; `predilect up` does it by itself."""
    from predilect.tasks import services

    services.migrate(Settings())
    print("Both databases are at the installed versions.")


def logs(
    service: Annotated[Service | None, typer.Argument(help="One of them; default: all.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 40,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on showing what comes.")] = False,
) -> None:
    """Show what the servers, the worker and the service have said."""
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
    for each in found:
        if each.about:
            out.print(f"{each.name}: {plain(each.about)}", highlight=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(up)
    app.command()(down)
    app.command()(status)
    app.command()(logs)
    app.command()(migrate)
    app.command()(service)
