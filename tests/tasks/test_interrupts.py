"""Ctrl-C while something is started that must outlive it."""

import signal
import subprocess
import sys

import pytest

from predilect.tasks.interrupts import uninterrupted

BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"


def test_ctrl_c_waits_and_does_not_reach_what_is_started() -> None:
    before, reached = signal.getsignal(signal.SIGINT), []

    def start() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            reached.append(subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, check=True).stdout)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached == [b"True\n"]
    assert signal.getsignal(signal.SIGINT) == before
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with uninterrupted():
        pass
