"""Any delimited table (CSV, TSV, …) with columns for users, items and ratings; its first lines show its shape."""

from collections.abc import Mapping, Sequence

from predilect.models.errors import DataError
from predilect.tasks.readers.base import Reader, Reading
from predilect.tasks.readers.columns import find_columns
from predilect.tasks.readers.source import HEAD, Source
from predilect.tasks.readers.text import Layout, TimeKind, is_number, name_of, read_delimited, split, time_kind

DELIMITERS = ("\t", "::", ",", ";", "|", " ")
_SAMPLE_LINES = 200


def _read(source: Source, member: str, columns: Mapping[str, str]) -> Reading:
    label = source.label(member)
    lines = _sample(source, member)
    delimiter = find_delimiter(lines, label)
    rows = [split(line, delimiter) for line in lines]
    names = None if any(map(is_number, rows[0])) else [name.strip() for name in rows[0]]
    use = find_columns(names, len(rows[0]), columns, label)
    warnings: list[str] = []
    kind: TimeKind = "integer"
    if "timestamp" in use:
        place = use["timestamp"]
        times = [row[place] for row in rows[names is not None :] if len(row) == len(rows[0])]
        found = time_kind(times)
        if found is not None:
            kind = found
        elif times and "timestamp" in columns:
            raise DataError(
                f"{label}: {times[0]!r} in the column for columns.timestamp is not a time; use unix seconds or "
                "YYYY-MM-DD hh:mm:ss."
            )
        elif times:
            warnings.append(
                f"the column {names[place] if names else place + 1} is left out: {times[0]!r} is not a time"
            )
            del use["timestamp"]
    layout = Layout(delimiter, len(rows[0]), use, header_lines=int(names is not None), time_kind=kind)
    shown = {name: names[place] if names else str(place + 1) for name, place in use.items()}
    return Reading(read_delimited(source, member, layout), shown, warnings=warnings)


def _sample(source: Source, member: str) -> list[str]:
    """The first lines that are not empty."""
    head = source.head(member)
    if not head.strip(b"\xef\xbb\xbf\r\n "):
        raise DataError(f"{source.label(member)} is empty; give a file with one rating a line.")
    if b"\0" in head:
        raise DataError(
            f"{source.label(member)} holds NUL bytes, so it is not UTF-8 text; save it as UTF-8 CSV or Parquet."
        )
    whole = head if len(head) < HEAD else head[: head.rfind(b"\n") + 1] or head
    lines = (line.rstrip("\r") for line in whole.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").split("\n"))
    return [line for line in lines if line][:_SAMPLE_LINES]


def find_delimiter(lines: Sequence[str], label: str) -> str:
    """The delimiter that cuts the most lines into as many fields (three or more) as the first line."""
    best, best_share = "", 0.0
    for delimiter in DELIMITERS:
        n_fields = len(split(lines[0], delimiter))
        share = sum(len(split(line, delimiter)) == n_fields for line in lines) / len(lines) if n_fields >= 3 else 0.0
        if share > best_share:
            best, best_share = delimiter, share
    if not best:
        raise DataError(
            f"{label}, line 1: {lines[0]!r:.80} does not split into three or more fields by "
            f"{', '.join(name_of(d) for d in DELIMITERS)}; save the table with one of these delimiters."
        )
    return best


READER = Reader(
    "csv",
    "any CSV or TSV with columns for users, items and ratings",
    ("ratings.csv", "ratings.tsv", "ratings.txt"),
    lambda name, head: True,
    _read,
    ("tsv", "table"),
    takes_columns=True,
)
