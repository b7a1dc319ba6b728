"""Commands that keep the state folder: `predilect housekeeping`, `backup`, `restore`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from predilect.flows.cli_common import JsonOption, err, out, plain
from predilect.models.errors import ParameterError
from predilect.tasks.settings import Settings


def housekeeping(
    dry_run: Annotated[bool, typer.Option("--dry-run/--no-dry-run", help="Only say what would go.")] = True,
    days: Annotated[int | None, typer.Option(min=1, help="Days that finished runs are kept. Default 90.")] = None,
    failed_days: Annotated[int | None, typer.Option(min=1, help="Days that failed runs are. Default 14.")] = None,
    keep: Annotated[int | None, typer.Option(min=0, help="Newest runs a family kept, however old. Default 20.")] = None,
    file_days: Annotated[int | None, typer.Option(min=1, help="Days of logs, quarantined rows. Default 30.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which runs, flow runs, logs and quarantined rows are old enough to go; --no-dry-run takes them away."""
    from pydantic import ValidationError

    from predilect.tasks.housekeeping import housekeep
    from predilect.tasks.parameters_housekeeping import HousekeepingParameters
    from predilect.tasks.prefect_housekeeping import reached

    asked: dict[str, Any] = {"days": days, "failed_days": failed_days, "keep": keep, "file_days": file_days}
    try:
        given = {name: value for name, value in asked.items() if value is not None}
        parameters = HousekeepingParameters(dry_run=dry_run, **given)
    except ValidationError as error:
        first = error.errors()[0]
        raise ParameterError(f"{first['loc'][0]} = {first['input']!r}: {first['msg']}.") from None
    settings = Settings()
    if reached(settings) is None:
        err.print("The Prefect server is not up, so its flow runs are not looked at.")
    gone = housekeep(settings, parameters)
    if as_json:
        print(json.dumps(gone))
        return
    if gone:
        table = Table("kind", "name", "days old", "MB", "why", box=None)
        for each in gone:
            size = f"{each['bytes'] / 1e6:.1f}"
            table.add_row(each["kind"], plain(each["name"]), str(each["days"]), size, each["why"])
        out.print(table)
    what = "would go; take them away with --no-dry-run" if dry_run else "are gone"
    out.print(f"{len(gone)} things {what}." if gone else "Nothing is old enough to go.", highlight=False)


def backup(file: Annotated[Path, typer.Argument(help="The .tar.gz file to write; replaced when it is there.")]) -> None:
    """Copy all runs, models and databases to one file, also while servers and runs are at work."""
    from predilect.tasks.backup import backup as write

    with err.status("copying"):
        done = write(Settings(), file)
    files = f"{done['files']} files and {done['databases']} databases"
    out.print(f"{files}, {done['bytes'] / 1e6:.1f} MB in {plain(done['file'])}", highlight=False, soft_wrap=True)


def restore(file: Annotated[Path, typer.Argument(help="A file that `predilect backup` wrote.")]) -> None:
    """Put a backup into the (empty) folder that PREDILECT_HOME names."""
    from predilect.tasks.backup import restore as read

    settings = Settings()
    with err.status("restoring"):
        about = read(settings, file)
    out.print(f"The backup of {about['created'][:19]} is in {settings.home}.", highlight=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(housekeeping)
    app.command()(backup)
    app.command()(restore)
