"""The test part of ratings that are in files: chosen by a hash of user and item, taken out of both orders.

The training part's orders and the test rows (users, items, ratings: `.npy`) lie beside the whole orders, under a key
of the share and the seed, so the same split is made once.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from predilect.models.compiled import default_threads
from predilect.models.errors import DataError
from predilect.models.evaluation.splits import by_key, key_of, mixed
from predilect.tasks import progress
from predilect.tasks.ingest_large import ORDERS
from predilect.tasks.order_build import Block, blocks
from predilect.tasks.order_files import LEVELS, SIDES, part_path, seal
from predilect.tasks.output import cannot_write, need_space
from predilect.tasks.runs import read_json, write_json

SUMMARY = "split.json"
TEST = ("users", "items", "ratings")


def split_large(folder: Path, share: float, seed: int, n_threads: int | None = None) -> Path:
    """The folder of the training part's orders, the test rows and `split.json` (the sizes of both parts).

    folder: what `ingest_large` made. A row is in the test part when the hash of its user's and its item's id is in
    that share of all hashes: held out once, held out of all data that ever hold it. Raises DataError when either part
    would be empty or the disk is too small.
    """
    target = folder / f"split-{share:g}-{seed}"
    if (target / SUMMARY).exists():
        return target
    keys = [
        key_of(map(str, pq.read_table(folder / f"{side}s.parquet")["id"].to_pylist()), seed)
        for side in ("user", "item")
    ]
    whole = folder / ORDERS
    need_space(folder, sum(path.stat().st_size for path in whole.glob("*.npy")))
    draft = target.with_name(f".{target.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir()
        levels = np.load(whole / LEVELS, allow_pickle=False)
        np.save(draft / LEVELS, levels)
        counts = []
        for number, side in enumerate(SIDES):
            progress.report("split", 0.5 * number, side.replace("_", " "))
            own, other = keys if side == "by_user" else keys[::-1]
            counts.append(_take_out(whole, draft, side, own, other, share, levels, n_threads or default_threads()))
        sizes = {"train_rows": int(counts[0][0].sum()), "test_rows": int(counts[0][1].sum())}
        if not all(sizes.values()):
            raise DataError(f"test_share = {share:g} leaves {sizes['train_rows']:,} ratings for training and "
                            f"{sizes['test_rows']:,} for the test; give another share or more data.")  # fmt: skip
        seal(draft)
        write_json(draft / SUMMARY, {"kind": f"stable:{share:g}", **sizes, **_unseen(draft, counts)})
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def held_out(folder: Path) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Users, items and ratings of the test rows, by user; codes of all ids, memory-mapped."""
    users, items, ratings = (np.load(folder / f"test.{name}.npy", mmap_mode="r") for name in TEST)
    return users, items, ratings


def split_summary(folder: Path) -> dict[str, Any]:
    """The sizes of both parts."""
    summary: dict[str, Any] = read_json(folder / SUMMARY)
    return summary


def _take_out(
    whole: Path,
    draft: Path,
    side: str,
    own: NDArray[np.uint64],
    other: NDArray[np.uint64],
    share: float,
    levels: NDArray[np.float32],
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Write the training part of one order, by user also the test rows; how many of both every row has."""

    def chosen(block: Block) -> tuple[Block, NDArray[np.int64], NDArray[np.bool_]]:
        first, indptr, index, _ = block
        rows = np.repeat(np.arange(first, first + len(indptr) - 1), np.diff(indptr))
        # The hash is of user and item in this order, on both sides.
        a, b = (own[rows], other[index]) if side == "by_user" else (other[index], own[rows])
        return block, rows, by_key(mixed(a, b), share)

    trained, tested = (np.zeros(len(own), np.int64) for _ in range(2))
    code_type = np.load(part_path(whole, side, "codes"), mmap_mode="r").dtype
    with ExitStack() as stack:
        index_file = stack.enter_context(_growing(part_path(draft, side, "index"), np.dtype(np.int32)))
        code_file = stack.enter_context(_growing(part_path(draft, side, "codes"), code_type))
        test_files = [
            stack.enter_context(_growing(draft / f"test.{name}.npy", np.dtype(kind)))
            for name, kind in zip(TEST, (np.int32, np.int32, np.float32), strict=True)
            if side == "by_user"
        ]
        for (first, indptr, index, codes), rows, test in _in_threads(chosen, blocks(whole, side), n_threads):
            n_rows = len(indptr) - 1
            tested[first : first + n_rows] = np.bincount(rows[test] - first, minlength=n_rows)
            trained[first : first + n_rows] = np.diff(indptr) - tested[first : first + n_rows]
            index_file.write(index[~test].data)
            code_file.write(codes[~test].data)
            ratings = levels[codes[test]] if len(levels) else codes[test]
            for file, values in zip(test_files, (rows[test].astype(np.int32), index[test], ratings), strict=False):
                file.write(values.data)
    np.save(part_path(draft, side, "indptr"), np.concatenate([[0], np.cumsum(trained)]))
    return trained, tested


def _in_threads(work: Any, given: Iterator[Any], n_threads: int) -> Iterator[Any]:
    """`work` of each, in order, a few at a time."""
    with ThreadPoolExecutor(n_threads) as pool:
        while some := list(islice(given, n_threads)):
            yield from pool.map(work, some)


@contextmanager
def _growing(path: Path, kind: np.dtype[Any]) -> Iterator[IO[bytes]]:
    """A one-dimensional `.npy` file that is written bit by bit; its length is filled in at the end."""

    def header(file: IO[bytes], length: int) -> int:
        facts = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(file, facts)
        return file.tell()

    with path.open("wb") as file:
        start = header(file, 0)
        yield file
        length = (file.tell() - start) // kind.itemsize
        file.seek(0)
        if header(file, length) != start:
            raise AssertionError("the header of a .npy file leaves room for any length")


def _unseen(draft: Path, counts: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> dict[str, int]:
    """Test users and items without a training row, and the test rows that have either."""
    new = [(tested > 0) & (trained == 0) for trained, tested in counts]
    users, items, _ = held_out(draft)
    return {
        "unseen_users": int(new[0].sum()),
        "unseen_items": int(new[1].sum()),
        "unseen_rows": int(np.count_nonzero(new[0][users] | new[1][items])),
    }
