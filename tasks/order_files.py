"""Both orders of a set of ratings as plain array files, opened without being read: memory-mapped.

A folder holds `by_user` and `by_item`, each as indptr, index and codes (`.npy`), the `levels` of the codes, and
`orders.json` with their sizes, which is written last.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.models.ratings.orders import Order
from predilect.tasks.runs import write_json

FACTS, LEVELS = "orders.json", "levels.npy"
SIDES = ("by_user", "by_item")
PARTS = ("indptr", "index", "codes")


def part_path(folder: Path, side: str, part: str) -> Path:
    """Where one of an order's arrays is."""
    return folder / f"{side}.{part}.npy"


def write_orders(folder: Path, by_user: Order, by_item: Order) -> None:
    """Write orders that are in memory."""
    for side, order in zip(SIDES, (by_user, by_item), strict=True):
        for part in PARTS:
            np.save(part_path(folder, side, part), getattr(order, part))
    np.save(folder / LEVELS, by_user.levels)
    seal(folder)


def seal(folder: Path) -> None:
    """Say that all files are there, and how large they are."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.glob("*.npy"))}
    write_json(folder / FACTS, sizes)


def open_orders(folder: Path) -> tuple[Order, Order]:
    """The orders by user and by item. Raises DataError when a file is missing or of another size than was written."""
    try:
        sizes: dict[str, int] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        found = {name: (folder / name).stat().st_size for name in sizes}
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} holds no complete orders of ratings ({error}); ingest the data again.") from error
    if wrong := sorted(name for name in sizes if found[name] != sizes[name]):
        raise DataError(f"{folder / wrong[0]} is {found[wrong[0]]:,} B, not {sizes[wrong[0]]:,}; ingest again.")
    levels = np.load(folder / LEVELS, allow_pickle=False)
    by_user, by_item = (
        Order(*[_mapped(part_path(folder, side, part)) for part in PARTS], levels)  # type: ignore[call-arg]
        for side in SIDES
    )
    return by_user, by_item


def _mapped(path: Path) -> NDArray[Any]:
    """The file as an array. Copy on write: kernels are compiled for arrays that may be written."""
    return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
