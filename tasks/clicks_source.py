"""From the flow's parameters to canonical clicks: what can be checked before any work, and the ingest task."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from predilect.models.errors import DataError, ParameterError
from predilect.tasks import progress
from predilect.tasks.canonical_clicks import CLICKS, HISTORY, MANIFEST, Coded, digest
from predilect.tasks.output import new_folder
from predilect.tasks.parameters_clicks import AUTO, NONE, ClicksFitParameters
from predilect.tasks.readers.clicks import (
    READERS,
    UPWORTHY,
    ClicksReading,
    Wanted,
    cells_of,
    choose_clicks,
    one_member,
    read_cells,
)
from predilect.tasks.readers.clicks_logs import read_mind, read_open_bandit
from predilect.tasks.readers.source import Source
from predilect.tasks.runs import read_json
from predilect.tasks.settings import Settings

ARCHIVE = "upworthy"
ARCHIVE_FILE = Path("upworthy") / "upworthy_exploratory.parquet"
ARCHIVE_COLUMNS = {"impressions": "impressions", "clicks": "clicks", "time": "test_week"}
ARCHIVE_GROUP = "clickability_test_id"
VERSION = 1
"""Raised when the same source and options give other content: older folders are then not reused."""


def check_source(parameters: ClicksFitParameters, settings: Settings) -> None:
    """Refuse, before any work starts, a source that is not there and a run name that is taken.

    Raises DataError or ParameterError, one sentence.
    """
    if parameters.name is not None and (settings.runs / parameters.name).exists():
        raise ParameterError(f"name = {parameters.name!r}: that run exists in {settings.runs}; choose another.")
    if parameters.reader not in READERS:
        raise ParameterError(f"reader = {parameters.reader!r}: choose one of {', '.join(READERS)}.")
    find_clicks(parameters.data, parameters.data_dir, settings)


def find_clicks(data: str, data_dir: str | None, settings: Settings) -> Path:
    """The file or folder called `data`; `upworthy` is the archive in the data folder. Raises DataError without it."""
    if data.lower() != ARCHIVE or Path(data).exists():
        path = Path(data).expanduser()
        if not path.exists():
            raise DataError(f"data = {data!r}: no such file or folder; correct the path, or give {ARCHIVE}.")
        return path
    folder = Path(data_dir).expanduser() if data_dir else settings.data_dir
    if folder is None:
        raise ParameterError(
            f"data = {data!r}: there is no data folder to look in; give --data-dir or set PREDILECT_DATA_DIR."
        )
    if not folder.is_dir():
        raise ParameterError(f"data_dir = {str(folder)!r}: no such folder; create it or correct the path.")
    if not (folder / ARCHIVE_FILE).is_file():
        raise DataError(f"data = {data!r}: {folder / ARCHIVE_FILE} is not there; put the archive's Parquet file there.")
    return folder / ARCHIVE_FILE


def ingest_clicks(parameters: ClicksFitParameters) -> Path:
    """The folder of canonical clicks; the same source read the same way is ingested once.

    Raises DataError or ParameterError, one sentence, and then leaves nothing behind.
    """
    settings = Settings()
    source = Source(find_clicks(parameters.data, parameters.data_dir, settings))
    if source.path.name == ARCHIVE_FILE.name and parameters.reader == AUTO:
        reader = ARCHIVE
    else:
        reader = choose_clicks(source, parameters.reader)
    name = ARCHIVE if reader == ARCHIVE else re.sub(r"\.(csv|tsv|parquet)(\.gz)?$", "", source.path.resolve().name)
    options = {
        **{part: getattr(parameters, part) for part in ("columns", "texts", "categories", "numbers", "group")},
        "reader": reader,
    }
    files = source.digest(source.members)
    key = json.dumps(["clicks", VERSION, name, options, files], sort_keys=True)
    short = hashlib.sha256(key.encode()).hexdigest()[:12]
    folder = settings.data / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}-{short}"
    if _complete(folder):
        return folder
    progress.report("ingest", 0.1, "reading")
    reading = read_clicks(source, reader, parameters)
    progress.report("ingest", 0.7, "writing")
    _write(folder, reading, name, ", ".join(map(source.short_name, source.members)), options)
    return folder


def read_clicks(source: Source, reader: str, parameters: ClicksFitParameters, *, counted: bool = True) -> ClicksReading:
    """The canonical table of a source. counted: without, impressions and clicks need not be there."""
    wanted = wanted_columns(reader, parameters)
    if reader == "mind":
        return read_mind(source, wanted)
    if reader == "open_bandit":
        return read_open_bandit(source, wanted)
    cells = cells_of(source, one_member(source))
    if reader == ARCHIVE and counted and not set(cells.columns) >= UPWORTHY:
        raise DataError(
            f"{cells.label} has not the columns {', '.join(sorted(UPWORTHY))} of the archive; choose reader=table."
        )
    return read_cells(cells, wanted, counted=counted)


def wanted_columns(reader: str, parameters: ClicksFitParameters) -> Wanted:
    """Which columns are what, with the archive's own defaults: words of the headline, grouped by test."""
    archive = reader == ARCHIVE
    group = parameters.group
    if group == AUTO:
        group = ARCHIVE_GROUP if archive else NONE
    named = (parameters.texts, parameters.categories, parameters.numbers)
    texts = ["headline"] if archive and not any(named) else parameters.texts
    return Wanted(
        (ARCHIVE_COLUMNS if archive else {}) | parameters.columns,
        texts,
        parameters.categories,
        parameters.numbers,
        None if group == NONE else group,
    )


def _write(folder: Path, reading: ClicksReading, name: str, source: str, options: dict[str, Any]) -> None:
    table = reading.table
    sizes = {
        f"n_{role}s": len(Coded.of(table[role]).ids) if role in table.column_names else None
        for role in ("user", "item", "group")
    }
    times = table["time"].to_numpy() if "time" in table.column_names else None
    parts = [column.partition(".") for column in table.column_names if "." in column]
    manifest = {
        "name": name,
        "source": source,
        "digest": digest(table, reading.history),
        "rows": table.num_rows,
        **{part: value for part, value in sizes.items() if value is not None},
        "n_impressions": _total(table["impressions"]),
        "n_clicks": _total(table["clicks"]),
        "context": [[kind, own] for kind, _, own in parts],
        "time_range": [float(times.min()), float(times.max())] if times is not None and len(times) else None,
        "history_picks": None if reading.history is None else reading.history.num_rows,
        "merged": reading.merged,
        "reader": reading.reader,
        "columns": reading.columns,
        "options": options,
        "warnings": reading.warnings,
    }
    with new_folder(folder, replace=not _complete(folder)) as draft:
        pq.write_table(table, draft / CLICKS, compression="zstd")
        if reading.history is not None:
            pq.write_table(reading.history, draft / HISTORY, compression="zstd")
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False), encoding="utf-8")


def _total(column: pa.ChunkedArray) -> int | None:
    """The sum, None where the contract will refuse the column."""
    return int(sum(column.to_pylist())) if pa.types.is_integer(column.type) and not column.null_count else None


def _complete(folder: Path) -> bool:
    """Whether the folder holds whole canonical clicks."""
    try:
        rows: int = read_json(folder / MANIFEST)["rows"]
        return bool(pq.read_metadata(folder / CLICKS).num_rows == rows)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return False
