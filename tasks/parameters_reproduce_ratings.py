"""The parameters of the reproduction of Langseth and Nielsen's tables and figures (2015)."""

from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator

from predilect.tasks.parameters import Parameters
from predilect.tasks.ratings_published import METHODS


class Experiment(StrEnum):
    """What is reproduced."""

    table2 = "table2"
    table3 = "table3"
    figure2 = "figure2"
    figure3 = "figure3"


class ReproduceRatingsParameters(Parameters):
    """The defaults are the paper's protocol; less of everything is a quick look."""

    data: str = Field(default="all", title="Data", description="all, or public sets by name, separated by commas.")
    experiment: Experiment = Field(
        title="Table or figure", description="table2, table3 (accuracy), figure2 (time) or figure3 (cold start)."
    )
    methods: list[str] = Field(
        default=[], title="Methods", description=f"Of {', '.join(METHODS)}; default: those of the table or figure."
    )
    folds: list[str] = Field(default=[], title="Folds", description="Publisher's folds, such as u1,u2; default: all.")
    dimensions: list[int] = Field(
        default=list(range(1, 26)), title="Dimensions of SVD", description="Each 1 to 200; the best on the test part."
    )
    search_budget: int = Field(
        default=400, ge=4, le=100_000, title="Search budget", description="4 to 100000 fits a structure search."
    )
    kappas: list[int] = Field(
        default=[1, 2, 3, 5, 10, 15, 20], title="Ratings kept (kappa)", description="Of figure 3; each 1 to 200."
    )
    repeats: int = Field(default=5, ge=1, le=100, title="Repeats", description="Of figure 3; 1 to 100.")
    groups: int = Field(default=5, ge=2, le=100, title="User groups", description="Of figure 3; 2 to 100.")
    latents: int = Field(
        default=4, ge=1, le=20, title="Most latents", description="Of figure 2: 1 to 20 on either side."
    )
    resamples: int = Field(
        default=1000, ge=100, le=100_000, title="Bootstrap resamples", description="100 to 100000, by user."
    )

    @field_validator("methods", "folds", "dimensions", "kappas", mode="before")
    @classmethod
    def _list_from_text(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("methods")
    @classmethod
    def _known_methods(cls, value: list[str]) -> list[str]:
        for method in value:
            if method not in METHODS:
                raise ValueError(f"{method} is not one of {', '.join(METHODS)}")
        return value

    @field_validator("dimensions", "kappas")
    @classmethod
    def _in_range(cls, value: list[int]) -> list[int]:
        if not value or min(value) < 1 or max(value) > 200:
            raise ValueError("every value lies between 1 and 200, and there is at least one")
        return sorted(set(value))
