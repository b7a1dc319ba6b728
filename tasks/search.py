"""Structure search as a task: every finished candidate goes to a journal, from which an interrupted search resumes."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from predilect.models.ratings.search import (
    FoldScorer,
    Structure,
    finished_candidates,
    greedy,
    record,
)
from predilect.models.structure_search import Candidate
from predilect.tasks import progress
from predilect.tasks.compute import workers_of
from predilect.tasks.fit import config_of, test_rows
from predilect.tasks.lines import append_line, whole_lines
from predilect.tasks.parameters import RatingsParameters, Search
from predilect.tasks.ratings_table import parts, read_table
from predilect.tasks.runs import write_json
from predilect.tasks.search_journal import journal_for
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import Tracker

# What decides a candidate's fold losses, besides the data: change one and the journal is another.
_DECIDES = ("split", "seed", "search_folds", "max_sweeps", "tolerance")


def search_structure(dataset: Path, run: Path, parameters: RatingsParameters) -> dict[str, Any]:
    """The search part of the results; with `greedy` the structure under `chosen`, else none: it is not searched.

    Candidates are child runs in MLflow. A search that was interrupted, with the same data and settings, refits none
    of its finished candidates.
    """
    if parameters.search != Search.greedy:
        found: dict[str, Any] = {"kind": str(parameters.search), "budget": None, "candidates": [], "chosen": None}
        write_json(run / "search.json", found)
        return found
    settings = Settings()
    table = read_table(dataset)
    train, _ = parts(table, test_rows(run))
    decides = [table.manifest["digest"], *(getattr(parameters, name) for name in _DECIDES)]
    journal = journal_for(settings, decides)
    finished = finished_candidates(whole_lines(journal))
    tracker = Tracker(run, settings)
    fits = 0

    def keep(scorer: FoldScorer, candidate: Candidate[Structure]) -> None:
        nonlocal fits
        fits += 0 if candidate.shared_with is not None else scorer.n_folds
        line = record(candidate)
        if candidate.shared_with is None and not candidate.resumed:
            append_line(journal, json.dumps(line))
        at = candidate.structure
        name = f"|U|={at.n_user_latents} |M|={at.n_item_latents} tau={at.tau:g}"
        folds = {f"fold_{fold}_mae_rounded": mae for fold, mae in enumerate(candidate.fold_losses, 1)}
        tracker.child(
            name,
            {key: line[key] for key in ("n_user_latents", "n_item_latents", "tau", "shared_with")},
            folds | {"mae_rounded": candidate.loss},
            {
                "predilect.family": "ratings",
                "predilect.part": "search candidate",
                "predilect.step": str(candidate.step),
            },
        )
        progress.report("search", min(fits / parameters.search_budget, 0.99), f"{name}: {candidate.loss:.4f}")

    with workers_of(parameters) as workers:
        scorer = FoldScorer.of(
            train.users,
            train.items,
            train.ratings,
            table.scale,
            # The structure is that of mean field, whatever is fitted with it: the paper's way, and quick.
            replace(config_of(parameters), inference="mf", rated_set=False),
            user_ids=train.user_ids,
            item_ids=train.item_ids,
            seed=parameters.seed,
            n_folds=parameters.search_folds,
            n_threads=parameters.threads,
            elsewhere=None if workers is None else workers.fan_out,
        )
        result = greedy(
            scorer,
            n_folds=scorer.n_folds,
            budget=parameters.search_budget,
            finished=finished,
            on_candidate=partial(keep, scorer),
        )
    found = result.to_facts()
    write_json(run / "search.json", found)
    return found
