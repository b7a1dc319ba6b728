"""Commands on registered models: list the versions, make one champion, go back to the one before."""

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from predilect.flows.cli_common import JsonOption, out, plain
from predilect.flows.families import FAMILIES
from predilect.models.errors import ParameterError
from predilect.tasks import runs
from predilect.tasks.settings import Settings

FamilyArgument = Annotated[str, typer.Argument(help=f"One of {', '.join(FAMILIES)}.")]


def models(
    family: Annotated[str | None, typer.Argument(help="One family; default: all.")] = None, as_json: JsonOption = False
) -> None:
    """List the registered versions, newest first: aliases, figures, and what was decided about each."""
    from predilect.tasks import registry

    settings = Settings()
    found = [one for name in ([_family(family)] if family else FAMILIES) for one in registry.versions(settings, name)]
    if as_json:
        print(json.dumps([_facts(version) for version in found]))
        return
    if not found:
        out.print("No versions yet: `predilect retrain` registers them, or `predilect promote FAMILY RUN`.")
        return
    table = Table("model", "version", "aliases", "run", "registered", "figures", "decision", box=None)
    for version in found:
        table.add_row(
            registry.model_name(version.family),
            str(version.number),
            ", ".join(version.aliases) or "–",
            plain(version.run),
            version.created.replace("T", " ").removesuffix("+00:00"),
            _figures(version) or "–",
            plain(version.tags.get("predilect.decision", version.tags.get("predilect.promoted_because", "–"))),
        )
    out.print(table)


def promote(
    family: FamilyArgument,
    version: Annotated[str, typer.Argument(help="A version's number, challenger, or a run: it is registered first.")],
    reason: Annotated[str, typer.Option(help="Kept with the version.")] = "promoted by hand",
    as_json: JsonOption = False,
) -> None:
    """Make a version the champion, whatever it was compared with."""
    from predilect.tasks import registry

    settings = Settings()
    try:
        chosen = registry.find(settings, _family(family), version)
    except ParameterError:
        if version in (registry.CHALLENGER, registry.CHAMPION) or version.lstrip("v").isdigit():
            raise
        chosen = registry.register(settings, runs.find(settings, version))
        if chosen.family != family:
            raise ParameterError(f"RUN = {version!r}: a run on {chosen.family}, not on {family}.") from None
    registry.promote(settings, chosen, basis=registry.ANY, reason=reason)
    _say(as_json, chosen, f"{chosen.name} (run {chosen.run}) is champion.")


def rollback(
    family: FamilyArgument,
    reason: Annotated[str, typer.Option(help="Kept with the version.")] = "rolled back by hand",
    as_json: JsonOption = False,
) -> None:
    """Make the champion before the present one champion again."""
    from predilect.tasks import registry

    now, was = registry.rollback(Settings(), _family(family), reason)
    _say(as_json, now, f"{now.name} (run {now.run}) is champion again, version {was.number} no longer.")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(models)
    app.command()(promote)
    app.command()(rollback)


def _family(name: str) -> str:
    if name not in FAMILIES:
        raise ParameterError(f"FAMILY = {name!r}: choose one of {', '.join(FAMILIES)}.")
    return name


def _figures(version: Any) -> str:
    from predilect.tasks.summaries import figures

    metrics = {name: {"value": value} for name, value in version.metrics.items()}
    return figures({"run": {"family": version.family}, "metrics": metrics})


def _facts(version: Any) -> dict[str, Any]:
    return {
        "family": version.family,
        "version": version.number,
        "aliases": list(version.aliases),
        "run": version.run,
        "run_id": version.run_id,
        "uri": version.uri,
        "created": version.created,
        "tags": dict(version.tags),
        "metrics": dict(version.metrics),
    }


def _say(as_json: bool, version: Any, text: str) -> None:
    print(json.dumps(_facts(version))) if as_json else out.print(text, highlight=False, soft_wrap=True)
