"""What each service is started with: its command line, its environment, its address, and who may ask it."""

import hashlib
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from predilect.models.errors import DataError
from predilect.tasks import prefect_server
from predilect.tasks.postgres import mlflow_database, prefect_database
from predilect.tasks.settings import QUIET, Settings

NAMES = ("prefect", "mlflow", "worker", "ratings")  # in the order of starting
SERVERS = ("prefect", "mlflow")
SECRETS = (
    "PREDILECT_POSTGRES",
    "PREDILECT_POSTGRES_PASSWORD",
    "PREDILECT_POSTGRES_PASSWORD_FILE",
    "PREDILECT_AUTH",
    "PREDILECT_AUTH_FILE",
)


def check_access(settings: Settings) -> None:
    """Raise DataError when the servers would be open to other machines without asking who is there."""
    if settings.credentials() is None and not settings.loopback:
        raise DataError(
            f"PREDILECT_HOST = {settings.host} lets other machines in, so the servers must ask who is there: set "
            "PREDILECT_AUTH=USER:PASSWORD, or PREDILECT_AUTH_FILE to a file of mode 0600 that holds it."
        )


def port(settings: Settings, name: str) -> int | None:
    """Where a service listens; None for the worker, which does not."""
    ports = {"prefect": settings.prefect_port, "mlflow": settings.mlflow_port, "ratings": settings.ratings_port}
    return ports.get(name)


def url(settings: Settings, name: str, public: bool = False) -> str:
    """Where a service answers: to this machine, or to browsers on others."""
    elsewhere = {"prefect": settings.prefect_url, "mlflow": settings.mlflow_url}.get(name)
    host = settings.host if settings.host not in ("0.0.0.0", "::", "localhost") else "127.0.0.1"
    if public and settings.public_host:
        host = settings.public_host
    elif elsewhere:
        return elsewhere.rstrip("/")
    return f"http://{f'[{host}]' if ':' in host else host}:{port(settings, name)}"


def command(settings: Settings, name: str) -> list[str]:
    """The command line of a service; secrets are in its environment, never here."""
    python = [sys.executable, "-m"]
    host, listens = settings.host, str(port(settings, name))
    if name == "prefect":
        return [*python, "prefect", "server", "start", "--host", host, "--port", listens]
    if name == "mlflow":
        app = ["--app-name", "basic-auth"] if settings.credentials() else []
        return [*python, "mlflow", "server", "--host", host, "--port", listens, "--workers", "1", *app]
    if name == "ratings":
        return [*python, "predilect.flows.cli", "serve", "ratings", "--port", listens]
    pool = ["--pool", prefect_server.POOL, "--type", "process", "--name", prefect_server.worker_name()]
    limit = ["--limit", str(settings.flow_runs), "--install-policy", "never"]
    return [*python, "prefect", "worker", "start", *pool, *limit]


def environment(settings: Settings, name: str) -> dict[str, str]:
    """The environment of a service: the caller's, without what would lead it elsewhere or what it need not know."""
    theirs = ("PREFECT_", "PREFECT__", "MLFLOW_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(theirs) and key not in SECRETS}
    env |= QUIET | {"PREDILECT_HOME": str(settings.home), "PREFECT_HOME": str(settings.state / "prefect")}
    env |= {"PREFECT_SERVER_EPHEMERAL_ENABLED": "false", "PYTHONUNBUFFERED": "1"}
    if settings.data_dir:
        env["PREDILECT_DATA_DIR"] = str(settings.data_dir.expanduser().resolve())
    return env | own_environment(settings, name)


def own_environment(settings: Settings, name: str) -> dict[str, str]:
    """The part of its environment that the settings decide."""
    return _ENVIRONMENTS[name](settings)


def _prefect_env(settings: Settings) -> dict[str, str]:
    page = url(settings, "prefect", public=True)
    env = {
        "PREFECT_API_URL": f"{url(settings, 'prefect')}/api",
        "PREFECT_SERVER_UI_API_URL": f"{page}/api",
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(sorted({page, url(settings, "prefect")})),
        "PREFECT_API_DATABASE_MIGRATE_ON_START": "false",  # done before, by one process
    }
    if address := settings.database():
        env["PREFECT_API_DATABASE_CONNECTION_URL"] = prefect_database(address)
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
        places = {f"{name}:{settings.mlflow_port}" for name in names} | {urlsplit(url(settings, "mlflow")).netloc}
        env["MLFLOW_SERVER_ALLOWED_HOSTS"] = ",".join(sorted(places))
        env["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"] = ",".join(sorted(f"http://{place}" for place in places))
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
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    if credentials := settings.credentials():
        env["PREFECT_API_AUTH_STRING"] = credentials
    return env | _mlflow_client_env(settings)


def _ratings_env(settings: Settings) -> dict[str, str]:
    env = {"PREDILECT_HOST": settings.host}
    if credentials := settings.credentials():
        env["PREDILECT_AUTH"] = credentials
    return env | _mlflow_client_env(settings)


def _mlflow_client_env(settings: Settings) -> dict[str, str]:
    env = {"MLFLOW_TRACKING_URI": url(settings, "mlflow")}
    if credentials := settings.credentials():
        user, _, password = credentials.partition(":")
        env |= {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": password}
    return env


_ENVIRONMENTS: dict[str, Callable[[Settings], dict[str, str]]] = {
    "prefect": _prefect_env,
    "mlflow": _mlflow_env,
    "worker": _worker_env,
    "ratings": _ratings_env,
}


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
