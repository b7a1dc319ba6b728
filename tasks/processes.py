"""Processes that outlive the command that starts them: started in groups of their own, found again, stopped, logged.

A process is known by its pid and its start time, so a pid that was given to another program since is never touched.
Everything a process starts inherits a mark in its environment, so nothing is left behind when it is stopped.
"""

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from predilect.tasks.runs import read_json, write_json

MARK, ROLE = "PREDILECT_SERVICES", "PREDILECT_SERVICE"  # of which home, and as what
FLOW_RUN = "PREFECT__FLOW_RUN_ID"  # Prefect gives it to the process of a flow run
LOG_BYTES, LOG_FILES = 10_000_000, 5
SAME_START = 0.05  # seconds: the system rounds start times


@dataclass(frozen=True)
class Record:
    """What is kept of a process that was started."""

    name: str
    pid: int
    started: float
    command: str
    settings: str
    """A digest of what it was started with: another one asks for a restart."""

    def write(self, folder: Path) -> None:
        """Keep the record."""
        write_json(folder / f"{self.name}.json", asdict(self))

    @classmethod
    def read(cls, folder: Path, name: str) -> "Record | None":
        """The record kept of a process, None when there is none that can be read."""
        try:
            return cls(**read_json(folder / f"{name}.json"))
        except (OSError, ValueError, TypeError):
            return None

    @classmethod
    def of(cls, name: str, pid: int, command: Sequence[str], settings: str) -> "Record":
        """The record of a process that runs now."""
        return cls(name, pid, psutil.Process(pid).create_time(), shlex.join(command), settings)

    def process(self) -> psutil.Process | None:
        """The process, None when it has ended, also when its pid is another's by now."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < SAME_START
            if same and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None


def start(name: str, command: Sequence[str], env: Mapping[str, str], folder: Path, settings: str) -> Record:
    """Start a process in a session of its own, its output appended to `folder/logs/NAME.log`, and keep its record."""
    log = log_file(folder, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        process = subprocess.Popen(
            command,
            env={**env, **mark(folder, name)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    record = Record.of(name, process.pid, command, settings)
    record.write(folder)
    return record


def mark(folder: Path, name: str) -> dict[str, str]:
    """What the environment of a service, and of all that it starts, holds so that it is found again."""
    return {MARK: str(folder), ROLE: name}


def marked(folder: Path, name: str | None = None, spare_flow_runs: bool = False) -> list[psutil.Process]:
    """The processes that services of this folder started, or those of one service, this process left out.

    spare_flow_runs: without those of flow runs, which may go on while their worker is replaced.
    """
    found = []
    for process in psutil.process_iter():
        env = _environment(process)
        ours = env.get(MARK) == str(folder) and (name is None or env.get(ROLE) == name)
        if ours and process.pid != os.getpid() and not (spare_flow_runs and FLOW_RUN in env):
            found.append(process)
    return found


def flow_runs(folder: Path) -> set[str]:
    """The ids of the flow runs that a process of this folder's services is at work on."""
    return {env[FLOW_RUN] for process in marked(folder) if FLOW_RUN in (env := _environment(process))}


def own_output() -> None:
    """Let the process of a flow run write to its worker's log itself, where there is one.

    Through the worker's pipe the run would end with the worker: Prefect's console ends a process that nobody reads.
    """
    if not {MARK, ROLE, FLOW_RUN} <= set(os.environ):
        return
    log = log_file(Path(os.environ[MARK]), os.environ[ROLE])
    if log.is_file():
        with open(log, "ab") as output:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(output.fileno(), stream.fileno())


def stop(processes: Sequence[psutil.Process], patience: float = 20.0) -> int:
    """Ask processes to end, and end those that have not after `patience` seconds; how many there were."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, left = psutil.wait_procs(processes, timeout=patience)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=5)
    return len(processes)


def holder(port: int) -> str | None:
    """Who listens at a TCP port, such as `process 123 (nginx: master)`; None when nobody does."""
    try:
        pids = {c.pid for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.laddr.port == port}
    except psutil.AccessDenied:  # some systems show connections to the administrator only
        return None
    for pid in sorted(pid or 0 for pid in pids):
        if not pid:
            return "a process of another user"
        with contextlib.suppress(psutil.Error):
            return f"process {pid} ({shlex.join(psutil.Process(pid).cmdline())[:120]})"
        return f"process {pid}"
    return None


def log_file(folder: Path, name: str) -> Path:
    """Where a service's output goes."""
    return folder / "logs" / f"{name}.log"


def rotate_logs(folder: Path, most: int = LOG_BYTES, keep: int = LOG_FILES) -> list[Path]:
    """Copy logs that have grown beyond `most` bytes to NAME.log.1 and so on, and empty them; those rotated.

    The files are open for appending in the services, so they are emptied in place.
    """
    rotated = []
    for log in sorted((folder / "logs").glob("*.log")):
        if log.stat().st_size <= most:
            continue
        for number in range(keep - 1, 0, -1):
            older = log.with_name(f"{log.name}.{number}")
            if older.is_file():
                older.replace(log.with_name(f"{log.name}.{number + 1}"))
        log.with_name(f"{log.name}.1").write_bytes(log.read_bytes())
        os.truncate(log, 0)
        rotated.append(log)
    return rotated


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a text file; none when it does not exist."""
    if not path.is_file():
        return []
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - 300 * lines - 4096))
        return file.read().decode("utf-8", errors="replace").splitlines()[-lines:]


def wait_until(ready: Any, seconds: float, process: Record) -> bool:
    """Whether `ready()` came true in time; it is not waited for once the process has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ready():
            return True
        if process.process() is None:
            return False
        time.sleep(0.25)
    return False


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        env: dict[str, str] = process.environ()
    except (psutil.Error, OSError):  # another user's
        return {}
    return env
