"""Worker processes on Dask, on this machine or on others: the only file that imports dask.

A run asks for `compute = processes` or `dask`; `workers(parameters)` then connects to the scheduler given, or starts a
scheduler and workers on this machine, reachable from it alone, that end with the run.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from predilect.models.compiled import default_threads
from predilect.models.errors import ComputeError, ParameterError
from predilect.models.fan_out import WORTHWHILE, Spread
from predilect.tasks.interrupts import uninterrupted
from predilect.tasks.kept import Handle, Raised, keep
from predilect.tasks.parameters import Compute
from predilect.tasks.shard_host import Jobs, versions

if TYPE_CHECKING:
    from distributed import Client

R = TypeVar("R")
PATIENCE = 30.0
"""Seconds without a sign of life after which a worker counts as lost."""
PLACE = "place"
RESTART = 120.0
"""Seconds that a worker may take to come again when none is left, and that a scheduler may be out of reach."""
LONGEST_REST = 600.0
"""Seconds that a worker which was given up again and again is left alone."""
LOSSES = 3
"""Workers that one job may lose."""
LOOK, POLL = 1.0, 0.005
"""Seconds between looks at who is alive, and at whether a job is done, while waiting."""
LOST = (OSError, CancelledError)
"""What a call to a worker that is no more raises; what the work itself raises comes as Raised."""


@dataclass
class _Rest:
    """How often a worker was given up, when the scheduler had heard of it last, and when it has to for another try."""

    times: int
    seen: float
    until: float


class Workers:
    """The workers of a scheduler, of whom some may be lost and others come."""

    def __init__(self, client: "Client", where: str, patience: float = PATIENCE) -> None:
        self.client, self.where, self.patience = client, where, patience
        self._rests: dict[str, _Rest] = {}
        self._heard: dict[str, tuple[float, float]] = {}
        self._ready: set[str] = set()
        self._slowest: dict[str, float] = {}
        self._looked = -math.inf
        self._found: dict[str, Any] = {}

    def anew(self) -> "Workers":
        """The same workers, of whom nothing is known yet: not who was given up, nor how long calls take."""
        return Workers(self.client, self.where, self.patience)

    def now(self) -> dict[str, int]:
        """Threads of every worker that is there, by address."""
        found = self._look()
        return {address: int(found[address]["nthreads"]) for address in sorted(found)}

    def wait(self, seconds: float = RESTART) -> dict[str, int]:
        """The same, once there is any. Raises ComputeError when none comes for a while."""
        deadline = time.monotonic() + seconds
        while not (found := self.now()):
            for address, rest in self._rests.items():
                # Where there is no other, one that is alive need not rest for longer.
                if address in self._heard and self._heard[address][0] > rest.seen + self.patience:
                    rest.until = -math.inf
            if time.monotonic() > deadline:
                raise ComputeError(
                    f"{self.where} has no workers; start some, such as by `dask worker ADDRESS --nthreads 1`."
                )
            time.sleep(LOOK / 4)
        return found

    def give_up(self, address: str) -> None:
        """Leave this worker alone until the scheduler has heard of it for a while; each time for twice as long."""
        seen = self._heard[address][0] if address in self._heard else -math.inf
        rest = self._rests.get(address, _Rest(0, -math.inf, -math.inf))
        if seen > rest.until or not rest.times:
            seconds = min(self.patience * 2**rest.times, LONGEST_REST)
            self._rests[address] = _Rest(rest.times + 1, seen, seen + seconds)

    def place(self, make: Callable[..., R], calls: Mapping[str, tuple[Any, ...]]) -> tuple[dict[str, Any], set[str]]:
        """`make(*arguments)` on each worker, kept there: handles, whose methods run there, and which workers were lost.

        Raises ComputeError for a worker with other software.
        """
        actors, lost = self.gather(
            {address: self._keep(address, make, *arguments) for address, arguments in calls.items()}, PLACE
        )
        return {address: Handle(actor) for address, actor in actors.items()}, lost

    def gather(self, calls: Mapping[str, Any], kind: str) -> tuple[dict[str, Any], set[str]]:
        """The results of one call a worker, and which workers were lost meanwhile.

        kind: calls of one kind take about as long each time: ten times the longest before is too long.
        Raises what a call raised.
        """
        began, results, lost = time.monotonic(), {}, set()
        for address, call in calls.items():
            try:
                outcome = self._wait_for(address, call, kind, began)
            except LOST:
                lost.add(address)
                self.give_up(address)
            else:
                results[address] = _value(outcome)
                self._ready.add(address)
        if not lost:
            self._slowest[kind] = max(self._slowest.get(kind, 0.0), time.monotonic() - began)
        return results, lost

    def fan_out(self, work: Callable[[int], R], n_jobs: int) -> Generator[tuple[int, R]]:
        """Like `models.fan_out.fan_out`, on the workers, a job at a time each; `work` travels to each once.

        Raises what a job raised, and ComputeError for a job that has lost several workers.
        """
        todo, handles, losses, looked = list(reversed(range(n_jobs))), dict[str, Handle](), Counter[int](), -math.inf
        busy: dict[str, tuple[int, Any, float]] = {}  # which job, its call, and since when
        placing = -1  # instead of a job: `work` is on its way
        while todo or any(job != placing for job, _, _ in busy.values()):
            if time.monotonic() - looked > LOOK:
                there, looked = self.now() if busy else self.wait(), time.monotonic()
                handles = {address: handle for address, handle in handles.items() if address in there}
                new = [address for address in there if address not in handles and address not in busy]
                for address in new[: len(todo)]:
                    busy[address] = placing, self._keep(address, Jobs, work), looked
            for address in [address for address in handles if address not in busy][: len(todo)]:
                try:
                    busy[address] = todo[-1], handles[address].run(todo[-1]), time.monotonic()
                    todo.pop()
                except RuntimeError:  # its worker is known to be lost
                    del handles[address]
                    self.give_up(address)
            time.sleep(POLL)
            for address, (job, call, began) in list(busy.items()):
                try:
                    if not call.done():
                        self._still_there(address, began)
                        continue
                    outcome = _outcome(address, call)
                except LOST:
                    del busy[address]
                    handles.pop(address, None)
                    self.give_up(address)
                    losses[job] += 1
                    if job != placing:
                        todo.append(job)
                    if losses[job] >= LOSSES and (job != placing or not handles):
                        what = "Sending the work" if job == placing else f"Job {job + 1} of {n_jobs}"
                        raise lost_again(what, LOSSES) from None
                    continue
                del busy[address]
                result = _value(outcome)
                self._ready.add(address)
                if job == placing:
                    handles[address], losses[placing] = Handle(result), 0
                else:
                    yield job, result

    def _keep(self, address: str, make: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(
            keep, versions(), make, *arguments, actor=True, workers=[address], allow_other_workers=False, pure=False
        )

    def _wait_for(self, address: str, call: Any, kind: str, began: float) -> Any:
        """The outcome of a call. Raises one of LOST."""
        while True:
            try:
                return _outcome(address, call)
            except TimeoutError:
                if call.done():
                    return _outcome(address, call)
            self._look()
            self._still_there(address, began)
            if time.monotonic() - began > self.patience + 10 * self._slowest.get(kind, math.inf):
                raise TimeoutError(address)

    def _still_there(self, address: str, began: float) -> None:
        """Raises TimeoutError when a worker that was called then is lost, as of the last look."""
        # While it imports its libraries a worker may say nothing.
        patience = self.patience * (1 if address in self._ready else 4)
        if address not in self._heard:
            raise TimeoutError(address)
        if min(time.monotonic() - began, self._looked - self._heard[address][1]) > patience:
            raise TimeoutError(address)

    def _look(self) -> dict[str, Any]:
        """Who is there and does not rest; notes when each was heard of last, by this machine's clock."""
        began = time.monotonic()
        try:
            self._found = self._ask_scheduler()
        except (OSError, RuntimeError) as error:
            if began - self._looked > RESTART:
                raise ComputeError(
                    f"{self.where} does not answer any more ({error}); start it and the run again."
                ) from None
        else:
            now = time.monotonic()
            # After a pause in looking nobody is silent yet.
            paused = now - self._looked > self.patience / 2
            for address, worker in self._found.items():
                if paused or worker["last_seen"] != self._heard.get(address, (0.0, 0.0))[0]:
                    self._heard[address] = worker["last_seen"], now
            for address in self._heard.keys() - self._found.keys():
                del self._heard[address]
                if address in self._rests:  # whoever comes at this address is new
                    self._rests[address].until = -math.inf
            self._looked = now
        return {
            address: worker
            for address, worker in self._found.items()
            if address not in self._rests or worker["last_seen"] > self._rests[address].until
        }

    def _ask_scheduler(self) -> dict[str, Any]:
        if self.client.scheduler is None:
            raise OSError("the connection is closed")
        # client.scheduler_info gives what it knew before when the scheduler does not answer.
        told = self.client.sync(self.client.scheduler.identity, n_workers=-1, callback_timeout=self.patience)
        found: dict[str, Any] = told["workers"]
        return found


