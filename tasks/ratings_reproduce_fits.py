"""The fits behind a cell of a reproduced table: each method on one training and test part, in one thread."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.search import FoldScorer, Structure, finished_candidates, greedy, record
from predilect.models.ratings.strawmen import Neighbours, Svd
from predilect.models.structure_search import Candidate
from predilect.tasks.lines import append_line, whole_lines
from predilect.tasks.parameters_reproduce_ratings import ReproduceRatingsParameters
from predilect.tasks.ratings_published import LEARNED
from predilect.tasks.ratings_table import Ratings, RatingsTable, parts_of_rows
from predilect.tasks.search_journal import journal_for
from predilect.tasks.settings import Settings

Rows = NDArray[np.int64]
Json = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """Training and test rows of a table; `name`: of the fold."""

    table: RatingsTable
    name: str
    train: Rows
    test: Rows

    def error_sums(self, mean: NDArray[np.float64]) -> Json:
        """The absolute errors of the rounded predictions of the test rows, added up by user."""
        errors = np.abs(self.table.ratings[self.test].astype(np.float64) - self.table.scale.round(mean))
        people = self.table.users[self.test]
        users = np.unique(people)
        counts, sums = np.bincount(people)[users], np.bincount(people, errors)[users]
        return {"users": users.tolist(), "sums": np.round(sums, 9).tolist(), "counts": counts.tolist()}


def fit_method(
    method: str,
    part: Part,
    parameters: ReproduceRatingsParameters,
    dimension: int | None = None,
    structure: Json | None = None,
) -> Json:
    """Fit and predict: the cell's error sums, `mae`, `seconds` and what was chosen.

    dimension: of SVD. structure: of EM, GMF and, where it is known already, MF; without it MF searches one by four
    folds of the training part.
    """
    start = time.perf_counter()
    train, test = parts_of_rows(part.table, part.train, part.test)
    facts: Json = {}
    if method == "MF" and structure is None:
        structure = find_structure(train, part, parameters)
    if structure is not None:
        facts["structure"] = structure
    model = _fit(method, train, part.table, parameters.seed, dimension, structure)
    sums = part.error_sums(model.predict(test.users, test.items).mean)
    mae = sum(sums["sums"]) / sum(sums["counts"])
    return sums | {"mae": mae, "seconds": time.perf_counter() - start, "facts": facts}


def find_structure(train: Ratings, part: Part, parameters: ReproduceRatingsParameters) -> Json:
    """The greedy wrapper's choice on a training part; an interrupted search goes on where it stopped."""
    table = part.table
    decides = [table.manifest["digest"], "reproduce", part.name, parameters.seed, VBConfig.max_sweeps]
    journal = journal_for(Settings(), decides)
    scorer = FoldScorer.of(
        train.users,
        train.items,
        train.ratings,
        table.scale,
        VBConfig(),
        user_ids=train.user_ids,
        item_ids=train.item_ids,
        seed=parameters.seed,
        n_threads=1,
    )

    def keep(candidate: Candidate[Structure]) -> None:
        if candidate.shared_with is None and not candidate.resumed:
            append_line(journal, json.dumps(record(candidate)))

    found = greedy(
        scorer,
        n_folds=scorer.n_folds,
        budget=parameters.search_budget,
        finished=finished_candidates(whole_lines(journal)),
        on_candidate=keep,
    )
    at = found.chosen.structure
    return {"n_user_latents": at.n_user_latents, "n_item_latents": at.n_item_latents, "tau": at.tau}


def configuration(method: str, structure: Json | None) -> VBConfig:
    """Of a variational or EM method. Without a structure: learned precisions."""
    if method == LEARNED or structure is None:
        return VBConfig()
    inference = {"MF": "mf", "GMF": "gmf", "EM": "em"}[method]
    return VBConfig(**structure, precisions="fixed", inference=inference)  # type: ignore[arg-type]


def _fit(
    method: str, train: Ratings, table: RatingsTable, seed: int, dimension: int | None, structure: Json | None
) -> RatingsModel | Neighbours | Svd:
    name, _, argument = method.removesuffix(")").partition("(")
    data = train.users, train.items, train.ratings, table.scale
    ids: dict[str, Any] = {"user_ids": train.user_ids, "item_ids": train.item_ids}
    fits: dict[str, Callable[[], RatingsModel | Neighbours | Svd]] = {
        "Pearson": lambda: _neighbours("pearson", argument, data, ids),
        "Euclidean": lambda: _neighbours("euclidean", argument, data, ids),
        "SVD": lambda: Svd.fit(*data, **ids, n_factors=dimension or 1, penalty=float(argument), seed=seed),
    }
    if name in fits:
        return fits[name]()
    return RatingsModel.fit(*data, configuration(method, structure), **ids, seed=seed, n_threads=1)


def _neighbours(similarity: Any, k: str, data: Any, ids: Any) -> Neighbours:
    return Neighbours.fit(*data, **ids, similarity=similarity, k=None if k == "all" else int(k), n_threads=1)
