"""Delimited text, in bounded blocks, with the line number of whatever is wrong.

Arrow parses; Python looks at single lines only after Arrow has refused a block, to name the line and its fault.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.tasks.readers.base import Chunk, Where, check_ratings
from predilect.tasks.readers.source import Source

TimeKind = Literal["integer", "number", "date", "date with zone"]

SEPARATOR = "\x1f"
"""Stands for "::" while a block is parsed: Arrow wants one character. It is the ASCII unit separator."""
ID = pa.dictionary(pa.int32(), pa.string())
_TIME_TYPES = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "date": pa.timestamp("us"),
    "date with zone": pa.timestamp("us", "UTC"),
}
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_INTEGER = re.compile(r"\s*-?\d{1,18}\s*")
_PARSE_BLOCK = 4 << 20


@dataclass(frozen=True)
class Layout:
    """How the lines of a delimited file are laid out.

    use: the field (counted from 0) of `user`, `item`, `rating` and maybe `timestamp` and `fold`.
    """

    delimiter: str
    n_fields: int
    use: Mapping[str, int]
    header_lines: int = 0
    quoted: bool = True
    escape: str | None = None
    latin1: bool = False
    time_kind: TimeKind = "integer"

    @property
    def character(self) -> str:
        return SEPARATOR if self.delimiter == "::" else self.delimiter


def read_delimited(source: Source, member: str, layout: Layout) -> Iterator[Chunk]:
    """The ratings of a delimited file. Raises DataError with the file and line of the first bad row."""
    label = source.label(member)
    first_line, skip = 1, layout.header_lines
    for raw in source.blocks(member):
        block = raw
        for _ in range(min(skip, block.count(b"\n") or 1)):
            block = block.partition(b"\n")[2]
            first_line += 1
            skip -= 1
        if layout.latin1:
            block = block.decode("latin-1").encode()
        if layout.delimiter == "::":
            block = block.replace(b"::", SEPARATOR.encode())
        n_lines = count_lines(block)
        if block and not block.isspace():
            yield parse(block, layout, label, range(first_line, first_line + n_lines))
        first_line += n_lines


def count_lines(block: bytes) -> int:
    """How many lines a block of whole lines has; the last may lack its line end."""
    return block.count(b"\n") + (block[-1:] not in (b"", b"\n"))


def filled_lines(block: bytes, first_line: int) -> NDArray[np.int64]:
    """The numbers of the lines that are not empty: an empty line is not a row."""
    return np.flatnonzero([bool(line.strip(b"\r")) for line in block.split(b"\n")]) + first_line


def place(lines: range | NDArray[np.int64]) -> Where:
    """`where` of rows that stand on these lines."""
    return lambda row: f"line {lines[row]}"


def parse(block: bytes, layout: Layout, label: str, lines: range | NDArray[np.int64]) -> Chunk:
    """The rows of a block of whole lines (no header); `lines` are the numbers of its lines."""
    types = {"user": ID, "item": ID, "rating": pa.float64(), "timestamp": _TIME_TYPES[layout.time_kind], "fold": ID}
    names = [str(k) for k in range(layout.n_fields)]
    wanted = {name: types[name] for name in types if name in layout.use}
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(block),
            read_options=arrow_csv.ReadOptions(column_names=names, block_size=_PARSE_BLOCK),
            parse_options=arrow_csv.ParseOptions(
                delimiter=layout.character,
                quote_char='"' if layout.quoted else False,
                escape_char=layout.escape or False,
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=[names[layout.use[name]] for name in wanted],
                column_types={names[layout.use[name]]: kind for name, kind in wanted.items()},
                null_values=[],
                strings_can_be_null=False,
            ),
        )
        table = table.rename_columns(list(wanted))
        if "timestamp" in wanted:
            column = table.schema.get_field_index("timestamp")
            table = table.set_column(column, "timestamp", seconds(table["timestamp"]))
    except pa.ArrowInvalid as error:
        raise _fault(block, layout, label, lines, str(error)) from error
    if table.num_rows != len(lines):
        filled = filled_lines(block, int(lines[0]))
        if table.num_rows != len(filled):
            raise _fault(block, layout, label, lines, "a quoted field runs over a line's end")
        lines = filled
    if "fold" in wanted:
        column = table.schema.get_field_index("fold")
        folds = table["fold"].cast(pa.string())
        table = table.set_column(column, "fold", pc.if_else(pc.equal(folds, ""), pa.scalar(None, pa.string()), folds))
    check_ratings(table, label, place(lines))
    return Chunk(table, place(lines))


def seconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Unix seconds (int64) of a column of integers, numbers or Arrow timestamps and dates; fractions are cut off."""
    if pa.types.is_integer(times.type):
        return times.cast(pa.int64())
    if pa.types.is_floating(times.type):
        return pc.floor(times).cast(pa.int64())
    if pa.types.is_date(times.type):
        return times.cast(pa.timestamp("s")).cast(pa.int64())
    return times.cast(pa.timestamp("s", times.type.tz), safe=False).cast(pa.int64())


