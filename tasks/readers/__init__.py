"""Readers of published rating formats, and the choice among them: by name, or by what a source holds."""

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.readers import (
    bookcrossing,
    jester,
    lastfm,
    movielens_100k,
    movielens_csv,
    movielens_dat,
    parquet,
    table,
    yahoo_music,
)
from predilect.tasks.readers.base import Reader
from predilect.tasks.readers.source import Source, base_name

AUTO = "auto"
# In the order in which they are tried: the table takes whatever is left.
READERS: tuple[Reader, ...] = (
    parquet.READER,
    movielens_100k.READER,
    movielens_dat.READER,
    movielens_csv.READER,
    lastfm.READER,
    bookcrossing.READER,
    yahoo_music.READER,
    jester.READER,
    table.READER,
)
_TABLES = (".csv", ".tsv", ".txt", ".dat", ".data", ".parquet", ".zip")


def reader_names() -> list[str]:
    """The names that `reader` may have."""
    return [AUTO, *(reader.name for reader in READERS)]


def choose(source: Source, name: str = AUTO, *, by_columns: bool = False) -> tuple[Source, str, Reader]:
    """The source to read (a lone file of a folder counts as that file), its ratings file, and its reader.

    by_columns: the user maps columns, so only readers of general tables come into question.
    Raises ParameterError for an unknown name, DataError when the source holds no file for the reader.
    """
    readers = READERS if name == AUTO else tuple(r for r in READERS if name == r.name or name in r.aliases)
    if not readers:
        raise ParameterError(f"reader {name!r} is unknown; choose one of {', '.join(reader_names())}.")
    if by_columns:
        readers = tuple(reader for reader in readers if reader.takes_columns)
        if not readers:
            raise ParameterError(
                f"columns cannot be mapped for the reader {name}: its format fixes them; leave them out."
            )
    for reader in readers:
        member = source.find(*reader.names)
        parts = reader is parquet.READER and _all_parquet(source)
        if member is None and (parts or (source.kind != "folder" and len(source.members) == 1)):
            member = source.members[0]
        if member is None:
            continue
        if name != AUTO or reader.looks(base_name(member), source.head(member)):
            return source, member, reader
    if source.kind == "folder":
        tables = [member for member in source.members if base_name(member).lower().endswith(_TABLES)]
        if len(tables) == 1:
            return choose(Source(source.path / tables[0]), name, by_columns=by_columns)
    inside = ", ".join(source.members[:8]) + (", …" if len(source.members) > 8 else "") or "nothing"
    wanted = " or ".join(dict.fromkeys(n for reader in readers for n in reader.names[:1]))
    raise DataError(
        f"{source.path} is a {'folder' if source.kind == 'folder' else 'zip archive'} without {wanted} "
        f"(it holds {inside}); give the ratings file itself."
    )


def _all_parquet(source: Source) -> bool:
    return bool(source.members) and all(member.endswith(".parquet") for member in source.members)
