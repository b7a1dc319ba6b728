"""Score a model of ratings that are in files, on the test rows of some of their users."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from predilect.models.random import stream
from predilect.models.ratings.baselines import GlobalMean
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.orders import Order
from predilect.tasks.evaluate import Baseline, Test, evaluation_of, write_predictions
from predilect.tasks.large_split import held_out
from predilect.tasks.order_build import BLOCK_RATINGS
from predilect.tasks.order_files import open_orders
from predilect.tasks.parameters_large import LargeRatingsParameters
from predilect.tasks.runs import write_json


def evaluate_large(split: Path, run: Path, parameters: LargeRatingsParameters) -> dict[str, Any]:
    """As `evaluate_ratings`; the baseline of biases is the same model without factors, fitted likewise.

    At most `evaluated_users` of the test part's users are scored, drawn at random; `evaluated` says how many.
    """
    model = RatingsModel.load(run / "model")
    by_user, by_item = open_orders(split)
    users, items, ratings = held_out(split)
    people, person = np.unique(users, return_inverse=True)
    chosen = people
    if len(people) > parameters.evaluated_users:
        chosen = np.sort(stream(parameters.seed, "evaluated").choice(people, parameters.evaluated_users, replace=False))
    rows = np.flatnonzero(np.isin(people, chosen)[person])
    test = Test(users[rows], items[rows], ratings[rows], np.searchsorted(chosen, users[rows]), len(chosen))
    prediction = model.predict(test.users, test.items)
    write_predictions(
        run, model.user_ids.decode(test.users), model.item_ids.decode(test.items), test.ratings, prediction
    )

    def baselines() -> Iterator[tuple[str, Baseline]]:
        yield "global mean", _global_mean(by_user)
        biases = VBConfig(n_user_latents=0, n_item_latents=0, max_sweeps=50)
        yield "bias only", RatingsModel.fit_orders(
            by_user, by_item, model.scale, biases, user_ids=model.user_ids, item_ids=model.item_ids,
            seed=parameters.seed, n_threads=parameters.threads,
        )  # fmt: skip

    evaluation = evaluation_of(
        model, prediction, baselines(), test, (by_user.indptr, by_user.index), model.scale, parameters
    )  # fmt: skip
    evaluation["evaluated"] = {"users": len(chosen), "of_users": len(people), "rows": len(rows), "of_rows": len(users)}
    write_json(run / "evaluation.json", evaluation)
    return evaluation


def _global_mean(order: Order) -> GlobalMean:
    n_ratings, total, squares = len(order.index), 0.0, 0.0
    for start in range(0, n_ratings, BLOCK_RATINGS):
        ratings = order.ratings(start, min(start + BLOCK_RATINGS, n_ratings)).astype(np.float64)
        total += float(ratings.sum())
        squares += float(ratings @ ratings)
    mean = total / n_ratings
    return GlobalMean(mean, squares / n_ratings - mean**2)
