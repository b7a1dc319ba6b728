"""Who counts as lost, who is asked again, and what reaches the driver; with workers that are played by this process."""

import copyreg
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from predilect.models.errors import ComputeError
from predilect.tasks import compute, held
from predilect.tasks.compute import Workers
from predilect.tasks.held import Held

PATIENCE = 0.2
Answer = Callable[[str, Callable[[], Any]], Any]


class Call:
    """What can be waited for; it never ends where the worker is silent."""

    def __init__(self, work: Callable[[], Any] | None) -> None:
        self.future: Future[Any] = Future()
        if work is not None:
            try:
                self.future.set_result(work())
            except Exception as error:
                self.future.set_exception(error)

    def done(self) -> bool:
        return self.future.done()

    def result(self, timeout: float) -> Any:
        return self.future.result(timeout)


class Client:
    """Of a scheduler that hears of workers as long as they beat."""

    scheduler: Any = type("Scheduler", (), {"identity": None})

    def __init__(self, *names: str) -> None:
        self.beats = dict.fromkeys(names, True)
        self.seen = dict.fromkeys(names, 1000.0)
        self.began = time.monotonic()
        self.reachable = True
        self.dies: Callable[[str, Any], bool] = lambda name, job: False
        self.hangs: Callable[[str, Any], bool] = lambda name, job: False
        self.calls: list[Call] = []
        self.asked: list[tuple[str, Any]] = []

    def sync(self, _identity: object, **_how: object) -> dict[str, Any]:
        if not self.reachable:
            raise OSError("no route")
        for name, beats in self.beats.items():
            if beats:
                self.seen[name] = 1000 + time.monotonic() - self.began
        return {"workers": {name: {"nthreads": 1, "last_seen": self.seen[name]} for name in self.beats}}

    def submit(self, work: Callable[..., Any], *arguments: Any, workers: list[str], **_how: object) -> Call:
        name = workers[0]
        return self.answer(name, None, lambda: Actor(self, name, work(*arguments)))

    def answer(self, name: str, job: Any, work: Callable[[], Any]) -> Call:
        self.asked.append((name, job))
        if self.dies(name, job):
            call = Call(lambda: (_ for _ in ()).throw(OSError("connection closed")))
        elif self.hangs(name, job):
            self.beats[name] = False
            call = Call(None)
        else:
            call = Call(work)
        self.calls.append(call)
        return call


class Actor:
    def __init__(self, client: Client, name: str, kept: Any) -> None:
        self.client, self.name, self.kept = client, name, kept

    def call(self, method: str, *arguments: Any) -> Call:
        job = arguments[0] if arguments else None
        return self.client.answer(self.name, job, lambda: self.kept.call(method, *arguments))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "LOOK", 0.01)
    monkeypatch.setattr(compute, "RESTART", 0.6)
    monkeypatch.setattr(held, "NEW_WORKERS", 0.0)


def workers(client: Client) -> Workers:
    return Workers(client, "The scheduler", PATIENCE)  # type: ignore[arg-type]


