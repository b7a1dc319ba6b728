"""Split canonical clicks and fit a model to the training part."""

import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks import ClicksModel, ContextEncoder, Design, FeatureColumns, TextOptions, UserClusters
from predilect.models.clicks.rows import Rows as EveryRow
from predilect.models.errors import DataError
from predilect.models.evaluation.splits import by_key, key_of, mixed
from predilect.models.ids import UNKNOWN
from predilect.models.random import stream
from predilect.tasks import progress
from predilect.tasks.canonical_clicks import ClicksTable
from predilect.tasks.compute import Workers, workers_of
from predilect.tasks.dask_passes import HeldRows
from predilect.tasks.parameters_clicks import AUTO, NO_CONTEXT, ClicksFitParameters, ClicksParameters, split_parts
from predilect.tasks.runs import write_json
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import Tracker

Json = dict[str, Any]
Rows = NDArray[np.int64]
PARTS = "parts.npz"
SERVED = ("mean", "sd", "upper")


@dataclass(frozen=True)
class Parts:
    """Row numbers of the canonical table: what only says who picked what before, the training and the test part."""

    history: Rows
    train: Rows
    test: Rows

    @classmethod
    def read(cls, run: Path) -> "Parts":
        """The parts that `split_clicks` wrote."""
        with np.load(run / PARTS, allow_pickle=False) as found:
            return cls(found["history"], found["train"], found["test"])


def split_clicks(dataset: Path, run: Path, parameters: ClicksFitParameters) -> Json:
    """Choose the parts; writes their row numbers, returns their sizes. Raises DataError when a part would be empty."""
    table = ClicksTable.read(dataset)
    parts, said = choose_parts(table, parameters)
    np.savez(run / PARTS, history=parts.history, train=parts.train, test=parts.test)
    shown = {name: int(table.impressions[getattr(parts, name)].sum(dtype=np.int64)) for name in ("train", "test")}
    if not shown["train"]:
        raise DataError(f"split={said}: no row of the training part was shown; choose another split or share.")
    cold = 0
    if table.items is not None:
        cold = int((~np.isin(table.items.codes[parts.test], table.items.codes[parts.train])).sum())
    return {
        "kind": said,
        **({"unit": split_unit(table)} if said.startswith("stable") else {}),
        "train_rows": len(parts.train),
        "test_rows": len(parts.test),
        "history_rows": len(parts.history),
        "train_impressions": shown["train"],
        "test_impressions": shown["test"],
        "unseen_rows": cold,
    }


def choose_parts(table: ClicksTable, parameters: ClicksFitParameters) -> tuple[Parts, str]:
    """The parts, and the split as text."""
    rows = np.arange(len(table))
    history = rows[:0]
    if parameters.history:
        if table.time is None or table.users is None or table.items is None:
            raise DataError(
                f"history={parameters.history:g} needs a user, an item and a time on every row, which this data has "
                "not; choose history=0 or map them with columns."
            )
        order = np.argsort(table.time, kind="stable")
        cut = round(parameters.history * len(table))
        history, rows = np.sort(order[:cut]), np.sort(order[cut:])
    said = parameters.split
    if said == AUTO:
        kind = "group" if table.groups is not None else "time" if table.time is not None else "random"
        said = f"{kind}:0.3"
    kind, share = split_parts(said)
    if kind == "time":
        if table.time is None:
            raise DataError(
                f"split={said} needs a time on every row; map it with columns=time:COLUMN or split at random."
            )
        held_out = np.ones(len(rows), bool)
        held_out[np.argsort(table.time[rows], kind="stable")[: round((1 - share) * len(rows))]] = False
    elif kind == "group":
        if table.groups is None:
            raise DataError(f"split={said} needs a group on every row; name its column with group=COLUMN.")
        present, codes = np.unique(table.groups.codes[rows], return_inverse=True)
        drawn = stream(parameters.seed, "split").permutation(len(present)) < round(share * len(present))
        held_out = drawn[codes]
    elif kind == "stable":
        hashed = by_key(stable_keys(table, parameters.seed), share)
        history, held_out = history[~hashed[history]], hashed[rows]
    else:
        held_out = np.zeros(len(rows), bool)
        held_out[stream(parameters.seed, "split").permutation(len(rows))[: round(share * len(rows))]] = True
    if held_out.all() or not held_out.any():
        raise DataError(
            f"split={said} puts {int(held_out.sum())} of {len(rows)} rows in the test part, so one part is empty; "
            "choose another split or give more data."
        )
    return Parts(history, rows[~held_out], rows[held_out]), said


