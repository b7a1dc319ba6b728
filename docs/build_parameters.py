"""Writes docs/parameters.md from the parameter models: `python docs/build_parameters.py`."""

import json
from pathlib import Path

from pydantic import BaseModel

from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.parameters_clicks import ClicksParameters
from predilect.tasks.parameters_large import LargeRatingsParameters
from predilect.tasks.parameters_rankings import RankingsParameters
from predilect.tasks.parameters_reproduce_clicks import ReproduceClicksParameters
from predilect.tasks.parameters_reproduce_rankings import ReproduceRankingsParameters
from predilect.tasks.parameters_retrain import (
    RetrainClicksParameters,
    RetrainRankingsParameters,
    RetrainRatingsParameters,
)
from predilect.tasks.score import ScoreParameters

FAMILIES: dict[str, type[BaseModel]] = {
    "ratings": RatingsParameters,
    "ratings-large": LargeRatingsParameters,
    "rankings": RankingsParameters,
    "clicks": ClicksParameters,
    "reproduce rankings": ReproduceRankingsParameters,
    "retrain ratings": RetrainRatingsParameters,
    "retrain rankings": RetrainRankingsParameters,
    "retrain clicks": RetrainClicksParameters,
    "score": ScoreParameters,
    "reproduce clicks": ReproduceClicksParameters,
}
PAGE = Path(__file__).with_name("parameters.md")
HEAD = """# Parameters

Each is given on the command line (`--set name=value`), in a TOML file (`--config FILE`), or in Prefect's run form.
This page is made from the parameter models; a test keeps it true.
"""


def page() -> str:
    """The page as it should be."""
    return HEAD + "".join(f"\n## {family}\n\n{_table(model)}" for family, model in FAMILIES.items())


def _table(model: type[BaseModel]) -> str:
    lines = ["| name | default | what, and its range |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else f"`{json.dumps(field.default)}`"
        about = f"{field.title}. {field.description}".replace("|", "&#124;")
        lines.append(f"| `{name}` | {default} | {about} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
