"""Ctrl-C, which a terminal sends to every process that it runs."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits for the end; threads and processes that are started meanwhile, and by those later, never get it.

    So what a run needs to its end outlives the Ctrl-C that ends the run, and is then ended by it. Raises
    KeyboardInterrupt at the end for what came meanwhile.
    """
    came = []
    main = threading.current_thread() is threading.main_thread()
    if main:  # another thread may be given the signal, and this one then told
        handler = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if main:
            signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt
