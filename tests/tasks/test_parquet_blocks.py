"""Blocks of a Parquet file are the same rows and bits whatever the row groups, and whichever were read before."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError
from predilect.tasks.parquet_blocks import Blocks, each_block

N_ROWS, ROWS = 1000, 64


@pytest.fixture(scope="module", params=[7, 64, 300, 5000])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers, texts and categories, some missing, in row groups of so many rows."""
    rng = np.random.default_rng(4)
    words = np.array([f"w{k}" for k in range(40)])[rng.integers(0, 40, N_ROWS)]
    table = pa.table({
        "number": np.arange(N_ROWS),
        "text": pa.array([word if k % 9 else None for k, word in enumerate(words.tolist())]),
        "category": pa.array(words.tolist()).dictionary_encode(),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("blocks") / "table.parquet"
    pq.write_table(table, path, row_group_size=request.param)
    return path


def _bits(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def test_blocks_in_any_order(file: Path) -> None:
    rising = Blocks(file, ROWS)
    expected = [rising.read(number) for number in range(len(rising))]
    whole = pq.read_table(file)
    assert len(expected) == 16
    assert pa.concat_tables(expected).combine_chunks().to_pydict() == whole.to_pydict()
    assert expected[0].schema.types == whole.schema.types
    jumping = Blocks(file, ROWS)
    for number in [*np.random.default_rng(1).permutation(16).tolist(), 15, 15, 0]:
        assert _bits(jumping.read(number)) == _bits(expected[number])


def test_columns_in_the_order_asked_and_blocks_that_travel(file: Path) -> None:
    blocks = Blocks(file, ROWS, ["text", "number"])
    found = pickle.loads(pickle.dumps(blocks)).read(3)
    assert found.column_names == ["text", "number"]
    assert found["number"].to_pylist() == list(range(192, 256))


@pytest.mark.parametrize("n_threads", [1, 2, 40])
def test_each_block_is_answered_once_on_any_number_of_threads(file: Path, n_threads: int) -> None:
    made = []

    def make(n_threads: int) -> object:
        made.append(n_threads)
        return lambda block, number: (number, block["number"][0].as_py())

    numbers = [0, 2, 3, 9, 15]
    found = dict(each_block(Blocks(file, ROWS), numbers, make, workers=None, n_threads=n_threads, needs=[]))  # type: ignore[arg-type]
    assert found == {number: (number, number * ROWS) for number in numbers}
    assert made == [{1: 1, 2: 1, 40: 8}[n_threads]]  # few blocks: the threads left over are within them


def test_no_rows_and_no_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    assert len(Blocks(tmp_path / "empty.parquet", ROWS)) == 0
    (tmp_path / "text.parquet").write_text("a,b")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        len(Blocks(tmp_path / "text.parquet", ROWS))
    whole = pa.table({"a": np.random.default_rng(0).integers(0, 2**40, 100_000)})
    pq.write_table(whole, tmp_path / "cut.parquet", compression="gzip")
    content = bytearray((tmp_path / "cut.parquet").read_bytes())
    content[1000:200_000] = bytes(199_000)
    (tmp_path / "cut.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"cut.parquet is not a readable Parquet file"):
        Blocks(tmp_path / "cut.parquet", ROWS).read(0)
