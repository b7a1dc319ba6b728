"""A Prefect server that is away: waited for by runs of a worker, one sentence at the command line."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from operated import free_port

from predilect.flows.cli_common import call_flow
from predilect.models.errors import PredilectError
from predilect.tasks import temporary_server
from predilect.tasks.processes import FLOW_RUN


def _raises(error: Exception) -> Any:
    def flow(_: Any) -> dict[str, Any]:
        raise error

    return lambda: flow


def test_a_prefect_server_that_is_gone_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path))
    monkeypatch.setattr(temporary_server, "start", lambda: lambda: None)
    with pytest.raises(PredilectError, match=r"does not answer any more \(refused\);.*Start the server"):
        call_flow(_raises(httpx.ConnectError("refused")), None)
    with pytest.raises(ZeroDivisionError):
        call_flow(_raises(ZeroDivisionError()), None)


WAITS = """
import sys, threading, time
from http.server import BaseHTTPRequestHandler, HTTPServer
import predilect.flows.wiring
from prefect.client.orchestration import get_client

class Back(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "4"); self.end_headers(); self.wfile.write(b"true")

def serve():
    time.sleep(3)
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Back).serve_forever()

with get_client(sync_client=True) as client:
    threading.Thread(target=serve, daemon=True).start()
    print(client.hello().status_code)
"""


def test_a_workers_run_waits_for_the_server(tmp_path: Path) -> None:
    port = free_port()
    env = {
        **os.environ,
        FLOW_RUN: "1",
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_HOME": str(tmp_path),
    }
    words = [sys.executable, "-c", WAITS, str(port)]
    ran = subprocess.run(words, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert ran.stdout == "200\n", ran.stderr
