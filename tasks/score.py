"""Answers of a registered model for every row of a Parquet file, in blocks: resumable, and complete or absent.

Finished blocks are kept beside the output under a key of the data and the model; the file appears when all are there,
with the model's version and the data's digest in its metadata.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from predilect import __version__
from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.rankings import RankingsModel
from predilect.models.ratings.model import RatingsModel
from predilect.tasks import progress, registry, runs
from predilect.tasks.output import cannot_write
from predilect.tasks.settings import Settings

BLOCK = 1 << 18
"""Rows in one piece of work and one row group of the file."""
Answer = dict[str, np.ndarray[Any, Any]]


class ScoredFamily(StrEnum):
    """Whose champion scores."""

    ratings = "ratings"
    rankings = "rankings"


class ScoreParameters(BaseModel):
    """What a batch of scores takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: ScoredFamily = Field(default=ScoredFamily.ratings, title="Family", description="Whose model scores.")
    data: str = Field(
        title="Data", description="A Parquet file with the columns user and item; of rankings, better and worse."
    )
    out: str = Field(title="Output", description="The Parquet file to write; replaced when it is there.")
    model: str = Field(
        default="champion", title="Model", description="champion, challenger, a version's number, or a run's name."
    )


@dataclass(frozen=True)
class Scorer:
    """A family's model at work. columns: of the input. answer: ids by column → the columns of the output."""

    columns: tuple[str, str]
    ids: IdMap
    other_ids: IdMap
    answer: Callable[[Any, Any], Answer]


def score(parameters: ScoreParameters) -> dict[str, Any]:
    """Write the scores; what was done.

    Raises ParameterError for a model that is not there, DataError for data that cannot be read or an output that
    cannot be written; a file that is there is then kept.
    """
    settings, data, out = Settings(), Path(parameters.data).expanduser(), Path(parameters.out).expanduser()
    folder, facts = _model(settings, parameters)
    scorer = _SCORERS[parameters.family](folder)
    source = _open(data, scorer.columns)
    with open(data, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    facts |= {"predilect.data_digest": digest, "predilect.version": __version__, "predilect.family": parameters.family}
    key = hashlib.sha256(f"{sorted(facts.items())}{BLOCK}".encode()).hexdigest()[:12]
    parts = out.with_name(f".{out.name}.{key}.parts")
    n_blocks, reused = -(-source.metadata.num_rows // BLOCK), 0
    try:
        if out.is_dir():
            raise ParameterError(f"out = {str(out)!r}: that is a folder; give the name of a file.")
        parts.mkdir(parents=True, exist_ok=True)
        for number, batch in enumerate(source.iter_batches(BLOCK, columns=list(scorer.columns))):
            part = parts / f"{number:06}.parquet"
            reused += part.is_file()
            if not part.is_file():
                pq.write_table(_scored(scorer, pa.Table.from_batches([batch])), part.with_suffix(".part"))
                part.with_suffix(".part").rename(part)
            progress.report("score", (number + 1) / max(n_blocks, 1), f"{number + 1:,} of {n_blocks:,} blocks")
        rows = _join(parts, out, scorer, facts)
    except OSError as error:
        raise cannot_write(out, error) from error
    shutil.rmtree(parts, ignore_errors=True)
    return {"out": str(out), "rows": rows, "blocks": n_blocks, "blocks_resumed": reused, **facts}


def _model(settings: Settings, parameters: ScoreParameters) -> tuple[Path, dict[str, str]]:
    """The model's folder, and what it is, for the file's metadata."""
    try:
        version = registry.find(settings, parameters.family, parameters.model)
    except ParameterError:
        if parameters.model in (registry.CHAMPION, registry.CHALLENGER) or parameters.model.isdecimal():
            raise
        run = runs.find(settings, parameters.model)
        if not (run / "model" / "manifest.json").is_file():
            raise ParameterError(f"model = {run.name!r}: that run has no finished model; choose another.") from None
        return run / "model", {"predilect.run": run.name, "predilect.run_id": runs.mlflow_id(run) or ""}
    known = {
        "predilect.model": version.uri,
        "predilect.model_version": str(version.number),
        "predilect.run": version.run,
        "predilect.run_id": version.run_id,
    }
    return registry.model_folder(settings, version), known


def _ratings(folder: Path) -> Scorer:
    model = RatingsModel.load(folder)

    def answer(users: Any, items: Any) -> Answer:
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


def _open(data: Path, columns: tuple[str, str]) -> pq.ParquetFile:
    try:
        source = pq.ParquetFile(data)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{data} is not a Parquet file that can be read ({error}); correct the path.") from error
    for name in columns:
        if name not in source.schema_arrow.names:
            raise DataError(f"{data} has no column {name!r} among {', '.join(source.schema_arrow.names)}; name one so.")
    return source


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


def _join(parts: Path, out: Path, scorer: Scorer, facts: Mapping[str, str]) -> int:
    """All blocks as one file, renamed to `out` at the end."""
    draft, rows = parts / "all.part", 0
    files = sorted(parts.glob("*.parquet"))
    schema = pq.read_schema(files[0]) if files else pa.schema([(name, pa.string()) for name in scorer.columns])
    with pq.ParquetWriter(draft, schema.with_metadata({k: str(v) for k, v in facts.items()})) as writer:
        for file in files:
            table = pq.read_table(file, schema=schema)
            writer.write_table(table.replace_schema_metadata(writer.schema.metadata))
            rows += len(table)
    draft.replace(out)
    return rows
