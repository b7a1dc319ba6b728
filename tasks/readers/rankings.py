"""Readers of rankings, and the choice among them: by name, or by what a source holds."""

from collections.abc import Mapping
from typing import Literal, get_args

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.readers import rankings_counted, rankings_preflib, rankings_table
from predilect.tasks.readers.rankings_base import RankingsReading, TieRule
from predilect.tasks.readers.rankings_cells import csv_cells, parquet_cells
from predilect.tasks.readers.rankings_table import Form
from predilect.tasks.readers.source import Source, base_name

ReaderName = Literal["auto", "preflib", "counted", "csv", "parquet"]


def choose_rankings(source: Source, name: str = "auto") -> tuple[str, ReaderName]:
    """The file of a source to read, and the reader for it.

    Raises ParameterError for an unknown name, DataError for a folder or archive of other than one file.
    """
    if name not in get_args(ReaderName):
        raise ParameterError(f"reader {name!r} is unknown; choose one of {', '.join(get_args(ReaderName))}.")
    if len(source.members) != 1:
        inside = ", ".join(source.members[:8]) + (", …" if len(source.members) > 8 else "") or "nothing"
        raise DataError(f"{source.path} holds {inside}; give the file of rankings itself.")
    member = source.members[0]
    head = source.head(member)
    if name != "auto":
        return member, name  # type: ignore[return-value]
    if head[:4] == b"PAR1":
        return member, "parquet"
    if rankings_preflib.looks(base_name(member), head):
        return member, "preflib"
    return member, "counted" if rankings_counted.looks(base_name(member), head) else "csv"


def read_rankings(
    source: Source,
    *,
    reader: str = "auto",
    columns: Mapping[str, str] | None = None,
    form: Form = "auto",
    ties: TieRule | None = None,
) -> RankingsReading:
    """The ballots of a source. Raises DataError or ParameterError, one sentence with the file and the place.

    columns: which column of a table is the ballot, item, rank, winner, loser, first, second, count or weight (default:
    guessed from common names). form: of a table. ties: what becomes of ties inside a ballot.
    """
    member, chosen = choose_rankings(source, reader)
    rule = ties or TieRule()
    if chosen in ("preflib", "counted"):
        if columns:
            raise ParameterError(
                f"columns cannot be mapped for the reader {chosen}: its format fixes them; leave them out."
            )
        read = rankings_preflib.read if chosen == "preflib" else rankings_counted.read
        return read(source, member, rule)
    cells = parquet_cells if chosen == "parquet" else csv_cells
    return rankings_table.read(cells(source, member), columns or {}, form, rule)
