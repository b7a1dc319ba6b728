"""Results as a training run writes them, made up by formula: a full one, a greedy search, a bare one, a hostile one."""

import math
from typing import Any

import numpy as np

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def estimate(value: float, half: float) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def full(**changes: Any) -> dict[str, Any]:
    """Everything there, as after `search=auto` on a hundred thousand ratings; top-level parts may be replaced."""
    sweeps = np.arange(1, 64)
    trace = -104_950 - 9_800 * np.exp(-(sweeps - 1) / 1.6) - 900 * np.exp(-(sweeps - 1) / 14)
    results = {
        "run": {
            "name": "film-club-nightly",
            "family": "ratings",
            "created": "2025-03-14T02:00:11+00:00",
            "seed": 7,
            "threads": 2,
            "git_revision": "3f1c9ab2d40e5f6a7b8c9d0e1f2a3b4c5d6e7f80",
            "duration_s": 41.72,
            "mlflow_run_id": "5f0c2a9e8b7d4c61a3e2f1d0c9b8a797",
            "prefect_flow_run_id": "0b5c1a52-6f5e-4b0e-9a3c-2f6d1c7e8a90",
            "command": "predilect train ratings --data film-club --set split=random:0.2 --seed 7 --threads 2",
            "predilect_version": "0.1.0",
        },
        "dataset": {
            "name": "film-club",
            "source": ["club-ratings.csv"],
            "digest": "9c1185a5c5e9fc54612808977ee8f548b2258d31a1f2b3c4d5e6f708192a3b4c",
            "rows": 104_812,
            "n_users": 1_043,
            "n_items": 1_911,
            "scale": {"low": 1.0, "high": 5.0, "levels": [1.0, 2.0, 3.0, 4.0, 5.0], "inferred": True},
            "time_span": [874_724_710, 893_286_638],
            "reader": "csv",
            "options": {"reader": "auto", "columns": {"user": "member", "item": "film", "rating": "stars"}},
            "duplicates": {"policy": "last", "merged": 37},
            "left_out": {"count": 212, "reason": "rating 0 means implicit feedback"},
            "warnings": ["The rating scale 1 to 5 was inferred from the data; give scale=LOW:HIGH to be sure."],
        },
        "contract": {
            "success": True,
            "rows": 104_812,
            "rules": [
                rule("enough ratings", None, True, 104_812, None, None),
                rule("user given", "user", True, "0 of 104812", 0, 0.0),
                rule("item given", "item", True, "0 of 104812", 0, 0.0),
                rule("rating within the scale", "rating", True, "0 of 104812", 0, 0.0),
                rule("one rating a user and item", "user, item", True, "0 of 104812", 0, 0.0),
                rule("enough ratings a user", "ratings", True, "20 of 1043", 20, 0.0192),
            ],
            "quarantined": 0,
            "quarantine": None,
            "data_docs": "data_docs/index.html",
        },
        "split": {
            "kind": "random:0.2",
            "train_rows": 83_850,
            "test_rows": 20_962,
            "unseen_users": 3,
            "unseen_items": 31,
            "unseen_rows": 41,
        },
        "metrics": {
            "mae": estimate(0.7132, 0.0078),
            "mae_rounded": estimate(0.6691, 0.0081),
            "rmse": estimate(0.9047, 0.0092),
            "log_predictive_density": estimate(-1.3124, 0.0105),
            "coverage_50": estimate(0.5012, 0.0075),
            "coverage_80": estimate(0.8003, 0.006),
            "coverage_90": estimate(0.8961, 0.0048),
            "coverage_95": estimate(0.9432, 0.0037),
            "interval_width_90": estimate(2.931, 0.011),
            "ndcg_10": estimate(0.8713, 0.0062),
            "recall_10": estimate(0.6124, 0.0139),
        },
        "baselines": {
            "global mean": {
                "mae": estimate(0.9441, 0.0109),
                "mae_rounded": estimate(0.9398, 0.0133),
                "rmse": estimate(1.1252, 0.0118),
                "log_predictive_density": estimate(-1.5372, 0.0104),
                "coverage_90": estimate(0.9421, 0.0051),
            },
            "bias only": {
                "mae": estimate(0.7467, 0.0083),
                "mae_rounded": estimate(0.7032, 0.0086),
                "rmse": estimate(0.9421, 0.0096),
                "log_predictive_density": estimate(-1.3598, 0.0109),
                "coverage_90": estimate(0.9003, 0.0051),
            },
        },
        "differences": {
            "global mean": {
                "mae": estimate(-0.2309, 0.0071),
                "mae_rounded": estimate(-0.2707, 0.0093),
                "rmse": estimate(-0.2205, 0.0069),
                "log_predictive_density": estimate(0.2248, 0.0081),
                "coverage_90": estimate(-0.046, 0.0049),
            },
            "bias only": {
                "mae": estimate(-0.0335, 0.0031),
                "mae_rounded": estimate(-0.0341, 0.0037),
                "rmse": estimate(-0.0374, 0.0033),
                "log_predictive_density": estimate(0.0474, 0.0041),
                "coverage_90": estimate(-0.0042, 0.0021),
            }
        },
        "fit": {
            "n_sweeps": len(sweeps),
            "converged": True,
            "restarts": 3,
            "bound": trace.tolist(),
            "noise_sd": (0.8903 + 0.21 * np.exp(-(sweeps - 1) / 1.9)).tolist(),
            "dimension_sd": [0.312, 0.243, 0.187, 0.142, 0.101, 0.004, 0.003, 0.002, 0.002, 0.001],
            "user_precisions": [3.1, 4.4, 6.2, 8.8, 12.4, 5_100.0, 6_300.0, 8_800.0, 9_100.0, 12_000.0],
            "effective_dimensions": 5,
            "n_parameters": 32_494,
            "seconds": 1.284,
        },
        "calibration": {
            "nominal": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99],
            "covered": [0.0983, 0.2011, 0.2989, 0.4017, 0.5012, 0.6021, 0.7013, 0.8003, 0.8961, 0.9432, 0.9814],
            "pit": [0.096, 0.092, 0.098, 0.104, 0.109, 0.111, 0.108, 0.103, 0.094, 0.085],
        },
        "residuals": [residual(level, n) for level, n in zip(range(1, 6), (1270, 2388, 5689, 7165, 4450), strict=True)],
        "search": {
            "kind": "auto",
            "budget": None,
            "candidates": [],
            "chosen": None,
        },
        "cold_start": {
            "kappa": [1, 2, 3, 5, 10, 15, 20],
            "mae": [0.784, 0.773, 0.765, 0.752, 0.731, 0.719, 0.711],
            "low": [0.772, 0.762, 0.755, 0.743, 0.723, 0.711, 0.703],
            "high": [0.796, 0.784, 0.775, 0.761, 0.739, 0.727, 0.719],
            "efficiency": [0.853, 0.866, 0.875, 0.89, 0.915, 0.931, 0.941],
            "full_mae": 0.6691,
            "repeats": 5,
        },
        "timings": {"ingest": 0.91, "contract": 6.42, "compile": 8.83, "search": 0.02, "fit": 1.28, "evaluate": 2.37,
                    "cold start": 14.2, "report": 1.12, "track": 5.61},
        "parameters": {"split": "random:0.2", "search": "auto", "n_user_latents": 3, "n_item_latents": 7,
                       "tolerance": 1e-05, "max_sweeps": 100, "restarts": 3, "precisions": "empirical_bayes",
                       "duplicates": "last", "quarantine": False, "bootstrap": 1000, "columns": None,
                       "cold_start": {"kappas": [1, 2, 3, 5, 10, 15, 20], "repeats": 5}},
        "warnings": ["41 test ratings are of users or items that training never saw; they are scored from the prior."],
    }  # fmt: skip
    return results | changes


