"""Score a fitted mixture and the baselines on held-out ballots, and say what the segments are."""

from pathlib import Path
from typing import Any

import numpy as np

from predilect.models.evaluation.bootstrap import differences, estimates
from predilect.models.fan_out import Spread
from predilect.models.rankings import Ballots, Mixture, RankingsModel
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.prediction import pair_calibration
from predilect.tasks import progress
from predilect.tasks.canonical_ballots import RankingsTable
from predilect.tasks.compute import spread_on, workers_of
from predilect.tasks.parameters_rankings import RankingsParameters
from predilect.tasks.rankings_fit import ballot_keys, fit_model, read_ballots
from predilect.tasks.rankings_scores import ballot_scores, fit_scores
from predilect.tasks.rankings_segments import describe_segments, overall
from predilect.tasks.rankings_tables import leaderboard, write_tables
from predilect.tasks.runs import write_json
from predilect.tasks.unit_totals import digest_of, write_totals

Json = dict[str, Any]
ONE, ANY = "one segment", "any order"


def evaluate_rankings(dataset: Path, run: Path, parameters: RankingsParameters) -> Json:
    """Metrics with intervals, baselines, calibration, worths, segments, win matrix; also in `evaluation.json`.

    The held-out metrics are there when ballots are held out. Writes the files of `rankings_tables.write_tables`.
    """
    with workers_of(parameters) as workers:
        return _evaluate(dataset, run, parameters, spread_on(workers, parameters.threads))


def _evaluate(dataset: Path, run: Path, parameters: RankingsParameters, spread: Spread) -> Json:
    table, train, test = read_ballots(dataset, run, parameters)
    model = RankingsModel.load(run / "model")
    n_threads = spread.n_threads
    seed, resamples = parameters.seed, parameters.resamples
    metrics: Json = {}
    baselines: Json = {}
    against: Json = {}
    if len(test):
        totals = ballot_scores(model.mixture, test, n_threads)
        metrics = dict(estimates(totals, seed=seed, resamples=resamples, spread=spread))
        keys = ballot_keys(table, test)
        write_totals(
            run, np.repeat(keys, test.counts), totals, f"{test.menu} {digest_of(np.repeat(keys, test.counts))}"
        )
        for name, other in _baselines(train, table, parameters, model).items():
            theirs = ballot_scores(other, test, n_threads)
            baselines[name] = estimates(theirs, seed=seed, resamples=resamples, spread=spread)
            against[name] = differences(totals, theirs, seed=seed, resamples=resamples, spread=spread)
    metrics |= fit_scores(model, train, seed, resamples, spread)
    progress.report("evaluate", 0.3, "intervals of worths")
    segments, draws = describe_segments(model, train, parameters, spread)
    progress.report("evaluate", 0.8, "leaderboard")
    together = overall(model, draws, train)
    items = {"ids": [str(value) for value in table.item_ids.ids.tolist()], "names": table.item_names}
    board = leaderboard(items, together)
    write_tables(run, table, model, segments, board, n_threads)
    calibration = pair_calibration(model.mixture, Layout(test if len(test) else train))
    evaluation = {
        "metrics": metrics,
        "baselines": baselines,
        "differences": against,
        "calibration": {
            "on": "held-out" if len(test) else "fitted",
            "predicted": calibration.predicted.tolist(),
            "observed": calibration.observed.tolist(),
            "weight": calibration.weight.tolist(),
            "expected_error": calibration.expected_error,
        },
        "warnings": [*model.warnings, *segments.pop("warnings")],
        "items": items,
        "segments": segments,
        "overall": together,
        "leaderboard": board,
    }
    write_json(run / "evaluation.json", evaluation)
    return evaluation


def _baselines(
    train: Ballots, table: RankingsTable, parameters: RankingsParameters, model: RankingsModel
) -> dict[str, Mixture]:
    """Simpler answers to hold the mixture against: one segment for all, and every order equally likely."""
    found = {ONE: fit_model(train, table, parameters, 1).mixture} if model.n_components > 1 else {}
    return found | {ANY: Mixture(np.zeros((len(table.item_ids), 1)), np.ones(1))}
