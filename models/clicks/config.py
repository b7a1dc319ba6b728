"""What can be chosen about a clicks model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from predilect.models.errors import ParameterError

ModelName = Literal["m-log", "l-log", "m-bbl", "l-bbl", "m-prop", "l-prop"]
Evidence = Literal["hutchinson", "svd", "paper", "fixed"]
GroupEffect = Literal["mean", "both", "none"]


@dataclass(frozen=True)
class ClicksConfig:
    """Choices of a fit; a wrong value raises ParameterError."""

    model: ModelName = "l-prop"
    """log: logistic regression; bbl: beta-binomial with one dispersion; prop: the dispersion depends on the context
    (paper §5.2). m- predicts from the maximum a posteriori alone, l- from Laplace's posterior around it."""
    group_effect: GroupEffect = "mean"
    """Rows of one group share an effect on the mean, or on mean and dispersion; used when the design has groups."""
    evidence: Evidence = "hutchinson"
    """How prior precisions are learned: traces by random probes, by the low-rank posterior with its residual, by the
    paper's truncated spectrum (for reproduction; it shrinks precisions with the rank), or not at all."""
    precisions: Mapping[str, float] = field(default_factory=dict)
    """Prior precisions held fixed, by block, such as {"dispersion.features": 1.0}; the others are learned."""
    start_precision: float = 10.0
    """Where learned precisions start, and what they are under evidence="fixed"."""
    intercept_precision: float = 0.01
    """The weak prior precision of the two intercepts."""
    single_block: bool = False
    """One precision for shared features and cluster copies together, as in the paper."""
    rank: int = 64
    """k, the directions of the posterior that are kept exactly (up to the number of coefficients)."""
    residual: Literal["spread", "none"] = "spread"
    """Directions beyond the rank: spread what the data say about them, or leave them at the prior as in the paper."""
    n_probes: int = 6
    """Random probes of evidence="hutchinson"."""
    tolerance: float = 1e-4
    """Infinity norm of the gradient at which a fit has converged."""
    max_iterations: int = 200
    """Newton steps of one fit before NotConvergedError."""
    evidence_tolerance: float = 0.02
    """Relative change of every precision at which empirical Bayes has converged."""
    max_rounds: int = 30
    """Rounds of empirical Bayes; if they do not suffice the model says so in `evidence_converged`."""

    def __post_init__(self) -> None:
        for name, choices in (("model", ModelName), ("evidence", Evidence), ("group_effect", GroupEffect)):
            if getattr(self, name) not in get_args(choices):
                raise ParameterError(
                    f"{name} is {getattr(self, name)!r}; choose one of {', '.join(get_args(choices))}."
                )
        if self.residual not in ("spread", "none"):
            raise ParameterError(f"residual is {self.residual!r}; choose spread or none.")
        positive = ("start_precision", "intercept_precision", "tolerance", "evidence_tolerance")
        for name, value in [(name, getattr(self, name)) for name in positive] + list(self.precisions.items()):
            if not 0 < value < float("inf"):
                raise ParameterError(f"{name} is {value}; give a finite number above 0.")
        for name in ("rank", "n_probes", "max_iterations", "max_rounds"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} is {getattr(self, name)}; give a whole number of at least 1.")

    @property
    def has_posterior(self) -> bool:
        """Whether predictions carry the posterior's uncertainty (the l- models)."""
        return self.model.startswith("l-")

    @property
    def likelihood(self) -> str:
        """log, bbl or prop."""
        return self.model[2:]
