"""Score a fitted ratings model and the baselines on the test part, with bootstrap intervals by user."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.models.evaluation.bootstrap import Total, differences, estimates
from predilect.models.evaluation.calibration import calibration, residuals
from predilect.models.evaluation.metrics import TOP, ranking_totals, relevance_threshold, row_totals
from predilect.models.ratings.baselines import BiasOnly, GlobalMean
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.prediction import Prediction
from predilect.models.ratings.scale import RatingScale
from predilect.tasks import progress
from predilect.tasks.fit import test_rows
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.ratings_table import Ratings, parts, read_table
from predilect.tasks.runs import write_json
from predilect.tasks.side_tables import read_side_tables
from predilect.tasks.unit_totals import ratings_digest, write_totals

BASELINES: dict[str, type[GlobalMean] | type[BiasOnly]] = {"global mean": GlobalMean, "bias only": BiasOnly}


def evaluate_ratings(dataset: Path, run: Path, parameters: RatingsParameters) -> dict[str, Any]:
    """Metrics of the model and the baselines, differences, calibration, residuals; also in `evaluation.json`.

    Writes `predictions.parquet`: the test part with predicted mean and standard deviation.
    """
    table = read_table(dataset)
    test = test_rows(run)
    train_part, test_part = parts(table, test, read_side_tables(parameters).known_ids(table))
    people, person = np.unique(table.users[test], return_inverse=True)
    model = RatingsModel.load(run / "model")
    prediction = model.predict(test_part.users, test_part.items)
    _write_predictions(run, table.user_ids.decode(table.users[test]), table.item_ids.decode(table.items[test]),
                       test_part.ratings, prediction)  # fmt: skip

    def scored(found: Prediction) -> dict[str, Total]:
        return row_totals(person, len(people), test_part.ratings, found.mean, found.variance, table.scale)

    totals = scored(prediction)
    totals |= _ranking(model, train_part, test_part, person, len(people), table.scale)
    ids, codes = (table.user_ids, table.item_ids), (table.users[test], table.items[test])
    rows = ratings_digest(ids, codes, test_part.ratings)
    write_totals(run, table.user_ids.decode(people), totals, rows)
    progress.report("evaluate", 0.4, "baselines")
    seed, resamples = parameters.seed, parameters.resamples
    baselines, against = {}, {}
    for name, baseline in BASELINES.items():
        fitted = baseline.fit(
            train_part.users,
            train_part.items,
            train_part.ratings,
            table.scale,
            user_ids=train_part.user_ids,
            item_ids=train_part.item_ids,
        )
        other = scored(fitted.predict(test_part.users, test_part.items))
        if isinstance(fitted, BiasOnly):
            other |= _ranking(fitted, train_part, test_part, person, len(people), table.scale)
        baselines[name] = estimates(other, seed=seed, resamples=resamples)
        against[name] = differences(totals, other, seed=seed, resamples=resamples)
    scale = table.scale
    evaluation = {
        "metrics": estimates(totals, seed=seed, resamples=resamples),
        "baselines": baselines,
        "differences": against,
        "calibration": dict(calibration(test_part.ratings, *prediction)),
        "residuals": residuals(
            test_part.ratings, scale.clip(prediction.mean), low=scale.low, high=scale.high, levels=scale.levels
        ),
    }
    write_json(run / "evaluation.json", evaluation)
    return evaluation


def _ranking(
    model: RatingsModel | BiasOnly,
    train: Ratings,
    test: Ratings,
    person: NDArray[Any],
    n_people: int,
    scale: RatingScale,
) -> dict[str, Total]:
    """NDCG and recall of each test person's first ten unseen items."""
    codes = np.empty(n_people, np.int32)
    codes[person] = test.users
    order = np.argsort(train.users, kind="stable")
    start = np.searchsorted(train.users[order], np.arange(len(train.user_ids) + 1)).astype(np.int64)
    top = model.recommend_codes(codes, TOP, seen=(start, train.items[order]))
    return ranking_totals(top, person, test.items, test.ratings >= relevance_threshold(scale))


def _write_predictions(
    run: Path, users: NDArray[Any], items: NDArray[Any], ratings: NDArray[np.float32], prediction: Prediction
) -> None:
    columns = {"user": users, "item": items, "rating": ratings, "mean": prediction.mean}
    columns["sd"] = np.sqrt(prediction.variance)
    draft = run / ".predictions.part"
    pq.write_table(pa.table(columns), draft)
    draft.rename(run / "predictions.parquet")
