"""The parameters of the reproduction of the clicks paper."""

from typing import Any, get_args

from pydantic import Field, field_validator

from predilect.models.clicks.config import ModelName
from predilect.tasks.parameters_clicks import (
    NO_CONTEXT,
    ClicksFitParameters,
    ClicksParameters,
    GroupEffectName,
    known_models,
    names_in,
)

ARCHIVE = "upworthy"


class ReproduceClicksParameters(ClicksFitParameters):
    """Parameters of `predilect reproduce clicks`: all models, with and without the effect of a group."""

    data: str = Field(
        default=ARCHIVE,
        title="Data",
        description="As for training; default: upworthy, the archive in the data folder.",
    )
    models: list[str] = Field(
        default=[*get_args(ModelName), NO_CONTEXT],
        title="Models",
        description=f"Some of the six of the paper, such as m-log,l-prop, and {NO_CONTEXT}, a beta-binomial without "
        "any feature.",
    )
    group_effects: list[GroupEffectName] = Field(
        default=[GroupEffectName.none, GroupEffectName.mean],
        title="Group effects",
        description="Each model is fitted with each of: none (the paper's), mean, both; groups only matter where the "
        "data have some.",
    )

    @field_validator("models", "group_effects", mode="before")
    @classmethod
    def _names_from_text(cls, value: Any) -> Any:
        return names_in(value)

    @field_validator("models", "group_effects")
    @classmethod
    def _not_empty(cls, value: list[Any]) -> list[Any]:
        if not value:
            raise ValueError("give at least one")
        return list(dict.fromkeys(value))

    @field_validator("models")
    @classmethod
    def _known(cls, value: list[str]) -> list[str]:
        return known_models(value)

    def of_cell(self, group_effect: GroupEffectName) -> ClicksParameters:
        """The parameters of the fits with a group effect."""
        shared = self.model_dump(exclude={"models", "group_effects"})
        return ClicksParameters(**shared, group_effect=group_effect)
