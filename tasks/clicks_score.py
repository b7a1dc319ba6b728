"""Scores of a clicks model for a Parquet table of contexts, and lists under an exploration budget, as Parquet.

Tables are read and written in blocks, so they may be larger than memory; a file is complete or absent.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from predilect.models.clicks import SCORES, ClicksModel, Design, Ranking, rank, score_block
from predilect.models.compiled import Threads, default_threads
from predilect.models.errors import DataError
from predilect.tasks import progress
from predilect.tasks.canonical_clicks import Coded, Contexts
from predilect.tasks.clicks_findings import moments
from predilect.tasks.clicks_source import wanted_columns
from predilect.tasks.compute import Computed, workers_of
from predilect.tasks.output import parquet_file
from predilect.tasks.parameters import Compute
from predilect.tasks.parameters_clicks import ClicksParameters
from predilect.tasks.parquet_blocks import Answer, Blocks, each_block
from predilect.tasks.score_blocks import Chosen, facts_of, with_facts, write_blocks

Json = dict[str, Any]
BLOCK_ROWS = 1 << 16
"""Rows that are read, scored and written at a time."""
SPREADS = ("risk", "error")
"""Columns beside the scores: the standard deviation of θ around its mean, and that of the mean's estimate."""
LIST_COLUMNS = ("rank", "chosen_by")


@dataclass(frozen=True)
class Scorer:
    """A model with what it needs of a table: its context columns, and those of users and groups."""

    model: ClicksModel
    context: dict[str, list[str]]
    user: str
    group: str | None

    @classmethod
    def of(cls, chosen: Chosen) -> "Scorer":
        """The scorer of a model; its columns are called user and group where its training run is not kept."""
        model = ClicksModel.load(chosen.folder)
        if model.encoder is None:
            raise DataError(f"The model of {chosen.facts['predilect.run']} has no encoder, so it cannot read tables; "
                            "retrain it.")  # fmt: skip
        user, group = "user", "group"
        if chosen.results:
            dataset = chosen.results["dataset"]
            wanted = wanted_columns(dataset["options"]["reader"], ClicksParameters(**chosen.results["parameters"]))
            user, group = (dataset.get("columns") or {}).get("user", user), wanted.group or group
        return cls(model, model.encoder.features.columns, user, None if model.encoder.groups is None else group)

    @property
    def default_scores(self) -> tuple[str, ...]:
        """All scores that the model has."""
        return SCORES if self.model.config.has_posterior else tuple(name for name in SCORES if name != "thompson")

    def missing(self, names: Sequence[str], label: str) -> list[str]:
        """What is to be said of ids that a table has not. Raises DataError when it lacks a context column."""
        for kind, columns in self.context.items():
            for name in columns:
                if name not in names:
                    raise DataError(
                        f"{label} has no column {name!r} for the {kind} that the model reads, among "
                        f"{', '.join(names)}; add it."
                    )
        said = []
        encoder = self.model.encoder
        if encoder is not None and encoder.clusters is not None and self.user not in names:
            said.append(f"There is no column {self.user!r}, so every user counts as unknown.")
        if self.group is not None and self.group not in names:
            said.append(f"There is no column {self.group!r}, so every row counts as of an unknown group.")
        return said

    def design(self, block: pa.Table, first: int, label: str) -> Design:
        """The design of a block of rows, of which `first` come before it. Raises DataError for a wrong number."""
        columns: Json = {}
        for kind, names in self.context.items():
            for name in names:
                column = block[name]
                columns[f"{kind}.{name}"] = (
                    _numbers(column, name, first, label) if kind == "number" else _text(column, name, label)
                )
        contexts = Contexts.of(pa.table(columns)) if columns else None
        ids = {
            role: Coded.of(_text(block[name], name, label)).values if name and name in block.column_names else None
            for role, name in (("users", self.user), ("groups", self.group))
        }
        encoder = self.model.encoder
        assert encoder is not None  # `of` refuses models without
        if contexts is None:
            return encoder.encode(Contexts.of(pa.table({})).columns, lines=np.zeros(len(block), int), **ids)
        return encoder.encode(contexts.columns, lines=contexts.lines, **ids)