def rule(
    name: str, column: str | None, success: bool, observed: Any, unexpected: int | None, part: float | None
) -> dict[str, Any]:
    return {
        "rule": name,
        "column": column,
        "success": success,
        "observed": observed,
        "unexpected_count": unexpected,
        "unexpected_share": part,
    }


def residual(level: float, n: int) -> dict[str, float]:
    centre = 0.46 * (level - 3.4)
    quantiles = {"q05": -1.31, "q25": -0.49, "q50": 0.03, "q75": 0.52, "q95": 1.24}
    return {"rating": float(level), "n": n, "mean": centre} | {key: centre + q for key, q in quantiles.items()}


def greedy() -> dict[str, Any]:
    """The paper's greedy search: τ climbs from (1, 1), then neighbours, equivalent structures shared."""
    ladder = (1, 2, 5, 10, 20, 50, 100, 200)
    rng = np.random.default_rng(5)
    candidates: list[dict[str, Any]] = []
    fitted: dict[tuple[int, float], int] = {}
    plans = [((1, 1), ladder[:5]), ((2, 1), ladder[3:7]), ((1, 2), ladder[3:7]), ((2, 2), ladder[4:7]),
             ((3, 1), ladder[4:7]), ((3, 2), ladder[5:8]), ((2, 3), ladder[5:8]), ((3, 3), ladder[5:8])]  # fmt: skip
    for (n_user, n_item), taus in plans:
        for tau in taus:
            k = n_user + n_item
            shared = fitted.setdefault((k, tau), len(candidates))
            if shared == len(candidates):
                mae = 0.6795 + 0.013 * abs(math.log(tau / (4 * k**1.7))) ** 1.4 + 0.0016 * (k - 5) ** 2
                folds = (mae + rng.normal(0, 0.003, 4)).tolist()
            else:
                folds = candidates[shared]["fold_mae"]
            candidates.append(
                {
                    "step": len(candidates),
                    "n_user_latents": n_user,
                    "n_item_latents": n_item,
                    "tau": float(tau),
                    "fold_mae": folds,
                    "mae": float(np.mean(folds)),
                    "shared_with": shared if shared < len(candidates) else None,
                    "chosen": False,
                }
            )
    best = min(candidates, key=lambda candidate: candidate["mae"])
    best["chosen"] = True
    search = {"kind": "greedy", "budget": 400, "n_fits": 4 * len(fitted), "stopped_by": "no improvement"}
    return full(search=search | {"candidates": candidates, "chosen": dict(best)})


def bare() -> dict[str, Any]:
    """The least a run can say: every optional part is null."""
    parts = full()
    run = dict.fromkeys(parts["run"]) | {"name": "bare", "family": "ratings", "seed": 1}
    dataset = dict.fromkeys(parts["dataset"]) | {"name": "tiny", "rows": 12, "n_users": 3, "n_items": 4, "warnings": []}
    return dict.fromkeys(parts) | {"run": run, "dataset": dataset}


def hostile() -> dict[str, Any]:
    """A script in every text that comes from the data or the user, with Markdown, rich and mathtext mark-up."""
    nasty = f"{HOSTILE} | `a` [b](javascript:alert(1)) [bold]c[/bold] $\\frac{{1}}{{0}}$ {'w' * 200}"
    results: dict[str, Any] = _replaced(full(), nasty)
    results["run"]["family"] = "ratings"
    results["baselines"] = {nasty: results["baselines"]["bias only"]}
    results["differences"] = {nasty: results["differences"]["bias only"]}
    results["parameters"] = {nasty: nasty, "list": [nasty]}
    results["timings"] = {nasty: 1.0}
    results["dataset"]["options"] = {nasty: nasty}
    results["contract"]["data_docs"] = "javascript:document.title='owned'"
    results["contract"]["rules"].append(rule(nasty, nasty, False, [nasty], 3, 0.1))
    results["contract"]["success"] = False
    return results


def _replaced(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(part, text) for key, part in value.items()}
    if isinstance(value, list):
        return [_replaced(part, text) for part in value]
    return text if isinstance(value, str) else value


ALL = {"full": full, "greedy": greedy, "bare": bare, "hostile": hostile}


def said(x: float, decimals: int = 3) -> str:
    """A number as pages write it, by an independent road."""
    return f"{x:.{decimals}f}".replace("-", "\u2212")
