"""Score a fitted ratings model and the baselines on the test part, with bootstrap intervals by user."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

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
from predilect.tasks.compute import spread_of
from predilect.tasks.fit import test_rows
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.parameters_large import LargeRatingsParameters
from predilect.tasks.ratings_table import parts, read_table
from predilect.tasks.runs import write_json
from predilect.tasks.side_tables import read_side_tables
from predilect.tasks.unit_totals import ratings_digest, write_totals

BASELINES: dict[str, type[GlobalMean] | type[BiasOnly]] = {"global mean": GlobalMean, "bias only": BiasOnly}
Csr = tuple[NDArray[np.int64], NDArray[np.int32]]


class Recommender(Protocol):
    """What predicts ratings and ranks items."""

    def predict(self, users: Any, items: Any) -> Prediction: ...
    def recommend_codes(self, user_codes: Any, n: int, seen: Csr | None = None) -> NDArray[np.int32]: ...


Baseline = Recommender | GlobalMean


class Test(NamedTuple):
    """The rows that are scored, (M,): codes as the model has them (-1: unknown), ratings, and the test part's people.

    person: 0 … n_people-1, who rated each row, whether known to the model or not.
    """

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    ratings: NDArray[np.float32]
    person: NDArray[np.integer[Any]]
    n_people: int


def evaluate_ratings(dataset: Path, run: Path, parameters: RatingsParameters) -> dict[str, Any]:
    """Metrics of the model and the baselines, differences, calibration, residuals; also in `evaluation.json`.

    Writes `predictions.parquet`: the test part with predicted mean and standard deviation.
    """
    table = read_table(dataset)
    mask = test_rows(run)
    train, held_out = parts(table, mask, read_side_tables(parameters).known_ids(table))
    people, person = np.unique(table.users[mask], return_inverse=True)
    model = RatingsModel.load(run / "model")

    def baselines() -> Iterator[tuple[str, Baseline]]:
        for name, baseline in BASELINES.items():
            fitted: Baseline = baseline.fit(train.users, train.items, train.ratings, table.scale,
                                            user_ids=train.user_ids, item_ids=train.item_ids)  # fmt: skip
            yield name, fitted

    order = np.argsort(train.users, kind="stable")
    start = np.searchsorted(train.users[order], np.arange(len(train.user_ids) + 1)).astype(np.int64)
    test = Test(held_out.users, held_out.items, held_out.ratings, person, len(people))
    prediction = model.predict(test.users, test.items)
    write_predictions(run, table.user_ids.decode(table.users[mask]), table.item_ids.decode(table.items[mask]),
                      test.ratings, prediction)  # fmt: skip
    seen = start, train.items[order]
    ids, codes = (table.user_ids, table.item_ids), (table.users[mask], table.items[mask])
    rows = ratings_digest(ids, codes, test.ratings)
    evaluation = evaluation_of(
        model, prediction, baselines(), test, seen, table.scale, parameters,
        keep=lambda totals: write_totals(run, table.user_ids.decode(people), totals, rows),
    )  # fmt: skip
    write_json(run / "evaluation.json", evaluation)
    return evaluation


def evaluation_of(
    model: Recommender,
    prediction: Prediction,
    baselines: Iterable[tuple[str, Baseline]],
    test: Test,
    seen: Csr,
    scale: RatingScale,
    parameters: RatingsParameters | LargeRatingsParameters,
    *,
    keep: Callable[[dict[str, Total]], None] | None = None,
) -> dict[str, Any]:
    """What `evaluate_ratings` finds. prediction: the model's of the test rows. seen: training items, by user.

    keep: is given the metrics by person.
    """

    def scored(found: Prediction) -> dict[str, Total]:
        return row_totals(test.person, test.n_people, test.ratings, found.mean, found.variance, scale)

    totals = scored(prediction) | _ranking(model, test, seen, scale)
    if keep is not None:
        keep(totals)
    progress.report("evaluate", 0.4, "baselines")
    theirs = {}
    for name, baseline in baselines:
        theirs[name] = scored(baseline.predict(test.users, test.items))
        if not isinstance(baseline, GlobalMean):
            theirs[name] |= _ranking(baseline, test, seen, scale)
    progress.report("evaluate", 0.8, "intervals")
    seed, resamples = parameters.seed, parameters.resamples
    with spread_of(parameters, float(test.n_people) * resamples) as spread:
        metrics = estimates(totals, seed=seed, resamples=resamples, spread=spread)
        others = {
            name: estimates(other, seed=seed, resamples=resamples, spread=spread) for name, other in theirs.items()
        }
        against = {
            name: differences(totals, other, seed=seed, resamples=resamples, spread=spread)
            for name, other in theirs.items()
        }
    return {
        "metrics": metrics,
        "baselines": others,
        "differences": against,
        "calibration": dict(calibration(test.ratings, *prediction)),
        "residuals": residuals(
            test.ratings, scale.clip(prediction.mean), low=scale.low, high=scale.high, levels=scale.levels
        ),
    }


def _ranking(model: Recommender, test: Test, seen: Csr, scale: RatingScale) -> dict[str, Total]:
    """NDCG and recall of each test person's first ten unseen items."""
    codes = np.empty(test.n_people, np.int32)
    codes[test.person] = test.users
    top = model.recommend_codes(codes, TOP, seen=seen)
    return ranking_totals(top, test.person, test.items, test.ratings >= relevance_threshold(scale))


def write_predictions(
    run: Path, users: NDArray[Any], items: NDArray[Any], ratings: NDArray[np.float32], prediction: Prediction
) -> None:
    """Write `predictions.parquet`."""
    columns = {"user": users, "item": items, "rating": ratings, "mean": prediction.mean}
    columns["sd"] = np.sqrt(prediction.variance)
    draft = run / ".predictions.part"
    pq.write_table(pa.table(columns), draft)
    draft.rename(run / "predictions.parquet")
