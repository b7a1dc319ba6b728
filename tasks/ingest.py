"""A source of ratings, in any known format, becomes a folder with `ratings.parquet` and `manifest.json`."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from predilect.models.errors import DataError
from predilect.tasks import ingest_checks as checks
from predilect.tasks import progress
from predilect.tasks.canonical import CanonicalRatings, Coded
from predilect.tasks.datasets import fetch, find, public_set
from predilect.tasks.ingest_checks import IngestOptions
from predilect.tasks.output import new_folder
from predilect.tasks.rating_scale import distinct, doubts
from predilect.tasks.readers import AUTO, choose
from predilect.tasks.readers.base import Chunk, Reader, Reading, gather
from predilect.tasks.readers.source import Source, base_name
from predilect.tasks.runs import MANIFEST

TABLE = "ratings.parquet"
VERSION = 1
"""Raised when the same source and options give other content: older folders are then not reused."""


@dataclass(frozen=True)
class IngestSummary:
    """Where the canonical table is. path: its Parquet file; reused: an earlier ingestion served."""

    folder: Path
    path: Path
    manifest: dict[str, Any]
    reused: bool


def ingest_ratings(
    source: str, data_dir: Path | None, out_dir: Path, options: IngestOptions | None = None
) -> IngestSummary:
    """Bring a source into canonical form in a folder of its own under `out_dir`.

    source: a file or folder, or the name of a public set that is in `data_dir` or can be downloaded into it.
    The same content with the same options is ingested once. Raises DataError or ParameterError, one sentence, and
    then leaves nothing behind.
    """
    asked = ask(source, data_dir, out_dir, options or IngestOptions())
    earlier = earlier_manifest(asked.folder)
    if earlier is not None:
        return IngestSummary(asked.folder, asked.folder / TABLE, earlier, True)

    reading = asked.read()
    table, facts = _canonical(reading, asked.label, asked.options)
    times = table.timestamps
    manifest = asked.manifest(
        reading,
        digest=table.digest(),
        rows=len(table),
        n_users=len(table.users.names),
        n_items=len(table.items.names),
        scale=facts["scale"],
        time_span=None if times is None else [int(times.min()), int(times.max())],
        folds=None if table.folds is None else table.folds.names.to_pylist(),
        merged=facts["merged"],
    )
    progress.report("ingest", 0.8, "writing")
    if asked.folder.exists() and earlier_manifest(asked.folder) is None:
        shutil.rmtree(asked.folder, ignore_errors=True)  # A damaged one; a whole one is what another process just made.
    with new_folder(asked.folder, replace=False) as draft:
        table.write(draft / TABLE)
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False), encoding="utf-8")
    return IngestSummary(asked.folder, asked.folder / TABLE, manifest, False)


@dataclass(frozen=True)
class Asked:
    """A source that was found, how it is to be read, and the folder that its ratings go to."""

    name: str
    source: Source
    member: str
    members: tuple[str, ...]
    reader: Reader
    options: IngestOptions
    folder: Path

    @property
    def label(self) -> str:
        """The source in messages."""
        return self.source.label(self.member)

    def read(self) -> Reading:
        """Begin to read."""
        return self.reader.read(self.source, self.member, self.options.columns)

    def manifest(
        self,
        reading: Reading,
        *,
        digest: str,
        rows: int,
        n_users: int,
        n_items: int,
        scale: dict[str, Any],
        time_span: list[int] | None,
        folds: list[str] | None,
        merged: int,
    ) -> dict[str, Any]:
        """What `manifest.json` says of the ratings, once they have been read."""
        return {
            "name": self.name,
            "source": ", ".join(self.source.short_name(m) for m in self.members),
            "digest": digest,
            "rows": rows,
            "n_users": n_users,
            "n_items": n_items,
            "scale": scale,
            "time_span": time_span,
            "folds": folds,
            "reader": self.reader.name,
            "options": {**asdict(self.options), "columns": reading.columns},
            "duplicates": {"policy": self.options.duplicates, "merged": merged},
            "left_out": {"count": reading.left_out, "reason": reading.left_out_reason} if reading.left_out else None,
            "warnings": reading.warnings,
        }


def ask(source: str, data_dir: Path | None, out_dir: Path, options: IngestOptions, kind: str = "") -> Asked:
    """Find a source and its reader. kind: of the folder, in its name, where there is more than one."""
    name, path, reader_name = locate(source, data_dir, options.reader)
    found, member, reader = choose(Source(path), reader_name, by_columns=bool(options.columns))
    members = reader.members(found, member)
    key = [VERSION, name, reader.name, asdict(options), [found.short_name(m) for m in members], found.digest(members)]
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    folder = out_dir / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}{kind}-{digest[:12]}"
    return Asked(name, found, member, members, reader, options, folder)


def locate(source: str, data_dir: Path | None, reader: str = AUTO) -> tuple[str, Path, str]:
    """The name, the path and the reader of a source; a public set that is nowhere is downloaded."""
    one, path = public_set(source), Path(source).expanduser()
    if one is not None:
        there = find(one, data_dir) if data_dir is not None else None
        if there is None and not path.exists():
            if data_dir is None:
                raise DataError(
                    f"{source} is a public set, and there is no data folder to look in; set data_dir "
                    "or PREDILECT_DATA_DIR."
                )
            there = fetch(one, data_dir)
        return one.names[0], there or path, one.reader if reader == AUTO else reader
    name = PurePosixPath(base_name(path.name)).stem or path.resolve().name
    return (path.resolve().parent.name or name) if name == "ratings" else name, path, reader


def earlier_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a complete folder, or None."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        complete = pq.read_metadata(folder / TABLE).num_rows == manifest["rows"]
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None
    return manifest if complete else None


def _canonical(reading: Reading, label: str, options: IngestOptions) -> tuple[CanonicalRatings, dict[str, Any]]:
    """The whole table, checked; and facts for the manifest: scale, merged. Warnings are added to the reading."""
    chunk = _collect(reading, label)
    columns = chunk.table.column_names
    table = CanonicalRatings(
        users=Coded.of(chunk.table["user"], infer_integers=not reading.typed_ids),
        items=Coded.of(chunk.table["item"], infer_integers=not reading.typed_ids),
        ratings=chunk.table["rating"].to_numpy() + 0.0,  # No minus zero.
        timestamps=checks.seconds(chunk.table["timestamp"].to_numpy(), reading.warnings)
        if "timestamp" in columns
        else None,
        folds=Coded.of(chunk.table["fold"], infer_integers=False) if "fold" in columns else None,
    )
    where = chunk.where
    del chunk
    values, counts = distinct(table.ratings)
    checks.check_enough(len(table), table.users.names, table.items.names, values, label)
    scale, inferred = checks.choose_scale(values, reading.scale, options)
    if inferred:
        reading.warnings += doubts(values, counts, len(table), scale)
    if not options.leave_to_contract:
        checks.check_scale(values, scale, table.ratings, label, where)
    table, scale, merged = checks.merge(table, scale, options, label, where, reading.warnings)
    reading.warnings += checks.doubtful_ids(len(table), len(table.users.names), len(table.items.names))
    return table, {"scale": checks.scale_facts(scale, inferred), "merged": merged}


def _collect(reading: Reading, label: str) -> Chunk:
    """All chunks as one; DataError when there is no rating at all."""
    n_rows = 0

    def counted() -> Iterator[Chunk]:
        nonlocal n_rows
        for chunk in reading.chunks:
            n_rows += chunk.table.num_rows
            progress.report("ingest", 0.1, f"{n_rows:,} rows read")
            yield chunk

    whole = gather(counted())
    checks.refuse_empty(n_rows, reading, label)
    return whole
