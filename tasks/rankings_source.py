"""From the flow's parameters to canonical rankings: what can be checked before any work, and the ingest task."""

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from predilect.models.errors import DataError, ParameterError
from predilect.tasks import progress
from predilect.tasks.canonical_ballots import BALLOTS, ITEMS, MANIFEST, CanonicalBallots
from predilect.tasks.datasets import public_set
from predilect.tasks.ingest import ingest_ratings, locate
from predilect.tasks.ingest_checks import IngestOptions
from predilect.tasks.output import new_folder
from predilect.tasks.parameters import Parameters
from predilect.tasks.parameters_rankings import RankingsParameters
from predilect.tasks.ratings_table import read_table
from predilect.tasks.readers.rankings import ReaderName, read_rankings
from predilect.tasks.readers.rankings_base import RankingsReading, TieRule
from predilect.tasks.readers.rankings_ratings import rank_ratings
from predilect.tasks.readers.source import Source, base_name
from predilect.tasks.runs import read_json
from predilect.tasks.settings import Settings

FOLDER = "rankings"
RATINGS = "ratings"
READERS = (*get_args(ReaderName), RATINGS)
VERSION = 1
"""Raised when the same source and options give other content: older folders are then not reused."""


def check_source(parameters: RankingsParameters, settings: Settings) -> None:
    """Refuse, before any work starts, a source that is not there and a run name that is taken.

    Raises DataError or ParameterError, one sentence.
    """
    check_name(parameters, settings)
    if parameters.reader not in READERS:
        raise ParameterError(f"reader = {parameters.reader!r}: choose one of {', '.join(READERS)}.")
    data_dir = data_folder(parameters.data_dir, settings)
    if parameters.reader == RATINGS and public_set(parameters.data) is not None:
        return
    find_rankings(parameters.data, data_dir)


def check_name(parameters: Parameters, settings: Settings) -> None:
    """Raises ParameterError when the run name is taken or the data folder that was named is none."""
    if parameters.name is not None and (settings.runs / parameters.name).exists():
        raise ParameterError(f"name = {parameters.name!r}: that run exists in {settings.runs}; choose another.")
    if parameters.data_dir is not None and not Path(parameters.data_dir).expanduser().is_dir():
        raise ParameterError(f"data_dir = {parameters.data_dir!r}: no such folder; create it or correct the path.")


def data_folder(data_dir: str | None, settings: Settings) -> Path | None:
    """Where named sets are, or None when nobody said."""
    return Path(data_dir).expanduser() if data_dir else settings.data_dir


def find_rankings(data: str, data_dir: Path | None) -> Path:
    """The file called `data`: a path, else the file of that name (ending or not) below `rankings` in the data folder.

    Raises DataError when there is none, or more than one.
    """
    path = Path(data).expanduser()
    if path.exists():
        return path
    found = [
        file
        for file in sorted((data_dir / FOLDER).rglob("*") if data_dir is not None else [])
        if file.is_file() and data.lower() in (file.name.lower(), base_name(file.name).rpartition(".")[0].lower())
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise DataError(f"data = {data!r} is the name of {', '.join(file.name for file in found)}; give one of those.")
    where = f"named so below {data_dir / FOLDER}" if data_dir is not None else "of that name (no data folder is set)"
    raise DataError(f"data = {data!r}: no such file, and none {where}; correct the path.")


def ingest_rankings(parameters: RankingsParameters) -> Path:
    """The folder of canonical ballots; the same source read the same way is ingested once.

    Raises DataError or ParameterError, one sentence, and then leaves nothing behind.
    """
    settings = Settings()
    data_dir = data_folder(parameters.data_dir, settings)
    ties = TieRule(parameters.ties.value, parameters.seed if parameters.ties == "random" else 0)
    if parameters.reader == RATINGS:
        options = IngestOptions(columns=parameters.columns)
        ratings = ingest_ratings(parameters.data, data_dir, settings.data, options)
        name, files, digest = ratings.manifest["name"], ratings.manifest["source"], ratings.manifest["digest"]
    else:
        source = Source(find_rankings(parameters.data, data_dir))
        name, _, _ = locate(str(source.path), None)
        name = source.path.resolve().parent.name if name == "ballots" else name
        files, digest = ", ".join(map(source.short_name, source.members)), source.digest(source.members)
    asked = {"form": parameters.form.value, "columns": parameters.columns, "ties": asdict(ties)}
    key = json.dumps([FOLDER, VERSION, name, parameters.reader, asked, files, digest], sort_keys=True)
    short = hashlib.sha256(key.encode()).hexdigest()[:12]
    folder = settings.data / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}-{short}"
    if _complete(folder):
        return folder
    progress.report("ingest", 0.1, "reading")
    if parameters.reader == RATINGS:
        reading = _from_ratings(ratings.folder, ties)
    else:
        reading = read_rankings(
            source,
            reader=parameters.reader,
            columns=parameters.columns,
            form=parameters.form.value,
            ties=ties,
        )
    progress.report("ingest", 0.6, "collapsing equal ballots")
    write_canonical(folder, reading, name=name, source=files, options={**asked, "reader": parameters.reader})
    return folder


def write_canonical(folder: Path, reading: RankingsReading, *, name: str, source: str, options: dict[str, Any]) -> None:
    """Write the canonical folder of a reading, whole or not at all. source, options: for the manifest."""
    # Neither kind of menu changes the ballots themselves; it is chosen at the fit.
    ballots, _ = reading.ballots("ranked").collapse()
    table = CanonicalBallots(ballots, reading.item_ids, reading.names())
    lengths, counts = ballots.lengths, ballots.counts
    n_ballots = int(counts.sum())
    unranked = len(reading.item_ids) - len(np.unique(ballots.items))
    manifest = {
        "name": name,
        "source": source,
        "digest": table.digest(),
        "rows": len(ballots),
        "n_ballots": n_ballots,
        "n_items": len(reading.item_ids),
        "n_items_unranked": unranked,
        "weight": float(ballots.weights.sum()),
        "weighted": reading.weights is not None,
        "lengths": {str(size): int(counts[lengths == size].sum()) for size in np.unique(lengths).tolist()},
        "mean_length": float(lengths @ counts / n_ballots),
        "reader": reading.reader,
        "form": reading.form,
        "options": options,
        "left_out": {"count": reading.left_out, "reason": reading.left_out_reason} if reading.left_out else None,
        "warnings": reading.warnings,
    }
    progress.report("ingest", 0.8, "writing")
    with new_folder(folder, replace=not _complete(folder)) as draft:
        table.write(draft)
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False), encoding="utf-8")


def _from_ratings(folder: Path, ties: TieRule) -> RankingsReading:
    table = read_table(folder)
    ids = pa.array(table.item_ids.ids.tolist())
    return rank_ratings(table.users, table.items, table.ratings.astype(np.float64), ids,
                        label=table.manifest["name"], ties=ties)  # fmt: skip


def _complete(folder: Path) -> bool:
    """Whether the folder holds whole canonical rankings."""
    try:
        rows: int = read_json(folder / MANIFEST)["rows"]
        return (folder / ITEMS).is_file() and bool(pq.read_metadata(folder / BALLOTS).num_rows == rows)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return False
