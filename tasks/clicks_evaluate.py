"""Score a fitted clicks model and simpler ones on held-out rows, and say what they found."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from predilect.models.clicks import SCORES, ClicksModel, Prediction, count_intervals, log_predictive, score, score_block
from predilect.models.compiled import default_threads, threads
from predilect.models.fan_out import Spread
from predilect.models.random import stream
from predilect.tasks import progress
from predilect.tasks.canonical_clicks import ClicksTable
from predilect.tasks.clicks_findings import calibration, drift, exploration, scatter, word_effects
from predilect.tasks.clicks_fit import Parts, Rows, design_for, fit_model
from predilect.tasks.clicks_metrics import (
    FOLDS,
    RowScores,
    TestRows,
    bootstrap_units,
    estimates,
    gaps,
    measure,
    ranking_areas,
    rewards,
)
from predilect.tasks.compute import Workers, spread_on, workers_of
from predilect.tasks.parameters_clicks import NO_CONTEXT, ClicksParameters
from predilect.tasks.runs import write_json

Json = dict[str, Any]
MOST_SCORED = 10_000  # test rows for which the slow scores are compared: quantiles of 64 beta distributions each


def evaluate_clicks(dataset: Path, run: Path, parameters: ClicksParameters) -> Json:
    """Metrics with intervals, simpler models, scores, calibration, words, drift; also in `evaluation.json`.

    Writes `predictions.parquet`, a row a test row with counts, mean, sd and 90 % interval of the click count, its unit
    in the bootstrap and SAUC's reward.
    """
    with workers_of(parameters) as workers:
        return _evaluate(dataset, run, parameters, workers)


def _evaluate(dataset: Path, run: Path, parameters: ClicksParameters, workers: Workers | None) -> Json:
    spread = spread_on(workers, parameters.threads)
    table, parts = ClicksTable.read(dataset), Parts.read(run)
    model = ClicksModel.load(run / "model")
    test = parts.test
    rows, clusters = test_rows(model, table, parts, parameters)
    units, unit_name = rows.units, rows.unit_name
    prediction, found, intervals = judge(model, table, test, parameters)
    values, draws = measure(found, rows, spread)
    some = scored_rows(test, parameters.seed)
    named = parameters.model.value
    compared = {named: _by_score(model, table, rows, test, some, parameters)}
    baselines: Json = {}
    against: Json = {}
    folds = {named: _folds(draws)}
    others = [name for name in parameters.compare if name != named]
    for step, name in enumerate(others):
        progress.report("evaluate", 0.2 + 0.6 * step / len(others), f"fitting {name}")
        other = fit_model(table, parts, parameters, name, "evaluate", workers)
        _, theirs, _ = judge(other, table, test, parameters)
        other_values, other_draws = measure(theirs, rows, spread)
        baselines[name] = estimates(other_values, other_draws)
        against[name] = gaps(values, draws, other_values, other_draws)
        folds[name] = _folds(other_draws)
        if name != NO_CONTEXT:
            compared[name] = _by_score(other, table, rows, test, some, parameters)
    progress.report("evaluate", 0.85, "scores and words")
    _write_predictions(run, table, rows, test, prediction, found, intervals)
    warnings = []
    if "auc" not in values:
        warnings.append("The test part has no clicks, or nothing but clicks, so AUC and SAUC are not defined.")
    evaluation = {
        "metrics": estimates(values, draws),
        "baselines": baselines,
        "differences": against,
        "bootstrap": {"units": unit_name, "n_units": int(units.max(initial=-1)) + 1, "folds": folds},
        "by_score": compared,
        "parts": _apart(table, parts, clusters, found, rows, spread),
        "calibration": calibration(prediction, found.ranking, table.impressions[test], table.clicks[test], parameters),
        "drift": drift(table, parts),
        "words": word_effects(model),
        "scatter": scatter(table, test, prediction, parameters.seed),
        "exploration": exploration(model, table, test[some], parameters),
        "warnings": warnings,
    }
    write_json(run / "evaluation.json", evaluation)
    return evaluation


def test_rows(
    model: ClicksModel, table: ClicksTable, parts: Parts, parameters: ClicksParameters
) -> tuple[TestRows, Any]:
    """The test part with SAUC's reward in the features of a model, and the cluster of each row's user (-1: cold)."""
    test = parts.test
    units, unit_name = bootstrap_units(table, test)
    design = design_for(model, table, np.concatenate([parts.train, test]))
    clusters = design.clusters[len(parts.train) :]
    reward = rewards(table, parts.train, test, sparse.csr_matrix(design.features), design.lines, clusters)
    rows = TestRows(
        table.impressions[test].astype(np.float64),
        table.clicks[test].astype(np.float64),
        reward,
        units,
        unit_name,
        parameters.seed,
        parameters.resamples,
    )
    return rows, clusters


def judge(
    model: ClicksModel, table: ClicksTable, rows: Rows, parameters: ClicksParameters
) -> tuple[Prediction, RowScores, Any]:
    """What the model says of some rows, and the 90 % intervals of their click counts (n_rows, 2)."""
    design = design_for(model, table, rows)
    prediction = model.predict(design)
    n, v = table.impressions[rows], table.clicks[rows]
    mean = score(model, design, ("mean",), prediction=prediction)["mean"]
    intervals = count_intervals(prediction, n, n_threads=parameters.threads)
    found = RowScores.of(log_predictive(prediction, n, v, parameters.threads), mean, intervals, n, v)
    return prediction, found, intervals


def scored_rows(test: Rows, seed: int) -> Rows:
    """Places of the test rows whose scores are compared: all, or a random part of very many."""
    if len(test) <= MOST_SCORED:
        return np.arange(len(test))
    return np.sort(stream(seed, "scored").permutation(len(test))[:MOST_SCORED])


def score_areas(
    model: ClicksModel, table: ClicksTable, rows: TestRows, test: Rows, some: Rows, parameters: ClicksParameters
) -> dict[str, dict[str, tuple[float, Any]]]:
    """AUC and SAUC when rows are ordered by each score, each with its value in five bootstrap resamples."""
    design = design_for(model, table, test[some])
    names = tuple(name for name in SCORES if model.config.has_posterior or name != "thompson")
    with threads(parameters.threads or default_threads()) as pool:
        _, found = score_block(model, design, names, pool, nu=parameters.nu, seed=parameters.seed)
    picked = np.zeros(len(test), bool)
    picked[some] = True
    part = rows.select(picked)
    part = TestRows(part.impressions, part.clicks, part.reward, part.units, part.unit_name, rows.seed, FOLDS)
    return {name: ranking_areas(values, part) for name, values in found.items()}


def _by_score(
    model: ClicksModel, table: ClicksTable, rows: TestRows, test: Rows, some: Rows, parameters: ClicksParameters
) -> Json:
    found = score_areas(model, table, rows, test, some, parameters)
    return {
        name: {metric: value if np.isfinite(value) else None for metric, (value, _) in areas.items()}
        for name, areas in found.items()
    }


def _folds(draws: Json) -> Json:
    """The first five resamples of each metric, as the paper shows them."""
    return {name: [float(x) for x in drawn[:FOLDS] if np.isfinite(x)] for name, drawn in draws.items()}


def _apart(table: ClicksTable, parts: Parts, clusters: Any, found: RowScores, rows: TestRows, spread: Spread) -> Json:
    """Metrics of cold and warm items and clusters apart; only what both kinds have rows of."""
    seen = table.items.codes if table.items is not None else table.contexts.lines
    cold = ~np.isin(seen[parts.test], seen[parts.train])
    kinds = {"cold items": cold, "known items": ~cold}
    if (np.asarray(clusters) >= 0).any():
        kinds |= {"cold clusters": np.asarray(clusters) < 0, "known clusters": np.asarray(clusters) >= 0}
    made: Json = {}
    for name, mask in kinds.items():
        if not mask.any() or not rows.impressions[mask].sum():
            continue
        part = rows.select(mask)
        some = RowScores(
            found.log_likelihood[mask], found.impression_total[mask], found.covered[mask], found.ranking[mask]
        )
        values, draws = measure(some, part, spread)
        made[name] = {
            "rows": int(mask.sum()),
            "impressions": int(part.impressions.sum()),
            "metrics": estimates(values, draws),
        }
    return made


def _write_predictions(
    run: Path, table: ClicksTable, rows: TestRows, test: Rows, prediction: Prediction, found: RowScores, intervals: Any
) -> None:
    columns: Json = {"row": test, "unit": rows.units, "reward": rows.reward}
    for name, coded in (("user", table.users), ("item", table.items), ("group", table.groups)):
        if coded is not None:
            columns[name] = pa.array(coded.values[test])
    columns |= {"impressions": table.impressions[test], "clicks": table.clicks[test], "mean": found.ranking}
    columns |= {"log_likelihood": found.log_likelihood, "clicks_low": intervals[:, 0], "clicks_high": intervals[:, 1]}
    for name in ("zeta", "zeta_sd", "eta", "eta_sd"):
        columns[name] = getattr(prediction, name)
    draft = run / ".predictions.part"
    pq.write_table(pa.table(columns), draft, compression="zstd")
    draft.rename(run / "predictions.parquet")
