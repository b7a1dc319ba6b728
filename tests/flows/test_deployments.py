"""The deployments: every entrypoint is a flow, every default is accepted by its form, and every form is explained."""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

FILE = Path(__file__).resolve().parents[2] / "infra" / "prefect.yaml"
DEPLOYMENTS = yaml.safe_load(FILE.read_text(encoding="utf-8"))["deployments"]


def _problems(model: type[BaseModel], values: dict[str, Any]) -> set[str]:
    try:
        model.model_validate(values)
    except ValidationError as error:
        return {problem["type"] for problem in error.errors()}
    return set()


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda found: found["name"])
def test_defaults_are_accepted_and_the_form_is_explained(deployment: dict[str, Any]) -> None:
    module, _, name = deployment["entrypoint"].partition(":")
    flow = getattr(import_module(module), name)
    (model,) = (each.annotation for each in inspect.signature(flow.fn).parameters.values())
    assert list(deployment["parameters"]) == ["parameters"]
    assert _problems(model, deployment["parameters"]["parameters"]) <= {"missing"}  # what only the user knows
    assert model.model_config["extra"] == "forbid"
    assert [name for name, field in model.model_fields.items() if not (field.title and field.description)] == []
    assert deployment["description"].endswith(".")
    assert deployment["concurrency_limit"]["collision_strategy"] == "ENQUEUE"


def test_names_are_their_own() -> None:
    names = [deployment["name"] for deployment in DEPLOYMENTS]
    assert len(set(names)) == len(names)
    assert {"train-ratings", "train-rankings", "train-clicks", "cold-start", "housekeeping"} <= set(names)
