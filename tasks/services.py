"""`predilect up`: Prefect server, MLflow server and worker, started, repaired, looked at and stopped together."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx

from predilect.models.errors import DataError, PredilectError
from predilect.tasks import prefect_server, processes
from predilect.tasks.prefect_server import PrefectServer
from predilect.tasks.runs import write_json
from predilect.tasks.settings import ADDRESSES, QUIET, Settings

NAMES = ("prefect", "mlflow", "worker")  # in the order of starting
MLFLOW_SCHEMA = "mlflow"  # on PostgreSQL; Prefect has tables of the same names in the public one
PATIENCE = 240.0  # seconds that a server may take to answer on a busy machine
SECRETS = ("PREDILECT_POSTGRES", "PREDILECT_AUTH", "PREDILECT_AUTH_FILE")
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


def up(settings: Settings, say: Say = lambda _: None) -> list[Status]:
    """Start what is not running, put right what an earlier start left half done, and say what is where.

    Raises ServiceError or DataError, one sentence, when a port is taken, an access rule is broken, or a service ends.
    What this call started is stopped again then.
    """
    check_access(settings)
    settings.services.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(settings):
        processes.rotate_logs(settings.services)
        mended = _stop_unwanted(settings)
        for name in mended:
            say(f"stopped what was left of an earlier {name}")
        started: list[str] = []
        try:
            missing = [name for name in NAMES if not _lives(settings, name)]
            for name in set(missing) & {"prefect", "mlflow"}:
                _need_port(name, _ports(settings)[name])
            if missing:
                say("preparing the databases")
                _migrate(settings, missing)
            for name in ("prefect", "mlflow"):
                if name in missing:
                    say(f"starting {name}")
                    started.append(name)
                    _start(settings, name)
            _wait(settings, "prefect")
            say("registering work pool, deployments, limits, automation")
            server = prefect(settings)
            prefect_server.register(server, settings.flow_runs, environment(settings, "worker"), settings.services)
            _wait(settings, "mlflow")
            write_json(settings.services / ADDRESSES, {name: url(settings, name) for name in ("prefect", "mlflow")})
            for run in repair(settings):
                say(f"run {run} had lost its process; it is closed now")
            if "worker" in missing:
                say("starting worker")
                started.append("worker")
                since = datetime.now(UTC).isoformat()
                worker = _start(settings, "worker")
                if not processes.wait_until(lambda: prefect_server.worker_online(server, since), PATIENCE, worker):
                    raise _ended(settings, "worker")
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
        stopped += [name for name in ("mlflow", "prefect") if _stop(settings, name)]
        processes.stop(processes.marked(settings.services))  # whatever else bears our mark
        if settings.postgres is None:
            (settings.services / ADDRESSES).unlink(missing_ok=True)
        return stopped


def status(settings: Settings) -> list[Status]:
    """How each service is."""
    found = []
    for name in NAMES:
        record = processes.Record.read(settings.services, name)
        lives = record is not None and record.process() is not None
        state = "down" if not lives else "up" if _answers(settings, name) else "starting"
        address = settings.addresses().get(name) or (url(settings, name) if name != "worker" else None)
        log = str(processes.log_file(settings.services, name))
        found.append(Status(name, state, record.pid if record and lives else None, address, log))
    return found


def repair(settings: Settings) -> list[str]:
    """Close every run, in MLflow and Prefect, whose process is gone, and log what waits; names of those closed."""
    from predilect.tasks import tracking

    closed = tracking.reconcile(settings)
    for folder in tracking.waiting(settings):
        tracking.Tracker(folder, settings).flush()
    server = prefect(settings)
    if server.healthy():
        alive = processes.flow_runs(settings.services)
        closed += prefect_server.crash_orphans(server, alive, _ended_flow_runs(settings))
    return closed


def prefect(settings: Settings) -> PrefectServer:
    """The Prefect server of these settings."""
    return PrefectServer(settings.addresses().get("prefect") or url(settings, "prefect"), settings.credentials())


def check_access(settings: Settings) -> None:
    """Raise DataError when the servers would be open to other machines without asking who is there."""
    if settings.credentials() is None and not settings.loopback:
        raise DataError(
            f"PREDILECT_HOST = {settings.host} lets other machines in, so the servers must ask who is there: set "
            "PREDILECT_AUTH=USER:PASSWORD, or PREDILECT_AUTH_FILE to a file of mode 0600 that holds it."
        )


def url(settings: Settings, name: str, public: bool = False) -> str:
    """Where a server answers: to this machine, or to browsers on others."""
    host = settings.host if settings.host not in ("0.0.0.0", "::", "localhost") else "127.0.0.1"
    if public and settings.public_host:
        host = settings.public_host
    return f"http://{f'[{host}]' if ':' in host else host}:{_ports(settings)[name]}"


def command(settings: Settings, name: str) -> list[str]:
    """The command line of a service; secrets are in its environment, never here."""
    python = [sys.executable, "-m"]
    host, port = settings.host, str(_ports(settings).get(name, ""))
    if name == "prefect":
        return [*python, "prefect", "server", "start", "--host", host, "--port", port]
    if name == "mlflow":
        app = ["--app-name", "basic-auth"] if settings.credentials() else []
        return [*python, "mlflow", "server", "--host", host, "--port", port, "--workers", "1", *app]
    pool = ["--pool", prefect_server.POOL, "--type", "process", "--name", prefect_server.worker_name()]
    return [
        *python,
        "prefect",
        "worker",
        "start",
        *pool,
        "--limit",
        str(settings.flow_runs),
        "--install-policy",
        "never",
    ]


def environment(settings: Settings, name: str) -> dict[str, str]:
    """The environment of a service: the caller's, without what would lead it elsewhere or what it need not know."""
    theirs = ("PREFECT_", "PREFECT__", "MLFLOW_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(theirs) and key not in SECRETS}
    env |= QUIET | {"PREDILECT_HOME": str(settings.home), "PREFECT_HOME": str(settings.state / "prefect")}
    env |= {"PREFECT_SERVER_EPHEMERAL_ENABLED": "false", "PYTHONUNBUFFERED": "1"}
    if settings.data_dir:
        env["PREDILECT_DATA_DIR"] = str(settings.data_dir.expanduser().resolve())
    return env | _ENVIRONMENTS[name](settings)


def _prefect_env(settings: Settings) -> dict[str, str]:
    page = url(settings, "prefect", public=True)
    env = {
        "PREFECT_API_URL": f"{url(settings, 'prefect')}/api",
        "PREFECT_SERVER_UI_API_URL": f"{page}/api",
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(sorted({page, url(settings, "prefect")})),
        "PREFECT_API_DATABASE_MIGRATE_ON_START": "false",  # done before, by one process
    }
    if settings.postgres:
        address = settings.postgres.get_secret_value().partition("://")[2]
        env["PREFECT_API_DATABASE_CONNECTION_URL"] = f"postgresql+asyncpg://{address}"
    if credentials := settings.credentials():
        env |= {"PREFECT_SERVER_API_AUTH_STRING": credentials, "PREFECT_API_AUTH_STRING": credentials}
    return env


def _mlflow_env(settings: Settings) -> dict[str, str]:
    env = {
        "MLFLOW_BACKEND_STORE_URI": mlflow_database(settings),
        "MLFLOW_ARTIFACTS_DESTINATION": (settings.mlruns / "artifacts").as_uri(),
        "MLFLOW_SERVE_ARTIFACTS": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # saves seven processes and two gigabytes
    }
    if settings.public_host or not settings.loopback:
        names = {"localhost", "127.0.0.1", settings.public_host or settings.host}
        port = settings.mlflow_port
        env["MLFLOW_SERVER_ALLOWED_HOSTS"] = ",".join(sorted(f"{name}:{port}" for name in names))
        env["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"] = ",".join(sorted(f"http://{name}:{port}" for name in names))
    if credentials := settings.credentials():
        env["MLFLOW_AUTH_CONFIG_PATH"] = str(_mlflow_sign_in(settings, credentials))
        env["MLFLOW_AUTH_ADMIN_PASSWORD"] = credentials.partition(":")[2]
        env["MLFLOW_FLASK_SERVER_SECRET_KEY"] = hashlib.sha256(f"pages {credentials}".encode()).hexdigest()
    return env


def _worker_env(settings: Settings) -> dict[str, str]:
    env = {
        "PREFECT_API_URL": f"{url(settings, 'prefect')}/api",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(prefect_server.HEARTBEAT),
        "PREFECT_WORKER_QUERY_SECONDS": "5",
        "PREFECT_CLIENT_MAX_RETRIES": "8",  # with growing pauses: a server may be away for more than a minute
        "MLFLOW_TRACKING_URI": url(settings, "mlflow"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    if credentials := settings.credentials():
        user, _, password = credentials.partition(":")
        env |= {
            "PREFECT_API_AUTH_STRING": credentials,
            "MLFLOW_TRACKING_USERNAME": user,
            "MLFLOW_TRACKING_PASSWORD": password,
        }
    return env


_ENVIRONMENTS = {"prefect": _prefect_env, "mlflow": _mlflow_env, "worker": _worker_env}


def mlflow_database(settings: Settings) -> str:
    """MLflow's database as its server opens it."""
    if settings.postgres is None:
        return settings.mlflow_database
    address = settings.postgres.get_secret_value().partition("://")[2]
    more = "&" if "?" in address else "?"
    return f"postgresql+psycopg2://{address}{more}options=-csearch_path%3D{MLFLOW_SCHEMA}"


def _mlflow_sign_in(settings: Settings, credentials: str) -> Path:
    """The file that tells MLflow who may sign in; other credentials make another list of users."""
    user = credentials.partition(":")[0]
    users = settings.mlruns / f"users-{hashlib.sha256(credentials.encode()).hexdigest()[:12]}.db"
    path = settings.services / "mlflow_sign_in.ini"
    text = (
        "[mlflow]\ndefault_permission = READ\n"
        f"database_uri = sqlite:///{users}\nadmin_username = {user}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.rename(path)
    return path


def _ports(settings: Settings) -> dict[str, int]:
    return {"prefect": settings.prefect_port, "mlflow": settings.mlflow_port}


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
    ours = _ENVIRONMENTS[name](settings)
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


def _need_port(name: str, port: int) -> None:
    with socket.socket() as probe:
        probe.settimeout(1)
        taken = probe.connect_ex(("127.0.0.1", port)) == 0
    who = processes.holder(port)
    if taken or who:
        raise ServiceError(
            f"Port {port} for {name} is held by {who or 'a process of another user'}; stop it, or choose another port "
            f"with `--{name}-port` or PREDILECT_{name.upper()}_PORT."
        )


def _migrate(settings: Settings, missing: list[str]) -> None:
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
                f"Prefect's database cannot be prepared: {_without_secrets(settings, _last(ran.stderr))}"
            )

    def of_mlflow() -> None:
        try:
            if settings.postgres is not None:
                _make_schema(settings.postgres.get_secret_value())
            tracking.migrate(settings, mlflow_database(settings))
        except Exception as error:
            said = _without_secrets(settings, str(error).strip().partition("\n")[0][:300])
            raise ServiceError(f"MLflow's database cannot be prepared: {said}") from None

    jobs = [job for name, job in (("prefect", of_prefect), ("mlflow", of_mlflow)) if name in missing]
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()


def _make_schema(address: str) -> None:
    import psycopg2

    connection = psycopg2.connect(f"postgresql://{address.partition('://')[2]}")
    with contextlib.closing(connection), connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {MLFLOW_SCHEMA}")


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1][:300]


def _without_secrets(settings: Settings, text: str) -> str:
    if settings.postgres is None:
        return text
    secret = settings.postgres.get_secret_value()
    return text.replace(secret.partition("://")[2].rpartition("@")[0] or secret, "…")


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
    address = settings.addresses().get(name) or url(settings, name)
    try:
        return httpx.get(f"{address}/health", timeout=5, trust_env=False).status_code in (200, 401)
    except httpx.HTTPError:
        return False


def _wait(settings: Settings, name: str) -> None:
    record = processes.Record.read(settings.services, name)
    if record is None or not processes.wait_until(lambda: _answers(settings, name), PATIENCE, record):
        raise _ended(settings, name)


def _ended(settings: Settings, name: str) -> ServiceError:
    log = processes.log_file(settings.services, name)
    said = next((line for line in reversed(processes.tail(log, 20)) if line.strip()), "nothing")
    how = "does not answer" if _lives(settings, name) else "ended at once"
    return ServiceError(f"{name} {how}; its log {log} ends with: {_without_secrets(settings, said.strip())[:300]}")


def _ended_flow_runs(settings: Settings) -> set[str]:
    """Flow runs whose run folder says that they have ended, or whose process has."""
    from predilect.tasks.tracking import flow_run_of

    return {
        run
        for folder in settings.runs.glob("*/journal.jsonl")
        if not (folder.parent / "running.lock").exists() and (run := flow_run_of(folder.parent))
    }
