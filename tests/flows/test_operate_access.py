"""Servers that ask who is there, on PostgreSQL: no answer without the password, runs work, no secret is written."""

import base64
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from operated import Operated, free_port

from predilect.models.errors import DataError
from predilect.tasks import service_commands as services
from predilect.tasks.settings import Settings

DATABASE_PASSWORD, PASSWORD = "database-secret-1", "correct-horse-battery"


def test_beyond_loopback_a_password_is_asked_for(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "192.168.1.7", "some.example.org", "::"):
        with pytest.raises(DataError, match="set PREDILECT_AUTH"):
            services.check_access(Settings(home=tmp_path, host=host))
    for host in ("127.0.0.1", "localhost", "::1"):
        services.check_access(Settings(home=tmp_path, host=host))


def test_a_secret_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"team:{PASSWORD}\n")
    file.chmod(0o644)
    with pytest.raises(DataError, match="chmod 600"):
        Settings(home=tmp_path, auth_file=file).credentials()
    file.chmod(0o600)
    assert Settings(home=tmp_path, auth_file=file).credentials() == f"team:{PASSWORD}"
    file.write_text("team:short")
    with pytest.raises(DataError, match="12 characters"):
        Settings(home=tmp_path, auth_file=file).credentials()
    with pytest.raises(DataError, match="cannot be read"):
        Settings(home=tmp_path, auth_file=tmp_path / "absent").credentials()


def test_bound_elsewhere_hosts_and_origins_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDILECT_AUTH", f"team:{PASSWORD}")
    settings = Settings(home=tmp_path, host="0.0.0.0", public_host="models.example.org")
    settings.services.mkdir(parents=True)
    mlflow, prefect = services.environment(settings, "mlflow"), services.environment(settings, "prefect")
    assert "models.example.org:5000" in mlflow["MLFLOW_SERVER_ALLOWED_HOSTS"]
    assert "*" not in mlflow["MLFLOW_SERVER_ALLOWED_HOSTS"] + mlflow["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"]
    assert "http://models.example.org:4200" in prefect["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"]
    assert prefect["PREFECT_SERVER_UI_API_URL"] == "http://models.example.org:4200/api"
    assert not any(PASSWORD in word for name in services.NAMES for word in services.command(settings, name))
    assert PASSWORD not in repr(settings)
    (config,) = settings.services.glob("*.ini")
    assert config.stat().st_mode & 0o077 == 0


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server of its own, from Debian's packages; it refuses to run as root."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *map(Path, filter(None, [shutil.which("initdb")]))]
    if not found:
        pytest.skip("PostgreSQL: not installed; install it, such as by `apt-get install postgresql`")
    programs = found[-1] if found[-1].is_dir() else found[-1].parent
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="predilect-postgres-"))
    (folder / "password").write_text(DATABASE_PASSWORD)
    if user:
        for path in (folder, folder / "password"):
            shutil.chown(path, user)
    port = free_port()
    data = ["-D", str(folder / "data")]
    secret = ["-A", "scram-sha-256", "--pwfile", str(folder / "password"), "-U", "team", "--no-sync"]
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    log = ["-l", str(folder / "log"), "-o", options, "-w"]
    try:
        for words in (["initdb", *data, *secret], ["pg_ctl", *data, *log, "start"]):
            subprocess.run(
                [programs / words[0], *words[1:]], user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL
            )
        yield f"postgresql://team:{DATABASE_PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        stop = [programs / "pg_ctl", *data, "-m", "immediate", "stop"]
        subprocess.run(stop, user=user, cwd=folder, check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)


def _status(url: str, credentials: str | None) -> int:
    head = {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"} if credentials else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=head), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


@pytest.mark.e2e
def test_servers_on_postgres_ask_who_is_there(postgres: str, ratings_csv: Path, tmp_path: Path) -> None:
    team = f"team:{PASSWORD}"
    servers = Operated(tmp_path / "home", PREDILECT_AUTH=team, PREDILECT_POSTGRES=postgres)
    try:
        servers.predilect("up")
        experiment = f"{servers.mlflow}/api/2.0/mlflow/experiments/get?experiment_id=0"
        for page in (f"{servers.prefect}/api/admin/version", experiment):
            assert _status(page, None) == 401
            assert _status(page, "team:wrong-password") == 401
            assert _status(page, team) == 200
        servers.credentials = team
        run = servers.trigger("train-ratings", {"data": str(ratings_csv), "name": "safe", "resamples": 100})
        assert servers.ended(run) == "COMPLETED"
        assert not (servers.home / "mlruns" / "mlflow.db").exists()
        assert not (servers.home / "state" / "prefect" / "prefect.db").exists()
        assert '"safe"' in servers.predilect("runs", "--json").stdout
        for path in (path for path in servers.home.rglob("*") if path.is_file()):
            content = path.read_bytes()
            assert PASSWORD.encode() not in content, path
            assert DATABASE_PASSWORD.encode() not in content, path
    finally:
        servers.predilect("down")
    assert servers.processes() == []
