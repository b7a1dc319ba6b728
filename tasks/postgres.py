"""PostgreSQL under both servers: its address for each of them, MLflow's schema, a dump of it and its way back."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.settings import Settings

MLFLOW_SCHEMA = "mlflow"  # Prefect has tables of the same names in the public one


def prefect_database(address: str) -> str:
    """The database as Prefect's server opens it."""
    return f"postgresql+asyncpg://{address.partition('://')[2]}"


def mlflow_database(settings: Settings) -> str:
    """MLflow's database as its server opens it."""
    address = settings.database()
    if address is None:
        return settings.mlflow_database
    more = "&" if "?" in address else "?"
    return f"postgresql+psycopg2://{address.partition('://')[2]}{more}options=-csearch_path%3D{MLFLOW_SCHEMA}"


def make_schema(address: str) -> None:
    """Make MLflow's schema where it is not there yet."""
    _ask(address, f"CREATE SCHEMA IF NOT EXISTS {MLFLOW_SCHEMA}")


def without_secrets(settings: Settings, text: str) -> str:
    """The text without the user and the password of the database."""
    address = settings.database()
    if address is None:
        return text
    return text.replace(urlsplit(address).netloc.rpartition("@")[0] or address, "…")


def dump(address: str, file: Path) -> None:
    """Write the whole database, both schemas, to a file.

    Raises DataError when pg_dump is not on the PATH or refuses.
    """
    _run(["pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={file}"], address)


def load(address: str, file: Path) -> None:
    """Put a dump into an empty database, whole or not at all.

    Raises ParameterError when there are tables in it, DataError when pg_restore is not on the PATH or refuses.
    """
    held = "SELECT count(*) FROM information_schema.tables WHERE table_schema IN ('public', %s)"
    ((tables,),) = _ask(address, held, MLFLOW_SCHEMA)
    if tables:
        raise ParameterError(
            f"The database {_shown(address)} holds {tables} tables; let PREDILECT_POSTGRES name an empty one."
        )
    _run(["pg_restore", "--no-owner", "--no-privileges", "--no-comments", "--single-transaction", str(file)], address)


def _ask(address: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    import psycopg2

    try:
        connection = psycopg2.connect(f"postgresql://{address.partition('://')[2]}")
    except psycopg2.OperationalError as error:
        said = str(error).strip().partition("\n")[0][:300]
        raise DataError(f"The database {_shown(address)} does not answer: {said}") from None
    with closing(connection), connection, connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def _run(words: Sequence[str], address: str) -> None:
    """Run a program of PostgreSQL; the password goes by its environment, which only its owner can read."""
    program = shutil.which(words[0])
    if program is None:
        raise DataError(
            f"{words[0]} is not on the PATH; install PostgreSQL's client programs of the server's version or newer, "
            "such as by `apt-get install postgresql-client`."
        )
    password = unquote(urlsplit(address).password or "")
    env = os.environ | ({"PGPASSWORD": password} if password else {})
    ran = subprocess.run(
        [program, *words[1:], f"--dbname={_shown(address)}"], env=env, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        said = next((line for line in ran.stderr.splitlines() if "error" in line), ran.stderr.strip()[-300:])
        raise DataError(f"{words[0]} refuses {_shown(address)}: {said.partition('error: ')[2] or said}")


def _shown(address: str) -> str:
    """The address without its password, as PostgreSQL's programs take it."""
    parts = urlsplit(address)
    user, at, place = parts.netloc.rpartition("@")
    return urlunsplit(("postgresql", f"{user.partition(':')[0]}{at}{place}", parts.path, parts.query, ""))
