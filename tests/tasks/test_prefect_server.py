"""Asking a Prefect server: a busy one again, a refusal in a sentence; and which runs have lost their process."""

import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from predilect.models.errors import PredilectError
from predilect.tasks import prefect_server
from predilect.tasks.prefect_server import PrefectServer, crash_orphans


def _server(answer: Callable[[httpx.Request], httpx.Response]) -> PrefectServer:
    server = PrefectServer("http://127.0.0.1:1")
    server._client = httpx.Client(base_url="http://127.0.0.1:1/api", transport=httpx.MockTransport(answer))
    return server


def test_a_busy_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(prefect_server.time, "sleep", pauses.append)
    answers = iter([httpx.Response(503), httpx.Response(503), httpx.Response(200, json=7)])
    assert _server(lambda _: next(answers)).ask("/flows/count", {}) == 7
    assert pauses == [0.5, 1]
    with pytest.raises(PredilectError, match="503"):
        _server(lambda _: httpx.Response(503)).ask("/flows/count", {})


def test_a_refusal_and_an_absence_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_server.time, "sleep", lambda _: None)
    with pytest.raises(PredilectError, match=r"refused /x \(409\): no"):
        _server(lambda _: httpx.Response(409, text="no")).ask("/x")

    def away(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(PredilectError, match="does not answer"):
        _server(away).ask("/x")
    assert not _server(away).healthy()


def test_runs_without_a_process_here_are_crashed_and_no_others() -> None:
    here = f"{socket.gethostname()}:12"
    runs: list[dict[str, Any]] = [
        {"id": "lives", "name": "lives", "state_type": "RUNNING", "infrastructure_pid": here},
        {"id": "lost", "name": "lost", "state_type": "RUNNING", "infrastructure_pid": here},
        {"id": "elsewhere", "name": "elsewhere", "state_type": "RUNNING", "infrastructure_pid": "other:12"},
        {"id": "by-hand", "name": "by-hand", "state_type": "RUNNING", "infrastructure_pid": None},
        {"id": "ended", "name": "ended", "state_type": "RUNNING", "infrastructure_pid": None},
        {"id": "given", "name": "given", "state_type": "PENDING", "work_pool_name": "predilect"},
    ]
    crashed = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/filter"):
            return httpx.Response(200, json=runs)
        crashed.append(request.url.path.split("/")[3])
        return httpx.Response(201, json={})

    assert crash_orphans(_server(answer), alive={"lives"}, dead={"ended"}) == ["lost", "ended", "given"]
    assert crashed == ["lost", "ended", "given"]
