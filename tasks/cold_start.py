"""The cold-start study as a task: how well are people with few ratings served?"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import default_threads
from predilect.models.evaluation.cold_start import Plan, Progress, cold_start
from predilect.models.ratings.model import RatingsModel
from predilect.tasks import progress
from predilect.tasks.fit import config_of, test_rows
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.ratings_table import parts_of_rows, read_table
from predilect.tasks.runs import write_json


def study_cold_start(
    dataset: Path, run: Path, parameters: RatingsParameters, structure: dict[str, Any] | None
) -> dict[str, Any]:
    """The curve of MAE and efficiency over κ, with the structure of the full fit; also in `cold_start.json`."""
    table = read_table(dataset)
    config = config_of(parameters, structure)
    plan = Plan(
        table.users,
        test_rows(run),
        kappas=parameters.cold_start_kappas,
        repeats=parameters.cold_start_repeats,
        groups=parameters.cold_start_groups,
        seed=parameters.seed,
    )

    def fit_predict(train_rows: NDArray[np.int64], test_rows: NDArray[np.int64]) -> NDArray[np.float64]:
        train, test = parts_of_rows(table, train_rows, test_rows)
        model = RatingsModel.fit(
            train.users,
            train.items,
            train.ratings,
            table.scale,
            config,
            user_ids=train.user_ids,
            item_ids=train.item_ids,
            seed=parameters.seed,
            n_threads=1,
        )
        return model.predict(test.users, test.items).mean

    def show(done: Progress) -> None:
        kappa = "all ratings" if done.job.kappa is None else f"κ = {done.job.kappa}"
        progress.report("cold start", done.done / done.of, f"fit {done.done} of {done.of}, {kappa}, MAE {done.mae:.4f}")

    study = dict(
        cold_start(
            plan,
            table.ratings,
            table.scale,
            fit_predict,
            n_threads=parameters.threads or default_threads(),
            on_fit=show,
        )
    )
    write_json(run / "cold_start.json", study)
    return study
