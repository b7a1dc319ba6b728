"""Split canonical ballots and fit the mixture to the training part."""

import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.models.evaluation.splits import by_key, key_of, mixed, parse_split
from predilect.models.random import stream
from predilect.models.rankings import Ballots, RankingsModel
from predilect.models.rankings.connectivity import require_finite
from predilect.models.rankings.layout import Layout
from predilect.tasks import progress
from predilect.tasks.canonical_ballots import RankingsTable
from predilect.tasks.compute import Workers, workers_of
from predilect.tasks.dask_passes import HeldLayout
from predilect.tasks.parameters_rankings import RankingsParameters
from predilect.tasks.runs import write_json
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import Tracker

TEST_COUNTS = "test_counts.npy"
SERVED = ("better", "worse")


def split_rankings(dataset: Path, run: Path, parameters: RankingsParameters) -> dict[str, Any]:
    """Choose the test ballots; writes how many of each row are among them, returns the sizes of both parts.

    Raises DataError when a part would be empty.
    """
    table = RankingsTable.read(dataset, parameters.menu.value)
    ballots = table.ballots
    total = int(ballots.counts.sum())
    test = np.zeros(len(ballots), np.int64)
    if parameters.split != "none":
        how = parse_split(parameters.split)
        share = float(how.share or 0)
        rows = np.repeat(np.arange(len(ballots)), ballots.counts)
        if how.kind == "stable":
            chosen = np.flatnonzero(by_key(_copy_keys(table, rows, parameters.seed), share))
        else:
            chosen = stream(parameters.seed, "split").permutation(total)[: round(total * share)]
        if not 0 < len(chosen) < total:
            raise DataError(
                f"{table.manifest['name']} has {total} ballots, too few for split={parameters.split}; bring more, or "
                "choose split=none."
            )
        test = np.bincount(rows[chosen], minlength=len(ballots)).astype(np.int64)
    np.save(run / TEST_COUNTS, test)
    return {
        "kind": parameters.split,
        "train_rows": total - int(test.sum()),
        "test_rows": int(test.sum()),
        "train_distinct": int((test < ballots.counts).sum()),
    }


def _copy_keys(table: RankingsTable, rows: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """A key of every ballot, equal ones told apart by their number: one more leaves the others where they were.

    rows: the row of the table that each ballot is of, rising.
    """
    ballots = table.ballots
    first = np.cumsum(ballots.counts) - ballots.counts
    return mixed(ballot_keys(table, ballots, seed)[rows], (np.arange(len(rows)) - first[rows]).astype(np.uint64))


def ballot_keys(table: RankingsTable, ballots: Ballots, seed: int = 0) -> NDArray[np.uint64]:
    """A hash of the items that each of some distinct ballots names, in their order."""
    names = [str(name) for name in table.item_ids.ids.tolist()]
    return key_of(("\x1f".join(names[item] for item in ballots.row(row)) for row in range(len(ballots))), seed)


def read_ballots(dataset: Path, run: Path, parameters: RankingsParameters) -> tuple[RankingsTable, Ballots, Ballots]:
    """The table, and its training and test part over the same items; the latter has no ballots when none is held out.

    Both have their distinct ballots in the order of the table.
    """
    table = RankingsTable.read(dataset, parameters.menu.value)
    test: NDArray[np.int64] = np.load(run / TEST_COUNTS, allow_pickle=False)
    return table, table.ballots.with_counts(table.ballots.counts - test), table.ballots.with_counts(test)


def fit_model(
    train: Ballots, table: RankingsTable, parameters: RankingsParameters, k: int, workers: Workers | None = None
) -> RankingsModel:
    """The fit with K components, its passes over ballots on the workers if there are any.

    Raises as `RankingsModel.fit`, saying that ballots were held out if some were.
    """

    def show(passes: int, objective: float, certificate: float) -> None:
        note = f"pass {passes}, log-likelihood {objective:,.2f}, certificate {certificate:.1e}"
        progress.report("fit", min(0.1 + passes / (passes + 100), 0.99), note)

    try:
        if not parameters.nu:
            require_finite(Layout(train), table.item_names)  # the fit would say it by id
        return RankingsModel.fit(
            train,
            parameters.config(k),
            item_ids=table.item_ids,
            seed=parameters.seed,
            n_threads=parameters.threads,
            on_pass=show,
            layout_of=Layout if workers is None else partial(HeldLayout, workers=workers),
        )
    except DataError as error:
        if parameters.split == "none":
            raise
        raise DataError(f"Without the ballots that split={parameters.split} holds out: {error}") from error


def fit_rankings(dataset: Path, run: Path, parameters: RankingsParameters, chosen: dict[str, Any]) -> dict[str, Any]:
    """Fit to the training part and save the model folder; what the fit did, also in `fit.json`."""
    table, train, _ = read_ballots(dataset, run, parameters)
    start = time.perf_counter()
    with workers_of(parameters) as workers:
        model = fit_model(train, table, parameters, chosen["k"], workers)
    seconds = time.perf_counter() - start
    model.save(run / "model")
    fit = {
        "n_components": model.n_components,
        "n_parameters": model.n_parameters,
        "log_likelihood": model.log_likelihood,
        "log_likelihood_trace": model.trace.tolist(),
        "bic": model.bic,
        "converged": bool(model.converged),
        "certificate": model.certificate,
        "n_passes": model.n_passes,
        "n_ballots": model.n_ballots,
        "starts": [asdict(start) for start in model.starts],
        "seconds": seconds,
        "config": asdict(model.config),
        "warnings": model.warnings,
    }
    write_json(run / "fit.json", fit)
    best = model.item_ids.decode(np.argsort(-model.first_probability(model.item_ids.ids))[:3])
    example = {"better": best[:-1].tolist(), "worse": best[1:].tolist()}
    Tracker(run, Settings()).model("rankings", run / "model", example, ("probability",))
    return fit
