"""The parameters of the clicks family's flows."""

from enum import StrEnum
from typing import Any, Self, get_args

from pydantic import Field, field_validator, model_validator

from predilect.models.clicks.config import ClicksConfig, ModelName
from predilect.models.errors import ParameterError
from predilect.models.evaluation.splits import parse_split
from predilect.tasks.parameters import Compute, Parameters, as_in_ratings, check_scheduler, columns_in, compute_field

AUTO, NONE = "auto", "none"
NO_CONTEXT = "no-context"
ROLES = ("user", "item", "impressions", "clicks", "clicked", "time")


class Model(StrEnum):
    """The six models of the paper."""

    m_log = "m-log"
    l_log = "l-log"
    m_bbl = "m-bbl"
    l_bbl = "l-bbl"
    m_prop = "m-prop"
    l_prop = "l-prop"


class GroupEffectName(StrEnum):
    """What the rows of a group share."""

    mean = "mean"
    both = "both"
    none = "none"


class EvidenceName(StrEnum):
    """How prior precisions are learned."""

    hutchinson = "hutchinson"
    svd = "svd"
    paper = "paper"
    fixed = "fixed"


class ClicksFitParameters(Parameters):
    """What every flow of the clicks family takes: the data, their split, features and priors."""

    data: str = Field(
        title="Data",
        description="A table of counts (impressions, clicks, context columns) or a log of impressions (user, item, "
        "clicked, time), CSV or Parquet; a folder of MIND (behaviors.tsv, news.tsv) or of the Open Bandit logs; or "
        "upworthy, the archive in the data folder.",
    )
    reader: str = Field(
        default=AUTO, title="Reader", description="auto: by content; table, mind, open_bandit or upworthy."
    )
    columns: dict[str, str] = Field(
        default={},
        title="Columns",
        description=f"Which column is the {', '.join(ROLES)}, such as clicks:picked; default: guessed from common "
        "names.",
    )
    texts: list[str] = Field(
        default=[], title="Text columns", description="Names, such as headline,lede; their words become features."
    )
    categories: list[str] = Field(
        default=[], title="Category columns", description="Names; each value becomes a feature."
    )
    numbers: list[str] = Field(
        default=[],
        title="Number columns",
        description="Names; standardised. With no text, category or number column named, all other columns are "
        "taken, by what they hold.",
    )
    group: str = Field(
        default=AUTO,
        title="Group",
        description="COLUMN whose equal values make rows dependent, such as a test's id; none; auto: the archive's "
        "test id, none elsewhere.",
    )
    split: str = Field(
        default=AUTO,
        title="Test part",
        description="time:SHARE (the latest rows), random:SHARE of the rows, group:SHARE (whole groups), stable:SHARE "
        "(by a hash of the group, else of user and item: held out from all later data too), shares above 0 and below "
        "1; auto: group:0.3, else time:0.3, else random:0.3, by what the data have.",
    )
    clusters: int = Field(
        default=0,
        ge=0,
        le=4096,
        title="User clusters",
        description="0 to 4096, from what users picked before the training period; 64 in the paper; 0 = none.",
    )
    history: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        title="History share",
        description="0 to below 1: the earliest share of the rows only says what users picked before; 0 where the "
        "data bring a history (MIND).",
    )
    min_lines: int = Field(
        default=5, ge=1, le=1_000_000, title="Rows a word must be in", description="1 to 1000000 distinct contexts."
    )
    max_words: int = Field(
        default=100_000, ge=1, le=10_000_000, title="Most words", description="1 to 10000000 a text column."
    )
    evidence: EvidenceName = Field(
        default=EvidenceName(ClicksConfig.evidence),
        title="Prior precisions by",
        description="hutchinson: random probes; svd: low-rank with the rest spread; paper: the paper's truncated "
        "spectrum; fixed: start_precision.",
    )
    start_precision: float = Field(
        default=ClicksConfig.start_precision,
        gt=0,
        le=1e12,
        title="First prior precision",
        description="Above 0, to 1e12; where learning starts.",
    )
    rank: int = Field(
        default=ClicksConfig.rank,
        ge=1,
        le=4096,
        title="Rank",
        description="1 to 4096 directions of the posterior kept exactly.",
    )
    nu: float = Field(
        default=0.95, gt=0, lt=1, title="Quantile of the scores", description="Above 0, below 1: how optimistic."
    )
    resamples: int = Field(
        default=1000, ge=100, le=100_000, title="Bootstrap resamples", description="100 to 100000, by group."
    )
    compute: Compute = compute_field("products over the rows and resamples run")
    scheduler: str | None = as_in_ratings("scheduler")
    workers: int | None = as_in_ratings("workers")

    @field_validator("columns", mode="before")
    @classmethod
    def _columns_from_text(cls, value: Any) -> Any:
        return columns_in(value)

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, value: dict[str, str]) -> dict[str, str]:
        for name, column in value.items():
            if name not in ROLES or not column:
                raise ValueError(f"{name}:{column} is not one of {', '.join(f'{role}:COLUMN' for role in ROLES)}")
        return value

    @field_validator("texts", "categories", "numbers", mode="before")
    @classmethod
    def _list_from_text(cls, value: Any) -> Any:
        return names_in(value)

    @field_validator("split")
    @classmethod
    def _legal_split(cls, value: str) -> str:
        if value == AUTO:
            return value
        kind, share = split_parts(value)
        return f"{kind}:{share:g}"

    @model_validator(mode="after")
    def _together(self) -> Self:
        check_scheduler(self.compute, self.scheduler, self.workers)
        return self


