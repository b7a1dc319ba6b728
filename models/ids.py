"""External ids and their dense codes."""

import itertools
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

UNKNOWN = -1


class IdMap:
    """Ids as the user gave them (64-bit integers or strings) ↔ codes 0..n-1 in sorted order.

    An unknown id has the code -1: it is a result, not an error.
    """

    def __init__(self, ids: ArrayLike) -> None:
        """`ids`: the distinct ids, sorted."""
        self.ids: NDArray[Any] = _as_ids(ids)

    @classmethod
    def of(cls, values: ArrayLike) -> tuple[Self, NDArray[np.int32]]:
        """The map of the ids in `values`, and the code of each value (shape of `values`)."""
        ids, codes = np.unique(_as_ids(values), return_inverse=True)
        return cls(ids), codes.astype(np.int32)

    def __len__(self) -> int:
        return len(self.ids)

    def encode(self, values: ArrayLike) -> NDArray[np.int32]:
        """The code of each value; -1 where the id is unknown, also when it is of the other kind."""
        asked = _as_ids(values)
        if not len(self) or asked.dtype.kind != self.ids.dtype.kind:
            return np.full(asked.shape, UNKNOWN, np.int32)
        place = np.minimum(np.searchsorted(self.ids, asked), len(self) - 1)
        return np.where(self.ids[place] == asked, place, UNKNOWN).astype(np.int32)

    def decode(self, codes: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """The ids of `codes`, all of them known."""
        decoded: NDArray[Any] = self.ids[codes]
        return decoded

    def to_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Arrays for `artifact.save`: integers as they are, strings as UTF-8 bytes and offsets."""
        if self.ids.dtype.kind != "U":
            return {name: self.ids}
        encoded = [text.encode() for text in self.ids.tolist()]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return {f"{name}_utf8": np.frombuffer(b"".join(encoded), np.uint8), f"{name}_offsets": offsets}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> Self:
        """The inverse of `to_arrays`."""
        if name in arrays:
            return cls(arrays[name])
        text, offsets = arrays[f"{name}_utf8"].tobytes(), arrays[f"{name}_offsets"]
        return cls(np.array([text[a:b].decode() for a, b in itertools.pairwise(offsets)], dtype=np.str_))


def _as_ids(values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind in "OST" or array.size == 0:
        return array.astype(np.str_)
    raise TypeError(f"ids are integers or strings, not {array.dtype}")
