"""Worker processes on Dask, on this machine or on others: the only file that imports dask.

A run asks for `compute = processes` or `dask`; `workers(parameters)` then connects to the scheduler given, or starts a
scheduler and workers on this machine, reachable from it alone, that end with the run.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from predilect.models.compiled import default_threads
from predilect.models.errors import ComputeError, ParameterError, PredilectError
from predilect.tasks.parameters import Compute
from predilect.tasks.shard_host import Jobs, checked, versions

if TYPE_CHECKING:
    from distributed import Client

R = TypeVar("R")
PATIENCE = 30.0
"""Seconds without a sign of life after which a worker counts as lost."""
PLACE = "place"
RESTART = 120.0
"""Seconds that a worker may take to come again when none is left."""
LOOK, POLL = 1.0, 0.005
"""Seconds between looks at who is alive, and at whether a job is done, while waiting."""
LOST = (OSError, CancelledError)
"""What a call to a worker that is no more raises."""


class Workers:
    """The workers of a scheduler, of whom some may be lost and others come."""

    def __init__(self, client: "Client", where: str, patience: float = PATIENCE) -> None:
        self.client, self.where, self.patience = client, where, patience
        self._given_up: set[str] = set()
        self._heard: dict[str, tuple[float, float]] = {}
        self._slowest: dict[str, float] = {}
        self._looked = 0.0

    def now(self) -> dict[str, int]:
        """Threads of every worker that is there, by address."""
        found = self._look()
        return {address: int(found[address]["nthreads"]) for address in sorted(found)}

    def wait(self, seconds: float = RESTART) -> dict[str, int]:
        """The same, once there is any. Raises ComputeError when none comes for a while."""
        deadline = time.monotonic() + seconds
        while not (found := self.now()):
            if time.monotonic() > deadline:
                raise ComputeError(
                    f"{self.where} has no workers; start some, such as by `dask worker ADDRESS --nthreads 1`."
                )
            time.sleep(LOOK / 4)
        return found

    def give_up(self, address: str) -> None:
        """Ask this worker no more, even if it should answer again."""
        self._given_up.add(address)

    def place(self, make: Callable[..., R], calls: Mapping[str, tuple[Any, ...]]) -> tuple[dict[str, Any], set[str]]:
        """`make(*arguments)` on each worker, kept there: handles, whose methods run there, and which workers were lost.

        Raises ComputeError for a worker with other software.
        """
        own = versions()
        pending = {
            address: self.client.submit(
                checked, own, make, *arguments, actor=True, workers=[address], allow_other_workers=False, pure=False
            )
            for address, arguments in calls.items()
        }
        return self.gather(pending, PLACE)

    def gather(self, calls: Mapping[str, Any], kind: str) -> tuple[dict[str, Any], set[str]]:
        """The results of one call a worker, and which workers were lost meanwhile.

        kind: calls of one kind take about as long each time: ten times the longest before is too long.
        Raises what a call raised.
        """
        began, results, lost = time.monotonic(), {}, set()
        for address, call in calls.items():
            try:
                results[address] = self._result(address, call, kind, began)
            except PredilectError:
                raise
            except ImportError as error:
                raise ComputeError(
                    f"Worker {address} cannot load predilect ({error}); install the same version there as here."
                ) from None
            except LOST:
                lost.add(address)
                self.give_up(address)
        if not lost:
            self._slowest[kind] = max(self._slowest.get(kind, 0.0), time.monotonic() - began)
        return results, lost

    def fan_out(self, work: Callable[[int], R], n_jobs: int) -> Generator[tuple[int, R]]:
        """Like `models.fan_out.fan_out`, on the workers, a job at a time each; `work` travels to each once."""
        todo, busy, holders, looked = list(reversed(range(n_jobs))), dict[str, tuple[int, Any]](), dict[str, Any](), 0.0
        while todo or busy:
            if not looked or time.monotonic() - looked > LOOK:
                there = self.now() if busy else self.wait()
                new = [address for address in there if address not in holders][: len(todo)]
                holders |= self.place(Jobs, {address: (work,) for address in new})[0]
                looked = time.monotonic()
            for address in [address for address in holders if address not in busy][: len(todo)]:
                busy[address] = todo[-1], holders[address].run(todo.pop())
            time.sleep(POLL)
            for address, (job, call) in list(busy.items()):
                if not call.done() and address in self._heard and self._silent(address) < self.patience:
                    continue
                del busy[address]
                try:
                    yield job, call.result(timeout=LOOK)
                except LOST:
                    del holders[address]
                    self.give_up(address)
                    todo.append(job)

    def _result(self, address: str, call: Any, kind: str, began: float) -> Any:
        while True:
            try:
                return call.result(timeout=LOOK)
            except TimeoutError:
                if call.done():
                    raise
            self._look()
            waited = time.monotonic() - began
            late = kind in self._slowest and waited > self.patience + 10 * self._slowest[kind]
            # While it imports its libraries a worker may say nothing.
            patience = self.patience * (4 if kind == PLACE else 1)
            if late or min(waited, self._silent(address)) > patience or address not in self._heard:
                raise TimeoutError(address)

    def _silent(self, address: str) -> float:
        """Seconds since the scheduler is known to have heard of a worker, as of the last look."""
        return self._looked - self._heard[address][1] if address in self._heard else float("inf")

    def _look(self) -> dict[str, Any]:
        """Who the scheduler knows; when each was heard of last, by this machine's clock."""
        try:
            found = self.client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, RuntimeError) as error:
            raise ComputeError(
                f"{self.where} does not answer any more ({error}); start it and the run again."
            ) from None
        now = time.monotonic()
        # After a pause in looking nobody is silent yet.
        paused = now - self._looked > self.patience / 2
        for address, worker in found.items():
            if paused or worker["last_seen"] != self._heard.get(address, (0.0, 0.0))[0]:
                self._heard[address] = worker["last_seen"], now
        for address in self._heard.keys() - found.keys():
            del self._heard[address]
        self._looked = now
        return {address: worker for address, worker in found.items() if address not in self._given_up}


