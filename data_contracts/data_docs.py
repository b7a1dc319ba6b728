"""Data Docs: what Great Expectations renders, on one page that needs no network, no script and no other file.

The site that Great Expectations builds itself draws its front page with scripts from five hosts and is not readable
without them, so its own renderer is used with our page around it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = "data_docs.html"


def write_data_docs(
    folder: Path, name: str, rules: Sequence[Mapping[str, Any]], pages: Sequence[tuple[str, Any]]
) -> Path:
    """Write `folder/index.html` and return its path.

    name: the contract. rules: results in order, as mappings. pages: (table, validation result of Great Expectations).
    """
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    view = DefaultJinjaPageView(custom_views_directory=str(Path(__file__).parent))
    renderer = ValidationResultsPageRenderer()
    tables = []
    for table, page in pages:
        if not page.results:
            continue
        document = renderer.render(page).to_json_dict()
        # The first section is an overview with links into the site; the page has its own.
        tables.append({"name": table, "sections": document["sections"][1:]})
    first = pages[0][1].meta
    html = view.env.get_template(PAGE).render(
        contract=name,
        rules=rules,
        tables=tables,
        success=all(rule["success"] for rule in rules),
        version=first["great_expectations_version"],
    )
    folder.mkdir(parents=True)
    path = folder / "index.html"
    path.write_text(html, encoding="utf-8")
    return path
