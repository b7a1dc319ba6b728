"""Batch scores by a registered model: predictions for every row of a Parquet file, the same way for every family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from predilect.models.errors import DataError
from predilect.models.ids import IdMap
from predilect.models.rankings import RankingsModel
from predilect.models.ratings.model import RatingsModel
from predilect.tasks.clicks_score import score_clicks
from predilect.tasks.score_blocks import Chosen, choose_model, facts_of, open_parquet, write_blocks
from predilect.tasks.settings import Settings

BLOCK = 1 << 18
"""Rows in one piece of work and one row group of the file."""
Columns = dict[str, np.ndarray[Any, Any]]


class ScoredFamily(StrEnum):
    """Whose champion scores."""

    ratings = "ratings"
    rankings = "rankings"
    clicks = "clicks"


class ScoreParameters(BaseModel):
    """What a batch of scores takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


@dataclass(frozen=True)
class Scorer:
    """A model of pairs at work. columns: of the input. answer: ids by column → the columns of the output."""

    columns: tuple[str, str]
    ids: IdMap
    other_ids: IdMap
    answer: Callable[[Any, Any], Columns]


def score(parameters: ScoreParameters) -> dict[str, Any]:
    """Write the scores; what was done.

    Raises ParameterError for a model that is not there, DataError for data that cannot be read or an output that
    cannot be written; a file that is there is then kept.
    """
    data, out = Path(parameters.data).expanduser(), Path(parameters.out).expanduser()
    chosen = choose_model(Settings(), parameters.family, parameters.model)
    if parameters.family == ScoredFamily.clicks:
        return score_clicks(chosen, data, out)
    return _score_pairs(chosen, data, out)


def _score_pairs(chosen: Chosen, data: Path, out: Path) -> dict[str, Any]:
    scorer = _SCORERS[chosen.family](chosen.folder)
    source = open_parquet(data)
    for name in scorer.columns:
        if name not in source.schema_arrow.names:
            raise DataError(f"{data} has no column {name!r} among {', '.join(source.schema_arrow.names)}; name one so.")
    return write_blocks(
        source, out, lambda block, _number: _scored(scorer, block), facts_of(chosen, data), rows=BLOCK,
        schema=pa.schema([(name, pa.string()) for name in scorer.columns]), columns=scorer.columns,
    )  # fmt: skip


def _ratings(folder: Path) -> Scorer:
    model = RatingsModel.load(folder)

    def answer(users: Any, items: Any) -> Columns:
        found = model.predict_ids(users, items)
        return {"mean": model.scale.clip(found.mean), "sd": np.sqrt(found.variance)}

    return Scorer(("user", "item"), model.user_ids, model.item_ids, answer)


def _rankings(folder: Path) -> Scorer:
    model = RankingsModel.load(folder)
    return Scorer(
        ("better", "worse"),
        model.item_ids,
        model.item_ids,
        lambda better, worse: {"probability": model.win_probability(better, worse)},
    )


_SCORERS: Mapping[str, Callable[[Path], Scorer]] = {"ratings": _ratings, "rankings": _rankings}


def _scored(scorer: Scorer, table: pa.Table) -> pa.Table:
    """The ids with the answers; ids that the model does not know get the prior's answer, or none."""
    given = [_ids(table[name], ids) for name, ids in zip(scorer.columns, (scorer.ids, scorer.other_ids), strict=True)]
    answers = scorer.answer(*given)
    columns = {name: table[name] for name in scorer.columns}
    return pa.table(columns | {name: pa.array(np.asarray(values, np.float32)) for name, values in answers.items()})


def _ids(column: pa.ChunkedArray, ids: IdMap) -> Any:
    """A column as ids of the model's kind, where every one of them can be."""
    if column.null_count:
        raise DataError(f"{column.null_count:,} ids are missing; fill them in or remove the rows.")
    if ids.ids.dtype.kind == "U":
        return column.cast(pa.string()).to_numpy()
    if pa.types.is_string(column.type) and not pc.all(pc.match_substring_regex(column, r"^-?\d{1,18}$")).as_py():
        return column.to_numpy()
    return column.cast(pa.int64()).to_numpy()
