"""Errors of servers as they are shown."""

import pytest

from predilect.tasks.addresses import first_line, shown

WRAPPED = (
    "API request to http://127.0.0.1:9/api failed with exception HTTPConnectionPool(host='127.0.0.1', port=9): "
    "Max retries exceeded with url: /api (Caused by {})"
)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("NewConnectionError('<object>: Failed to establish a new connection: [Errno 111] Connection refused')",
         "Connection refused"),
        ("NewConnectionError(\"Connection(host='a'): Failed to resolve 'a' ([Errno -2] Name or service not known)\")",
         "Name or service not known"),
        ("ResponseError('too many 503 error responses')", "too many 503 error responses"),
    ],
)  # fmt: skip
def test_why_a_server_cannot_be_reached(cause: str, said: str) -> None:
    assert first_line(ConnectionError(WRAPPED.format(cause))) == said


def test_no_password_is_shown() -> None:
    assert first_line(ValueError("no answer from postgresql://user:secret@host/name\nmore")) == (
        "no answer from postgresql://host/name"
    )
    assert shown("http://user:secret@host:5000") == "http://host:5000"
    assert first_line(KeyError()) == "KeyError"
