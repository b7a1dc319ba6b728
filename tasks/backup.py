"""Backup of the state folder in one file, taken while servers and runs are at work, and restoring it anywhere."""

import json
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from predilect import __version__
from predilect.models.errors import DataError, ParameterError
from predilect.tasks import postgres
from predilect.tasks.output import cannot_write
from predilect.tasks.runs import read_json, write_json
from predilect.tasks.settings import Settings

ABOUT = "predilect_backup.json"
DUMP = "postgres.dump"  # the tables of both servers, where they are on PostgreSQL
FOLDERS = ("mlruns", "state")
# Of this machine and this moment alone: processes and their logs, locks, half-written files, caches.
LEFT_OUT = ("state/services", "state/matplotlib")
MOMENTARY = (".lock", ".part", "running.lock", ".db-wal", ".db-shm", ".db-journal")
# Where MLflow's database names files by their address.
ADDRESSES = (("experiments", "artifact_location"), ("runs", "artifact_uri"), ("logged_models", "artifact_location"),
             ("model_versions", "source"), ("model_versions", "storage_location"))  # fmt: skip


def backup(settings: Settings, file: Path) -> dict[str, Any]:
    """Write everything under `mlruns/` and `state/` to a .tar.gz file, complete or absent; what is in it.

    Databases are copied first, by SQLite's own backup or pg_dump, so all that they name is in the file too.
    Raises DataError when the disk refuses, or when pg_dump is asked for and is not there.
    """
    address = settings.database()
    draft = file.with_name(f".{file.name}.part")
    about = {"version": __version__, "home": str(settings.home), "created": datetime.now(UTC).isoformat()}
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=settings.state, prefix=".backup.", suffix=".part") as temporary:
            copies = Path(temporary)
            databases = sorted(path for path in _files(settings.home) if path.suffix == ".db")
            for k, database in enumerate(databases):
                with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copies / str(k))) as copy:
                    source.backup(copy)
            if address:
                postgres.dump(address, copies / DUMP)
            count = 0
            with tarfile.open(draft, "w:gz", compresslevel=3) as archive:
                archive.add(write_json(copies / ABOUT, about), ABOUT)
                if address:
                    archive.add(copies / DUMP, DUMP)
                for k, database in enumerate(databases):
                    archive.add(copies / str(k), str(database.relative_to(settings.home)))
                for path in _files(settings.home):
                    if path.suffix != ".db" and path.resolve() != file.resolve():
                        count += _add(archive, path, str(path.relative_to(settings.home)))
        draft.replace(file)
    except OSError as error:
        raise cannot_write(file, error) from error
    finally:
        draft.unlink(missing_ok=True)
    n_databases = len(databases) + bool(address)
    return about | {"file": str(file), "files": count, "databases": n_databases, "bytes": file.stat().st_size}


def restore(settings: Settings, file: Path) -> dict[str, Any]:
    """Put a backup into an empty home, wherever that is, and into an empty PostgreSQL database if it holds one.

    Returns what was in it. Raises ParameterError when home or database hold something already, or the file is no
    backup, DataError when it is damaged or pg_restore is asked for and is not there.
    """
    there = [settings.mlruns / "mlflow.db", settings.state / "prefect" / "prefect.db", *settings.runs.glob("*")]
    held = next((path for path in there if path.exists()), None)
    if held is not None:
        raise ParameterError(f"{settings.home} is in use ({held} is there); set PREDILECT_HOME to an empty folder.")
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=settings.home, prefix=".restore.", suffix=".part") as temporary:
            draft = Path(temporary)
            with tarfile.open(file, "r:gz") as archive:
                if archive.next() is None or archive.getnames()[0] != ABOUT:
                    raise ParameterError(
                        f"{file} is no backup of Predilect; give a file that `predilect backup` wrote."
                    )
                archive.extractall(draft, filter="data")
            about: dict[str, Any] = read_json(draft / ABOUT)
            for database in draft.glob("*/**/*.db"):
                _check(database)
            address = settings.database()
            if (draft / DUMP).exists() != bool(address):
                raise ParameterError(
                    f"{file} holds no database of PostgreSQL; unset PREDILECT_POSTGRES."
                    if address
                    else f"{file} holds a database of PostgreSQL; set PREDILECT_POSTGRES to an empty one."
                )
            if address:
                postgres.load(address, draft / DUMP)
            _point(draft / "mlruns" / "mlflow.db", Path(about["home"]), settings.home)
            for folder in FOLDERS:
                _move(draft / folder, settings.home / folder)
    except (tarfile.TarError, EOFError, sqlite3.DatabaseError, json.JSONDecodeError) as error:
        raise DataError(f"{file} is damaged or no backup ({error}); nothing was restored.") from error
    except FileNotFoundError as error:
        if file.exists():
            raise
        raise ParameterError(f"{file}: no such file; correct the path.") from error
    return about


def _files(home: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((home / folder).rglob("*")):
            name = path.relative_to(home).as_posix()
            momentary = any(part.endswith(MOMENTARY) for part in name.split("/"))
            if path.is_file() and not path.is_symlink() and not momentary and not name.startswith(LEFT_OUT):
                yield path


def _add(archive: tarfile.TarFile, path: Path, name: str) -> int:
    """Add a file as it is now; one that housekeeping took away meanwhile is left out."""
    try:
        with open(path, "rb") as file:
            info = archive.gettarinfo(arcname=name, fileobj=file)
            archive.addfile(info, file)
    except FileNotFoundError:
        return 0
    return 1


def _check(database: Path) -> None:
    with closing(sqlite3.connect(database)) as opened:
        (said,) = opened.execute("PRAGMA integrity_check").fetchone()
    if said != "ok":
        raise sqlite3.DatabaseError(f"{database.name}: {said}")


def _point(database: Path, old: Path, new: Path) -> None:
    """Let addresses of files under the old home name those under the new one."""
    if not database.is_file():
        return
    with closing(sqlite3.connect(database)) as opened:
        for table, column in ADDRESSES:
            for before, after in ((old.as_uri(), new.as_uri()), (str(old), str(new))):
                opened.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                    (f"{after}/", len(before) + 2, len(before) + 1, f"{before}/"),
                )
        opened.commit()


def _move(source: Path, target: Path) -> None:
    """Move everything in a folder into another, into folders that are there."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()) if source.is_dir() else []:
        there = target / path.name
        if path.is_dir() and there.is_dir():
            _move(path, there)
        else:
            path.replace(there)
