"""The parameters of the flows: one model a family serves TOML files, the command line, the Prefect form and MLflow."""

import difflib
import tomllib
from copy import copy
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from predilect.models.errors import ParameterError
from predilect.models.evaluation.splits import parse_split
from predilect.models.ratings.config import VBConfig


class Search(StrEnum):
    """How the structure is chosen."""

    auto = "auto"
    greedy = "greedy"
    none = "none"


class Precisions(StrEnum):
    """Where the prior precisions of the factors come from."""

    empirical_bayes = "empirical_bayes"
    fixed = "fixed"


class Inference(StrEnum):
    """How the posterior is found."""

    mf = "mf"
    gmf = "gmf"
    em = "em"
    gibbs = "gibbs"


class Compute(StrEnum):
    """Where the work is done."""

    threads = "threads"
    processes = "processes"
    dask = "dask"


def compute_field(what: str, more: str = "") -> Any:
    """Where the work is done, as a parameter. what: the work, with its verb. more: what else is to be said."""
    return Field(
        default=Compute.threads,
        title="Compute",
        description=f"Where {what}: threads of this process; processes of this machine; dask: the workers of a "
        f"scheduler, or processes where none is given. Same result for any.{more}",
    )


class Duplicates(StrEnum):
    """What happens to a (user, item) pair that is rated more than once."""

    error = "error"
    last = "last"
    mean = "mean"


