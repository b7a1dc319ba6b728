"""The number of segments as a structure search: held-out log-likelihood on folds and BIC for every K, resumable."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from predilect.models.ids import IdMap
from predilect.models.rankings import Ballots
from predilect.models.rankings.choice import folds, held_out_log_likelihood
from predilect.models.structure_search import BudgetSpent, Candidate, StructureSearch
from predilect.tasks import progress
from predilect.tasks.canonical_ballots import RankingsTable
from predilect.tasks.compute import Workers, workers_of
from predilect.tasks.lines import append_line, whole_lines
from predilect.tasks.parameters_rankings import AUTO, Criterion, RankingsParameters
from predilect.tasks.rankings_fit import fit_model, read_ballots
from predilect.tasks.runs import write_json
from predilect.tasks.search_journal import journal_for
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import Tracker

# What decides a candidate's figures, besides the data: change one and the journal is another.
_DECIDES = (
    "menu", "split", "seed", "search_folds", "solver", "starts", "spectral", "link", "nu", "tolerance", "max_passes",
)  # fmt: skip


def search_components(dataset: Path, run: Path, parameters: RankingsParameters) -> dict[str, Any]:
    """The search part of the results, with K under `chosen`; candidates are child runs in MLflow.

    Every K from 1 to k_max (and at most the number of distinct ballots) is fitted on the folds and once to all of the
    training part, as far as the budget goes. An interrupted search, with the same data and settings, refits none of its
    finished candidates.
    """
    if parameters.k != AUTO:
        found: dict[str, Any] = {
            "kind": "none", "budget": None, "candidates": [], "chosen": {"k": int(parameters.k)},
        }  # fmt: skip
        write_json(run / "search.json", found)
        return found
    settings = Settings()
    table, train, _ = read_ballots(dataset, run, parameters)
    decides = ["rankings", table.manifest["digest"], *(getattr(parameters, name) for name in _DECIDES)]
    journal = journal_for(settings, decides)
    facts = {line["k"]: line for line in whole_lines(journal)}
    finished = {k: [-value for value in line["fold_held_out"]] + [line["bic"]] for k, line in facts.items()}
    tracker = Tracker(run, settings)
    n_folds = parameters.search_folds

    def keep(candidate: Candidate[int]) -> None:
        k = candidate.structure
        line = _line(candidate) | {"log_likelihood": scorer.log_likelihood.get(k)}
        if candidate.resumed:
            line["log_likelihood"] = facts[k]["log_likelihood"]
        else:
            append_line(journal, json.dumps(line))
        lines.append(line)
        scores = {f"fold_{fold}_heldout_log_likelihood_ballot": x for fold, x in enumerate(line["fold_held_out"], 1)}
        scores |= {"heldout_log_likelihood_ballot": line["held_out"], "bic": line["bic"]}
        tags = {"predilect.family": "rankings", "predilect.part": "search candidate", "predilect.step": str(k - 1)}
        tracker.child(f"K={k}", {"k": k}, scores | {"log_likelihood": line["log_likelihood"]}, tags)
        note = f"K={k}: {line['held_out']:.4f} a held-out ballot, BIC {line['bic']:,.1f}"
        progress.report("search", k / (most + 1), note)

    lines: list[dict[str, Any]] = []
    stopped_by = None
    with workers_of(parameters) as workers:
        scorer = _Scorer(table, train, parameters, workers)
        search = StructureSearch(
            scorer, n_folds + 1, budget=parameters.search_budget, finished=finished, on_candidate=keep
        )
        most = min(parameters.k_max, scorer.most)
        try:
            for k in range(1, most + 1):
                progress.report("search", (k - 1) / most, f"K={k}")
                search.evaluate(k)
        except BudgetSpent:
            stopped_by = "the budget"
    by_bic = min(lines, key=lambda line: (line["bic"], line["k"]))
    by_held_out = max(lines, key=lambda line: (line["held_out"], -line["k"]))
    best = by_bic if parameters.criterion == Criterion.bic else by_held_out
    found = {
        "kind": AUTO,
        "criterion": parameters.criterion.value,
        "budget": parameters.search_budget,
        "n_fits": search.n_fits,
        "stopped_by": stopped_by,
        "candidates": [line | {"chosen": line is best} for line in lines],
        "chosen": {"k": best["k"]},
        "best_held_out": by_held_out["k"],
        "best_bic": by_bic["k"],
    }
    if best["k"] == most == parameters.k_max > 1:
        found["warning"] = f"K = {best['k']} is the most that was tried; more segments may fit better: raise k_max."
    write_json(run / "search.json", found)
    return found


class _Scorer:
    """What a K costs: minus the held-out log-likelihood a ballot of each fold, then BIC of the fit to all."""

    def __init__(
        self, table: RankingsTable, train: Ballots, parameters: RankingsParameters, workers: Workers | None
    ) -> None:
        self.table, self.train, self.parameters, self.workers = table, train, parameters, workers
        self.parts = folds(train, parameters.search_folds, parameters.seed)
        outside = self.parts.sum(axis=1, keepdims=True) - self.parts
        self.most = int((outside > 0).sum(axis=0).min())  # distinct ballots in the smallest training part
        self.log_likelihood: dict[int, float] = {}

    def __call__(self, k: int) -> list[float]:
        asked = self.parameters
        score = partial(
            held_out_log_likelihood,
            self.train,
            self.parts,
            config=asked.config(k),
            seed=asked.seed,
            n_threads=asked.threads if self.workers is None else 1,
            item_ids=IdMap(np.array(self.table.item_names)),  # for messages
        )
        if self.workers is None:
            losses = [-score(fold) for fold in range(asked.search_folds)]
        else:
            found = dict(self.workers.fan_out(score, asked.search_folds))
            losses = [-found[fold] for fold in range(asked.search_folds)]
        model = fit_model(self.train, self.table, asked, k, self.workers)
        self.log_likelihood[k] = model.log_likelihood
        return [*losses, model.bic]


def _line(candidate: Candidate[int]) -> dict[str, Any]:
    """A candidate as the journal and the results keep it."""
    *losses, bic = candidate.fold_losses
    held_out = [-loss for loss in losses]
    mean = sum(held_out) / len(held_out)
    spread = sum((value - mean) ** 2 for value in held_out) / max(len(held_out) - 1, 1)
    return {
        "step": candidate.step,
        "k": candidate.structure,
        "fold_held_out": held_out,
        "held_out": mean,
        "standard_error": (spread / len(held_out)) ** 0.5,
        "bic": bic,
    }
