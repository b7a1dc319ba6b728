"""Any Parquet file, or folder of Parquet parts in the order of their names, with users, items and ratings."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from predilect.models.errors import DataError
from predilect.tasks.readers.base import Chunk, Reader, Reading, Where, check_ratings, first_true
from predilect.tasks.readers.columns import find_columns
from predilect.tasks.readers.source import Source
from predilect.tasks.readers.text import seconds

BATCH_ROWS = 1 << 20


def _members(source: Source, member: str) -> tuple[str, ...]:
    return tuple(m for m in source.members if m.endswith(".parquet")) if source.kind == "folder" else (member,)


def _open(source: Source, member: str) -> pq.ParquetFile:
    label = source.label(member)
    if source.kind == "zip":
        raise DataError(f"{label}: Parquet inside a zip archive cannot be read; unpack it and give the file inside.")
    source.head(member)  # Names a missing permission as every reader does.
    try:
        # With pre_buffer, every column chunk that has been read stays in memory until the file is closed.
        return pq.ParquetFile(source.file(member), pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{label} is not a readable Parquet file ({str(error).splitlines()[0]}); write it again."
        ) from error


def _read(source: Source, member: str, columns: Mapping[str, str]) -> Reading:
    members = _members(source, member)
    with _open(source, members[0]) as file:
        names = file.schema_arrow.names
    use = find_columns(names, len(names), columns, source.label(members[0]))
    shown = {name: names[place] for name, place in use.items()}
    return Reading(_chunks(source, members, shown), shown, typed_ids=True)


def _chunks(source: Source, members: tuple[str, ...], shown: Mapping[str, str]) -> Iterator[Chunk]:
    schema: pa.Schema | None = None
    for member in members:
        label, row = source.label(member), 1
        with _open(source, member) as file:
            absent = [column for column in shown.values() if column not in file.schema_arrow.names]
            if absent:
                raise DataError(f"{label} lacks the column {absent[0]} of the first part; give parts of one shape.")
            batches = file.iter_batches(BATCH_ROWS, columns=list(shown.values()))
            while True:
                try:
                    batch = next(batches, None)
                except (pa.ArrowException, OSError) as error:
                    raise DataError(f"{label} is damaged ({str(error).splitlines()[0]}); write it again.") from error
                if batch is None:
                    break
                where = _place(row)
                table = pa.table(
                    {name: _column(name, batch.column(column), label, where) for name, column in shown.items()}
                )
                schema = schema or table.schema
                if table.schema != schema:
                    raise DataError(f"{label} has other types of ids than the first part; give parts of one shape.")
                check_ratings(table, label, where)
                yield Chunk(table, where)
                row += batch.num_rows


def _place(first: int) -> Where:
    return lambda row: f"row {first + row}"


def _column(name: str, values: pa.Array, label: str, where: Where) -> pa.ChunkedArray:
    """A column in its canonical type."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if name not in {"fold", "rating"}:
        bad = first_true(pc.is_null(values))
        if bad is not None:
            raise DataError(f"{label}, {where(bad)}: the {name} is missing; fill it in or remove the row.")
    try:
        if name in ("user", "item"):
            if pa.types.is_integer(kind):
                return pa.chunked_array([values.cast(kind).cast(pa.int64())])
            if text:
                return pa.chunked_array([values if kind == pa.string() else values.cast(pa.string())])
        elif name == "fold":
            return pa.chunked_array([values.cast(kind).cast(pa.string())])
        elif name == "rating":
            if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
                return pa.chunked_array([values.cast(pa.float64(), safe=False)])
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind):
            return seconds(pa.chunked_array([values]))
    except pa.ArrowInvalid as error:
        raise DataError(f"{label}, from {where(0)}: the column for the {name}: {error}; correct it.") from error
    wanted = {"user": "integers or strings", "item": "integers or strings", "rating": "numbers"}.get(name, "times")
    raise DataError(f"{label}: the column for the {name} holds {kind}, not {wanted}; convert it.")


READER = Reader(
    "parquet",
    "any Parquet file with columns for users, items and ratings",
    ("ratings.parquet",),
    lambda name, head: head[:4] == b"PAR1",
    _read,
    takes_columns=True,
    members=_members,
)
