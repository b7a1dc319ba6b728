"""Calls that are made again for a while, where a server that is away or a locked database may be back by then.

Only calls that may be made twice: each looks first at what an earlier attempt has done.
"""

import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
AWHILE = 120.0  # seconds that unattended runs wait for a server to be back
PAUSES = (1.0, 2.0, 4.0, 8.0)  # between attempts; the last one again and again
log = logging.getLogger("predilect")
_seconds: ContextVar[float] = ContextVar("seconds", default=1.0)


@contextmanager
def patience(seconds: float = AWHILE) -> Iterator[None]:
    """Inside the block, `retried` calls are made again for as long; elsewhere once more after a second."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def retried(error: type[Exception]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that is called again when it raises `error`, until the patience of its caller is over."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            seconds, began, pauses = _seconds.get(), time.monotonic(), list(PAUSES)
            while True:
                try:
                    return function(*args, **kwargs)
                except error as failure:
                    left = began + seconds - time.monotonic()
                    if left <= 0:
                        raise
                    if len(pauses) == len(PAUSES) and left > PAUSES[-1]:
                        log.warning("%s It is tried again for %d seconds.", failure, seconds)
                    time.sleep(min(left, pauses.pop(0) if len(pauses) > 1 else pauses[0]))

        return call

    return decorate
