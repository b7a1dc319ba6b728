"""Prefect's temporary server: started only where there is none, and one sentence when it does not start."""

import os
import subprocess
import sys

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS, temporary_settings

from predilect.models.errors import PredilectError
from predilect.tasks import temporary_server


def _starts(monkeypatch: pytest.MonkeyPatch, code: str) -> list[subprocess.Popen[bytes]]:
    """Instead of a server, this code; what was started."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> tuple[subprocess.Popen[bytes], int]:
        process = subprocess.Popen([sys.executable, "-c", code])
        started.append(process)
        return process, 9  # nobody answers there

    monkeypatch.setattr(temporary_server, "_start", start)
    return started


def test_none_is_started_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    started = _starts(monkeypatch, "")
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        temporary_server.start()()
    assert started == []


@pytest.mark.parametrize(
    ("code", "times", "said"),
    [
        ("raise SystemExit(3)", temporary_server.TRIES, "ended with code 3; free memory"),
        ("raise SystemExit(1)", 1, "ended with code 1; free memory"),
        ("import time; time.sleep(2)", 1, "did not answer in time; free memory"),
    ],
)
def test_a_server_that_does_not_start(monkeypatch: pytest.MonkeyPatch, code: str, times: int, said: str) -> None:
    started = _starts(monkeypatch, code)
    before = os.environ.get("PREFECT_API_URL")
    seconds = 1 if "sleep" in code else 60
    settings = {PREFECT_API_URL: None, PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: seconds}
    with temporary_settings(settings), pytest.raises(PredilectError, match=said):
        temporary_server.start()()
    for process in started:
        process.kill()
        process.wait()
    assert len(started) == times
    assert os.environ.get("PREFECT_API_URL") == before
