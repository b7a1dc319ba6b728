"""Work on the blocks of a Parquet file: by threads, or by workers that read the file themselves."""

import platform
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from predilect.models.errors import ComputeError, DataError
from predilect.models.fan_out import fan_out
from predilect.tasks.compute import Workers

R = TypeVar("R")


class Blocks:
    """A Parquet file in blocks of so many rows, cheap to read in rising order; travels as the file's path.

    Raises DataError, one sentence, when the file is not there or cannot be read.
    """

    def __init__(self, data: Path, rows: int, columns: Sequence[str] | None = None) -> None:
        """columns: those that are read; default all."""
        self.data, self.rows, self.columns = data.absolute(), rows, columns
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._batch: pa.RecordBatch | None = None
        self._place = 0

    def __reduce__(self) -> tuple[type["Blocks"], tuple[Any, ...]]:
        return Blocks, (self.data, self.rows, self.columns)

    def __len__(self) -> int:
        return (self.n_rows + self.rows - 1) // self.rows

    @property
    def n_rows(self) -> int:
        """Of the file."""
        return int(self._file.metadata.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Of the file: all columns."""
        return self._file.schema_arrow

    def read(self, number: int) -> pa.Table:
        """The block, each column in one piece, the same bits whichever was read before."""
        first = number * self.rows
        last = min(first + self.rows, self.n_rows)
        try:
            self._go_to(first)
            table = pa.Table.from_batches(list(self._until(first, last)))
            table = table if self.columns is None else table.select(self.columns)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(self.data, error) from error
        for place, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type):  # as it is in these rows, not in those around
                values = table.column(place).cast(field.type.value_type).combine_chunks().dictionary_encode()
                table = table.set_column(place, field, values.cast(field.type))
        return table.combine_chunks()

    @cached_property
    def _file(self) -> pq.ParquetFile:
        try:
            # With pre_buffer, every column chunk that has been read stays in memory until the file is closed.
            return pq.ParquetFile(self.data, pre_buffer=False)
        except FileNotFoundError:
            raise DataError(f"data = {str(self.data)!r}: no such file; correct the path.") from None
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(self.data, error) from error

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each row group, and the number of rows."""
        metadata = self._file.metadata
        return list(accumulate((metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)), initial=0))

    def _go_to(self, first: int) -> None:
        """Begin at the row group of a row, if that is behind, or in a group that can be reached at once."""
        group = bisect_right(self._starts, first) - 1
        if not self._place or first < self._place or self._place < self._starts[group]:
            groups = list(range(group, len(self._starts) - 1))
            self._place, self._batch = self._starts[group], None
            self._batches = self._file.iter_batches(self.rows, row_groups=groups, columns=self.columns)

    def _until(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        while self._place < last:
            batch = self._batch if self._batch is not None else next(self._batches)
            end = self._place + len(batch)
            if end > first:
                skipped = max(first - self._place, 0)
                yield batch.slice(skipped, min(end, last) - self._place - skipped)
            self._batch = batch.slice(last - self._place) if end > last else None
            self._place = min(end, last)


Answer = Callable[[pa.Table, int], R]
"""Of a block and its number."""


def each_block(
    blocks: Blocks,
    numbers: Sequence[int],
    make: Callable[[int], Answer[R]],
    *,
    workers: Workers | None,
    n_threads: int,
    needs: Sequence[Path],
) -> Generator[tuple[int, R]]:
    """Yield (number, answer) of some blocks, given in rising order, as they are done.

    make: called with a number of threads where the work is done, once a process. needs: what a worker must see besides
    the file.
    """
    if workers is not None:
        found = workers.fan_out(_AtWorker(blocks, numbers, make, needs), len(numbers))
    else:
        at_once = max(1, min(n_threads, len(numbers)))
        answer, reading, left = make(n_threads // at_once), Lock(), iter(numbers)

        def work(_job: int) -> tuple[int, R]:
            with reading:
                number = next(left)
                block = blocks.read(number)
            return number, answer(block, number)

        found = fan_out(work, len(numbers), at_once)
    with closing(found):
        for _, numbered in found:
            yield numbered


class _AtWorker(Generic[R]):
    """Blocks that this process reads and answers, with what that takes kept from one to the next."""

    def __init__(
        self, blocks: Blocks, numbers: Sequence[int], make: Callable[[int], Answer[R]], needs: Sequence[Path]
    ) -> None:
        self._blocks, self._numbers, self._make, self._needs = blocks, numbers, make, needs
        self._answer: Answer[R] | None = None

    def __call__(self, job: int) -> tuple[int, R]:
        number = self._numbers[job]
        if self._answer is None:
            for path in (self._blocks.data, *self._needs):
                if not path.exists():
                    raise ComputeError(
                        f"A worker on {platform.node()} does not see {path}; keep the data, the model and the output "
                        "in folders that all workers share under the same path."
                    )
            self._answer = self._make(1)
        return number, self._answer(self._blocks.read(number), number)


def _unreadable(data: Path, error: Exception) -> DataError:
    return DataError(f"{data} is not a readable Parquet file ({str(error).splitlines()[0]}); write it as Parquet.")