class ClicksParameters(ClicksFitParameters):
    """Parameters of the clicks family."""

    model: Model = Field(
        default=Model(ClicksConfig.model),
        title="Model",
        description="log: logistic; bbl: beta-binomial; prop: its variability depends on the context too. m-: from "
        "the most probable coefficients alone; l-: with Laplace's posterior.",
    )
    group_effect: GroupEffectName = Field(
        default=GroupEffectName(ClicksConfig.group_effect),
        title="Group effect",
        description="mean: rows of a group share a shift of the mean; both: of the variability too; none.",
    )
    compare: list[str] = Field(
        default=["l-bbl", "l-log", NO_CONTEXT],
        title="Compare with",
        description=f"Simpler models fitted beside it: any of the six, and {NO_CONTEXT}; the model itself is left "
        "out; empty: none.",
    )

    @field_validator("compare", mode="before")
    @classmethod
    def _models_from_text(cls, value: Any) -> Any:
        return names_in(value)

    @field_validator("compare")
    @classmethod
    def _known_models(cls, value: list[str]) -> list[str]:
        return known_models(value)

    def config(self, model: str | None = None) -> ClicksConfig:
        """The configuration of the run's model, or of another on the same terms."""
        return ClicksConfig(
            model=model or self.model.value,  # type: ignore[arg-type]
            group_effect=self.group_effect.value,
            evidence=self.evidence.value,
            start_precision=self.start_precision,
            rank=self.rank,
        )


def known_models(names: list[str]) -> list[str]:
    """The distinct names. Raises ValueError for one that is neither a model nor `no-context`."""
    known = (*get_args(ModelName), NO_CONTEXT)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]} is none of {', '.join(known)}")
    return list(dict.fromkeys(names))


def names_in(value: Any) -> Any:
    """A list from text with commas; anything else as it is."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def split_parts(text: str) -> tuple[str, float]:
    """Kind and share of a split. Raises ValueError."""
    kind, _, share = text.strip().partition(":")
    if kind not in ("time", "random", "group", "stable"):
        raise ValueError("the kind is time, random, group or stable, as in group:0.3")
    try:
        return kind, float(parse_split(f"random:{share}").share or 0)
    except ParameterError:
        raise ValueError(f"the share must lie between 0 and 1, as in {kind}:0.3") from None
