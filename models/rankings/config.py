"""How a mixture of Plackett-Luce models is fitted."""

import math
from dataclasses import dataclass
from typing import get_args

from predilect.models.errors import ParameterError
from predilect.models.rankings.solvers import Solver
from predilect.models.rankings.spectral import Link


@dataclass(frozen=True)
class RankingsConfig:
    """Number of components, prior, search and stopping rule. Raises ParameterError for an impossible value."""

    n_components: int = 1
    """Components (segments) K of the mixture; 1 or more."""
    nu: float = 0.0
    """Prior ν: wins and losses of every item against a ghost item of worth 1; 0 = maximum likelihood. Above 0, worths
    are finite whatever the ballots."""
    solver: Solver = "auto"
    """auto: accelerated EM (K = 1: SQUAREM-MM, then Newton where it is slow). squarem: the same without a second stage.
    lsr, mm, newton: exact EM with M-steps by that solver; lsr is EM-LSR of the paper."""
    n_starts: int = 12
    """Random starts beside the spectral one; 0 or more. Each costs some twelve passes over a sample of ballots."""
    spectral: bool = True
    """Whether the spectral start is among them."""
    link: Link = "logit"
    """How the spectral start turns pairwise shares into log-worths: logit, or probit for Thurstone-like ballots."""
    tolerance: float = 1e-8
    """Stop when every derivative of the log-likelihood is within this share of the total weight; above 0."""
    max_passes: int = 20_000
    """Passes over the ballots in the final climb, at most; 1 or more."""

    def __post_init__(self) -> None:
        for name, least in (("n_components", 1), ("n_starts", 0), ("max_passes", 1)):
            if getattr(self, name) < least:
                raise ParameterError(f"{name} is {getattr(self, name)}; give {least} or more.")
        if not (math.isfinite(self.nu) and self.nu >= 0):
            raise ParameterError(f"nu is {self.nu}; give a number of 0 or more.")
        if not (math.isfinite(self.tolerance) and self.tolerance > 0):
            raise ParameterError(f"tolerance is {self.tolerance}; give a number above 0.")
        for name, kinds in (("solver", get_args(Solver)), ("link", get_args(Link))):
            if getattr(self, name) not in kinds:
                raise ParameterError(f"{name} is {getattr(self, name)!r}; give one of {', '.join(kinds)}.")
        if self.n_components > 1 and not self.n_starts and not self.spectral:
            raise ParameterError("there is no start: n_starts is 0 and spectral is off; give at least one.")