class Computed(Protocol):
    """The parameters that say where the work is done."""

    @property
    def compute(self) -> Compute: ...
    @property
    def scheduler(self) -> str | None: ...
    @property
    def workers(self) -> int | None: ...


@contextmanager
def workers_of(parameters: Computed) -> Iterator[Workers | None]:
    """The workers that a run asks for; None: it computes on threads."""
    if parameters.compute == Compute.threads:
        yield None
        return
    with workers(parameters.scheduler, parameters.workers) as found:
        yield found


@contextmanager
def workers(scheduler: str | None, n_workers: int | None, patience: float = PATIENCE) -> Iterator[Workers]:
    """The workers of a running scheduler, or `n_workers` processes (None: one a core) on this machine.

    Raises ParameterError when nothing answers at the address, ComputeError for workers of other versions.
    """
    import dask
    from distributed import Client, LocalCluster

    # The profiler asks every worker for its stack a hundred times a second.
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        if scheduler is not None:
            try:
                client = Client(scheduler, timeout=min(patience, 10), direct_to_workers=True)
            except (OSError, ValueError) as error:
                raise ParameterError(
                    f"scheduler = {scheduler}: no Dask scheduler answers there ({error or type(error).__name__}); "
                    "start one by `dask scheduler`, or give none: then workers are started on this machine."
                ) from None
            with client:
                found = Workers(client, f"The Dask scheduler at {scheduler}", patience)
                found.wait(PATIENCE)
                yield found
            return
        with (
            LocalCluster(
                n_workers=n_workers or default_threads(),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                protocol="tcp://",
                dashboard_address=None,
                memory_limit=0,
                preload=["predilect.tasks.shard_host"],
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster, direct_to_workers=True) as client,
        ):
            found = Workers(client, "This machine's Dask cluster", patience)
            found.wait(PATIENCE)
            yield found
