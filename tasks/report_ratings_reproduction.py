"""The page of a reproduction: the table and its plots."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from predilect.tasks import ratings_reproduce_output as output

TEMPLATE = "report_ratings_reproduction.html.j2"


def page(results: Mapping[str, Any]) -> dict[str, Any]:
    """The template's variables."""
    found = results["reproduction"]
    experiment = found["experiment"]
    return {
        "run": results["run"],
        "experiment": experiment,
        "heads": output.HEADS[output.kind(experiment)],
        "table": output.cells(experiment, found["rows"], found["missing"]),
        "notes": output.notes(found["missing"]),
        "plots": [(said, Markup(svg)) for said, svg in output.plots(experiment, found["rows"])],
    }
