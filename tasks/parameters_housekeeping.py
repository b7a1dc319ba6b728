"""What the housekeeping flow takes."""

from pydantic import BaseModel, ConfigDict, Field


class HousekeepingParameters(BaseModel):
    """How long things are kept. Models in the registry and the newest runs always are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dry_run: bool = Field(default=True, title="Only look", description="Say what would go, and take nothing away.")
    days: int = Field(
        default=90,
        ge=1,
        le=36_500,
        title="Days that runs are kept",
        description="1 to 36500; finished runs, in MLflow and in Prefect.",
    )
    failed_days: int = Field(
        default=14, ge=1, le=36_500, title="Days that failed runs are kept", description="1 to 36500; failed or killed."
    )
    keep: int = Field(
        default=20,
        ge=0,
        le=100_000,
        title="Newest runs kept",
        description="0 to 100000 a family, and flow runs a flow, however old.",
    )
    file_days: int = Field(
        default=30,
        ge=1,
        le=36_500,
        title="Days that logs and quarantined rows are kept",
        description="1 to 36500; rotated logs, rows set aside, journals of searches.",
    )
