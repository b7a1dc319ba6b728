"""The parameters of the rankings family's flows."""

from enum import StrEnum
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from predilect.models.errors import ParameterError
from predilect.models.evaluation.splits import parse_split
from predilect.models.rankings.ballots import MENU_HELP
from predilect.models.rankings.config import RankingsConfig
from predilect.tasks.parameters import Compute, Parameters, as_in_ratings, check_scheduler, columns_in, compute_field

AUTO = "auto"
MOST_COMPONENTS = 100


class Menu(StrEnum):
    """What was on offer on a ballot."""

    all = "all"
    ranked = "ranked"


class TableForm(StrEnum):
    """How a table holds rankings."""

    auto = "auto"
    long = "long"
    items = "items"
    ranks = "ranks"
    pairs = "pairs"


class TiePolicy(StrEnum):
    """What becomes of a tie before the end of a ballot."""

    error = "error"
    drop = "drop"
    listed = "listed"
    random = "random"


class SolverName(StrEnum):
    """How the likelihood is climbed."""

    auto = "auto"
    squarem = "squarem"
    lsr = "lsr"
    mm = "mm"
    newton = "newton"


class LinkName(StrEnum):
    """What the spectral start takes the chances of pairs for."""

    logit = "logit"
    probit = "probit"


class Criterion(StrEnum):
    """What decides between numbers of segments."""

    held_out = "held_out"
    bic = "bic"


