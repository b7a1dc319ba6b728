"""Ctrl-C, which a terminal sends to every process that it runs, and SIGTERM, which asks for the same."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_signals: list[int] = []
"""What has asked this process to stop, in order, since it can be stopped."""


@contextmanager
def stoppable() -> Iterator[list[int]]:
    """Meanwhile Ctrl-C and SIGTERM raise KeyboardInterrupt; the signals that came. For the main thread."""

    def stop(sent: int, _frame: object) -> None:
        _signals.append(sent)
        raise KeyboardInterrupt

    before = {sent: signal.getsignal(sent) for sent in (signal.SIGINT, signal.SIGTERM)}
    try:
        for sent, handler in before.items():
            if handler != signal.SIG_IGN:  # as in a job of the background
                signal.signal(sent, stop)
        yield _signals
    finally:
        for sent, handler in before.items():
            signal.signal(sent, handler)
        _signals.clear()


def stop_asked() -> bool:
    """Whether the user has asked this process to stop: whatever it raises then comes from that."""
    return bool(_signals)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits for the end; threads and processes that are started meanwhile, and by those later, never get it.

    So what a run needs to its end outlives the Ctrl-C that ends the run, and is then ended by it. What came meanwhile
    is handled at the end: raises KeyboardInterrupt.
    """
    came: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    if main:  # another thread may be given the signal, and this one then told
        handler = signal.signal(signal.SIGINT, lambda sent, _: came.append(sent))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if main:
            signal.signal(signal.SIGINT, handler)
    if came and callable(handler):
        handler(came[0], None)
