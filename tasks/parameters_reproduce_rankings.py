"""The parameters of the reproduction of the rankings paper."""

from enum import StrEnum
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from predilect.tasks.parameters import Parameters
from predilect.tasks.parameters_rankings import Menu


class MethodName(StrEnum):
    """The algorithms compared."""

    em_lsr = "em-lsr"
    emm = "emm"
    em_cml = "em-cml"
    em_gmm = "em-gmm"
    stochastic = "stochastic"
    accelerated = "accelerated"
    fit = "fit"


class StartName(StrEnum):
    """Where all of them begin."""

    spectral = "spectral"
    random = "random"


_LISTS = ("n_items", "informative", "k", "ballots", "real_k", "methods", "starts")


class ReproduceRankingsParameters(Parameters):
    """Parameters of `predilect reproduce rankings`: the grids are all combinations of their lists."""

    data: str = Field(
        default="",
        title="Real data",
        description="Files of rankings or names of sets, separated by commas; empty: those of d_apa and d_carconf that "
        "are in the data folder.",
    )
    menu: Menu = Field(
        default=Menu.all,
        title="Menu of the real data",
        description="all, as in the paper, or ranked.",
    )
    n_items: list[int] = Field(default=[20], title="Items n", description="Each 2 to 10000, such as 20,100.")
    informative: list[int] = Field(
        default=[10], title="Informative items L", description="Each 1 or more; settings with more than n are left out."
    )
    k: list[int] = Field(default=[2, 3], title="Components K", description="Each 1 to 50.")
    ballots: list[int] = Field(default=[500, 2000], title="Ballots m", description="Each 10 to 10000000.")
    trials: int = Field(default=3, ge=1, le=1000, title="Trials", description="1 to 1000 data sets a setting.")
    methods: list[MethodName] = Field(
        default=list(MethodName),
        title="Methods",
        description="em-lsr (the paper's), emm, em-cml, em-gmm, stochastic, accelerated (ours from that start), fit "
        "(ours with its own starts).",
    )
    starts: list[StartName] = Field(
        default=[StartName.spectral], title="Common starts", description="spectral, random, or both."
    )
    real_k: list[int] = Field(default=[2, 3], title="Components K of real data", description="Each 1 to 50.")
    tolerance: float = Field(
        default=1e-6, gt=0, lt=1, title="Tolerance", description="Above 0, below 1: of the certificate, or of a step."
    )
    max_iterations: int = Field(default=500, ge=1, le=1_000_000, title="Most iterations", description="1 to 1000000.")

    @field_validator(*_LISTS, mode="before")
    @classmethod
    def _list_from_text(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @field_validator(*_LISTS)
    @classmethod
    def _distinct(cls, value: list[Any]) -> list[Any]:
        if not value:
            raise ValueError("give at least one")
        return list(dict.fromkeys(value))

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        for name, low, high in (
            ("n_items", 2, 10_000), ("informative", 1, 10_000), ("k", 1, 50), ("ballots", 10, 10_000_000),
            ("real_k", 1, 50),
        ):  # fmt: skip
            for value in getattr(self, name):
                if not low <= value <= high:
                    raise ValueError(f"{name} = {value}: give {low} to {high}")
        if min(self.informative) > max(self.n_items):
            raise ValueError(f"informative = {self.informative}: no setting has that many items; raise n_items")
        return self