class RankingsParameters(Parameters):
    """Parameters of the rankings family."""

    data: str = Field(
        title="Data",
        description="A file of rankings (PrefLib, count: best,next,…, CSV or Parquet), or the name of one in the "
        "folder rankings of the data folder, such as d_apa.",
    )
    menu: Menu = Field(title="Menu", description=f"{MENU_HELP.removeprefix('menu must be chosen: ')}.")
    reader: str = Field(
        default="auto",
        title="Reader",
        description="auto: by content; preflib, counted, csv or parquet; ratings: rank every user's ratings in a "
        "table of ratings or a public set.",
    )
    form: TableForm = Field(
        default=TableForm.auto,
        title="Form of the table",
        description="long: ballot, item, rank; items: a ballot a row, columns are places; ranks: a ballot a row, "
        "columns are items; pairs: winner and loser; auto: by the columns' names.",
    )
    columns: dict[str, str] = Field(
        default={},
        title="Columns",
        description="Which column is the ballot, item, rank, winner, loser, first, second, count or weight (of "
        "ratings: user, item, rating), such as ballot:voter,item:party; default: guessed from common names.",
    )
    ties: TiePolicy = Field(
        default=TiePolicy.error,
        title="Ties inside a ballot",
        description="error: refuse; drop the ballot; break them as listed in the file or at random, by the seed. "
        "Ties at the end are cut: a top-l ballot.",
    )
    min_item_ballots: int = Field(
        default=1, ge=1, title="Ballots an item should be on", description="1 or more; see its share."
    )
    min_item_share: float = Field(
        default=0.0, ge=0, le=1, title="Share of items that must", description="0 to 1; 0 turns the rule off."
    )

    split: str = Field(
        default="random:0.2",
        title="Test part",
        description="none, random:SHARE of the ballots, or stable:SHARE "
        "(by a hash of each ballot: held out from all later data too); between 0 and 1.",
    )
    k: str = Field(
        default=AUTO,
        title="Segments K",
        description=f"1 to {MOST_COMPONENTS}, or auto: chosen among 1 to k_max on folds.",
    )
    k_max: int = Field(
        default=6, ge=1, le=MOST_COMPONENTS, title="Most segments", description=f"1 to {MOST_COMPONENTS}, with k=auto."
    )
    criterion: Criterion = Field(
        default=Criterion.held_out,
        title="K chosen by",
        description="held_out: log-likelihood of ballots held out on folds; bic: of a fit to all.",
    )
    search_folds: int = Field(default=4, ge=2, le=20, title="Folds of the search", description="2 to 20.")
    search_budget: int = Field(
        default=200,
        ge=3,
        le=100_000,
        title="Search budget",
        description="3 to 100000 fits at most: a fold each, and one for BIC.",
    )
    solver: SolverName = Field(
        default=SolverName(RankingsConfig.solver),
        title="Solver",
        description="auto: accelerated EM; squarem: without its second stage; lsr (EM-LSR), mm, newton: exact M-steps.",
    )
    starts: int = Field(
        default=RankingsConfig.n_starts,
        ge=0,
        le=1000,
        title="Random starts",
        description="0 to 1000, beside the spectral one; the best is kept.",
    )
    spectral: bool = Field(
        default=RankingsConfig.spectral, title="Spectral start", description="Whether it is among the starts."
    )
    link: LinkName = Field(
        default=LinkName(RankingsConfig.link),
        title="Link of the spectral start",
        description="logit, or probit for Thurstone-like ballots.",
    )
    nu: float = Field(
        default=RankingsConfig.nu,
        ge=0,
        le=1e6,
        title="Prior nu",
        description="0 to 1000000: wins and losses of each item against a ghost; 0 = maximum likelihood. Above 0, "
        "worths are finite whatever the ballots, also of items never ranked.",
    )
    tolerance: float = Field(
        default=RankingsConfig.tolerance,
        gt=0,
        lt=1,
        title="Tolerance",
        description="Above 0, below 1: largest derivative left, as a share of all weight.",
    )
    max_passes: int = Field(
        default=RankingsConfig.max_passes,
        ge=1,
        le=10_000_000,
        title="Most passes",
        description="1 to 10000000 over the ballots, in the final climb.",
    )
    compute: Compute = compute_field("passes over ballots, folds and refits run")
    scheduler: str | None = as_in_ratings("scheduler")
    workers: int | None = as_in_ratings("workers")
    resamples: int = Field(
        default=1000, ge=100, le=100_000, title="Bootstrap resamples", description="100 to 100000, of the metrics."
    )
    refits: int = Field(
        default=100,
        ge=0,
        le=100_000,
        title="Bootstrap refits",
        description="0 to 100000, for intervals of worths and ranks; 0: from the observed information alone.",
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _columns_from_text(cls, value: Any) -> Any:
        return columns_in(value)

    @field_validator("columns")
    @classmethod
    def _filled_columns(cls, value: dict[str, str]) -> dict[str, str]:
        for name, column in value.items():
            if not (name and column):
                raise ValueError(f"{name}:{column} is not NAME:COLUMN")
        return value

    @field_validator("k", mode="before")
    @classmethod
    def _k_as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("k")
    @classmethod
    def _legal_k(cls, value: str) -> str:
        text = value.strip()
        if text == AUTO:
            return text
        if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST_COMPONENTS):
            raise ValueError("no such number of segments")
        return str(int(text))

    @field_validator("split")
    @classmethod
    def _legal_split(cls, value: str) -> str:
        if value == "none":
            return value
        try:
            kind = parse_split(value).kind
        except ParameterError as error:
            raise ValueError(str(error)) from None
        if kind not in ("random", "stable"):
            raise ValueError("ballots are split at random, by a hash, or not at all")
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        if not self.starts and not self.spectral:
            raise ValueError("there is no start: starts is 0 and spectral is false; give at least one")
        check_scheduler(self.compute, self.scheduler, self.workers)
        if self.k == AUTO and self.search_budget <= self.search_folds:
            raise ValueError(
                f"search_budget = {self.search_budget}: one number of segments needs {self.search_folds + 1} fits (its "
                "folds and one for BIC); give at least that many"
            )
        return self

    def config(self, n_components: int) -> RankingsConfig:
        """The model's configuration with this many components."""
        return RankingsConfig(
            n_components=n_components,
            nu=self.nu,
            solver=self.solver.value,
            n_starts=self.starts,
            spectral=self.spectral,
            link=self.link.value,
            tolerance=self.tolerance,
            max_passes=self.max_passes,
        )