def score_clicks(
    chosen: Chosen,
    data: Path,
    out: Path,
    *,
    scores: Sequence[str] = (),
    nu: float = 0.95,
    seed: int = 0,
    n_threads: int | None = None,
    where: Computed | None = None,
) -> Json:
    """Write the table `data` with a column a score to `out`, row by row in its order; what was done.

    scores: some of SCORES; default all that the model has. Columns `risk` and `error` are added too. nu: the quantile
    of the optimistic scores. An `out` that is there is replaced at the end, else kept; what was interrupted goes on
    with the blocks that are missing. where: the workers that do it; None: threads. The same bytes for any, and for any
    n_threads.
    """
    start = time.perf_counter()
    blocks, scorer, warnings = _open(chosen, data)
    names = tuple(scores) or scorer.default_scores
    added = (*names, *SPREADS)
    schema = _extended(blocks.schema, [(name, pa.float64()) for name in added], data)
    work = partial(_extend, _asked(chosen, scorer, where, names, nu, seed, data, blocks.rows), schema)
    done = write_blocks(blocks, out, work, facts_of(chosen, data), schema=schema, model=chosen.folder, where=where,
                        n_threads=n_threads, options=[names, nu, seed])  # fmt: skip
    return done | _said(names, warnings, start)


def rank_clicks(
    chosen: Chosen,
    data: Path,
    out: Path,
    *,
    length: int,
    by: str | None = None,
    budget: float = 0.2,
    explore: Sequence[str] = ("uqp",),
    nu: float = 0.95,
    seed: int = 0,
    n_threads: int | None = None,
    where: Computed | None = None,
) -> Json:
    """Write the best `length` rows of `data` for each value of the column `by` (one list without) to `out`.

    A share `budget` of the places goes to the scores of `explore` in turn, the others to the mean. The rows keep their
    columns; `rank` (from 1), `chosen_by`, the mean and those scores are added; lists come in order of `by`. where: the
    workers that score; None: threads. Raises ParameterError for an impossible length, budget or score.
    """
    start = time.perf_counter()
    blocks, scorer, warnings = _open(chosen, data)
    facts = facts_of(chosen, data)
    names = ("mean", *(name for name in dict.fromkeys(explore) if name != "mean"))
    columns: list[tuple[str, pa.DataType]] = [("rank", pa.int32()), ("chosen_by", pa.string())]
    schema = _extended(blocks.schema, [*columns, *((name, pa.float64()) for name in names)], data)
    if by is not None and by not in blocks.schema.names:
        raise DataError(f"{data} has no column {by!r} for the lists among {', '.join(blocks.schema.names)}.")
    rank(np.zeros(0), {}, np.zeros(0, int), length, budget)  # refuses what cannot be before any work
    work = partial(_with_lists, _asked(chosen, scorer, where, names, nu, seed, data, blocks.rows), by)
    found: dict[int, tuple[dict[str, NDArray[np.float64]], pa.ChunkedArray | None]] = {}
    with workers_of(where) if where else nullcontext() as workers:
        for number, answer in each_block(
            blocks, range(len(blocks)), work, workers=workers, n_threads=n_threads or default_threads(),
            needs=[chosen.folder],
        ):  # fmt: skip
            found[number] = answer
            progress.report("score", len(found) / len(blocks), f"{len(found):,} of {len(blocks):,} blocks")
    answers = [found[number] for number in range(len(blocks))]
    values = {name: np.concatenate([scores[name] for scores, _ in answers] or [np.empty(0)]) for name in names}
    codes: NDArray[Any] = np.zeros(blocks.n_rows, np.int64)
    if by is not None and answers:
        texts = [text for _, column in answers if column is not None for text in column.chunks]
        codes = Coded.of(pa.chunked_array(texts, pa.string())).codes
    exploring = {name: values[name] for name in names[1:]}
    ranking = rank(values["mean"], exploring, codes, length, budget)
    schema = with_facts(schema, facts)
    with parquet_file(out, schema) as writer:
        writer.write_table(_listed(blocks, ranking, values).cast(schema))
    shown = ranking.rows >= 0
    counts = {"lists": len(ranking.lists), "shown": int(shown.sum())}
    counts["explored"] = int((ranking.chosen_by[shown] > 0).sum())
    return {"out": str(out), "rows": blocks.n_rows, **facts} | _said(names, warnings, start) | counts


def _said(names: Sequence[str], warnings: list[str], start: float) -> Json:
    return {"scores": list(names), "warnings": warnings, "seconds": time.perf_counter() - start}


def _open(chosen: Chosen, data: Path) -> tuple[Blocks, Scorer, list[str]]:
    blocks = Blocks(data, BLOCK_ROWS)
    names = blocks.schema.names
    scorer = Scorer.of(chosen)
    return blocks, scorer, scorer.missing(names, str(data))


