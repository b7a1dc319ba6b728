"""Parts of a data set, one a worker, that stay there between calls; cut anew when workers are lost or come."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from predilect.tasks.compute import Workers, lost_again

P = TypeVar("P")
NEW_WORKERS = 5.0
"""Seconds between looks for workers that have come."""
IN_VAIN = 5
"""Losses in a row, with no call answered in between, that end a run."""


class Held(Generic[P]):
    """Who holds which part."""

    def __init__(
        self,
        workers: Workers,
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
        self._in_vain = 0
        self.n_lost = 0
        """Workers lost so far."""

    def parts(self) -> dict[str, P]:
        """The parts by worker, in their order; placed first if need be.

        Raises ComputeError when workers are lost again and again before one call is answered.
        """
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
            if lost:
                self._lost()
            else:
                self._handles = handles
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
            self._in_vain = 0
            return answers
        self._handles = {}
        self._lost()
        return {}

    def _lost(self) -> None:
        self._in_vain += 1
        if self._in_vain >= IN_VAIN:
            raise lost_again("The same part of a fit", self._in_vain)
