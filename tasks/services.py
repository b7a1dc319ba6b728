"""`predilect up`: Prefect server, MLflow server, worker and service, started, repaired, looked at and stopped together.

`predilect service NAME` is one of them alone, for containers and service managers: the same command line, environment
and record, in the place of the process that was called.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from predilect.models.errors import DataError, PredilectError
from predilect.tasks import postgres, prefect_server, processes
from predilect.tasks.prefect_server import PrefectServer
from predilect.tasks.runs import write_json
from predilect.tasks.service_commands import (
    NAMES,
    SERVERS,
    check_access,
    command,
    environment,
    own_environment,
    port,
    url,
)
from predilect.tasks.settings import ADDRESSES, Settings

PATIENCE = 240.0  # seconds that a server may take to answer on a busy machine
Say = Callable[[str], None]


class ServiceError(PredilectError):
    """A server or the worker cannot be started."""


@dataclass(frozen=True)
class Status:
    """One service as it is now."""

    name: str
    state: str
    """up, starting (it lives but does not answer), or down"""
    pid: int | None
    address: str | None
    log: str
    about: str = ""
    """what it says of itself, such as that there is no champion yet"""


def up(settings: Settings, say: Say = lambda _: None) -> list[Status]:
    """Start what is not running, put right what an earlier start left half done, and say what is where.

    Raises ServiceError or DataError, one sentence, when a port is taken, an access rule is broken, or a service ends.
    What this call started is stopped again then.
    """
    check_access(settings)
    if settings.prefect_url or settings.mlflow_url:
        raise DataError(
            "PREDILECT_PREFECT_URL and PREDILECT_MLFLOW_URL say that servers run elsewhere; unset them for `predilect "
            "up`, or start one service by `predilect service NAME`."
        )
    settings.services.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(settings):
        processes.rotate_logs(settings.services)
        mended = _stop_unwanted(settings)
        for name in mended:
            say(f"stopped what was left of an earlier {name}")
        started: list[str] = []
        try:
            missing = [name for name in NAMES if not _lives(settings, name)]
            for name in missing:
                _need_port(settings, name)
            if set(missing) & set(SERVERS):
                say("preparing the databases")
                _migrate(settings, missing)
            for name in SERVERS:
                if name in missing:
                    say(f"starting {name}")
                    started.append(name)
                    _start(settings, name)
            _wait(settings, "prefect")
            say("registering work pool, deployments, limits, automation")
            server = _registered(settings)
            _wait(settings, "mlflow")
            write_json(settings.services / ADDRESSES, {name: url(settings, name) for name in SERVERS})
            for run in repair(settings):
                say(f"run {run} had lost its process; it is closed now")
            if "ratings" in missing:
                say("starting ratings")
                started.append("ratings")
                _start(settings, "ratings")
            if "worker" in missing:
                say("starting worker")
                started.append("worker")
                since = datetime.now(UTC).isoformat()
                worker = _start(settings, "worker")
                if not processes.wait_until(lambda: prefect_server.worker_online(server, since), PATIENCE, worker):
                    raise _ended(settings, "worker")
            _wait(settings, "ratings")
        except BaseException:
            for name in reversed(started):
                _stop(settings, name)
            raise
        return status(settings)


def down(settings: Settings) -> list[str]:
    """Stop what `up` started, flow runs first, and close the runs that this ends; the names of what was stopped."""
    if not settings.services.is_dir():
        return []
    with _alone(settings):
        stopped = ["worker"] if _stop(settings, "worker") else []
        with contextlib.suppress(PredilectError):
            repair(settings)
        stopped += [name for name in ("ratings", "mlflow", "prefect") if _stop(settings, name)]
        processes.stop(processes.marked(settings.services))  # whatever else bears our mark
        if settings.database() is None:
            (settings.services / ADDRESSES).unlink(missing_ok=True)
        return stopped


def service(settings: Settings, name: str) -> None:
    """Become one service: this process goes on as its program, so what stops the one stops the other.

    Raises ServiceError or DataError, one sentence, when an access rule is broken, its port is taken, or the Prefect
    server, at which the worker registers the deployments first, does not answer.
    """
    check_access(settings)
    settings.services.mkdir(parents=True, exist_ok=True, mode=0o700)
    _need_port(settings, name)
    if name == "worker":
        _registered(settings)
        repair(settings)
    words = command(settings, name)
    record = processes.Record.of(name, os.getpid(), words, _digest(settings, name))
    record.write(settings.services)
    os.chdir(settings.services)
    os.execve(words[0], words, environment(settings, name) | processes.mark(settings.services, name))


def migrate(settings: Settings) -> None:
    """Bring both databases to the installed versions, before a server opens them."""
    settings.state.mkdir(parents=True, exist_ok=True)
    _migrate(settings, SERVERS)


def status(settings: Settings, names: Sequence[str] = NAMES) -> list[Status]:
    """How each service is."""
    found = []
    for name in names:
        record = processes.Record.read(settings.services, name)
        lives = record is not None and record.process() is not None
        good = lives and _answers(settings, name) and (name != "worker" or _reports(settings))
        state = "down" if not lives else "up" if good else "starting"
        address = settings.addresses().get(name) or (url(settings, name) if name != "worker" else None)
        log = str(processes.log_file(settings.services, name))
        about = _about(settings) if name == "ratings" and good else ""
        found.append(Status(name, state, record.pid if record and lives else None, address, log, about))
    return found


def repair(settings: Settings) -> list[str]:
    """Close every run, in MLflow and Prefect, whose process is gone, and log what waits; names of those closed."""
    from predilect.tasks import tracking

    closed = tracking.reconcile(settings)
    tracking.catch_up(settings)
    server = prefect(settings)
    if server.healthy():
        alive = processes.flow_runs(settings.services)
        closed += prefect_server.crash_orphans(server, alive, _ended_flow_runs(settings))
    return closed


def prefect(settings: Settings) -> PrefectServer:
    """The Prefect server of these settings."""
    return PrefectServer(settings.addresses().get("prefect") or url(settings, "prefect"), settings.credentials())


def _registered(settings: Settings) -> PrefectServer:
    """The Prefect server, with everything in it that it must hold; waited for, where it is just starting."""
    server = prefect(settings)
    until = time.monotonic() + PATIENCE
    while not server.healthy():
        if time.monotonic() > until:
            raise ServiceError(f"The Prefect server {server.address} does not answer; see its log.")
        time.sleep(1)
    prefect_server.register(server, settings.flow_runs, environment(settings, "worker"), settings.services)
    return server


@contextlib.contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """One `up` or `down` at a time."""
    with open(settings.services / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ServiceError("Another `predilect up` or `predilect down` is at work here; wait for it.") from None
        yield


def _digest(settings: Settings, name: str) -> str:
    """Of what decides a service, without what differs from one terminal to the next."""
    ours = own_environment(settings, name)
    ours.pop("PATH", None)
    return hashlib.sha256(json.dumps([command(settings, name), ours], sort_keys=True).encode()).hexdigest()


def _lives(settings: Settings, name: str) -> bool:
    record = processes.Record.read(settings.services, name)
    return record is not None and record.process() is not None


def _stop_unwanted(settings: Settings) -> list[str]:
    """Stop services that no record knows, that were started otherwise than now asked, or that do not answer."""
    stopped = []
    for name in NAMES:
        record = processes.Record.read(settings.services, name)
        good = (
            record is not None
            and record.process() is not None
            and record.settings == _digest(settings, name)
            and _answers(settings, name)
        )
        if not good and processes.stop(processes.marked(settings.services, name, spare_flow_runs=True)):
            stopped.append(name)
    return stopped


def _need_port(settings: Settings, name: str) -> None:
    listens = port(settings, name)
    if listens is None:
        return
    with socket.socket() as probe:
        probe.settimeout(1)
        taken = probe.connect_ex(("127.0.0.1", listens)) == 0
    who = processes.holder(listens)
    if taken or who:
        raise ServiceError(
            f"Port {listens} for {name} is held by {who or 'a process of another user'}; stop it, or choose another "
            f"port with `--{name}-port` or PREDILECT_{name.upper()}_PORT."
        )


def _migrate(settings: Settings, missing: Sequence[str]) -> None:
    """Bring both databases to the versions of the installed servers, each by one process before any server opens it."""
    from predilect.tasks import tracking

    def of_prefect() -> None:
        words = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
        (settings.state / "prefect").mkdir(parents=True, exist_ok=True)
        ran = subprocess.run(
            words, env=environment(settings, "prefect"), capture_output=True, text=True, check=False, cwd=settings.state
        )
        if ran.returncode:
            raise ServiceError(
                f"Prefect's database cannot be prepared: {postgres.without_secrets(settings, _last(ran.stderr))}"
            )

    def of_mlflow() -> None:
        try:
            if address := settings.database():
                postgres.make_schema(address)
            tracking.migrate(settings, postgres.mlflow_database(settings))
        except Exception as error:
            said = postgres.without_secrets(settings, str(error).strip().partition("\n")[0][:300])
            raise ServiceError(f"MLflow's database cannot be prepared: {said}") from None

    jobs = [job for name, job in (("prefect", of_prefect), ("mlflow", of_mlflow)) if name in missing]
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1][:300]


def _start(settings: Settings, name: str) -> processes.Record:
    return processes.start(
        name, command(settings, name), environment(settings, name), settings.services, _digest(settings, name)
    )


def _stop(settings: Settings, name: str) -> bool:
    """Stop a service and what it started: the first process first, which then ends its own."""
    record = processes.Record.read(settings.services, name)
    leader = record.process() if record else None
    n = processes.stop([leader] if leader else [], 10)
    n += processes.stop(processes.marked(settings.services, name))
    (settings.services / f"{name}.json").unlink(missing_ok=True)
    return n > 0


def _answers(settings: Settings, name: str) -> bool:
    if name == "worker":
        return True  # it has nothing to ask; that it lives was looked at
    if name == "prefect":
        return prefect(settings).healthy()
    good, path = ((200, 503), "healthz") if name == "ratings" else ((200, 401), "health")
    answer = _get(f"{settings.addresses().get(name) or url(settings, name)}/{path}")
    return answer is not None and answer.status_code in good


def _reports(settings: Settings) -> bool:
    """Whether the worker reports to the Prefect server; taken for granted while that does not answer."""
    server = prefect(settings)
    return not server.healthy() or prefect_server.worker_online(server, "")


def _about(settings: Settings) -> str:
    answer = _get(f"{url(settings, 'ratings')}/healthz")
    said: dict[str, str] = answer.json() if answer is not None else {}
    return said.get("model") or said.get("detail") or ""


def _get(address: str) -> httpx.Response | None:
    try:
        return httpx.get(address, timeout=5, trust_env=False)
    except httpx.HTTPError:
        return None


def _wait(settings: Settings, name: str) -> None:
    record = processes.Record.read(settings.services, name)
    if record is None or not processes.wait_until(lambda: _answers(settings, name), PATIENCE, record):
        raise _ended(settings, name)


def _ended(settings: Settings, name: str) -> ServiceError:
    log = processes.log_file(settings.services, name)
    said = next((line for line in reversed(processes.tail(log, 20)) if line.strip()), "nothing")
    how = "does not answer" if _lives(settings, name) else "ended at once"
    return ServiceError(
        f"{name} {how}; its log {log} ends with: {postgres.without_secrets(settings, said.strip())[:300]}"
    )


def _ended_flow_runs(settings: Settings) -> set[str]:
    """Flow runs whose run folder says that they have ended, or whose process has."""
    from predilect.tasks.tracking import flow_run_of

    return {
        run
        for folder in settings.runs.glob("*/journal.jsonl")
        if not (folder.parent / "running.lock").exists() and (run := flow_run_of(folder.parent))
    }
