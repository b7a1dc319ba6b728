"""Retraining of rankings: how files are read, what is watched in them, and how two models are compared."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.models.compiled import default_threads
from predilect.models.errors import DataError
from predilect.models.evaluation.bootstrap import differences, estimates
from predilect.models.ids import UNKNOWN
from predilect.models.rankings import Ballots, RankingsModel
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.prediction import pair_calibration
from predilect.tasks.parameters_rankings import RankingsParameters, TableForm
from predilect.tasks.parameters_retrain import RetrainRankingsParameters
from predilect.tasks.rankings_fit import read_ballots
from predilect.tasks.rankings_scores import ballot_scores
from predilect.tasks.readers.rankings import read_rankings
from predilect.tasks.readers.rankings_base import TieRule
from predilect.tasks.readers.source import Source
from predilect.tasks.retrain_family import (
    Check,
    Comparison,
    Estimates,
    Json,
    Steps,
    appearances,
    dataset_of,
    kinds,
    loss_check,
    new_share,
    psi_check,
    share_check,
    size_check,
    time_check,
    type_checks,
)

MOST_LOST = 0.5
"""Beyond this share of ballots with items that the champion does not know, the two are not compared."""
TIMED_PAIRS = 20_000


def read(path: Path, parameters: RetrainRankingsParameters) -> pa.Table:
    """ballot, item, rank, count and weight: a row a ranked item, the ballots numbered from 0."""
    if parameters.reader == "ratings":
        raise DataError(f"{path.name}: reader=ratings cannot be retrained on; write the rankings to a file first.")
    ties = TieRule(parameters.ties.value, parameters.seed if parameters.ties == "random" else 0)
    found = read_rankings(
        Source(path), reader=parameters.reader, columns=parameters.columns, form=parameters.form.value, ties=ties
    )
    lengths = np.diff(found.offsets)
    row = np.repeat(np.arange(len(found)), lengths)
    weights = np.ones(len(found)) if found.weights is None else found.weights
    names = pa.array([str(name) for name in found.names()])  # ids differ from file to file where names do not
    return pa.table(
        {
            "ballot": row,
            "item": names.take(pa.array(found.items)),
            "rank": np.arange(len(row)) - found.offsets[row] + 1,
            "count": found.counts[row],
            "weight": weights[row],
        }
    )


def profile(table: pa.Table) -> Json:
    """Ballots' rows, kinds of columns, and how often each item is ranked and how long ballots are."""
    return {
        "rows": len(table),
        "kinds": kinds(table),
        "items": table["item"].unique().to_pylist(),
        "appearances": appearances(table["item"], table["count"]),
        "lengths": _lengths(table),
    }


def check(new: pa.Table, before: Json, parameters: RetrainRankingsParameters) -> list[Check]:
    """The new ballots against the profile of the previous data."""
    checks = type_checks(new, before["kinds"])
    if not all(one.ok for one in checks):
        return checks
    ranked = appearances(new["item"], new["count"], before["appearances"])
    return [
        *checks,
        psi_check("items ranked", ranked, before["appearances"], parameters.max_psi),
        psi_check("ballots' lengths", _lengths(new), before["lengths"], parameters.max_psi),
        share_check("rows of new items", new_share(new["item"], before["items"]), parameters.max_new_items_share),
    ]


