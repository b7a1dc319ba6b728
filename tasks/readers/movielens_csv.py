"""MovieLens 20M, 25M, 32M and the small sets: `ratings.csv` with the header userId,movieId,rating,timestamp."""

from collections.abc import Mapping

from predilect.models.errors import DataError
from predilect.tasks.readers.base import Reader, Reading
from predilect.tasks.readers.source import Source
from predilect.tasks.readers.text import Layout, read_delimited, split

HEADER = ["userId", "movieId", "rating", "timestamp"]
_LAYOUT = Layout(",", 4, {"user": 0, "item": 1, "rating": 2, "timestamp": 3}, header_lines=1)


def _header(head: bytes) -> list[str]:
    return split(head.partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf").decode(errors="replace").strip(), ",")


def _read(source: Source, member: str, columns: Mapping[str, str]) -> Reading:
    found = _header(source.head(member))
    if found != HEADER:
        raise DataError(
            f"{source.label(member)}, line 1: the header is {','.join(found)!r:.80}, not {','.join(HEADER)}; "
            "choose the reader csv for other tables."
        )
    return Reading(
        read_delimited(source, member, _LAYOUT), dict(zip(("user", "item", "rating", "timestamp"), HEADER, strict=True))
    )


READER = Reader(
    "ml-25m",
    "MovieLens 25M (ratings.csv)",
    ("ratings.csv",),
    lambda name, head: _header(head) == HEADER,
    _read,
    ("ml-20m", "ml-32m", "ml-latest", "ml-latest-small", "movielens-25m"),
)
