"""How a variational-Bayes ratings model is fitted."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from predilect.models.errors import ParameterError

Precisions = Literal["empirical_bayes", "fixed"]
Inference = Literal["mf", "gmf", "em", "gibbs"]


@dataclass(frozen=True)
class VBConfig:
    """Structure, priors and stopping rule. Raises ParameterError for an impossible value."""

    n_user_latents: int = 10
    """Latent properties of a user, each weighted by every item (|U| = t in the paper); 0 or more."""
    n_item_latents: int = 10
    """Latent properties of an item, each weighted by every user (|M| = s in the paper); 0 or more. Only the sum
    of both counts: structures with the same sum are one model. With empirical_bayes it is an upper bound."""
    tau: float = 10.0
    """Prior precision τ of the weights; the latents' is 1. With empirical_bayes, where the estimate starts."""
    precisions: Precisions = "empirical_bayes"
    """`empirical_bayes`: prior precisions learned from the data, unneeded dimensions fade. `fixed`: τ as given."""
    max_sweeps: int = 100
    """Sweeps over all users and items, at most; 1 or more."""
    tolerance: float = 1e-5
    """Stop when a sweep raises the bound by less than this share of its size (of N nats, if that is more); above 0."""
    restarts: int = 1
    """Random starts, of which the one with the highest bound is kept; 1 or more. On the sets tried, further starts
    raised the bound a little and did not predict better."""
    inference: Inference = "mf"
    """`mf`: mean-field variational Bayes. `gibbs`: from there, the posterior sampled."""
    rated_set: bool = False
    """Let the prior means of a user's factors depend on which items the user rated, and of an item's on by whom."""
    chains: int = 4
    """Chains of `gibbs`, each from a random start of its own; 1 or more."""
    burn_in: int = 80
    """Sweeps a chain before draws count; 0 or more."""
    samples: int = 320
    """Sweeps a chain after those; 2 or more."""
    draws: int = 80
    """Draws a chain that are kept, evenly spaced over the samples: they are the model's posterior; 1 or more."""

    def __post_init__(self) -> None:
        for name in ("n_user_latents", "n_item_latents"):
            if getattr(self, name) < 0:
                raise ParameterError(f"{name} is {getattr(self, name)}; give 0 or more.")
        for name in ("max_sweeps", "restarts", "chains", "draws"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} is {getattr(self, name)}; give 1 or more.")
        if self.burn_in < 0:
            raise ParameterError(f"burn_in is {self.burn_in}; give 0 or more.")
        if self.samples < max(4, self.draws):
            raise ParameterError(f"samples is {self.samples}; give 4 or more, and no fewer than draws = {self.draws}.")
        for name in ("tau", "tolerance"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ParameterError(f"{name} is {getattr(self, name)}; give a number above 0.")
        if self.precisions not in get_args(Precisions):
            raise ParameterError(f"precisions is {self.precisions!r}; give one of {', '.join(get_args(Precisions))}.")
        if self.inference not in get_args(Inference):
            raise ParameterError(f"inference is {self.inference!r}; give one of {', '.join(get_args(Inference))}.")

    @property
    def n_factors(self) -> int:
        """K = s + t."""
        return self.n_user_latents + self.n_item_latents