def _outcome(address: str, call: Any) -> Any:
    """What a call gave, or, as Raised, what it raised. Raises one of LOST, TimeoutError when it has not ended."""
    try:
        return call.result(timeout=LOOK)
    except Raised as raised:
        return raised
    except ImportError as error:
        raise ComputeError(
            f"Worker {address} cannot load predilect ({error}); install the same version there as here."
        ) from None


def _value(outcome: Any) -> Any:
    if isinstance(outcome, Raised):
        raise outcome.error() from None
    return outcome


def lost_again(what: str, n_lost: int) -> ComputeError:
    """The end of work that no worker survives."""
    return ComputeError(
        f"{what} has lost {n_lost} workers one after the other (killed, out of memory, or silent); give each worker "
        "more memory, or start fewer workers."
    )


class Computed(Protocol):
    """The parameters that say where the work is done."""

    @property
    def threads(self) -> int | None: ...
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
    asked = parameters.scheduler, parameters.workers
    kept = _kept.get()
    if kept is None:
        with workers(*asked) as found:
            yield found
        return
    if asked not in kept.found:
        kept.found[asked] = kept.ends.enter_context(workers(*asked))
    yield kept.found[asked].anew()


@contextmanager
def workers_kept() -> Iterator[None]:
    """Meanwhile the workers that `workers_of` gave stay for those who ask for the same later: they start slowly."""
    with ExitStack() as ends:
        token = _kept.set(_Kept(ends))
        try:
            yield
        finally:
            _kept.reset(token)


