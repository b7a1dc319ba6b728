"""Where Predilect keeps things, read from the environment once a command."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field
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
    # A tracking server that is away is reported after seconds, not minutes; results are kept and logged later.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


def _default_home() -> Path:
    """The checkout that the package is run from, else `~/.predilect`."""
    checkout = Path(__file__).resolve().parents[1]
    return checkout if (checkout / "pyproject.toml").is_file() else Path.home() / ".predilect"


class Settings(BaseSettings):
    """Settings, each from the environment variable `PREDILECT_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix="PREDILECT_", extra="ignore")

    home: Path = Field(default_factory=_default_home, description="Holds `mlruns/` (tracking) and `state/` (all else).")
    data_dir: Path | None = Field(default=None, description="Folder of the named public data sets.")
    tracking_uri: str | None = Field(default=None, description="MLflow store; default is SQLite under `home/mlruns`.")

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
        return self.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.mlruns / 'mlflow.db'}"


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
