"""`predilect compare RUN RUN…`: runs side by side, in the terminal and on a page."""

import json
import webbrowser
from typing import Annotated

import typer
from rich.table import Table

from predilect.flows.cli_common import JsonOption, out, plain
from predilect.tasks import runs
from predilect.tasks.settings import Settings


def compare(
    names: Annotated[list[str], typer.Argument(metavar="RUN RUN…", help="Names, their starts, or MLflow run ids.")],
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Set runs side by side; differences from the first with paired intervals where the test rows are the same."""
    from predilect.tasks import compare as task

    settings = Settings()
    facts = task.compare([runs.find(settings, name) for name in names])
    page = task.write_page(facts, settings)
    if as_json:
        print(json.dumps(facts | {"page": str(page)}))
        return
    table = Table("metric", *(plain(run["name"]) for run in facts["runs"]), box=None)
    for row in task.rows(facts):
        cells = [f"{cell['value']}\n{cell['gap']} {cell['verdict']}".strip() for cell in row["cells"]]
        table.add_row(row["label"], *map(plain, cells))
    for row in facts["parameters"]:
        table.add_row(row["name"], *map(plain, row["values"]), style="dim")
    out.print(table)
    for run in facts["runs"]:
        if run["unpaired"]:
            out.print(plain(f"{run['name']} is not paired: {run['unpaired']}."), soft_wrap=True, highlight=False)
    print(page)
    if open_it:
        webbrowser.open(page.as_uri())


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(compare)
