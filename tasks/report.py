"""The report of a run: results.json in, one self-contained HTML page out. It needs no network and no JavaScript."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import jinja2
from markupsafe import Markup, escape

from predilect.models.errors import ParameterError
from predilect.tasks import (
    formatting,
    plots,
    report_clicks,
    report_clicks_reproduction,
    report_rankings,
    report_ratings,
    report_ratings_reproduction,
    report_reproduction,
)
from predilect.tasks.output import cannot_write
from predilect.tasks.summaries import markdown_summary, terminal_summary

__all__ = ["markdown_summary", "render", "terminal_summary", "write_report"]

# A family's page: a module with TEMPLATE, the file in templates/, and page(results), that template's variables.
FAMILIES: dict[str, ModuleType] = {
    "ratings": report_ratings,
    "rankings": report_rankings,
    "rankings-reproduction": report_reproduction,
    "clicks": report_clicks,
    "clicks-reproduction": report_clicks_reproduction,
    "ratings-reproduction": report_ratings_reproduction,
}
FILTERS = ("number", "count", "share", "duration", "moment", "time_span", "plain_value", "scale_range")


def write_report(results: Mapping[str, Any], out: Path) -> Path:
    """Write the page of `results` (the content of results.json) to `out`, beside it first, then renamed into place.

    Equal results give an equal file. Parts of the results that are null are left out of the page.
    Raises ParameterError for a family without a page, DataError when `out` cannot be written.
    """
    page = render(results)
    draft = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(page, encoding="utf-8")
        draft.replace(out)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise cannot_write(out, error) from error
    return out


def render(results: Mapping[str, Any]) -> str:
    """The page of `results` as text. Raises ParameterError for a family without a page."""
    results = formatting.plain(results)
    family = (results.get("run") or {}).get("family")
    if family not in FAMILIES:
        raise ParameterError(f"There is no report page for the family {family!r}; it is one of {', '.join(FAMILIES)}.")
    return _environment().get_template(FAMILIES[family].TEMPLATE).render(FAMILIES[family].page(results))


def page_of(template: str, variables: Mapping[str, Any]) -> str:
    """Any of the templates, filled in."""
    return _environment().get_template(template).render(formatting.plain(variables))


def safe_link(text: Any) -> str:
    """`text` when it is an http(s) address or a path beside the page, and so safe to link to, else ""."""
    if re.fullmatch(r"\w[\w.\-/]*", str(text)):
        return str(text)
    try:
        parts = urlsplit(str(text))
    except ValueError:
        return ""
    return str(text) if parts.scheme in ("http", "https") and parts.netloc else ""


def keep_brackets(text: str) -> Markup:
    """Text in which an interval such as [0.661, 0.677] stays on one line."""
    return Markup(re.sub(r"\[[\d., \u2212]+\]", r'<span class="whole">\g<0></span>', str(escape(text))))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,  # everything from the data is text; only the plots are markup
        undefined=jinja2.ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({name: getattr(formatting, name) for name in FILTERS})
    environment.filters.update(structure=plots.structure, safe_link=safe_link, keep_brackets=keep_brackets)
    environment.tests["known"] = lambda value: value is not None and not isinstance(value, jinja2.Undefined)
    environment.globals.update(chosen_index=plots.chosen_index, gained_by=plots.gained_by)
    return environment
