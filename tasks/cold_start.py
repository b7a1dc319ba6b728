"""The cold-start study as a task: how well are people with few ratings served?"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import default_threads
from predilect.models.evaluation.cold_start import ErrorSums, FitPredict, Plan, Progress, cold_start_errors
from predilect.models.ratings.fold_study import FoldInPredict
from predilect.models.ratings.model import RatingsModel
from predilect.tasks import progress
from predilect.tasks.compute import workers_of
from predilect.tasks.fit import config_of, test_rows
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.ratings_table import parts_of_rows, read_table
from predilect.tasks.runs import write_json
from predilect.tasks.side_tables import SideTables, read_side_tables


def study_cold_start(
    dataset: Path, run: Path, parameters: RatingsParameters, structure: dict[str, Any] | None
) -> dict[str, Any]:
    """The curve of MAE and efficiency over κ, with the structure of the full fit; also in `cold_start.json`.

    Under `fold_in`, the same where the cold users are folded into a model of the others instead of fitted with them.
    Under `side_information`, where there is some, what it changes.
    """
    table = read_table(dataset)
    config = config_of(parameters, structure)
    sides = read_side_tables(parameters)
    known = sides.known_ids(table)
    plan = Plan(
        table.users,
        test_rows(run),
        kappas=parameters.cold_start_kappas,
        repeats=parameters.cold_start_repeats,
        groups=parameters.cold_start_groups,
        seed=parameters.seed,
    )

    def fitted(train_rows: NDArray[np.int64], informed: bool = True) -> RatingsModel:
        train, _ = parts_of_rows(table, train_rows, train_rows[:0], known)
        return RatingsModel.fit(
            train.users,
            train.items,
            train.ratings,
            table.scale,
            config if informed else replace(config, rated_set=False),
            user_ids=train.user_ids,
            item_ids=train.item_ids,
            seed=parameters.seed,
            n_threads=1,
            **(sides if informed else SideTables(None, None)).features(train.user_ids, train.item_ids),
        )

    def fit_predict(
        train_rows: NDArray[np.int64], test_rows: NDArray[np.int64], informed: bool = True
    ) -> NDArray[np.float64]:
        _, test = parts_of_rows(table, train_rows, test_rows, known)
        return fitted(train_rows, informed).predict(test.users, test.items).mean

    fold_in_predict = FoldInPredict(
        table.users, table.items, table.ratings, table.user_ids, table.item_ids, plan.group_of, fitted
    )

    studies: dict[str, FitPredict] = {"fitted": fit_predict, "folded in": fold_in_predict}
    if sides.to_facts() or config.rated_set:
        studies["without side information"] = partial(fit_predict, informed=False)

    def errors(place: int, name: str, predict: FitPredict) -> ErrorSums:
        def show(done: Progress) -> None:
            kappa = "all ratings" if done.job.kappa is None else f"κ = {done.job.kappa}"
            said = f"{name}, {done.done} of {done.of}, {kappa}, MAE {done.mae:.4f}"
            progress.report("cold start", (place + done.done / done.of) / len(studies), said)

        n_threads = parameters.threads or default_threads()
        # The folded-in study fits one model a group, which the jobs share: threads of one process do that best.
        elsewhere = None if workers is None or predict is fold_in_predict else workers.fan_out
        return cold_start_errors(
            plan, table.ratings, table.scale, predict, n_threads=n_threads, on_fit=show, elsewhere=elsewhere
        )

    with workers_of(parameters) as workers:
        found = {name: errors(place, name, predict) for place, (name, predict) in enumerate(studies.items())}
    study: dict[str, Any] = dict(plan.summarise(found["fitted"]))
    study["fold_in"] = dict(plan.summarise(found["folded in"]))
    if "without side information" in found:
        study["side_information"] = dict(plan.compare(found["fitted"], found["without side information"]))
    write_json(run / "cold_start.json", study)
    return study
