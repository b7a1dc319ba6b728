"""A fit's state on disk: written after a sweep, read back to go on to the same bits."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models import artifact
from predilect.models.ratings.bound import Noise
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.fit import Fit, FitState, Start
from predilect.models.ratings.posterior import Side

KIND, SCHEMA_VERSION = "ratings-fit", 1
Arrays = Mapping[str, NDArray[Any]]


def save_state(folder: Path, state: FitState) -> None:
    """Write `state` as a folder, complete or not at all."""
    arrays = _start_arrays("at", state.at)
    facts: dict[str, Any] = {"restart": state.restart, "noise": asdict(state.at.noise), "best": None}
    if state.best is not None:
        best = state.best
        facts["best"] = {"noise": asdict(best.noise), "converged": best.converged}
        if best.users is not state.at.users:  # The correlated fit goes on in the arrays of the one before.
            arrays |= _start_arrays("best", Start(best.users, best.items, best.noise, best.lambdas))
            for name, weights in (("user", best.user_weights), ("item", best.item_weights)):
                arrays |= {} if weights is None else {f"best_{name}_weights": weights}
        arrays |= _traces("best", best.bound_trace, best.noise_sd_trace)
    artifact.save(folder, KIND, SCHEMA_VERSION, arrays, facts)


def load_state(folder: Path, config: VBConfig) -> FitState:
    """Read what `save_state` wrote of a fit with this configuration. Raises ArtifactError when it is damaged."""
    arrays, facts = artifact.load(folder, KIND, SCHEMA_VERSION)
    at = _start("at", arrays, facts["noise"], config)
    best = None
    if facts["best"] is not None:
        apart = _start("best", arrays, facts["best"]["noise"], config) if "best_users_means" in arrays else at
        best = Fit(
            apart.users,
            apart.items,
            Noise(**facts["best"]["noise"]),
            arrays["best_bounds"].tolist(),
            arrays["best_noise_sds"].tolist(),
            facts["best"]["converged"],
            arrays.get("best_user_weights"),
            arrays.get("best_item_weights"),
            apart.lambdas,
        )
    return FitState(facts["restart"], at, best)


def _start_arrays(name: str, start: Start) -> dict[str, NDArray[Any]]:
    arrays = _traces(name, start.bound_trace, start.noise_sd_trace)
    arrays |= start.users.to_arrays(f"{name}_users") | start.items.to_arrays(f"{name}_items")
    for side, lambda_ in zip(("users", "items"), start.lambdas, strict=True):
        arrays |= {} if lambda_ is None else {f"{name}_{side}_lambda": lambda_}
    return arrays


def _start(name: str, arrays: Arrays, noise: dict[str, float], config: VBConfig) -> Start:
    sides = [Side.from_arrays(arrays, f"{name}_{side}") for side in ("users", "items")]
    for side in sides:
        side.n_first = config.n_item_latents if side.covariances is not None else 0
    lambdas = tuple(arrays.get(f"{name}_{side}_lambda") for side in ("users", "items"))
    traces = (tuple(arrays[f"{name}_{trace}"].tolist()) for trace in ("bounds", "noise_sds"))
    return Start(sides[0], sides[1], Noise(**noise), lambdas, *traces)


def _traces(name: str, bounds: Any, noise_sds: Any) -> dict[str, NDArray[Any]]:
    return {f"{name}_bounds": np.array(bounds, np.float64), f"{name}_noise_sds": np.array(noise_sds, np.float64)}
