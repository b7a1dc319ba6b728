"""Answers of a model for every row of a Parquet file, in blocks: resumable, and complete or absent.

Finished blocks are kept beside the output under a key of the data, the model and the options; the file appears when all
are there, with the model's version and the data's digest in its metadata.
"""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from predilect import __version__
from predilect.models.errors import DataError, ParameterError, PredilectError
from predilect.tasks import progress, registry, runs
from predilect.tasks.output import cannot_write
from predilect.tasks.settings import Settings

Json = dict[str, Any]
Answer = Callable[[pa.Table, int], pa.Table]
"""Of a block and its number: what is written of it, row by row."""


@dataclass(frozen=True)
class Chosen:
    """The model that answers. folder: its model folder. results: of its training run; empty where that is not kept."""

    family: str
    folder: Path
    results: Json
    facts: dict[str, str]
    """What it is, for the metadata of files."""

    @classmethod
    def of_run(cls, family: str, run: Path) -> "Chosen":
        """The model of a run folder. Raises ParameterError when it has none, or is a run on something else."""
        results = runs.read_json(run / runs.RESULTS) if (run / runs.RESULTS).is_file() else None
        if not (run / "model" / "manifest.json").is_file() or results is None:
            raise ParameterError(
                f"RUN = {run.name!r}: it has no finished model; choose a run that `predilect runs` lists."
            )
        other = results.get("run", {}).get("family", family)
        if other != family:
            raise ParameterError(
                f"RUN = {run.name!r}: a run on {other}, but this needs one on {family}; choose another."
            )
        return cls(family, run / "model", results,
                   {"predilect.run": run.name, "predilect.run_id": runs.mlflow_id(run) or ""})  # fmt: skip


def choose_model(settings: Settings, family: str, text: str) -> Chosen:
    """The model that `text` means: an alias, a version's number, or a run. Raises ParameterError without one."""
    try:
        version = registry.find(settings, family, text)
    except ParameterError:
        if text in (registry.CHAMPION, registry.CHALLENGER) or text.isdecimal():
            raise
        return Chosen.of_run(family, runs.find(settings, text))
    known = {
        "predilect.model": version.uri,
        "predilect.model_version": str(version.number),
        "predilect.run": version.run,
        "predilect.run_id": version.run_id,
    }
    results = settings.runs / version.run / runs.RESULTS
    return Chosen(
        family, registry.model_folder(settings, version), runs.read_json(results) if results.is_file() else {}, known
    )


def open_parquet(data: Path) -> pq.ParquetFile:
    """Raises DataError, one sentence, when it is not there or cannot be read."""
    try:
        return pq.ParquetFile(data)
    except FileNotFoundError:
        raise DataError(f"data = {str(data)!r}: no such file; correct the path.") from None
    except (OSError, pa.ArrowException) as error:
        said = str(error).splitlines()[0]
        raise DataError(f"{data} is not a readable Parquet file ({said}); write it as Parquet.") from error


def facts_of(chosen: Chosen, data: Path) -> dict[str, str]:
    """What the metadata of a file of answers say."""
    with open(data, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return chosen.facts | {
        "predilect.data_digest": digest,
        "predilect.version": __version__,
        "predilect.family": chosen.family,
    }


def write_blocks(
    source: pq.ParquetFile,
    out: Path,
    answer: Answer,
    facts: Mapping[str, str],
    *,
    rows: int,
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    options: Any = None,
) -> Json:
    """Write the answers to `out`; what was done.

    rows: of a block. schema: of the file when there are no rows. columns: that are read; default all. options: what
    the answers depend on besides the model and the data. Raises DataError when the output cannot be written; a file
    that is there is then kept.
    """
    key = hashlib.sha256(f"{sorted(facts.items())}{rows}{options or ''}".encode()).hexdigest()[:12]
    parts = out.with_name(f".{out.name}.{key}.parts")
    n_blocks, reused = -(-source.metadata.num_rows // rows), 0
    try:
        if out.is_dir():
            raise ParameterError(f"out = {str(out)!r}: that is a folder; give the name of a file.")
        parts.mkdir(parents=True, exist_ok=True)
        for number, batch in enumerate(source.iter_batches(rows, columns=list(columns) if columns else None)):
            part = parts / f"{number:06}.parquet"
            reused += part.is_file()
            if not part.is_file():
                pq.write_table(answer(pa.Table.from_batches([batch]), number), part.with_suffix(".part"))
                part.with_suffix(".part").rename(part)
            progress.report("score", (number + 1) / max(n_blocks, 1), f"{number + 1:,} of {n_blocks:,} blocks")
        written = _join(parts, out, schema, facts)
    except OSError as error:
        raise cannot_write(out, error) from error
    except PredilectError:  # a mistake in the data: nothing to go on with
        shutil.rmtree(parts, ignore_errors=True)
        raise
    shutil.rmtree(parts, ignore_errors=True)
    return {"out": str(out), "rows": written, "blocks": n_blocks, "blocks_resumed": reused, **facts}


def with_facts(schema: pa.Schema, facts: Mapping[str, str]) -> pa.Schema:
    """The schema with the facts in its metadata."""
    return schema.with_metadata({**(schema.metadata or {}), **facts})


def _join(parts: Path, out: Path, schema: pa.Schema, facts: Mapping[str, str]) -> int:
    """All blocks as one file, renamed to `out` at the end."""
    draft, rows = parts / "all.part", 0
    files = sorted(parts.glob("*.parquet"))
    whole = with_facts(pq.read_schema(files[0]) if files else schema, facts)
    with pq.ParquetWriter(draft, whole) as writer:
        for file in files:
            table = pq.read_table(file, schema=whole)
            writer.write_table(table.replace_schema_metadata(whole.metadata))
            rows += len(table)
    draft.replace(out)
    return rows
