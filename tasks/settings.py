"""Where Predilect keeps things, read from the environment once a command."""

import json
import os
import socket
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from predilect.models.errors import DataError

# No telemetry, and no progress bars of libraries between our own output. A user's own setting wins.
QUIET = {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GX_ANALYTICS_ENABLED": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # A fresh database on a busy machine takes a while.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    # What fails is tried again by `patience.py`, which knows what may be done twice; results are kept meanwhile.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


def _default_home() -> Path:
    """The checkout that the package is run from, else `~/.predilect`."""
    checkout = Path(__file__).resolve().parents[1]
    return checkout if (checkout / "pyproject.toml").is_file() else Path.home() / ".predilect"


ADDRESSES = "addresses.json"


class Settings(BaseSettings):
    """Settings, each from the environment variable `PREDILECT_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix="PREDILECT_", extra="ignore")

    home: Path = Field(default_factory=_default_home, description="Holds `mlruns/` (tracking) and `state/` (all else).")
    data_dir: Path | None = Field(default=None, description="Folder of the named public data sets.")
    tracking_uri: str | None = Field(
        default=None, description="MLflow store; default: the server that `predilect up` runs, else SQLite in `mlruns`."
    )
    host: str = Field(default="127.0.0.1", description="Address that the servers bind; beyond loopback needs `auth`.")
    public_host: str | None = Field(default=None, description="Name that browsers use for this machine; default: host.")
    prefect_port: int = Field(default=4200, ge=1, le=65535, description="Port of the Prefect server.")
    mlflow_port: int = Field(default=5000, ge=1, le=65535, description="Port of the MLflow server.")
    ratings_port: int = Field(default=8000, ge=1, le=65535, description="Port of the service on the ratings champion.")
    prefect_url: str | None = Field(
        default=None, description="Where the Prefect server answers if another machine or container runs it."
    )
    mlflow_url: str | None = Field(default=None, description="The same of the MLflow server.")
    flow_runs: int = Field(default=2, ge=1, description="Flow runs that the worker starts at the same time.")
    postgres: SecretStr | None = Field(
        default=None, description="postgresql://USER:PASSWORD@HOST/NAME for both servers; default: SQLite under `home`."
    )
    postgres_password: SecretStr | None = Field(default=None, description="Its password, where the address has none.")
    postgres_password_file: Path | None = Field(default=None, description="File (mode 0600) that holds it.")
    auth: SecretStr | None = Field(default=None, description="USER:PASSWORD that the servers and the service ask for.")
    auth_file: Path | None = Field(default=None, description="File (mode 0600) that holds `auth`.")

    def model_post_init(self, _: Any) -> None:
        self.home = self.home.expanduser().resolve()

    @cached_property
    def state(self) -> Path:
        """Runs, data, Prefect's own state: everything but MLflow's."""
        return self.home / "state"

    @cached_property
    def runs(self) -> Path:
        """One folder a run."""
        return self.state / "runs"

    @cached_property
    def data(self) -> Path:
        """Canonical tables, one folder a source and its options."""
        return self.state / "data"

    @cached_property
    def mlruns(self) -> Path:
        """MLflow's database and artifacts."""
        return self.home / "mlruns"

    @cached_property
    def mlflow_uri(self) -> str:
        """The MLflow store in use."""
        own = self.addresses().get("mlflow") or self.mlflow_database
        return self.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or own

    @cached_property
    def mlflow_database(self) -> str:
        """MLflow's SQLite database, which runs use directly while no server runs."""
        return f"sqlite:///{self.mlruns / 'mlflow.db'}"

    @cached_property
    def services(self) -> Path:
        """What `predilect up` keeps: a record a process, their logs, the servers' addresses."""
        return self.state / "services"

    @cached_property
    def loopback(self) -> bool:
        """Whether the servers bind an address that only this machine reaches."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def addresses(self) -> dict[str, str]:
        """Where the servers answer, by `prefect` and `mlflow`: as set, else as `predilect up` started them."""
        elsewhere = {"prefect": self.prefect_url, "mlflow": self.mlflow_url}
        try:
            found: dict[str, str] = json.loads((self.services / ADDRESSES).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = {}
        return found | {name: url.rstrip("/") for name, url in elsewhere.items() if url}

    def database(self) -> str | None:
        """The address of the PostgreSQL database, its password in it; None when the databases are SQLite's.

        Raises DataError when the password's file cannot be read or others can read it.
        """
        if self.postgres is None:
            return None
        parts = urlsplit(self.postgres.get_secret_value())
        password = self.postgres_password.get_secret_value() if self.postgres_password else None
        if password is None and self.postgres_password_file is not None:
            password = _secret("PREDILECT_POSTGRES_PASSWORD_FILE", self.postgres_password_file)
        if password is None or parts.password is not None:
            return parts.geturl()
        user, _, place = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{place}").geturl()

    def credentials(self) -> str | None:
        """USER:PASSWORD from the environment or from a file that others cannot read.

        Raises DataError when the file cannot be read or others can read it, or when it is not USER:PASSWORD.
        """
        if self.auth is None and self.auth_file is None:
            return None
        said = self.auth.get_secret_value() if self.auth else _secret("PREDILECT_AUTH_FILE", Path(self.auth_file or ""))
        user, colon, password = said.partition(":")
        if not (user and colon and len(password) >= 12):
            where = "PREDILECT_AUTH" if self.auth else f"PREDILECT_AUTH_FILE = {self.auth_file}"
            raise DataError(f"{where} is not USER:PASSWORD with a password of 12 characters or more; make one up.")
        return said


def _secret(setting: str, path: Path) -> str:
    try:
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            raise DataError(
                f"{path} holds a secret, but its mode {mode:04o} lets others read it; run: chmod 600 {path}"
            )
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise DataError(f"{setting} = {path} cannot be read ({error.strerror}); correct the path.") from error


def prepare_environment(settings: Settings) -> None:
    """Set what the libraries read from the environment; call before they are imported.

    Raises DataError when the state folder cannot be made.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("PREFECT_HOME", str(settings.state / "prefect"))
    prefect_home = Path(os.environ["PREFECT_HOME"])
    try:
        prefect_home.mkdir(parents=True, exist_ok=True)  # Prefect does not make it
    except OSError as error:
        raise DataError(
            f"{prefect_home} cannot be made ({error.strerror}); set PREDILECT_HOME to a folder that can be written."
        ) from error
    os.environ.setdefault("MPLCONFIGDIR", str(settings.state / "matplotlib"))
    use_servers(settings)


def use_servers(settings: Settings) -> None:
    """Let this process's flows and results go to the servers that `predilect up` runs, where they answer."""
    secret = settings.credentials()
    if secret:
        user, _, password = secret.partition(":")
        os.environ.setdefault("PREFECT_API_AUTH_STRING", secret)
        os.environ.setdefault("MLFLOW_TRACKING_USERNAME", user)
        os.environ.setdefault("MLFLOW_TRACKING_PASSWORD", password)
    address = settings.addresses().get("prefect")
    if address and "PREFECT_API_URL" not in os.environ and _answers(address):
        os.environ["PREFECT_API_URL"] = f"{address}/api"
        os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30")
        os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", "6")  # two minutes, with growing pauses


def _answers(address: str) -> bool:
    parts = urlsplit(address)
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((parts.hostname or "", parts.port or 80)) == 0
