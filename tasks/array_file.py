"""A `.npy` file that threads read and write in runs, without keeping its pages."""

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


class ArrayFile:
    """One dimension of numbers. The header is read once, where this is made.

    For NumPy reads headers by `ast`, which in Python 3.11 and 3.12 is not safe in several threads at a time
    (python/cpython issue 106905).
    """

    def __init__(self, path: Path) -> None:
        mapped: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        self.path, self.dtype, self._offset = path, mapped.dtype, mapped.offset

    @classmethod
    def make(cls, path: Path, dtype: np.dtype[Any], length: int) -> Self:
        """A new file of so many numbers, all still 0."""
        np.lib.format.open_memmap(path, "w+", dtype, (length,))
        return cls(path)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Numbers start … stop-1."""
        return np.fromfile(self.path, self.dtype, stop - start, offset=self._place(start))

    def write(self, start: int, numbers: NDArray[Any]) -> None:
        """Replace those from `start` on."""
        with self.path.open("r+b") as file:
            file.seek(self._place(start))
            file.write(np.ascontiguousarray(numbers, self.dtype).data)

    def _place(self, number: int) -> int:
        return int(self._offset + number * self.dtype.itemsize)
