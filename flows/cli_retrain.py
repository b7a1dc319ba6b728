"""The commands `predilect retrain FAMILY`: what the nightly deployments do, by hand."""

import json
from typing import Any

import typer

from predilect.flows.cli_common import (
    ConfigOption,
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
from predilect.flows.families import FAMILIES, Family

SIGNS = {"promote": "[green]promoted[/]", "refuse": "[red]refused[/]", "skip": "skipped"}


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    group = typer.Typer(
        help="Retrain on new files, and promote the new model when it is shown to be better.", no_args_is_help=True
    )
    for family in FAMILIES.values():
        group.command(family.name, help=f"Retrain {family.name} on a folder or glob of files.")(_command(family))
    app.add_typer(group, name="retrain")


def _command(family: Family) -> Any:
    def command(
        data: DataOption = None,
        config: ConfigOption = None,
        assignments: SetOption = None,
        seed: SeedOption = None,
        threads: ThreadsOption = None,
        name: NameOption = None,
        as_json: JsonOption = False,
    ) -> None:
        parameters = family.steps().parameters.parse(
            config, assignments or [], data=data, seed=seed, threads=threads, name=name
        )

        def flow() -> Any:
            from predilect.flows import retrain

            return getattr(retrain, f"retrain_{family.name}")

        done = call_flow(flow, parameters)
        if as_json:
            print(json.dumps(done))
            return
        out.print(f"{family.name}: {SIGNS[done['outcome']]}")
        for reason in done["reasons"]:
            out.print(f"  {plain(reason)}", soft_wrap=True, highlight=False)
        for check in done["checks"]:
            sign = "[green]✓[/]" if check["ok"] else "[red]✗[/]"
            line = f"{check['name']}: {check['value']} (allowed: {check['allowed']})"
            out.print(f"  {sign} {plain(line)}", soft_wrap=True, highlight=False)

    return command
