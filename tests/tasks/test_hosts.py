"""Several hosts: network namespaces with addresses of their own, one cut off and one killed during a fit."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sharded import config, fit, orders, told

from predilect.models.ratings.shards import bytes_a_sweep

pytestmark = pytest.mark.e2e
HOSTS = {"scheduler": "10.213.77.1", "driver": "10.213.77.2", "one": "10.213.77.11", "two": "10.213.77.12",
         "three": "10.213.77.13"}  # fmt: skip
SCHEDULER = f"tcp://{HOSTS['scheduler']}:8786"
N_USERS, N_ITEMS, N_SWEEPS = 4000, 1000, 40


class Network:
    """Hosts on a bridge that stands in a namespace of its own: nothing of this machine's network is touched."""

    def __init__(self, log: Path) -> None:
        self.log = log.open("w")
        self.prefix = f"predilect-{os.getpid()}-"
        self.running: dict[str, subprocess.Popen[str]] = {}

    def ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def build(self) -> None:
        hub = self.prefix + "hub"
        self.ip("netns", "add", hub)
        self.ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        self.ip("-n", hub, "link", "set", "bridge", "up")
        for host, address in HOSTS.items():
            name = self.prefix + host
            self.ip("netns", "add", name)
            self.ip("-n", hub, "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", name)
            self.ip("-n", hub, "link", "set", host, "master", "bridge", "up")
            self.ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                self.ip("-n", name, "link", "set", link, "up")

    def start(self, host: str, *words: str) -> subprocess.Popen[str]:
        """Run Python there."""
        command = ["ip", "netns", "exec", self.prefix + host, sys.executable, *words]
        self.running[host] = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True
        )
        return self.running[host]

    def worker(self, host: str) -> None:
        self.start(
            host, "-m", "dask", "worker", SCHEDULER, "--nthreads", "1", "--no-nanny", "--no-dashboard",
            "--memory-limit", "0",
        )  # fmt: skip

    def cut_off(self, host: str) -> None:
        self.ip("-n", self.prefix + host, "link", "set", "eth0", "down")

    def kill(self, host: str) -> None:
        os.killpg(self.running[host].pid, signal.SIGKILL)

    def close(self) -> None:
        for host in self.running:
            with contextlib.suppress(ProcessLookupError):
                self.kill(host)
            with self.running[host]:  # closes its output and waits
                pass
        self.log.close()
        for host in ("hub", *HOSTS):
            subprocess.run(["ip", "netns", "delete", self.prefix + host], check=False, capture_output=True)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("several hosts: network namespaces need root and iproute2")
    found = Network(tmp_path / "log")
    try:
        found.build()
    except subprocess.CalledProcessError as error:
        found.close()
        pytest.skip(f"several hosts: no network namespaces here ({error.stderr.strip()})")
    yield found
    found.close()


def test_one_host_is_cut_off_and_one_killed_and_the_fit_is_the_same(network: Network, tmp_path: Path) -> None:
    alone = fit(orders(tmp_path, 200_000, N_USERS, N_ITEMS), config(max_sweeps=N_SWEEPS))
    network.start("scheduler", "-m", "dask", "scheduler", "--host", HOSTS["scheduler"], "--no-dashboard")
    network.worker("one")
    network.worker("two")
    script = Path(__file__).with_name("fit_at_scheduler.py")
    driver = network.start("driver", str(script), str(tmp_path), SCHEDULER, str(N_SWEEPS))
    assert driver.stdout is not None
    moved: dict[int, int] = {}
    for line in driver.stdout:
        first, *rest = line.split()
        if first == "end":
            assert int(rest[0]) >= 2
            assert rest[1] == told(alone)
            break
        moved[int(first)] = int(rest[0])
        if int(first) == 12:
            network.cut_off("one")
            network.worker("three")
        if int(first) == 25:
            network.kill("two")
    else:
        pytest.fail(f"the fit ended after {len(moved)} of {N_SWEEPS} sweeps\n{(tmp_path / 'log').read_text()[-3000:]}")
    sweep = min(moved[n + 1] - moved[n] for n in range(8, 11))
    assert sweep == pytest.approx(bytes_a_sweep(N_USERS, N_ITEMS, 5, 2), rel=0.1)
