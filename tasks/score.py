"""Batch scores by a registered model: predictions for every row of a Parquet file, the same way for every family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from predilect.models.errors import DataError
from predilect.models.ids import IdMap
from predilect.models.rankings import RankingsModel
from predilect.models.ratings.model import RatingsModel
from predilect.tasks.clicks_score import score_clicks
from predilect.tasks.parameters import Compute, Given, as_in_ratings, check_scheduler, compute_field
from predilect.tasks.parquet_blocks import Answer, Blocks
from predilect.tasks.score_blocks import choose_model, facts_of, write_blocks
from predilect.tasks.settings import Settings

BLOCK = 1 << 18
"""Rows in one piece of work and one row group of the file."""


class ScoredFamily(StrEnum):
    """Whose champion scores."""

    ratings = "ratings"
    rankings = "rankings"
    clicks = "clicks"


class ScoreParameters(Given):
    """What a batch of scores takes."""

    family: ScoredFamily = Field(default=ScoredFamily.ratings, title="Family", description="Whose model scores.")
    data: str = Field(
        title="Data",
        description="A Parquet file with the columns user and item; of rankings, better and worse; of clicks, the "
        "context columns of the data that the model was trained on.",
    )
    out: str = Field(title="Output", description="The Parquet file to write; replaced when it is there.")
    model: str = Field(
        default="champion", title="Model", description="champion, challenger, a version's number, or a run's name."
    )
    threads: int | None = as_in_ratings("threads")
    compute: Compute = compute_field("blocks of rows are scored")
    scheduler: str | None = as_in_ratings("scheduler")
    workers: int | None = as_in_ratings("workers")

    @model_validator(mode="after")
    def _together(self) -> Self:
        check_scheduler(self.compute, self.scheduler, self.workers)
        return self


@dataclass(frozen=True)
class Scorer:
    """A model of pairs at work. ids, other_ids: of the two columns. answer: of their ids, the answers' columns."""

    ids: IdMap
    other_ids: IdMap
    answer: Callable[[Any, Any], list[np.ndarray[Any, Any]]]


def score(parameters: ScoreParameters) -> dict[str, Any]:
    """Write the scores; what was done.

    Raises ParameterError for a model that is not there, DataError for data that cannot be read or an output that
    cannot be written; a file that is there is then kept.
    """
    data, out = Path(parameters.data).expanduser(), Path(parameters.out).expanduser()
    chosen = choose_model(Settings(), parameters.family, parameters.model)
    if parameters.family == ScoredFamily.clicks:
        return score_clicks(chosen, data, out, n_threads=parameters.threads, where=parameters)
    columns, answers, load = _PAIRS[parameters.family]
    blocks = Blocks(data, BLOCK, columns)
    names = blocks.schema.names
    for name in columns:
        if name not in names:
            raise DataError(f"{data} has no column {name!r} among {', '.join(names)}; name one so.")
    schema = pa.schema([*(blocks.schema.field(name) for name in columns), *((name, pa.float32()) for name in answers)])
    return write_blocks(
        blocks, out, partial(_answer, load, chosen.folder, str(data), BLOCK, schema), facts_of(chosen, data),
        schema=schema, model=chosen.folder, where=parameters, n_threads=parameters.threads,
    )  # fmt: skip


def _ratings(folder: Path, n_threads: int) -> Scorer:
    model = replace(RatingsModel.load(folder), n_threads=n_threads)

    def answer(users: Any, items: Any) -> list[Any]:
        found = model.predict_ids(users, items)
        return [model.scale.clip(found.mean), np.sqrt(found.variance)]

    return Scorer(model.user_ids, model.item_ids, answer)


def _rankings(folder: Path, _n_threads: int) -> Scorer:
    model = RankingsModel.load(folder)
    return Scorer(model.item_ids, model.item_ids, lambda better, worse: [model.win_probability(better, worse)])


_PAIRS: Mapping[str, tuple[tuple[str, str], tuple[str, ...], Callable[[Path, int], Scorer]]] = {
    "ratings": (("user", "item"), ("mean", "sd"), _ratings),
    "rankings": (("better", "worse"), ("probability",), _rankings),
}
"""Of each family: the columns of ids, those of the answers, and what gives them."""


def _answer(
    load: Callable[[Path, int], Scorer], folder: Path, label: str, rows: int, schema: pa.Schema, n_threads: int
) -> Answer[pa.Table]:
    scorer = load(folder, n_threads)
    return lambda block, number: _scored(scorer, block, number * rows, label, schema)


def _scored(scorer: Scorer, block: pa.Table, first: int, label: str, schema: pa.Schema) -> pa.Table:
    """The ids with the answers; ids that the model does not know get the prior's answer, or none."""
    given = [
        _ids(block.column(place), ids, f"{label}, column {schema.names[place]!r}", first)
        for place, ids in enumerate((scorer.ids, scorer.other_ids))
    ]
    answers = [pa.array(np.asarray(values, np.float32)) for values in scorer.answer(*given)]
    return pa.Table.from_arrays([*block.columns, *answers], schema=schema)


def _ids(column: pa.ChunkedArray, ids: IdMap, label: str, first: int) -> Any:
    """A column of a block, of whose rows `first` come before, as ids of the model's kind, where every one can be."""
    if column.null_count:
        row = first + int(np.flatnonzero(column.is_null())[0]) + 1
        raise DataError(f"{label}, row {row}: the id is missing; fill it in or drop the row.")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        if ids.ids.dtype.kind == "U":
            return column.cast(pa.string()).to_numpy()
        if pa.types.is_string(column.type) and not pc.all(pc.match_substring_regex(column, r"^-?\d{1,18}$")).as_py():
            return column.to_numpy()
        return column.cast(pa.int64()).to_numpy()
    except pa.ArrowException:
        raise DataError(f"{label} holds {column.type}, not ids; write them as text or whole numbers.") from None
