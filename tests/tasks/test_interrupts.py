"""Ctrl-C while something is started that must outlive it."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from predilect.tasks.interrupts import stop_asked, stoppable, uninterrupted


@pytest.fixture(autouse=True)
def hearing() -> Iterator[None]:
    """Ctrl-C as in a terminal; a job in the background starts deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) == signal.default_int_handler


BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"


def test_ctrl_c_waits_and_does_not_reach_what_is_started() -> None:
    reached = []

    def start() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            reached.append(subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, check=True).stdout)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached == [b"True\n"]
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with uninterrupted():
        pass


def test_what_came_meanwhile_is_known_until_the_end() -> None:
    def stop() -> None:
        with stoppable() as signals:
            try:
                with uninterrupted():
                    signal.raise_signal(signal.SIGINT)
                    assert not stop_asked()
            finally:
                assert stop_asked()
                assert signals == [signal.SIGINT]

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert not stop_asked()


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stoppable() as signals, uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signals == []
    assert signal.signal(signal.SIGINT, signal.default_int_handler) == signal.SIG_IGN
