"""What a clicks model found, for people: calibration, words, risk beside uncertainty, drift, what to explore."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from predilect.models.clicks import SCORES, ClicksModel, Prediction, count_intervals, score
from predilect.models.clicks.metrics import covered
from predilect.models.random import stream
from predilect.tasks.canonical_clicks import ClicksTable, Codes
from predilect.tasks.clicks_fit import Parts, Rows, design_for
from predilect.tasks.parameters_clicks import ClicksParameters

Json = dict[str, Any]
Array = NDArray[np.float64]
LEVELS = (0.5, 0.8, 0.9, 0.95)
Z95 = float(stats.norm.ppf(0.975))
MOST_CHECKED = 5_000
MOST_POINTS = 300
MOST_WORDS = 12
MOST_EXPLORED = 8
DRIFT_STEPS = 20


def calibration(
    prediction: Prediction, mean: Array, impressions: Codes, clicks: Codes, parameters: ClicksParameters
) -> Json:
    """By tenth of the impressions, in order of what was expected: expected and seen click share; and of click counts,
    nominal and covered share of their intervals (on at most 5,000 rows)."""
    order = np.argsort(mean, kind="stable")
    shown = impressions[order].astype(np.float64)
    tenth = np.minimum((10 * (np.cumsum(shown) - shown / 2) / max(shown.sum(), 1)).astype(int), 9)
    weight = np.bincount(tenth, weights=shown, minlength=10)
    kept = weight > 0
    expected = np.bincount(tenth, weights=shown * mean[order], minlength=10)[kept] / weight[kept]
    seen = np.bincount(tenth, weights=clicks[order], minlength=10)[kept] / weight[kept]
    rows = np.flatnonzero(impressions > 0)
    rows = rows[stream(parameters.seed, "calibration").permutation(len(rows))[:MOST_CHECKED]]
    part = prediction.take(rows)
    shares = [
        float(
            covered(count_intervals(part, impressions[rows], level, n_threads=parameters.threads), clicks[rows]).mean()
        )
        for level in LEVELS
    ]
    return {
        "expected": expected.tolist(),
        "seen": seen.tolist(),
        "impressions": weight[kept].tolist(),
        "nominal": list(LEVELS),
        "covered": shares,
    }


def moments(prediction: Prediction) -> tuple[Array, Array, Array]:
    """Mean of the click probability, its variability (sd of θ at the estimate), and the estimation error of its mean
    (sd of σ(ζ), by the delta method); (n_rows,) each."""
    p = special.expit(prediction.zeta)
    total = np.exp(np.minimum(prediction.eta, 300.0)) / (1 - p)
    return p, np.sqrt(p * (1 - p) / (total + 1)), p * (1 - p) * prediction.zeta_sd


def scatter(table: ClicksTable, test: Rows, prediction: Prediction, seed: int) -> Json:
    """Mean, variability and estimation error of a sample of distinct test contexts, and which is which."""
    first = np.unique(table.contexts.lines[test], return_index=True)[1]
    first = np.sort(first[stream(seed, "scatter").permutation(len(first))[:MOST_POINTS]])
    mean, variability, error = moments(prediction.take(first))
    return {
        "labels": [label[:120] for label in table.labels(test[first])],
        "mean": mean.tolist(),
        "variability": variability.tolist(),
        "error": error.tolist(),
        "n_contexts": len(np.unique(table.contexts.lines[test])),
    }


def word_effects(model: ClicksModel) -> Json:
    """The features that raise the mean, and those that raise the variability, with 95 % intervals, by side.

    Effects are on the log-odds of the mean, and on −η: above 0 more variable. By |effect| / sd, the surest first.
    """
    if model.encoder is None:
        return {}
    names = model.encoder.features.names
    found: Json = {}
    blocks = {block.name for block in model.layout.blocks}
    for side, sign in (("mean", 1.0), ("dispersion", -1.0)):
        parts = [f"{side}.{name}" for name, _ in model.shape["parts"]]
        if not parts or not set(parts) <= blocks:
            continue
        pairs = [model.block(name) for name in parts]
        effect = sign * np.concatenate([mean for mean, _ in pairs])
        sd = np.concatenate([spread for _, spread in pairs])
        sure = np.abs(effect) / sd if (sd > 0).all() else np.abs(effect)
        order = np.argsort(-sure, kind="stable")
        rows = {
            "up": [i for i in order if effect[i] > 0][:MOST_WORDS],
            "down": [i for i in order if effect[i] < 0][:MOST_WORDS],
        }
        found[side] = {
            way: [
                {
                    "name": names[i],
                    "value": float(effect[i]),
                    "low": float(effect[i] - Z95 * sd[i]),
                    "high": float(effect[i] + Z95 * sd[i]),
                }
                for i in some
            ]
            for way, some in rows.items()
        }
        found[side]["sure"] = int((sure > Z95).sum()) if (sd > 0).all() else None
        found[side]["n"] = len(effect)
    return found


def drift(table: ClicksTable, parts: Parts) -> Json | None:
    """Click share over time in steps of equally many rows; None without times."""
    if table.time is None:
        return None
    rows = np.concatenate([parts.train, parts.test])
    held_out = np.arange(len(rows)) >= len(parts.train)
    order = np.argsort(table.time[rows], kind="stable")
    steps = []
    for some in np.array_split(order, min(DRIFT_STEPS, len(order))):
        shown = int(table.impressions[rows[some]].sum(dtype=np.int64))
        if shown:
            steps.append(
                {
                    "from": float(table.time[rows[some[0]]]),
                    "to": float(table.time[rows[some[-1]]]),
                    "rate": float(table.clicks[rows[some]].sum(dtype=np.int64) / shown),
                    "impressions": shown,
                    "test_share": float(held_out[some].mean()),
                }
            )
    rates = {
        name: float(table.clicks[part].sum(dtype=np.int64) / max(table.impressions[part].sum(dtype=np.int64), 1))
        for name, part in (("train", parts.train), ("test", parts.test))
    }
    return {"steps": steps, **rates}


def exploration(model: ClicksModel, table: ClicksTable, rows: Rows, parameters: ClicksParameters) -> Json | None:
    """Which contexts that the mean would not show each score would: its best ones outside the mean's best tenth.

    Also how far each score's order agrees with the mean's. None for models without a posterior.
    """
    if not model.config.has_posterior:
        return None
    first = np.unique(table.contexts.lines[rows], return_index=True)[1]
    some = rows[np.sort(first)]
    if len(some) < 20:
        return None
    design = design_for(model, table, some)
    prediction = model.predict(design)
    found = score(model, design, SCORES, prediction=prediction, nu=parameters.nu, seed=parameters.seed)
    labels = table.labels(some)
    place = np.empty(len(some), np.int64)
    place[np.argsort(-found["mean"], kind="stable")] = np.arange(1, len(some) + 1)
    top = max(len(some) // 10, 1)
    _, variability, error = moments(prediction)
    lists, agreement = {}, {}
    for name in SCORES[1:]:
        order = np.argsort(-found[name], kind="stable")
        unlikely = [int(i) for i in order[:top] if place[i] > top][:MOST_EXPLORED]
        agreement[name] = {
            "rank_correlation": float(stats.spearmanr(found["mean"], found[name]).statistic),
            "shared_top": float((place[order[:top]] <= top).mean()),
        }
        lists[name] = [
            {
                "label": labels[i][:160],
                "place": int(place[i]),
                "mean": float(found["mean"][i]),
                "score": float(found[name][i]),
                "variability": float(variability[i]),
                "error": float(error[i]),
            }
            for i in unlikely
        ]
    return {"n": len(some), "top": top, "nu": parameters.nu, "lists": lists, "agreement": agreement}
