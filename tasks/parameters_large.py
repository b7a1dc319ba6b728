"""The parameters of training on ratings that do not fit in memory: those of the ratings family that work there."""

from typing import Self

from pydantic import Field, model_validator

from predilect.tasks.parameters import Compute, Inference, Precisions, RatingsData, as_in_ratings, check_compute


class LargeRatingsParameters(RatingsData):
    """Parameters of `predilect train ratings-large`."""

    test_share: float = Field(
        default=0.02,
        gt=0,
        lt=1,
        title="Test part",
        description="Share of the ratings, above 0 and below 1, chosen by a hash of user and item (stable:SHARE).",
    )
    evaluated_users: int = Field(
        default=50_000,
        ge=100,
        le=10_000_000,
        title="Users evaluated",
        description="100 to 10000000: of the test part's users, at most so many, drawn at random.",
    )
    inference: Inference = Field(
        default=Inference.mf,
        title="Inference",
        description="mf: mean-field variational Bayes; gmf: factors correlated. The others need memory.",
    )
    n_user_latents: int = Field(
        default=4, ge=0, le=500, title="User latents |U|", description="0 to 500; |U| + |M| is a bound."
    )
    n_item_latents: int = Field(
        default=4, ge=0, le=500, title="Item latents |M|", description="0 to 500; |U| + |M| is a bound."
    )
    tau: float = as_in_ratings("tau")
    precisions: Precisions = Field(
        default=Precisions.empirical_bayes,
        title="Precisions",
        description="Learned (empirical_bayes) or the given tau (fixed).",
    )
    max_sweeps: int = as_in_ratings("max_sweeps")
    tolerance: float = as_in_ratings("tolerance")
    restarts: int = as_in_ratings("restarts")
    checkpoint_minutes: float = Field(
        default=3.0,
        ge=0,
        le=10_000,
        title="Minutes between checkpoints",
        description="0 to 10000, at least: an interrupted fit goes on from the last one. 0: after each sweep, but "
        "never more than 2 % of the time.",
    )
    compute: Compute = as_in_ratings("compute")
    scheduler: str | None = as_in_ratings("scheduler")
    workers: int | None = as_in_ratings("workers")
    resamples: int = as_in_ratings("resamples")

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.n_user_latents + self.n_item_latents < 1:
            raise ValueError("n_user_latents + n_item_latents must be 1 or more")
        if self.inference not in (Inference.mf, Inference.gmf):
            raise ValueError(f"inference = {self.inference} needs memory; choose mf or gmf")
        check_compute(self.compute, self.scheduler, self.workers, self.inference)
        return self