def stable_keys(table: ClicksTable, seed: int) -> NDArray[np.uint64]:
    """A hash of what each row is about, (n_rows,): the same in all data that ever hold the row.

    Of its group where there are groups; else of its user and item, and of its context when one of them is missing.
    Without users, equal rows are told apart by their time and their number.
    """
    if table.groups is not None:
        return key_of(np.append(table.groups.ids.ids, "").tolist(), seed)[table.groups.codes]
    keys = np.zeros(len(table), np.uint64)
    for coded in (table.users, table.items):
        if coded is not None:
            keys = mixed(keys, key_of(np.append(coded.ids.ids, "").tolist(), seed)[coded.codes])
    if table.users is None or table.items is None:
        columns = table.contexts.columns
        values = [part[name] for part in (columns.texts, columns.categories, columns.numbers) for name in sorted(part)]
        texts = ["\x1f".join(map(str, line)) for line in zip(*(np.asarray(v).tolist() for v in values), strict=True)]
        keys = mixed(keys, key_of(texts, seed)[table.contexts.lines]) if texts else keys
    if table.users is None:
        if table.time is not None:
            keys = mixed(keys, (table.time + 0.0).view(np.uint64))
        order = np.argsort(keys, kind="stable")
        first = np.unique(keys[order], return_index=True, return_counts=True)
        number = np.empty(len(keys), np.uint64)
        number[order] = np.arange(len(keys)) - np.repeat(first[1], first[2])
        keys = mixed(keys, number)
    return keys


def split_unit(table: ClicksTable) -> str:
    """What a stable split holds out together, in words."""
    if table.groups is not None:
        return f"whole groups ({table.manifest['options']['group']})"
    names = [name for name, coded in (("user", table.users), ("item", table.items)) if coded is not None]
    return "rows of the same " + " and ".join([*names, *(["context"] if len(names) < 2 else [])])


def make_encoder(
    table: ClicksTable, parts: Parts, parameters: ClicksParameters, *, context: bool = True
) -> ContextEncoder:
    """How rows become designs, learned from the training part and what came before it.

    context: without, only the groups are known.
    """
    train = parts.train
    used = np.unique(table.contexts.lines[train])
    columns = table.contexts.some(used) if context else FeatureColumns()
    clusters = None
    if parameters.clusters and context:
        past_users, past_items = _picks_before(table, parts)
        clusters = UserClusters.fit(past_users, past_items, parameters.clusters, seed=parameters.seed)
    groups = None
    if table.groups is not None and parameters.group_effect != "none":
        groups = table.groups.values[train]
    options = TextOptions(min_lines=parameters.min_lines, max_words=parameters.max_words)
    return ContextEncoder.fit(columns, options=options, clusters=clusters, groups=groups)


def _picks_before(table: ClicksTable, parts: Parts) -> tuple[NDArray[Any], NDArray[Any]]:
    if len(parts.history) and table.users is not None and table.items is not None:
        picked = parts.history[table.clicks[parts.history] > 0]
        return table.users.values[picked], table.items.values[picked]
    if table.history is None:
        raise DataError(
            "clusters needs what users picked before the training period, which this data has not; give history=SHARE "
            "(the earliest rows) or choose clusters=0."
        )
    return table.history


def encode(table: ClicksTable, rows: Rows, encoder: ContextEncoder) -> Design:
    """The design of some rows; equal contexts share a line."""
    if not encoder.features.parts:
        return _plain_design(table, rows, encoder)
    used, lines = np.unique(table.contexts.lines[rows], return_inverse=True)
    return encoder.encode(
        table.contexts.some(used),
        lines=lines,
        users=None if table.users is None else table.users.values[rows],
        groups=None if table.groups is None else table.groups.values[rows],
    )


