"""MovieLens 1M and 10M: `ratings.dat`, lines of user::item::rating::timestamp without a header."""

import re
from collections.abc import Mapping

from predilect.tasks.readers.base import Reader, Reading
from predilect.tasks.readers.source import Source
from predilect.tasks.readers.text import Layout, read_delimited

COLUMNS = {"user": "UserID", "item": "MovieID", "rating": "Rating", "timestamp": "Timestamp"}
_LAYOUT = Layout("::", 4, {"user": 0, "item": 1, "rating": 2, "timestamp": 3}, quoted=False)
_LINE = re.compile(rb"\d+::\d+::[\d.]+::\d+\r?(\n|$)")


def _read(source: Source, member: str, columns: Mapping[str, str]) -> Reading:
    # The scale is left to inference: 1M has whole stars from 1, 10M half stars from 0.5.
    return Reading(read_delimited(source, member, _LAYOUT), dict(COLUMNS))


READER = Reader(
    "ml-1m",
    "MovieLens 1M and 10M",
    ("ratings.dat",),
    lambda name, head: _LINE.match(head) is not None,
    _read,
    ("ml-10m", "movielens-1m", "movielens-10m"),
)
