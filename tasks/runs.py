"""Run folders: everything one training run writes, and the lock that tells whether its process still lives."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import signal
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.settings import Settings

LOCK = "running.lock"
RESULTS = "results.json"
MANIFEST, CLEAN = "manifest.json", "clean"
"""What says which ratings a folder holds; in a run folder, those that are left when rows were set aside."""


def write_json(path: Path, value: Any) -> Path:
    """Write JSON beside `path`, then rename: a reader sees the old file or the whole new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        draft.write_text(text, encoding="utf-8")
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


class RunFolder:
    """The folder of one run, held by a lock for as long as the process that made it lives."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, settings: Settings, name: str | None, stem: str) -> "RunFolder":
        """A new folder called `name`, or made from `stem`, the time and a random suffix.

        Raises ParameterError when a run of that name exists, DataError when the folder cannot be written.
        """
        folder = settings.runs / (name or f"{stem}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")
        try:
            settings.runs.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
            lock = open(folder / LOCK, "w", encoding="utf-8")  # noqa: SIM115 (held while the run lives)
        except FileExistsError:
            raise ParameterError(f"name = {name!r}: that run exists in {settings.runs}; choose another.") from None
        except OSError as error:
            raise DataError(
                f"The run folder {folder} cannot be made ({error.strerror}); set PREDILECT_HOME to a writable folder."
            ) from error
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("\n".join(map(str, _prefect_servers(os.getpid()))))
        lock.flush()
        return cls(folder, lock)

    def release(self, ended: bool = True) -> None:
        """Let go of the folder; with `ended` false its end could not be noted, and the next command closes the run."""
        if ended:
            (self.path / LOCK).unlink(missing_ok=True)
        self._lock.close()


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time sends what a run has said: `up` and `sync` may do so beside the run itself."""
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def key_of(decides: Sequence[Any]) -> str:
    """A name for work that an interrupted run left, from everything that decides its result."""
    return hashlib.sha256(json.dumps(list(decides), sort_keys=True).encode()).hexdigest()[:24]


def data_folder(run: Path, settings: Settings, holds: str) -> Path | None:
    """The canonical folder of the data that a run was trained on which holds this file; None: it is gone."""
    digest = read_json(run / RESULTS)["dataset"]["digest"]
    for folder in (run / CLEAN, *sorted(settings.data.glob("*"))):
        manifest = folder / MANIFEST
        if manifest.is_file() and (folder / holds).is_file() and read_json(manifest).get("digest") == digest:
            return folder
    return None


def abandoned(settings: Settings) -> Iterator[tuple[Path, IO[str]]]:
    """Runs whose process died without saying so, each with its lock held so that no other command sees it too."""
    for path in sorted(settings.runs.glob(f"*/{LOCK}")):
        try:
            lock = open(path, "r+", encoding="utf-8")  # noqa: SIM115 (held while the caller looks)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()  # its process lives
            continue
        if path.exists():
            yield path.parent, lock
        lock.close()


def end_servers(lock: IO[str]) -> None:
    """End the temporary Prefect server that a killed run left behind; the lock names its process."""
    in_use = _prefect_servers(os.getpid())
    for line in lock.read().split():
        if int(line) not in in_use and _is_prefect_server(int(line)):
            with contextlib.suppress(OSError):
                os.kill(int(line), signal.SIGTERM)


def _prefect_servers(parent: int) -> list[int]:
    """The temporary servers that Prefect has started under a process (where the system lists children)."""
    listed = list(Path(f"/proc/{parent}/task").glob("*/children"))
    children = [int(pid) for path in listed for pid in path.read_text().split()]
    return [pid for pid in children if _is_prefect_server(pid)]


def _is_prefect_server(pid: int) -> bool:
    try:
        return b"prefect.server.api.server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def find(settings: Settings, run: str) -> Path:
    """The folder of the run called `run`: its name, the start of it if unique, or its MLflow run id."""
    folders = sorted(path.parent for path in settings.runs.glob("*/*.json"))
    folders = list(dict.fromkeys(folders))
    exact = [folder for folder in folders if folder.name == run]
    found = exact or [folder for folder in folders if folder.name.startswith(run)]
    if not found:
        found = [folder for folder in folders if (folder / "tracking.json").is_file() and mlflow_id(folder) == run]
    if len(found) != 1:
        problem = "no run matches" if not found else f"{len(found)} runs match"
        raise ParameterError(f"RUN = {run!r}: {problem}; `predilect runs` lists the names.")
    return found[0]


def mlflow_id(folder: Path) -> str | None:
    """The MLflow run id of a run folder, None while it has not been logged."""
    run_id: str | None = _tracking(folder).get("run_id")
    return run_id


def experiment_id(folder: Path) -> str | None:
    """The MLflow experiment id of a run folder, None while it has not been logged."""
    found: str | None = _tracking(folder).get("experiment_id")
    return found


def model_id(folder: Path) -> str | None:
    """The id of a run's logged model, None while it has not been logged."""
    found: str | None = _tracking(folder).get("model_id")
    return found


def _tracking(folder: Path) -> dict[str, Any]:
    path = folder / "tracking.json"
    state: dict[str, Any] = read_json(path) if path.is_file() else {}
    return state