def _plain_design(table: ClicksTable, rows: Rows, encoder: ContextEncoder) -> Design:
    """The design of rows without features: their groups alone."""
    groups = np.full(len(rows), UNKNOWN)
    if table.groups is not None and encoder.groups is not None:
        groups = encoder.groups.encode(table.groups.values[rows])
    return Design.of(
        np.zeros((1, 0), np.float32),
        lines=np.zeros(len(rows), np.int64),
        clusters=np.full(len(rows), UNKNOWN),
        groups=groups,
        n_clusters=0 if encoder.clusters is None else encoder.clusters.n_clusters,
        n_groups=0 if encoder.groups is None else len(encoder.groups),
        parts=(),
    )


def fit_model(
    table: ClicksTable,
    parts: Parts,
    parameters: ClicksParameters,
    name: str,
    stage: str,
    workers: Workers | None = None,
) -> ClicksModel:
    """The fit of a model by name, one of the six or `no-context`; what is added up over the rows, by the workers."""
    context = name != NO_CONTEXT
    encoder = make_encoder(table, parts, parameters, context=context)
    design = encode(table, parts.train, encoder)

    def show(round_number: int, precisions: dict[str, float]) -> None:
        said = ", ".join(f"{block} {c:.3g}" for block, c in precisions.items() if not block.endswith("intercept"))
        progress.report(stage, min(0.1 + round_number / (round_number + 8), 0.95), f"{name}, precisions {said}")

    return ClicksModel.fit(
        design,
        table.impressions[parts.train],
        table.clicks[parts.train],
        parameters.config("l-bbl" if name == NO_CONTEXT else name),
        encoder=encoder,
        seed=parameters.seed,
        n_threads=parameters.threads,
        on_round=show,
        rows_of=EveryRow if workers is None else partial(HeldRows, workers=workers),
    )


def design_for(model: ClicksModel, table: ClicksTable, rows: Rows) -> Design:
    """The design of some rows as a model understands it."""
    encoder = model.encoder
    if encoder is None:
        raise DataError("The model has no encoder, so it cannot read tables; retrain it with `predilect train clicks`.")
    return encode(table, rows, encoder)


def fit_clicks(dataset: Path, run: Path, parameters: ClicksParameters) -> Json:
    """Fit to the training part and save the model folder; what the fit did, also in `fit.json`."""
    table, parts = ClicksTable.read(dataset), Parts.read(run)
    start = time.perf_counter()
    with workers_of(parameters) as workers:
        model = fit_model(table, parts, parameters, parameters.model.value, "fit", workers)
    seconds = time.perf_counter() - start
    model.save(run / "model")
    report = model.report
    fit = {
        "model": model.config.model,
        "n_coefficients": model.layout.size,
        "blocks": {block.name: block.size for block in model.layout.blocks},
        "precisions": model.precisions,
        "precision_trace": report.precision_trace,
        "converged": bool(report.evidence_converged),
        "n_rounds": len(report.precision_trace),
        "n_iterations": report.n_iterations,
        "n_products": report.n_products,
        "gradient_norm": report.gradient_norm,
        "negative_log_posterior": report.negative_log_posterior,
        "seconds": seconds,
        "config": {**asdict(model.config), "precisions": dict(model.config.precisions)},
        "warnings": []
        if report.evidence_converged
        else ["The prior precisions had not settled when learning stopped."],
    }
    write_json(run / "fit.json", fit)
    Tracker(run, Settings()).model("clicks", run / "model", serving_example(table, parts.train[:2]), SERVED)
    return fit


def serving_example(table: ClicksTable, rows: Rows) -> dict[str, list[Any]]:
    """The first rows as a table to be scored."""
    columns = table.contexts.some(table.contexts.lines[rows].astype(np.int64))
    example: dict[str, list[Any]] = {}
    for part in (columns.texts, columns.categories, columns.numbers):
        example |= {name: np.asarray(values).tolist() for name, values in part.items()}
    if table.users is not None:
        example["user"] = table.users.values[rows].tolist()
    if table.groups is not None:
        example["group"] = table.groups.values[rows].tolist()
    return example or {"item": [""] * len(rows)}