@dataclass
class _Kept:
    """Workers that were started, by what was asked for, and what ends them."""

    ends: ExitStack
    found: dict[tuple[str | None, int | None], Workers] = field(default_factory=dict)


_kept: ContextVar[_Kept | None] = ContextVar("kept workers", default=None)


def spread_on(workers: Workers | None, n_threads: int | None) -> Spread:
    """Where independent jobs run: on the workers where there are any, else on so many threads (None: all)."""
    return Spread(n_threads or default_threads(), None if workers is None else workers.fan_out)


@contextmanager
def spread_of(parameters: Computed, n_cells: float) -> Iterator[Spread]:
    """The same for a run whose largest jobs visit so many numbers; no workers are started for little."""
    with workers_of(parameters) if n_cells >= WORTHWHILE else nullcontext() as workers:
        yield spread_on(workers, parameters.threads)


@contextmanager
def workers(scheduler: str | None, n_workers: int | None, patience: float = PATIENCE) -> Iterator[Workers]:
    """The workers of a running scheduler, or `n_workers` processes (None: one a core) on this machine.

    Raises ParameterError when nothing answers at the address, ComputeError for workers of other versions.
    """
    import dask
    from distributed import Client, LocalCluster

    for name in ("distributed", "distributed.client", "distributed.gc"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is told by errors
    quiet = {
        "distributed.worker.profile.enabled": False,  # it asks every worker for its stack a hundred times a second
        "distributed.deploy.lost-worker-timeout": "1 day",  # of a busy machine; after 15 s its place would be closed
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    with dask.config.set(quiet):
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
        resource_tracker.ensure_running()  # its start, if it came later, would let Ctrl-C through
        with ExitStack() as ends:
            with uninterrupted():
                cluster = LocalCluster(
                    n_workers=n_workers or default_threads(),
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    protocol="tcp://",
                    dashboard_address="127.0.0.1:0",
                    memory_limit=0,
                    preload=["predilect.tasks.shard_host"],
                    silence_logs=logging.CRITICAL,
                )
                ends.enter_context(cluster)
            client = ends.enter_context(Client(cluster, direct_to_workers=True))
            found = Workers(client, "This machine's Dask cluster", patience)
            found.wait(PATIENCE)
            yield found