class Given(BaseModel):
    """Parameters that a flow is given, by whatever way."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def parse(cls, config: Path | None, assignments: list[str], **given: Any) -> Self:
        """Parameters from a TOML file, then `name=value` texts, then keyword values, later ones winning.

        Raises ParameterError that names every unknown parameter and every impossible value.
        """
        values = _read_toml(config) if config else {}
        for text in assignments:
            name, equals, value = text.partition("=")
            if not equals:
                raise ParameterError(f"--set {text}: write it as name=value, such as --set seed=1.")
            values[name.strip()] = value.strip()
        values |= {name: value for name, value in given.items() if value is not None}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ParameterError("; ".join(_said(cls, values, problem) for problem in error.errors())) from None


class Parameters(Given):
    """What every training flow takes."""

    data: str = Field(title="Data", description="A file or folder, or the name of a public data set such as ml-100k.")
    name: str | None = Field(
        default=None,
        pattern=r"^\w[\w.-]{0,99}$",
        title="Run name",
        description="Up to 100 letters, digits, '.', '_', '-'; default: made up.",
    )
    data_dir: str | None = Field(
        default=None, title="Data folder", description="Where named sets are; default: PREDILECT_DATA_DIR."
    )
    reader: str = Field(default="auto", title="Reader", description="A reader's name, or auto: chosen by content.")
    seed: int = Field(default=0, ge=0, lt=2**32, title="Seed", description="0 to 4294967295; same seed, same result.")
    threads: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        title="Threads",
        description="1 to 1024; default: every core. Same result for any.",
    )


def columns_in(value: Any) -> Any:
    """`user:a,item:b` of a command line as columns by role; what is no text stays."""
    if isinstance(value, str):
        return {name: column for name, _, column in (part.partition(":") for part in value.split(","))}
    return value


class RatingsData(Parameters):
    """Which ratings are read, and what is asked of them."""

    columns: dict[str, str] = Field(
        default={},
        title="Columns",
        description="Which column is the user, item, rating, timestamp or fold, such as user:customer,rating:stars; "
        "default: guessed from common names.",
    )
    scale_low: float | None = Field(default=None, title="Lowest rating", description="Default: inferred.")
    scale_high: float | None = Field(default=None, title="Highest rating", description="Default: inferred.")
    scale_step: float | None = Field(
        default=None, ge=0, title="Step of the scale", description="Above 0; 0 = continuous; default: inferred."
    )

    min_user_ratings: int = Field(
        default=1, ge=1, title="Ratings a user should have", description="1 or more; see its share."
    )
    min_user_share: float = Field(
        default=0.0, ge=0, le=1, title="Share of users that must", description="0 to 1; 0 turns the rule off."
    )
    min_item_ratings: int = Field(
        default=1, ge=1, title="Ratings an item should have", description="1 or more; see its share."
    )
    min_item_share: float = Field(
        default=0.0, ge=0, le=1, title="Share of items that must", description="0 to 1; 0 turns the rule off."
    )

    duplicates: Duplicates = Field(
        default=Duplicates.error, title="Duplicates", description="Policy for a pair that is rated twice."
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _columns_from_text(cls, value: Any) -> Any:
        return columns_in(value)

    @field_validator("columns")
    @classmethod
    def _known_columns(cls, value: dict[str, str]) -> dict[str, str]:
        known = ("user", "item", "rating", "timestamp", "fold")
        for name, column in value.items():
            if name not in known or not column:
                raise ValueError(f"{name}:{column} is not one of {', '.join(f'{k}:COLUMN' for k in known)}")
        return value

    @model_validator(mode="after")
    def _whole_scale(self) -> Self:
        if (self.scale_low is None) != (self.scale_high is None):
            raise ValueError("give scale_low and scale_high together, or neither")
        if self.scale_low is not None and self.scale_high is not None and self.scale_low >= self.scale_high:
            raise ValueError(f"scale_low = {self.scale_low} must be below scale_high = {self.scale_high}")
        return self


class RatingsParameters(RatingsData):
    """Parameters of the ratings family."""

    quarantine: bool = Field(
        default=False, title="Quarantine", description="Set rows that break the contract aside instead of stopping."
    )
    max_quarantine_share: float = Field(
        default=0.05, ge=0, le=1, title="Most to set aside", description="0 to 1: share of rows; beyond it, stop."
    )

    split: str = Field(
        default="random:0.2",
        title="Test part",
        description="folds:NAME (publisher's fold), random:SHARE, time:SHARE (each user's latest), user:SHARE, or "
        "stable:SHARE (by a hash of user and item: held out from all later data too); shares above 0 and below 1.",
    )
    warm_start: str | None = Field(
        default=None,
        title="Start from",
        description="A model folder of as many latents, perhaps of other users and items; default: random starts.",
    )
    inference: Inference = Field(
        default=Inference.mf,
        title="Inference",
        description="mf: mean-field variational Bayes; gmf: factors correlated; em: exact EM, for small data; "
        "gibbs: mf, then the posterior sampled: the most accurate, and the slowest.",
    )
    rated_set: bool = Field(
        default=VBConfig.rated_set,
        title="Rated sets",
        description="Let the priors depend on what a user rated and on who rated an item, in training. Not em.",
    )
    users: str | None = Field(
        default=None,
        title="Table of users",
        description="A file with a row a user: u.user, users.dat, CSV or Parquet. Not em.",
    )
    items: str | None = Field(
        default=None,
        title="Table of items",
        description="A file with a row an item: u.item, movies.dat, CSV or Parquet. Not em.",
    )
    chains: int = Field(default=VBConfig.chains, ge=1, le=64, title="Chains", description="With gibbs: 1 to 64.")
    burn_in: int = Field(
        default=VBConfig.burn_in,
        ge=0,
        le=100_000,
        title="Burn-in",
        description="With gibbs: 0 to 100000 sweeps a chain that do not count.",
    )
    samples: int = Field(
        default=VBConfig.samples,
        ge=4,
        le=100_000,
        title="Sampled sweeps",
        description="With gibbs: 4 to 100000 sweeps a chain that count, no fewer than draws.",
    )
    draws: int = Field(
        default=VBConfig.draws,
        ge=1,
        le=10_000,
        title="Draws kept",
        description="With gibbs: 1 to 10000 a chain, evenly spaced over the sampled sweeps.",
    )
    search: Search = Field(
        default=Search.auto,
        title="Structure search",
        description="auto: one empirical-Bayes fit; greedy: the paper's wrapper with fixed tau; none: as given below.",
    )
    search_folds: int = Field(default=4, ge=2, le=20, title="Folds of the search", description="2 to 20.")
    search_budget: int = Field(
        default=400, ge=4, le=100_000, title="Search budget", description="4 to 100000 fits at most, a fold each."
    )
    n_user_latents: int = Field(
        default=VBConfig.n_user_latents,
        ge=0,
        le=500,
        title="User latents |U|",
        description="0 to 500; with auto, |U| + |M| is a bound.",
    )
    n_item_latents: int = Field(
        default=VBConfig.n_item_latents,
        ge=0,
        le=500,
        title="Item latents |M|",
        description="0 to 500; with auto, |U| + |M| is a bound.",
    )
    tau: float = Field(
        default=VBConfig.tau, gt=0, le=1e6, title="Tau", description="Above 0, to 1e6: precision of the weights."
    )
    precisions: Precisions = Field(
        default=Precisions.empirical_bayes,
        title="Precisions",
        description="With search=none: learned (empirical_bayes) or the given tau (fixed).",
    )
    max_sweeps: int = Field(
        default=VBConfig.max_sweeps, ge=1, le=100_000, title="Most sweeps", description="1 to 100000."
    )
    tolerance: float = Field(
        default=VBConfig.tolerance,
        gt=0,
        lt=1,
        title="Tolerance",
        description="Above 0, below 1: relative rise of the bound.",
    )
    restarts: int = Field(
        default=VBConfig.restarts, ge=1, le=100, title="Restarts", description="1 to 100; the best bound is kept."
    )

    compute: Compute = compute_field("fits, folds and repeats run", " The last two: mf or gmf only.")
    scheduler: str | None = Field(
        default=None, title="Dask scheduler", description="Its address, such as tcp://10.0.0.1:8786; with compute dask."
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        title="Workers",
        description="Processes on this machine: 1 to 1024; default: one a core. Not with a scheduler.",
    )

    resamples: int = Field(
        default=1000, ge=100, le=100_000, title="Bootstrap resamples", description="100 to 100000, by user."
    )
    cold_start: bool = Field(
        default=False, title="Cold-start study", description="Also measure how well users with few ratings are served."
    )
    cold_start_kappas: list[int] = Field(
        default=[1, 2, 3, 5, 10, 15, 20], title="Ratings kept (kappa)", description="Each 0 or more, such as 0,1,5."
    )
    cold_start_repeats: int = Field(default=5, ge=1, le=100, title="Repeats", description="1 to 100 random repeats.")
    cold_start_groups: int = Field(default=5, ge=2, le=100, title="User groups", description="2 to 100.")

    @field_validator("cold_start_kappas", mode="before")
    @classmethod
    def _list_from_text(cls, value: Any) -> Any:
        return value.split(",") if isinstance(value, str) else value

    @field_validator("cold_start_kappas")
    @classmethod
    def _known_kappas(cls, value: list[int]) -> list[int]:
        if not value or min(value) < 0:
            raise ValueError("every value is 0 or more, and there is at least one")
        return sorted(set(value))

    @field_validator("split")
    @classmethod
    def _legal_split(cls, value: str) -> str:
        try:
            parse_split(value)
        except ParameterError as error:
            raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.n_user_latents + self.n_item_latents < 1:
            raise ValueError("n_user_latents + n_item_latents must be 1 or more")
        if self.inference == Inference.em and (self.rated_set or self.users or self.items):
            raise ValueError("inference = em takes no rated sets and no tables; choose mf, gmf or gibbs with them")
        check_compute(self.compute, self.scheduler, self.workers, self.inference)
        if self.draws > self.samples:
            raise ValueError(f"draws = {self.draws} must not be above samples = {self.samples}")
        return self


def as_in_ratings(name: str) -> Any:
    """The same field for other parameters: default, title, description and limits."""
    return copy(RatingsParameters.model_fields[name])


def check_compute(compute: Compute, scheduler: str | None, workers: int | None, inference: Inference) -> None:
    """Raise ValueError when these do not go together."""
    if compute != Compute.threads and inference not in (Inference.mf, Inference.gmf):
        raise ValueError(f"compute = {compute} fits by inference mf or gmf, not {inference}; compute on threads")
    check_scheduler(compute, scheduler, workers)


def check_scheduler(compute: Compute, scheduler: str | None, workers: int | None) -> None:
    """Raise ValueError when these do not go together."""
    if scheduler is not None and compute != Compute.dask:
        raise ValueError(f"scheduler = {scheduler} goes with compute = dask, not {compute}")
    if scheduler is not None and workers is not None:
        raise ValueError("workers counts processes of this machine; leave it out with a scheduler")


P = TypeVar("P", bound=Parameters)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"--config {path}: {error.strerror}; give a TOML file of name = value lines.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"--config {path}: not TOML ({error}); give a file of name = value lines.") from None


def _said(model: type[Given], values: dict[str, Any], problem: Any) -> str:
    """One validation problem as a sentence with the parameter, the value and the range."""
    where = [str(part) for part in problem["loc"]]
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not where:
        return f"{message}."
    name = where[0]
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, model.model_fields, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(model.model_fields)}."
        return f"{name}: no such parameter; {hint}"
    about = model.model_fields[name].description
    if problem["type"] == "missing":
        return f"{name}: must be given ({about})"
    return f"{name} = {values.get(name)!r}: {message[0].lower()}{message[1:].rstrip('.')} ({about})"