def time_kind(sample: list[str]) -> TimeKind | None:
    """How the times of a sample are written; None when they are not times."""
    if not sample:
        return None
    if all(_INTEGER.fullmatch(text) for text in sample):
        return "integer"
    if all(_NUMBER.fullmatch(text) for text in sample):
        return "number"
    for kind in ("date", "date with zone"):
        try:
            pa.array(sample).cast(_TIME_TYPES[kind])
        except pa.ArrowInvalid:
            continue
        return kind
    return None


def split(line: str, delimiter: str, quoted: bool = True, escape: str | None = None) -> list[str]:
    """The fields of one line; the line itself when it cannot be split."""
    if delimiter == "::":
        line, delimiter = line.replace("::", SEPARATOR), SEPARATOR
    if not quoted:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, escapechar=escape), [])
    except csv.Error:  # A carriage return inside, or a field of more than 128 kB.
        return [line]


def is_number(text: str) -> bool:
    """Whether a field is written as a finite number."""
    return _NUMBER.fullmatch(text) is not None


def _fault(block: bytes, layout: Layout, label: str, lines: range | NDArray[np.int64], reason: str) -> DataError:
    """What is wrong with a block that Arrow refused, and on which line."""
    for number, row in zip(lines, block.split(b"\n"), strict=False):
        found = _line_fault(row.rstrip(b"\r"), layout) if row.rstrip(b"\r") else None
        if found:
            return DataError(f"{label}, line {number}: {found}.")
    return DataError(f"{label}, between lines {lines[0]} and {lines[-1]}: {reason.splitlines()[0]}; mend the file.")


def _line_fault(row: bytes, layout: Layout) -> str | None:
    try:
        text = row.decode()
    except UnicodeDecodeError as error:
        return f"byte 0x{row[error.start]:02x} is not UTF-8; save the file as UTF-8"
    fields = split(text, layout.character, layout.quoted, layout.escape)
    shown = text.replace(SEPARATOR, "::") if layout.delimiter == "::" else text
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    if layout.quoted and text.count('"') % 2 and not layout.escape:
        return f"a quoted field is not closed on its line ({shown!r}); ids may not hold line ends, so mend the quotes"
    if len(fields) != layout.n_fields:
        return (
            f"{len(fields)} field{'s' * (len(fields) != 1)} where {layout.n_fields} separated by "
            f"{name_of(layout.delimiter)} are expected ({shown!r}); mend the line, or check the file's format"
        )
    return _value_fault(fields, layout)


def _value_fault(fields: list[str], layout: Layout) -> str | None:
    rating = fields[layout.use["rating"]]
    if not is_number(rating):
        return f"the rating {rating!r} is not a number; correct it or remove the row"
    if "timestamp" in layout.use:
        time = fields[layout.use["timestamp"]]
        if time_kind([time]) not in ({"integer", "number"} if layout.time_kind == "number" else {layout.time_kind}):
            wanted = "a whole number of seconds" if layout.time_kind == "integer" else f"a {layout.time_kind} as above"
            return f"the timestamp {time!r} is not {wanted}; correct it or remove the column"
    return None


def name_of(delimiter: str) -> str:
    """A delimiter's name in messages."""
    return {"\t": "tab", ",": "comma", ";": "semicolon", " ": "space"}.get(delimiter, f"'{delimiter}'")