def compare(run: Path, champion: Path, parameters: RetrainRankingsParameters) -> Comparison:
    """The models on the ballots held out from both.

    Where there are items that the champion does not know, on the ballots without them, of which each choice is then
    among the items that the ballot names. Raises DataError when that leaves less than half of the ballots.
    """
    dataset = dataset_of(run)
    table, _, test = read_ballots(dataset, run, parameters)
    models = [RankingsModel.load(run / "model"), RankingsModel.load(champion)]
    kept = [ballots_of(model, table.item_ids.ids, test) for model in models]
    if not all(len(model.item_ids) == len(table.item_ids) for model in models):
        known = kept[1][1]
        share = float(test.counts[known].sum() / test.counts.sum())
        if share < 1 - MOST_LOST:
            raise DataError(
                f"The champion knows all items of {share:.0%} of the held-out ballots only, too few to compare; look "
                "at the challenger and promote it by hand."
            )
        some = test.take(np.flatnonzero(known))
        kept = [ballots_of(model, table.item_ids.ids, some, "ranked") for model in models]
    n_threads = parameters.threads or default_threads()
    totals = [ballot_scores(model.mixture, ballots, n_threads)
              for model, (ballots, _) in zip(models, kept, strict=True)]  # fmt: skip
    seed, resamples = parameters.seed, parameters.resamples
    ours, theirs = (estimates(one, seed=seed, resamples=resamples) for one in totals)
    gaps = differences(*totals, seed=seed, resamples=resamples)
    layouts = [Layout(ballots) for ballots, _ in kept]
    errors = [pair_calibration(model.mixture, layout).expected_error
              for model, layout in zip(models, layouts, strict=True)]  # fmt: skip
    found = [
        *guards(ours, theirs, gaps, errors, parameters),
        time_check([_predictions(model) for model in models], parameters.max_latency_ratio),
        size_check(run / "model", champion, parameters.max_size_ratio),
    ]
    return Comparison(ours, theirs, gaps, int(kept[0][0].counts.sum()), found)


def guards(
    ours: Estimates, theirs: Estimates, gaps: Estimates, errors: Sequence[float], parameters: RetrainRankingsParameters
) -> list[Check]:
    """Calibration of the chances of pairs, and how many pairs are ordered right.

    gaps: ours less theirs, paired. errors: of calibration, the challenger's and the champion's.
    """
    found = [loss_check("calibration error of pairs", errors, parameters.max_coverage_loss)]
    if "pair_accuracy" in gaps:
        values, gap = [one["pair_accuracy"]["value"] for one in (ours, theirs)], gaps["pair_accuracy"]
        found.append(loss_check("pair accuracy", values, parameters.max_guard_loss, gap=gap, higher=True))
    return found


def ballots_of(
    model: RankingsModel, ids: NDArray[Any], ballots: Ballots, menu: str | None = None
) -> tuple[Ballots, NDArray[np.bool_]]:
    """The ballots that name items of the model only, in its codes, and which (m,) these are."""
    codes = model.item_ids.encode(ids)[ballots.items]
    lengths = np.diff(ballots.offsets)
    row = np.repeat(np.arange(len(ballots)), lengths)
    known = np.bincount(row, codes == UNKNOWN, len(ballots)) == 0
    offsets = np.concatenate([[0], np.cumsum(lengths[known])])
    chosen = Ballots.of(
        codes[known[row]], offsets, len(model.item_ids), menu or ballots.menu,  # type: ignore[arg-type]
        counts=ballots.counts[known], weights=ballots.weights[known],
    )  # fmt: skip
    return chosen, known


def _lengths(table: pa.Table) -> dict[str, int]:
    each = table.group_by("ballot").aggregate([("rank", "max"), ("count", "max")])
    found = each.group_by("rank_max").aggregate([("count_max", "sum")])
    pairs = zip(found["rank_max"].to_pylist(), found["count_max_sum"].to_pylist(), strict=True)
    return {str(length): int(count) for length, count in sorted(pairs)}


def _predictions(model: RankingsModel) -> Callable[[], object]:
    """What is timed: the chances of pairs."""
    ids = np.resize(model.item_ids.ids, TIMED_PAIRS)
    return lambda: model.win_probability(ids, ids[::-1])


STEPS = Steps(
    parameters=RetrainRankingsParameters,
    training=RankingsParameters,
    table="ballots.parquet",
    rows="ranked items",
    read=read,
    profile=profile,
    check=check,
    headline="heldout_log_likelihood_choice",
    higher=True,
    baseline="any order",
    plain=lambda table, _parameters: (table, {"reader": "parquet", "columns": {}, "form": TableForm.long}),
    warm=lambda _champion, _parameters: None,
    compare=compare,
)
