"""Parts of a data set, one a worker, that stay there between calls; cut anew when workers are lost or come."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from predilect.tasks.compute import Workers

P = TypeVar("P")
NEW_WORKERS = 5.0
"""Seconds between looks for workers that have come."""


class Held(Generic[P]):
    """Who holds which part."""

    def __init__(
        self,
        workers: "Workers",
        cut: Callable[[Sequence[int]], Sequence[P]],
        make: Callable[..., Any],
        arguments: Callable[[P, int], tuple[Any, ...]],
    ) -> None:
        """cut: parts for workers with so many threads each. make: called on the worker, with arguments(part, threads);
        its result stays there, and its methods are called."""
        self._workers, self._cut, self._make, self._arguments = workers, cut, make, arguments
        self._parts: dict[str, P] = {}
        self._handles: dict[str, Any] = {}
        self._looked = 0.0
        self.n_lost = 0
        """Workers lost so far."""

    def parts(self) -> dict[str, P]:
        """The parts by worker, in their order; placed first if need be."""
        if self._handles and time.monotonic() - self._looked < NEW_WORKERS:
            return self._parts
        self._looked = time.monotonic()
        if self._handles and self._workers.now().keys() == self._parts.keys():
            return self._parts
        self._handles = {}
        while not self._handles:
            threads = self._workers.wait()
            self.n_lost += len(self._parts.keys() - threads.keys())
            self._parts = dict(zip(threads, self._cut(list(threads.values())), strict=True))
            calls = {address: self._arguments(part, threads[address]) for address, part in self._parts.items()}
            handles, lost = self._workers.place(self._make, calls)
            self._handles = {} if lost else handles
        return self._parts

    def call(self, method: str, asked: Mapping[str, tuple[Any, ...]], kind: str = "") -> dict[str, Any]:
        """Each worker's answer; none at all when a worker was lost: begin again with `parts`.

        kind: see `Workers.gather`.
        """
        calls = {}
        for address, arguments in asked.items():
            try:
                calls[address] = getattr(self._handles[address], method)(*arguments)
            except RuntimeError:  # its worker is known to be lost
                self._workers.give_up(address)
        answers, _ = self._workers.gather(calls, f"{method} {kind} {len(asked)}")
        if len(answers) == len(asked):
            return answers
        self._handles = {}
        return {}
