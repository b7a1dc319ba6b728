"""What goes wrong around a flow ends in one sentence."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from predilect.flows.cli_common import call_flow
from predilect.models.errors import PredilectError


def _raises(error: Exception) -> Any:
    def flow(_: Any) -> dict[str, Any]:
        raise error

    return lambda: flow


def test_a_prefect_server_that_is_gone_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path))
    with pytest.raises(PredilectError, match=r"does not answer any more \(refused\);.*Start the server"):
        call_flow(_raises(httpx.ConnectError("refused")), None)
    with pytest.raises(ZeroDivisionError):
        call_flow(_raises(ZeroDivisionError()), None)
