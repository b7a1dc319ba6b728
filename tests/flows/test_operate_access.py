"""Servers that ask who is there, on PostgreSQL: no answer without the password, runs work, no secret is written."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg2
import pytest
from composed import Composed
from operated import Operated, free_port

from predilect.flows import cli_operate
from predilect.models.errors import DataError, ParameterError
from predilect.tasks import service_commands as services
from predilect.tasks import services as start
from predilect.tasks.backup import backup
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


def test_servers_elsewhere_are_asked_there_and_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDILECT_AUTH", f"team:{PASSWORD}")
    here = {"prefect_url": "http://prefect:4200/", "mlflow_url": "http://mlflow:5000"}
    settings = Settings(home=tmp_path, host="0.0.0.0", public_host="models.example.org", **here)
    with pytest.raises(DataError, match="run elsewhere; unset them"):
        start.up(settings)
    assert list(tmp_path.iterdir()) == []
    assert settings.addresses() == {"prefect": "http://prefect:4200", "mlflow": "http://mlflow:5000"}
    settings.services.mkdir(parents=True)
    worker, mlflow, prefect = (services.environment(settings, name) for name in ("worker", "mlflow", "prefect"))
    assert worker["PREFECT_API_URL"] == "http://prefect:4200/api"
    assert worker["MLFLOW_TRACKING_URI"] == services.environment(settings, "ratings")["MLFLOW_TRACKING_URI"]
    assert {"mlflow:5000", "models.example.org:5000"} <= set(mlflow["MLFLOW_SERVER_ALLOWED_HOSTS"].split(","))
    assert prefect["PREFECT_SERVER_UI_API_URL"] == "http://models.example.org:4200/api"


def test_the_password_of_the_database_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_text("p@ss/word:1\n")
    address, whole = (
        "postgresql://team@db:5433/name?sslmode=require",
        "postgresql://team:{}@db:5433/name?sslmode=require",
    )
    assert Settings(home=tmp_path).database() is None
    for given in ({"postgres_password_file": file}, {"postgres_password": "p@ss/word:1"}):
        assert Settings(home=tmp_path, postgres=address, **given).database() == whole.format("p%40ss%2Fword%3A1")
    assert Settings(home=tmp_path, postgres=whole.format("own"), postgres_password="x").database() == whole.format(
        "own"
    )
    file.chmod(0o640)
    with pytest.raises(DataError, match="chmod 600"):
        Settings(home=tmp_path, postgres=address, postgres_password_file=file).database()


def test_a_password_on_the_command_line_is_refused() -> None:
    with pytest.raises(ParameterError, match="PREDILECT_POSTGRES_PASSWORD_FILE") as refused:
        cli_operate.up(postgres="postgresql://team:hush-hush@db/name")
    assert "hush" not in str(refused.value)


def test_without_the_programs_of_postgres_a_backup_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="pg_dump is not on the PATH; install"):
        backup(Settings(home=tmp_path, postgres="postgresql://team@127.0.0.1/x"), tmp_path / "saved.tar.gz")
    assert not list(tmp_path.rglob("*.gz"))


@contextmanager
def _command_lines(secrets: Sequence[str]) -> Iterator[list[str]]:
    """The command lines of this machine that hold a secret, looked at again and again inside the block."""
    found: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    words = path.read_bytes().decode(errors="replace")
                    found.extend(words for secret in secrets if secret in words)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


@pytest.mark.e2e
@pytest.mark.timeout(1200)  # other work may have the cores
def test_services_of_the_compose_file_on_postgres(postgres: str, ratings_csv: Path, tmp_path: Path) -> None:
    """As processes: they ask who is there, runs work, no secret is written; a backup goes to another database."""
    team = f"team:{PASSWORD}"
    address = postgres.replace(f":{DATABASE_PASSWORD}@", "@")
    composed = Composed(tmp_path, address, {"auth": team, "postgres_password": DATABASE_PASSWORD})
    servers = composed.operated
    servers.credentials = team
    with _command_lines([PASSWORD, DATABASE_PASSWORD]) as seen:
        try:
            composed.up()
            experiment = f"{servers.mlflow}/api/2.0/mlflow/experiments/get?experiment_id=0"
            for page in (f"{servers.prefect}/api/admin/version", experiment, f"{servers.ratings}/metrics"):
                assert _status(page, None) == 401
                assert _status(page, "team:wrong-password") == 401
                assert _status(page, team) == 200
            run = servers.trigger("train-ratings", {"data": str(ratings_csv), "name": "safe", "resamples": 100})
            assert servers.ended(run) == "COMPLETED"
            saved = composed.run("tools", "backup", str(tmp_path / "saved.tar.gz"))
            assert saved.returncode == 0, saved.stderr
        finally:
            composed.down()
        assert not list(tmp_path.rglob("mlflow.db"))
        assert not list(tmp_path.rglob("prefect.db"))
        for path in (path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "secrets"):
            content = path.read_bytes()
            assert PASSWORD.encode() not in content, path
            assert DATABASE_PASSWORD.encode() not in content, path
        _restored_elsewhere(postgres, tmp_path, run)
    assert seen == []


def _restored_elsewhere(postgres: str, folder: Path, run: str) -> None:
    """The backup in a database and a home of its own: what both servers have to tell of the run is there."""
    with closing(psycopg2.connect(postgres)) as connection:
        connection.autocommit = True
        connection.cursor().execute("CREATE DATABASE elsewhere")
    address = f"{postgres.replace(f':{DATABASE_PASSWORD}@', '@').rpartition('/')[0]}/elsewhere"
    saved = str(folder / "saved.tar.gz")
    other = Operated(folder / "other", PREDILECT_POSTGRES_PASSWORD=DATABASE_PASSWORD)
    assert "holds a database of PostgreSQL" in other.predilect("restore", saved, ok=False).stderr
    other.env["PREDILECT_POSTGRES"] = address
    other.predilect("restore", saved)
    third = Operated(folder / "third", PREDILECT_POSTGRES_PASSWORD=DATABASE_PASSWORD, PREDILECT_POSTGRES=address)
    assert "let PREDILECT_POSTGRES name an empty one" in third.predilect("restore", saved, ok=False).stderr
    (found,) = json.loads(other.predilect("runs", "--json").stdout)
    with closing(psycopg2.connect(Settings(postgres=address, postgres_password=DATABASE_PASSWORD).database())) as held:
        cursor = held.cursor()
        cursor.execute("SELECT state_type::text FROM public.flow_run WHERE id = %s", (run,))
        assert cursor.fetchall() == [("COMPLETED",)]
        cursor.execute("SELECT name, artifact_uri FROM mlflow.runs WHERE run_uuid = %s", (found["run_id"],))
        ((name, place),) = cursor.fetchall()
    assert name == "safe"
    assert place.startswith("mlflow-artifacts:/")
    artifacts = other.home / "mlruns" / "artifacts" / place.removeprefix("mlflow-artifacts:/")
    assert (artifacts / "report.html").is_file()
    if os.environ.get("PREDILECT_SLOW"):
        _up_again(other, address, run, found["run_id"])
    wrong = Operated(folder / "wrong", PREDILECT_POSTGRES_PASSWORD=PASSWORD)
    refused = wrong.predilect("up", "--postgres", address, ok=False)
    assert refused.returncode == 2
    assert "cannot be prepared" in refused.stderr
    assert PASSWORD not in refused.stderr


def _up_again(other: Operated, address: str, run: str, run_id: str) -> None:
    from mlflow import MlflowClient

    del other.env["PREDILECT_POSTGRES"]
    try:
        other.predilect("up", "--postgres", address)
        assert other.state(run) == "COMPLETED"
        client = MlflowClient(other.mlflow)
        assert client.get_run(run_id).info.run_name == "safe"
        assert client.download_artifacts(run_id, "report.html", str(other.home))
    finally:
        other.predilect("down")
    assert other.processes() == []
