"""Tables as columns of text: delimited files with a header, and Parquet."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from predilect.models.errors import DataError
from predilect.tasks.readers.rankings_base import Where, decode
from predilect.tasks.readers.source import Source
from predilect.tasks.readers.text import filled_lines, split

_DELIMITERS = (",", "\t", ";", "|")
_EMPTY = ["", "NA", "NaN", "nan", "null"]


@dataclass(frozen=True)
class Cells:
    """Columns of strings, null where empty; the place of each row; what to call the file and its reader."""

    columns: dict[str, pa.ChunkedArray]
    where: Where
    label: str
    reader: str

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))


def csv_cells(source: Source, member: str) -> Cells:
    """The cells of a delimited table with a header. Raises DataError with the file and line of the first fault."""
    label = source.label(member)
    with source.open(member) as stream:
        content = stream.read()
    text = decode(content, label)
    header = next(line for line in text.splitlines() if line.strip())
    delimiter = max(_DELIMITERS, key=lambda mark: len(split(header, mark)))
    names = [name.strip() for name in split(header, delimiter)]
    if len(names) < 2:
        raise DataError(
            f"{label}, line 1: {header!r:.80} has no comma, tab, semicolon or bar between columns; save the table "
            "with one."
        )
    lines = filled_lines(content.removeprefix(b"\xef\xbb\xbf"), 1)[1:]
    if len(set(names)) < len(names):
        raise DataError(f"{label}, line 1: two columns have the same name; rename one of {', '.join(names)}.")
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text.encode()),
            read_options=arrow_csv.ReadOptions(column_names=names, skip_rows_after_names=1),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=_EMPTY,
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as error:
        for number, row in enumerate(text.splitlines(), 1):
            if row.strip() and len(split(row, delimiter)) != len(names):
                found = len(split(row, delimiter))
                raise DataError(
                    f"{label}, line {number}: {found} fields where {len(names)} are expected; mend it."
                ) from None
        raise DataError(f"{label}: {str(error).splitlines()[0]}; mend the file.") from error
    if table.num_rows != len(lines):
        raise DataError(f"{label}: a quoted field runs over a line's end; put every row on one line.")
    cells = {name: pc.utf8_trim_whitespace(table[name]) for name in names}
    return Cells(cells, lambda row: f"line {lines[row]}", label, "csv")


def parquet_cells(source: Source, member: str) -> Cells:
    """The cells of a Parquet table. Raises DataError with the file and row of the first fault."""
    label = source.label(member)
    if source.kind == "zip":
        raise DataError(f"{label}: Parquet inside a zip archive cannot be read; unpack it and give the file inside.")
    source.head(member)
    try:
        table = pq.read_table(source.file(member))
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{label} is not a readable Parquet file ({str(error).splitlines()[0]}); write it again."
        ) from error
    cells = {}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type) and not pc.any(pc.not_equal(column, pc.floor(column))).as_py():
            column = column.cast(pa.int64())  # whole numbers with gaps come as floats
        try:
            cells[name] = column.cast(pa.string())
        except pa.ArrowException:
            continue  # lists and the like cannot hold ids or ranks
    if not cells:
        raise DataError(f"{label} has no columns of numbers or text; write rankings in long or wide form.")
    return Cells(cells, lambda row: f"row {row + 1}", label, "parquet")
