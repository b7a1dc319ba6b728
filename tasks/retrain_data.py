"""What a retraining finds: which files are new since the last one, all rows as one table, and what is remembered.

The memory is one JSON file for each family and place that is watched, written whole when a retraining has decided. A
process that dies before that leaves it as it was: the same files are new the next night.
"""

import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from predilect.models.errors import DataError, PredilectError
from predilect.tasks import progress
from predilect.tasks.lines import append_line
from predilect.tasks.output import new_folder
from predilect.tasks.runs import read_json, write_json
from predilect.tasks.settings import Settings

Json = dict[str, Any]
ENDINGS = (".parquet", ".csv", ".tsv", ".txt", ".gz", ".soc", ".soi", ".toc", ".toi")
STATE, HISTORY = "state.json", "history.jsonl"
FILE = "file"


class Busy(PredilectError):
    """Another process retrains on the same data."""


@dataclass(frozen=True)
class Found:
    """files: facts of every file by its path; new: those whose content was not there last time, in their order."""

    files: dict[str, Json]
    new: list[str]
    watermark: str
    """Time of the latest change of any file, UTC."""
    digest: str
    """Of the content of all files."""


@dataclass
class Memory:
    """What the last decided retraining of this family on this place left."""

    folder: Path
    files: dict[str, Json] = field(default_factory=dict)
    watermark: str | None = None
    profile: Json | None = None
    pending: Json | None = None
    """A challenger that was trained and not decided on: its key and its run."""

    def save(self, **changed: Any) -> None:
        """Change and write it whole."""
        for name, value in changed.items():
            setattr(self, name, value)
        facts = {name: getattr(self, name) for name in ("files", "watermark", "profile", "pending")}
        write_json(self.folder / STATE, facts)

    def note(self, event: Json) -> None:
        """A line in the history of what was decided when."""
        line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **event}
        append_line(self.folder / HISTORY, json.dumps(line, ensure_ascii=False))


@contextmanager
def memory(settings: Settings, family: str, data: str) -> Iterator[Memory]:
    """The memory of retrainings of a family on a folder or glob, held by one process at a time.

    Raises Busy when another process holds it.
    """
    place = str(Path(data).expanduser().absolute())
    key = hashlib.sha256(place.encode()).hexdigest()[:8]
    folder = settings.state / "retrain" / f"{family}-{_stem(data)}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(f"A retraining of {family} on {data} is under way; wait for it to end.") from None
        for draft in folder.glob(".*.part"):  # of a process that died
            shutil.rmtree(draft) if draft.is_dir() else draft.unlink()
        found = Memory(folder)
        if (folder / STATE).is_file():
            found = Memory(folder, **read_json(folder / STATE))
        yield found


def find(data: str, known: Memory) -> Found:
    """The files that `data`, a folder, a glob or a file, stands for now. Raises DataError when there are none."""
    text = str(Path(data).expanduser())
    if Path(text).is_dir():
        text = str(Path(text) / "*")
    paths = [Path(name) for name in sorted(glob.glob(text))]
    paths = [path for path in paths if path.is_file() and path.name.lower().endswith(ENDINGS) and path.stat().st_size]
    if not paths:
        raise DataError(f"data = {data!r}: no files with rows ({', '.join(ENDINGS[:3])} …) there; correct the path.")
    files: dict[str, Json] = {}
    for path in paths:
        stat = path.stat()
        facts = {"size": stat.st_size, "changed": stat.st_mtime_ns}
        before = known.files.get(str(path), {})
        same = all(before.get(name) == value for name, value in facts.items())
        files[str(path)] = facts | {"digest": before["digest"] if same else _digest(path)}
    seen = {facts["digest"] for facts in known.files.values()}
    new = [name for name, facts in files.items() if facts["digest"] not in seen]
    latest = max(facts["changed"] for facts in files.values())
    whole = hashlib.sha256("".join(facts["digest"] for facts in files.values()).encode()).hexdigest()
    mark = datetime.fromtimestamp(latest / 1e9, UTC).isoformat(timespec="seconds")
    return Found(files, new, mark, whole)


def gather(found: Found, read: Callable[[Path], pa.Table]) -> tuple[pa.Table, pa.Table]:
    """All rows, and the new ones. Files in the order of their names, so that of a pair rated twice the later counts.

    read: the rows of one file. Raises DataError that names the file and the fault.
    """
    tables, new, ballots = [], [], 0
    for k, name in enumerate(found.files):
        progress.report("read files", k / len(found.files), Path(name).name)
        try:
            table = read(Path(name))
        except PredilectError as error:
            raise DataError(f"{Path(name).name} cannot be used: {error}") from error
        if "ballot" in table.column_names:  # numbered anew over the files
            numbers = pa.array(table["ballot"].to_numpy() + ballots)
            ballots = int(numbers[-1].as_py()) + 1 if len(table) else ballots
            table = table.set_column(table.column_names.index("ballot"), "ballot", numbers)
        tables.append(table)
        if name in found.new:
            new.append(table)
    return _joined(tables), _joined(new)


def write_table(known: Memory, found: Found, data: str, name: str, table: pa.Table) -> Path:
    """All rows as one file, in a folder that is named after the place and the content; earlier ones go."""
    folder = known.folder / f"{_stem(data)}-{found.digest[:8]}"
    for old in known.folder.iterdir():
        if old.is_dir() and old != folder:
            shutil.rmtree(old)
    if not (folder / name).is_file():
        with new_folder(folder, replace=True) as draft:
            pq.write_table(table, draft / name)
    return folder / name


def _joined(tables: list[pa.Table]) -> pa.Table:
    """The tables as one: columns that some lack are left out, ids that are text in one are text in all."""
    names = [name for name in tables[0].column_names if all(name in table.column_names for table in tables)]
    kinds = {name: {table.schema.field(name).type for table in tables} for name in names}
    made = []
    for table in tables:
        columns = {}
        for name in names:
            mixed = len(kinds[name]) > 1
            columns[name] = table[name].cast(pa.string() if pa.string() in kinds[name] else pa.float64()) if mixed \
                else table[name]  # fmt: skip
        made.append(pa.table(columns))
    return pa.concat_tables(made)


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stem(data: str) -> str:
    """The part of names that tells the place: a folder's name, or the folder's of a glob."""
    path = Path(os.path.expanduser(data))
    name = path.parent.name if glob.has_magic(path.name) else path.name.partition(".")[0]
    return re.sub(r"[^\w-]+", "-", name).strip("-")[:40] or "data"
