"""Sweeps of the ratings model on workers, each of which keeps a shard of both orders.

The driver keeps the factors. Every half-sweep sends a worker the rows that others changed and gets the worker's own
back; a worker that holds its own rows as they should be, by their digest, is not sent them. When a worker is lost the
shards are cut anew for those that are there and the half-sweep is repeated from the driver's factors.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads
from predilect.models.ratings.orders import Order
from predilect.models.ratings.posterior import Side
from predilect.models.ratings.shards import (
    ITEMS,
    USERS,
    Missing,
    Shard,
    Update,
    Updated,
    digest,
    divide,
    pack,
    room,
    unpack,
)
from predilect.models.ratings.sweep import HalfSweep
from predilect.tasks.held import Held
from predilect.tasks.order_files import FACTS, write_orders
from predilect.tasks.shard_host import open_shard

if TYPE_CHECKING:
    from predilect.tasks.compute import Workers


class ShardedSweeps:
    """Both half-sweeps over the orders in a folder that the workers see too."""

    def __init__(self, workers: "Workers", folder: Path) -> None:
        self.folder = folder
        self.halves: list[ShardedHalf] = []
        self.held = Held(
            workers,
            lambda threads: divide((self.halves[USERS], self.halves[ITEMS]), threads),
            open_shard,
            lambda shard, n_threads: (str(folder), shard, n_threads),
        )
        self.bytes_moved = 0
        """Records, sums and priors sent and received so far."""

    def half_sweep(self, order: Order) -> "ShardedHalf":
        """The one over this order; the order by user is asked for first. The folder is written where it is empty."""
        for half in self.halves:
            if half.order is order:
                return half
        self.halves.append(ShardedHalf(order, self, (USERS, ITEMS)[len(self.halves)]))
        if len(self.halves) == 2 and not (self.folder / FACTS).exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_orders(self.folder, *(half.order for half in self.halves))
        return self.halves[-1]

    def run(
        self,
        half: int,
        ask: Callable[[list[Shard]], list[Update]],
        repair: Callable[[Update, Shard, Missing], None],
    ) -> list[tuple[Shard, Updated]]:
        """Every shard's answer, in the order of the chunks."""
        while True:
            shards = {address: shard for address, shard in self.held.parts().items() if shard[half]}
            asked = dict(zip(shards, ask(list(shards.values())), strict=True))
            answers = self._call(half, asked)
            missing = {address: answer for address, answer in answers.items() if isinstance(answer, Missing)}
            for address, answer in missing.items():
                repair(asked[address], shards[address], answer)
            if missing:
                again = self._call(half, {address: asked[address] for address in missing})
                answers = answers | again if again else {}
            if answers:
                return [(shard, answers[address]) for address, shard in shards.items()]

    def _call(self, half: int, asked: dict[str, Update]) -> dict[str, Any]:
        answers = self.held.call("update", {address: (update,) for address, update in asked.items()}, str(half))
        self.bytes_moved += sum(map(_size, asked.values()))
        for answer in answers.values():
            self.bytes_moved += sum(part.nbytes for part in answer if isinstance(part, np.ndarray))
        return answers


@contextmanager
def sharded(workers: "Workers | None", folder: Path) -> Iterator[Callable[[Order], HalfSweep]]:
    """What does the sweeps of a fit: this process, or workers over orders that are kept in the folder meanwhile."""
    if workers is None:
        yield HalfSweep
        return
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield ShardedSweeps(workers, folder).half_sweep
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class ShardedHalf(HalfSweep):
    """A half-sweep whose chunks are updated by the workers that hold them."""

    def __init__(self, order: Order, sweeps: ShardedSweeps, half: int) -> None:
        super().__init__(order)
        self.sweeps, self.half = sweeps, half
        self._records: NDArray[Any] | None = None

    def chunk_sums(
        self, side: Side, other: Side, noise_precision: float, pool: Threads, passes: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """As `HalfSweep.chunk_sums`, to the bit."""
        n_other = other.n_rows
        self._records = records = room(other, n_other, self._records)
        correlated = side.covariances is not None

        def ask(shards: list[Shard]) -> list[Update]:
            mine, theirs = [0] * len(shards), [0] * len(shards)

            def read(n: int) -> None:
                rows, own = shards[n].rows(self.half), shards[n].rows(1 - self.half)
                mine[n], theirs[n] = digest(side, *rows), digest(other, *own)
                pack(other, own[0], records[slice(*own)])

            pool.run(read, len(shards))
            return [update(*each) for each in zip(shards, mine, theirs, strict=True)]

        def update(shard: Shard, mine: int, theirs: int) -> Update:
            rows, own = shard.rows(self.half), shard.rows(1 - self.half)
            return Update(
                half=self.half,
                noise_precision=noise_precision,
                passes=passes,
                prior=side.prior,
                row_means=None if side.row_means is None else side.row_means[slice(*rows)],
                leverage=None if side.leverage is None else side.leverage[slice(*rows)],
                blocks=(side.n_first, side.n_factors - side.n_first) if correlated else None,
                mine=mine,
                theirs=theirs,
                others=[(a, records[a:b]) for a, b in ((0, own[0]), (own[1], n_other)) if a < b],
            )

        def repair(update: Update, shard: Shard, missing: Missing) -> None:
            update.others = []
            if missing.mine:
                first, last = shard.rows(self.half)
                update.mine = pack(side, first, room(side, last - first))
            if missing.theirs:
                update.theirs = records[slice(*shard.rows(1 - self.half))]

        answers = self.sweeps.run(self.half, ask, repair)

        def write(n: int) -> None:
            shard, answer = answers[n]
            unpack(answer.records, side, shard.rows(self.half)[0])

        pool.run(write, len(answers))
        return np.concatenate([answer.moments for _, answer in answers]), np.concatenate(
            [answer.totals for _, answer in answers]
        )


def _size(update: Update) -> int:
    arrays = [update.row_means, update.leverage, update.mine, update.theirs, *(records for _, records in update.others)]
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
