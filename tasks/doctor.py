"""What `predilect doctor` looks at."""

import importlib.metadata
import os
import platform
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from predilect import __version__
from predilect.models.compiled import default_threads
from predilect.tasks.processes import holder
from predilect.tasks.settings import Settings

PACKAGES = ("prefect", "mlflow", "great-expectations", "numpy", "scipy", "numba", "pandas", "pyarrow")
LOW_DISK = 2 * 2**30


@dataclass(frozen=True)
class Check:
    """One thing looked at; `found` says what to do when it is not ok."""

    name: str
    ok: bool
    found: str


def examine(settings: Settings, data_dir: Path | None) -> list[Check]:
    """Versions, threads, home, ports, data folder and tracking store, in that order."""
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in PACKAGES)
    return [
        Check("predilect", True, f"{__version__} on Python {platform.python_version()}"),
        Check("packages", True, versions),
        Check("threads", True, f"{default_threads()} usable of {os.cpu_count()} cores"),
        _home(settings),
        _port("Prefect", settings.prefect_port),
        _port("MLflow", settings.mlflow_port),
        _port("service", settings.ratings_port),
        _data_dir(data_dir or settings.data_dir),
        _store(settings),
    ]


def _home(settings: Settings) -> Check:
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        probe = settings.state / f".doctor.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return Check("home", False, f"{settings.home}: {error.strerror}; set PREDILECT_HOME to a writable folder")
    free = shutil.disk_usage(settings.home).free
    room = f"{free / 2**30:.1f} GB free"
    if free < LOW_DISK:
        return Check("home", False, f"{settings.home}: only {room}; make room or set PREDILECT_HOME elsewhere")
    return Check("home", True, f"{settings.home}, {room}")


def _port(name: str, port: int) -> Check:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        used = probe.connect_ex(("127.0.0.1", port)) == 0
    who = holder(port) or "a process of another user"
    return Check(f"port {port}", True, f"{name}: {f'held by {who}' if used else 'free'}")


def _data_dir(folder: Path | None) -> Check:
    if folder is None:
        return Check("data folder", True, "not set; named sets need --data-dir or PREDILECT_DATA_DIR")
    if not folder.is_dir():
        return Check("data folder", False, f"{folder} is not a folder; correct PREDILECT_DATA_DIR")
    return Check("data folder", True, f"{folder}: {', '.join(sorted(p.name for p in folder.iterdir() if p.is_dir()))}")


def _store(settings: Settings) -> Check:
    from predilect.tasks.tracking import TrackingError, store_summary, waiting

    try:
        found = store_summary(settings)
    except TrackingError as error:
        return Check("tracking store", False, str(error))
    late = len(waiting(settings))
    if late:
        return Check("tracking store", False, f"{found}; {late} runs wait to be logged: run `predilect sync`")
    return Check("tracking store", True, found)
