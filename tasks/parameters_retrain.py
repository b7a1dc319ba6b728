"""The parameters of retraining: those of a family's training, and when data and challengers are accepted."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from predilect.tasks.parameters import Duplicates, Parameters, RatingsParameters
from predilect.tasks.parameters_clicks import NO_CONTEXT, ClicksParameters
from predilect.tasks.parameters_rankings import RankingsParameters


class PromoteWhen(StrEnum):
    """What the paired interval must say for a promotion."""

    better = "better"
    not_worse = "not_worse"


class Retraining(BaseModel):
    """What every family's retraining takes besides the parameters of its training."""

    promote_when: PromoteWhen = Field(
        default=PromoteWhen.better,
        title="Promote when",
        description="better: the whole 95 % interval of challenger less champion is on the good side of 0; not_worse: "
        "it is on the good side of the tolerance, which keeps models fresh.",
    )
    tolerance: float = Field(
        default=0.005,
        ge=0,
        le=1,
        title="Tolerance",
        description="0 to 1, in units of the headline metric: how much worse still counts as not worse.",
    )
    max_psi: float = Field(
        default=0.25,
        gt=0,
        le=10,
        title="Most PSI",
        description="Above 0, to 10: population stability index of the new rows' distribution against the previous "
        "data's, less what chance gives.",
    )
    min_batch_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        title="Least new rows",
        description="0 to 1: new rows as a share of the rows before; fewer is refused.",
    )
    max_batch_share: float = Field(
        default=2.0,
        gt=0,
        le=1000,
        title="Most new rows",
        description="Above 0, to 1000: new rows as a share of the rows before; more is refused.",
    )
    max_lost_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        title="Most rows lost",
        description="0 to 1: share of the previous rows that may be missing from all data now.",
    )
    max_new_users_share: float = Field(
        default=0.8,
        ge=0,
        le=1,
        title="Most rows of new users",
        description="0 to 1: share of the new rows whose user was not in the previous data; of ratings, and of "
        "clicks with users.",
    )
    max_new_items_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        title="Most rows of new items",
        description="0 to 1: share of the new rows whose item was not in the previous data.",
    )
    max_coverage_loss: float = Field(
        default=0.02,
        ge=0,
        le=1,
        title="Most loss of calibration",
        description="0 to 1: how much farther from 0.9 the share of the 90 % intervals that hold may be than the "
        "champion's (of ratings, of click counts); of rankings, how much larger the error of calibration.",
    )
    max_guard_loss: float = Field(
        default=0.02,
        ge=0,
        le=1,
        title="Most loss of the guard metric",
        description="0 to 1: how much worse it may be on new users and on new items (RMSE of those with five ratings "
        "or fewer); of rankings, how much lower the accuracy of pairs; of clicks, the AUC.",
    )
    max_latency_ratio: float = Field(
        default=2.0,
        ge=1,
        le=100,
        title="Most latency",
        description="1 to 100: processor time of the same predictions, as a multiple of the champion's.",
    )
    max_size_ratio: float = Field(
        default=2.0,
        ge=1,
        le=100,
        title="Most size",
        description="1 to 100: bytes of the model folder, as a multiple of the champion's.",
    )
    warm: bool = Field(
        default=True,
        title="Start from the champion",
        description="Fit from the champion's factors where it has as many; else, and for rankings and clicks, anew.",
    )


class RetrainRatingsParameters(Retraining, RatingsParameters):
    """Parameters of the nightly retraining of ratings."""

    data: str = Field(
        title="Data", description="A folder or glob of Parquet and CSV files; each night's new files are added to it."
    )
    split: str = Field(
        default="stable:0.2",
        pattern=r"^stable:",
        title="Test part",
        description="stable:SHARE, above 0 and below 1: held out from all data, so from the champion too.",
    )
    duplicates: Duplicates = Field(
        default=Duplicates.last, title="Duplicates", description="Policy for a pair that is rated twice."
    )


class RetrainRankingsParameters(Retraining, RankingsParameters):
    """Parameters of the nightly retraining of rankings."""

    data: str = Field(
        title="Data", description="A folder or glob of files of rankings; each night's new files are added to it."
    )
    split: str = Field(
        default="stable:0.2",
        pattern=r"^stable:",
        title="Test part",
        description="stable:SHARE, above 0 and below 1: held out from all data, so from the champion too.",
    )


class RetrainClicksParameters(Retraining, ClicksParameters):
    """Parameters of the nightly retraining of clicks."""

    data: str = Field(
        title="Data",
        description="A folder or glob of CSV and Parquet files, counts or logs; each night's new files are added to "
        "it.",
    )
    split: str = Field(
        default="stable:0.2",
        pattern=r"^stable:",
        title="Test part",
        description="stable:SHARE, above 0 and below 1: held out from all data, so from the champion too.",
    )
    compare: list[str] = Field(
        default=[NO_CONTEXT],
        title="Compare with",
        description=f"Simpler models fitted beside it; a first champion must beat {NO_CONTEXT}.",
    )
    max_new_items_share: float = Field(
        default=1.0,
        ge=0,
        le=1,
        title="Most rows of new items",
        description="0 to 1: share of the new rows whose item was not in the previous data; 1: any, as what is known "
        "of an item is its context.",
    )
    max_rate_ratio: float = Field(
        default=2.0,
        gt=1,
        le=1000,
        title="Most change of the click rate",
        description="Above 1, to 1000: clicks an impression of the new rows as a multiple of the previous data's, or "
        "the reverse, less what chance gives.",
    )


def training_parameters(retraining: Parameters, training: type[Parameters], **changed: Any) -> Any:
    """The parameters of the training run that a retraining starts."""
    values = {name: getattr(retraining, name) for name in training.model_fields}
    return training.model_validate(values | changed)