def seconds_until(there: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not there():
        assert time.monotonic() - began < 5
        time.sleep(0.005)
    return time.monotonic() - began


def test_a_worker_that_was_given_up_rests_longer_each_time() -> None:
    client = Client("a", "b")
    found = workers(client)
    for times in range(3):
        assert set(found.now()) == {"a", "b"}
        found.give_up("a")
        found.give_up("a")  # what is known already counts once
        assert set(found.now()) == {"b"}
        assert seconds_until(lambda: "a" in found.now()) > 0.9 * PATIENCE * 2**times


def test_a_worker_that_gives_no_sign_of_life_is_not_asked_again() -> None:
    client = Client("a", "b")
    found = workers(client)
    found.now()
    client.beats["a"] = False
    found.give_up("a")
    time.sleep(2 * PATIENCE)
    assert set(found.now()) == {"b"}
    client.beats["a"] = True
    assert set(found.now()) == {"a", "b"}


def test_one_that_comes_at_a_known_address_is_new() -> None:
    client = Client("a")
    found = workers(client)
    found.now()
    found.give_up("a")
    del client.beats["a"]
    assert not found.now()
    client.beats["a"] = True
    assert set(found.now()) == {"a"}


def test_where_all_were_given_up_those_alive_are_asked_again() -> None:
    client = Client("alive", "stopped")
    found = workers(client)
    found.now()
    client.beats["stopped"] = False
    for _ in range(2):
        found.give_up("stopped")
        found.give_up("alive")
        assert set(found.wait(3 * PATIENCE)) == {"alive"}  # the second time too, though its rest would be longer
    client.beats["alive"] = False
    found.give_up("alive")
    with pytest.raises(ComputeError, match="The scheduler has no workers; start some"):
        found.wait(3 * PATIENCE)


def test_a_job_of_a_silent_worker_goes_elsewhere_and_its_late_answer_is_not_heard() -> None:
    client = Client("a", "b")
    client.hangs = lambda name, job: name == "a" and job is not None
    results = workers(client).fan_out(lambda job: job * job, 4)
    first = next(results)
    time.sleep(0)
    for call in client.calls:
        if not call.done():
            threading.Timer(2 * PATIENCE, call.future.set_result, ("late",)).start()
    assert sorted([first, *results]) == [(job, job * job) for job in range(4)]


@pytest.mark.parametrize("error", [OSError(2, "No such file", "x.parquet"), TimeoutError("slow"), KeyError("k")])
def test_what_a_job_raises_is_raised_and_the_job_not_repeated(error: Exception) -> None:
    client = Client("a", "b")

    def work(job: int) -> int:
        raise error

    with pytest.raises(type(error)) as raised:
        list(workers(client).fan_out(work, 1))
    assert raised.value.args == error.args
    assert "in work" in raised.value.__notes__[0]
    assert [job for _, job in client.asked if job is not None] == [0]


class Odd(Exception):
    """It cannot be read back: its arguments are not those of `Exception`."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def test_what_cannot_travel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(copyreg.dispatch_table, Odd, raising=False)  # which Dask may have taught to travel

    def odd(job: int) -> int:
        raise Odd(1, 2)

    with pytest.raises(RuntimeError, match="Odd in the work of a worker") as raised:
        list(workers(Client("a")).fan_out(odd, 1))
    assert "1 and 2" in raised.value.__notes__[0]
    with pytest.raises(TypeError, match="cannot pickle"):
        list(workers(Client("a")).fan_out(lambda job: threading.Lock(), 1))

    def leaves(job: int) -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="SystemExit in the work"):
        list(workers(Client("a")).fan_out(leaves, 1))


def test_a_job_that_no_worker_survives_ends_the_run() -> None:
    client = Client(*"abcdefg")
    client.dies = lambda name, job: job == 2
    with pytest.raises(ComputeError, match=r"Job 3 of 5 has lost 3 workers .*; give each worker more memory, or start"):
        list(workers(client).fan_out(lambda job: job, 5))
    client = Client(*"abcdefg")
    client.dies = lambda name, job: job is None
    with pytest.raises(ComputeError, match=r"Sending the work has lost 3 workers"):
        list(workers(client).fan_out(lambda job: job, 5))


@pytest.mark.parametrize("at", [None, "total"])
def test_parts_that_no_worker_survives_end_the_run(at: str | None) -> None:
    class Sums:
        def total(self, what: str) -> int:
            return 1

    client = Client("a", "b")
    parts = Held(workers(client), lambda threads: [None] * len(threads), Sums, lambda part, n_threads: ())

    def call() -> dict[str, int]:
        return parts.call("total", dict.fromkeys(parts.parts(), ("total",)))

    for _ in range(3):  # what is lost now and then is not counted
        assert call() == {"a": 1, "b": 1}
        client.dies = lambda name, job: name == "a" and job == "total"
        assert call() == {}
        client.dies = lambda name, job: False
        assert call() == {"b": 1}
        seconds_until(lambda: parts.parts().keys() == {"a", "b"})
    client.dies = lambda name, job: at is None or job == at

    def again() -> None:
        while True:
            assert call() == {}

    with pytest.raises(ComputeError, match=r"same part of a fit has lost 5 workers .*give each worker more memory"):
        again()


def test_a_scheduler_out_of_reach_costs_no_worker() -> None:
    client = Client("a")
    found = workers(client)
    found.now()
    client.reachable = False
    time.sleep(2 * PATIENCE)
    assert set(found.now()) == {"a"}
    assert found.gather({"a": Call(lambda: 3)}, "x") == ({"a": 3}, set())
    time.sleep(2 * PATIENCE)
    with pytest.raises(ComputeError, match=r"The scheduler does not answer any more \(no route\); start it"):
        found.now()