def _extended(schema: pa.Schema, added: list[tuple[str, pa.DataType]], data: Path) -> pa.Schema:
    for name, kind in added:
        if name in schema.names:
            raise DataError(f"{data} has a column {name!r} already, where a new one would go; rename it.")
        schema = schema.append(pa.field(name, kind))
    return schema


@dataclass(frozen=True)
class _Asked:
    """The scores asked of a model. scorer: where it is at hand; a worker opens its own."""

    chosen: Chosen
    scorer: Scorer | None
    names: tuple[str, ...]
    nu: float
    seed: int
    data: Path
    block_rows: int

    def scores(self, n_threads: int) -> Answer[dict[str, NDArray[np.float64]]]:
        """What scores blocks, on so many threads."""
        scorer, pool = self.scorer or Scorer.of(self.chosen), Threads(n_threads)

        def answer(block: pa.Table, number: int) -> dict[str, NDArray[np.float64]]:
            design = scorer.design(block, number * self.block_rows, str(self.data))
            normals, found = score_block(
                scorer.model, design, self.names, pool, nu=self.nu, seed=self.seed, block=number
            )
            _, risk, error = moments(normals)
            return found | {"risk": risk, "error": error}

        return answer


def _asked(chosen: Chosen, scorer: Scorer, where: Computed | None, *words: Any) -> _Asked:
    here = where is None or where.compute == Compute.threads
    return _Asked(chosen, scorer if here else None, *words)


def _extend(asked: _Asked, schema: pa.Schema, n_threads: int) -> Answer[pa.Table]:
    """What adds the scores to a block."""
    scores = asked.scores(n_threads)

    def answer(block: pa.Table, number: int) -> pa.Table:
        found = scores(block, number)
        added = [pa.array(found[name]) for name in (*asked.names, *SPREADS)]
        return pa.Table.from_arrays([*block.columns, *added], schema=schema)

    return answer


def _with_lists(
    asked: _Asked, by: str | None, n_threads: int
) -> Answer[tuple[dict[str, NDArray[np.float64]], pa.ChunkedArray | None]]:
    """What scores a block, with the column of its lists."""
    scores = asked.scores(n_threads)
    return lambda block, number: (
        scores(block, number),
        None if by is None else _text(block[by], by, str(asked.data)),
    )


def _listed(blocks: Blocks, ranking: Ranking, values: dict[str, NDArray[np.float64]]) -> pa.Table:
    """The rows shown, list after list in order of place, with how they came there."""
    _, place = np.nonzero(ranking.rows >= 0)
    shown = ranking.rows >= 0
    rows, by = ranking.rows[shown], ranking.chosen_by[shown]
    order = np.argsort(rows)
    parts, first = [], 0
    for number in range(len(blocks)):
        block = blocks.read(number)
        inside = rows[order]
        inside = inside[slice(*np.searchsorted(inside, [first, first + len(block)]))]
        parts.append(block.take(pa.array(inside - first)))
        first += len(block)
    if not parts:
        parts = [blocks.schema.empty_table()]
    back = np.empty(len(rows), np.int64)
    back[order] = np.arange(len(rows))
    table = pa.concat_tables(parts).take(pa.array(back))
    table = table.append_column("rank", pa.array((place + 1).astype(np.int32)))
    who = np.array(["mean", *ranking.exploring])[by]
    table = table.append_column("chosen_by", pa.array(who.tolist(), pa.string()))
    for name, value in values.items():
        table = table.append_column(name, pa.array(value[rows]))
    return table


def _text(column: pa.ChunkedArray, name: str, label: str) -> pa.ChunkedArray:
    """A column as text, as at training; "" where it is empty."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return pc.fill_null(column.cast(pa.string()), "")
    except pa.ArrowException:
        raise DataError(f"{label}: the column {name!r} holds {column.type}, not text or numbers; convert it.") from None


def _numbers(column: pa.ChunkedArray, name: str, first: int, label: str) -> pa.Array:
    try:
        values = column.cast(pa.float64()).to_numpy()
    except pa.ArrowException as error:
        said = str(error).splitlines()[0]
        raise DataError(f"{label}: the column {name!r} is not of numbers ({said}); correct it.") from None
    if not np.isfinite(values).all():
        row = first + int(np.flatnonzero(~np.isfinite(values))[0]) + 1
        raise DataError(
            f"{label}, row {row}: the number in column {name!r} is missing or not finite; fill it in or drop the row."
        )
    return pa.array(values)
