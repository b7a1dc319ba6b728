"""Processes that outlive the command that started them: found by pid and start time, stopped whole, logs rotated."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from predilect.tasks import processes

SLEEP = "import time; time.sleep(60)"
FAMILY = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"


def test_a_process_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    record = processes.start("one", [sys.executable, "-c", FAMILY], {}, tmp_path, "")
    stranger = subprocess.Popen([sys.executable, "-c", SLEEP])
    try:
        assert processes.Record.read(tmp_path, "one") == record
        end = time.monotonic() + 20
        while len(processes.marked(tmp_path)) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(processes.marked(tmp_path, "one")) == 2  # its child left the process group
        assert processes.marked(tmp_path, "two") == []
        assert processes.stop(processes.marked(tmp_path)) == 2
        assert processes.marked(tmp_path) == []
        assert record.process() is None
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_reused_pid_is_another_process(tmp_path: Path) -> None:
    record = processes.start("one", [sys.executable, "-c", SLEEP], {}, tmp_path, "")
    assert record.process() is not None
    assert replace(record, started=record.started - 5).process() is None
    processes.stop(processes.marked(tmp_path))


def test_a_broken_record_is_none(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"name": "one"')
    assert processes.Record.read(tmp_path, "one") is None


def test_who_listens() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        assert "process" in (processes.holder(port) or "")
    assert processes.holder(port) is None


@pytest.mark.parametrize("keep", [1, 3])
def test_logs_rotate_in_place(tmp_path: Path, keep: int) -> None:
    log = processes.log_file(tmp_path, "one")
    log.parent.mkdir()
    with open(log, "ab", buffering=0) as service:
        for k in range(5):
            service.write(b"%d" % k * 100)
            assert processes.rotate_logs(tmp_path, most=50, keep=keep) == [log]
            assert log.stat().st_size == 0
        service.write(b"end\n")
    assert processes.rotate_logs(tmp_path, most=50) == []
    assert processes.tail(log, 5) == ["end"]
    assert [path.read_bytes()[:1] for path in sorted(log.parent.glob("*.log.*"))] == [b"4", b"3", b"2"][:keep]


SPOKEN = """
import sys
from rich.console import Console
from predilect.tasks.processes import own_output
own_output()
print("ready", flush=True)
sys.stdin.readline()
Console(file=sys.stderr).print("spoken to nobody")
Console().print("and on")
"""


@pytest.mark.parametrize("own", [True, False])
def test_a_flow_run_does_not_end_with_who_reads_its_output(tmp_path: Path, own: bool) -> None:
    log = processes.log_file(tmp_path, "worker")
    log.parent.mkdir()
    log.touch()
    env = {**os.environ, **processes.mark(tmp_path, "worker"), **({processes.FLOW_RUN: "1"} if own else {})}
    run = subprocess.Popen(
        [sys.executable, "-c", SPOKEN], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert run.stdin is not None
    assert run.stdout is not None
    assert run.stderr is not None
    assert run.stdout.readline() == (b"" if own else b"ready\n")
    run.stdout.close()
    run.stderr.close()
    run.stdin.write(b"\n")
    run.stdin.close()
    assert (run.wait(30) == 0) is own  # the other way is why it is done
    assert log.read_text() == ("ready\nspoken to nobody\nand on\n" if own else "")
