"""Prefect's temporary server, for a run of the command line where there is no other.

Prefect would start one too, but only when the run asks for it, and after it has loaded all of the server into the
run's own process. Here the server loads while the run does.
"""

import atexit
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from predilect.models.errors import PredilectError
from predilect.tasks.interrupts import uninterrupted

NOT_STARTED, TRIES = 3, 5
"""Exit code of a server that found its port or its database in use, and how often it is started."""
ADVICE = (
    "free memory or disk space, or start a server with `prefect server start` and set PREFECT_API_URL to its address."
)
ENVIRONMENT = {
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
    "PREFECT_UI_ENABLED": "0",
    # Without work twice a second; automations are those of a server that stays.
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
}


def start() -> Callable[[], None]:
    """Begin to start a server that ends with this process, unless there is one; returns what waits until it answers.

    Waiting raises PredilectError when it does not start.
    """
    from prefect.context import refresh_global_settings_context
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS

    if PREFECT_API_URL.value():
        return lambda: None
    process, port = _start()
    tries = 1
    end = time.monotonic() + PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.value()

    def wait() -> None:
        nonlocal process, port, tries
        while not _answers(port):
            if process.poll() == NOT_STARTED and tries < TRIES:
                process, port = _start()
                tries += 1
            elif process.poll() is not None:
                raise PredilectError(f"Prefect's temporary server ended with code {process.returncode}; {ADVICE}")
            if time.monotonic() > end:
                raise PredilectError(f"Prefect's temporary server did not answer in time; {ADVICE}")
            time.sleep(0.1)
        os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
        refresh_global_settings_context()

    return wait


def _start() -> tuple[subprocess.Popen[bytes], int]:
    import prefect

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Without the working folder on its path, where files may be called as libraries are.
    library = str(Path(prefect.__file__).parents[1])
    command = [sys.executable, "-P", "-m", "uvicorn", "--app-dir", library]
    command += ["--factory", "prefect.server.api.server:create_app", "--lifespan", "on"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error"]
    with uninterrupted():  # the run needs it to its end, which may be by Ctrl-C
        process = subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=subprocess.DEVNULL)
        # After what sends the last events, which is registered later.
        atexit.register(_stop, process)
    return process, port


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == 200
    except (HTTPException, OSError):
        return False
    finally:
        connection.close()
