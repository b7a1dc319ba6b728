"""What a fit's results say of its chains and of the features: plain numbers, with intervals over the draws."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.ratings.effects import Effects
from predilect.models.ratings.model import RatingsModel

INTERVAL = (0.05, 0.95)
MOST_FEATURES = 40
"""Features a side in the results, those that matter most first."""
GOOD_RHAT = 1.05


def sampling_facts(model: RatingsModel) -> dict[str, Any] | None:
    """Convergence diagnostics of the chains; None when nothing was sampled."""
    if model.sampled is None:
        return None
    mixed, draws = model.sampled.convergence, model.sampled.draws
    watched = mixed.rhat[np.isfinite(mixed.rhat)]
    return {
        "chains": len(mixed.noise),
        "sweeps": mixed.noise.shape[1],
        "draws": draws.n_draws,
        "noise_sd": [[round(float(value), 5) for value in 1 / np.sqrt(chain)] for chain in mixed.noise],
        "noise_rhat": _plain(mixed.noise_rhat),
        "noise_ess": _plain(mixed.noise_size),
        "prediction_rhat_max": _plain(watched.max(initial=1.0)),
        "prediction_rhat_median": _plain(np.median(watched)) if len(watched) else None,
        "prediction_ess_median": _plain(np.nanmedian(mixed.size)),
        "prediction_ess_min": _plain(np.nanmin(mixed.size)),
        "watched": len(mixed.rhat),
        "good_rhat": GOOD_RHAT,
    }


def effect_facts(model: RatingsModel) -> dict[str, Any] | None:
    """How much the rated sets and the tables' columns and values matter, in rating units; None unless sampled."""
    if model.sampled is None:
        return None
    sides = {"users": model.sampled.user_effects, "items": model.sampled.item_effects}
    found = {name: _side(effects) for name, effects in sides.items() if effects.groups}
    return found or None


def _side(effects: Effects) -> dict[str, Any]:
    shift, spread = effects.shift, effects.spread
    size = np.sqrt(np.mean(shift.astype(np.float64) ** 2 + spread.astype(np.float64) ** 2, axis=0))
    order = np.argsort(-size, kind="stable")[:MOST_FEATURES]
    features = [
        {"name": effects.names[f], "shift": _interval(shift[:, f]), "spread": _interval(spread[:, f])} for f in order
    ]
    groups = [{"name": group, "sd": _interval(effects.group_sd[:, g])} for g, group in enumerate(effects.groups)]
    return {"groups": groups, "features": features, "n_features": len(effects.names)}


def _interval(draws: NDArray[Any]) -> dict[str, float | None]:
    low, high = np.quantile(draws, INTERVAL)
    return {"value": _plain(draws.mean()), "low": _plain(low), "high": _plain(high)}


def _plain(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None
