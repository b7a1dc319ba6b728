"""Answers of a model for every row of a Parquet file, in blocks: resumable, and complete or absent.

Finished blocks are kept beside the output under a key of the data, the model and the options; the file appears when all
are there, with the model's version and the data's digest in its metadata.
"""

import hashlib
import secrets
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from predilect import __version__
from predilect.models.compiled import default_threads
from predilect.models.errors import DataError, ParameterError, PredilectError
from predilect.tasks import progress, registry, runs
from predilect.tasks.compute import Computed, workers_of
from predilect.tasks.output import cannot_write
from predilect.tasks.parquet_blocks import Answer, Blocks, each_block
from predilect.tasks.settings import Settings

Json = dict[str, Any]
_PACKED = pa.ipc.IpcWriteOptions(compression="lz4")


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
    blocks: Blocks,
    out: Path,
    make: Callable[[int], Answer[pa.Table]],
    facts: Mapping[str, str],
    *,
    schema: pa.Schema,
    model: Path,
    where: Computed | None = None,
    n_threads: int | None = None,
    options: Any = None,
) -> Json:
    """Write the answers to `out`, the same bytes for any workers and threads; what was done.

    make: gives what answers, on so many threads, from the folder `model`. schema: of the answers. where: the workers
    that do it; None: threads. options: what the answers depend on besides the model and the data. Raises DataError when
    the output cannot be written; a file that is there is then kept.
    """
    out = out.absolute()
    key = hashlib.sha256(f"{sorted(facts.items())}{blocks.rows}{options or ''}".encode()).hexdigest()[:12]
    parts = out.with_name(f".{out.name}.{key}.parts")
    n_blocks, done = len(blocks), set[int]()
    try:
        if out.is_dir():
            raise ParameterError(f"out = {str(out)!r}: that is a folder; give the name of a file.")
        parts.mkdir(parents=True, exist_ok=True)
        done |= {int(part.stem) for part in parts.glob("*.arrow")}
        reused = len(done)
        missing = [number for number in range(n_blocks) if number not in done]
        with _Joined(parts, with_facts(schema, facts)) as joined:
            with workers_of(where) if where and missing else nullcontext() as workers:
                written = each_block(
                    blocks, missing, partial(_writer, make, parts), workers=workers,
                    n_threads=n_threads or default_threads(), needs=(model, parts),
                )  # fmt: skip
                for number, _ in written:
                    done.add(number)
                    joined.append(done)
                    progress.report("score", len(done) / n_blocks, f"{len(done):,} of {n_blocks:,} blocks")
            joined.append(done)
        joined.draft.replace(out)
    except OSError as error:
        raise cannot_write(out, error) from error
    except PredilectError as error:
        if isinstance(error, DataError) or not done:  # nothing to go on with
            shutil.rmtree(parts, ignore_errors=True)
        raise
    shutil.rmtree(parts, ignore_errors=True)
    return {"out": str(out), "rows": blocks.n_rows, "blocks": n_blocks, "blocks_resumed": reused, **facts}


def with_facts(schema: pa.Schema, facts: Mapping[str, str]) -> pa.Schema:
    """The schema with the facts in its metadata."""
    return schema.with_metadata({**(schema.metadata or {}), **facts})


def _writer(make: Callable[[int], Answer[pa.Table]], parts: Path, n_threads: int) -> Answer[None]:
    """What writes the answer to a block as a part that is complete or absent."""
    answer = make(n_threads)

    def write(block: pa.Table, number: int) -> None:
        table = answer(block, number)
        draft = parts / f"{number:06}.{secrets.token_hex(4)}.part"  # a worker thought lost may write the same one
        with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=_PACKED) as file:
            file.write_table(table)
        draft.rename(_part(parts, number))

    return write


def _part(parts: Path, number: int) -> Path:
    return parts / f"{number:06}.arrow"


class _Joined:
    """The parts as one Parquet file, a row group each, in order as they come."""

    def __init__(self, parts: Path, schema: pa.Schema) -> None:
        self.draft, self._parts, self._schema, self._next = parts / "all.part", parts, schema, 0
        # Numbers of answers differ from row to row: no table of the different ones is tried.
        repeated = [field.name for field in schema if not pa.types.is_floating(field.type)]
        self._file = pq.ParquetWriter(self.draft, schema, use_dictionary=repeated)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, done: Collection[int]) -> None:
        """Those parts that are done and whose turn it is."""
        while self._next in done:
            with pa.OSFile(str(_part(self._parts, self._next))) as source:
                table = pa.ipc.open_file(source).read_all()
            self._file.write_table(table.cast(self._schema))
            self._next += 1
