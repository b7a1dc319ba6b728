"""HetRec 2011 Last.fm: `user_artists.dat`, listening counts recoded to one to five stars as in the paper.

For each user the artists are ranked by listening count (ties share their average rank, as a share of the user's
artists): up to 10 % → 1 star, to 30 % → 2, to 70 % → 3, to 90 % → 4, above → 5 (Langseth & Nielsen 2015, §4.2).
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.tasks.readers.base import Chunk, Reader, Reading, Scale, gather
from predilect.tasks.readers.source import Source
from predilect.tasks.readers.text import Layout, read_delimited

COLUMNS = {"user": "userID", "item": "artistID", "rating": "weight"}
STARS_BELOW = (0.1, 0.3, 0.7, 0.9)
_HEADER = b"userID\tartistID\tweight"


def _read(source: Source, member: str, columns: Mapping[str, str]) -> Reading:
    header_lines = int(source.head(member).lstrip(b"\xef\xbb\xbf").startswith(_HEADER))
    layout = Layout("\t", 3, {"user": 0, "item": 1, "rating": 2}, header_lines, quoted=False)
    note = "listening counts are recoded to stars by their rank among the user's artists"
    return Reading(_chunks(source, member, layout), dict(COLUMNS), Scale(1, 5, 1), warnings=[note])


def _chunks(source: Source, member: str, layout: Layout) -> Iterator[Chunk]:
    whole = gather(read_delimited(source, member, layout))
    if whole.table.num_rows:
        table = whole.table.unify_dictionaries()
        users = np.concatenate([part.indices.to_numpy() for part in table["user"].chunks])
        stars = percentile_stars(users, table["rating"].to_numpy())
        whole = Chunk(table.set_column(table.schema.get_field_index("rating"), "rating", pa.array(stars)), whole.where)
    yield whole


def percentile_stars(users: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stars 1..5 of each row from the rank of its weight among the weights of its user. users, weights: (n,)."""
    order = np.lexsort((weights, users))
    user, weight = users[order], weights[order]
    new_user = np.flatnonzero(np.diff(user, prepend=user[:1] - 1))
    per_user = np.diff(new_user, append=len(user))
    new_tie = np.flatnonzero((np.diff(user, prepend=user[:1] - 1) != 0) | (np.diff(weight, prepend=weight[:1]) != 0))
    per_tie = np.diff(new_tie, append=len(user))
    # Ranks of a tie run from first to last, counted from 1 within the user: their average.
    first = new_tie - np.repeat(new_user, per_user)[new_tie]
    rank = np.repeat(first + (per_tie + 1) / 2, per_tie)
    stars = np.empty(len(user))
    stars[order] = 1 + np.searchsorted(STARS_BELOW, rank / np.repeat(per_user, per_user), side="left")
    return stars


READER = Reader(
    "lastfm",
    "HetRec 2011 Last.fm (percentile stars)",
    ("user_artists.dat",),
    lambda name, head: name == "user_artists.dat" or head.startswith(_HEADER),
    _read,
    ("hetrec2011-lastfm-2k", "hetrec-lastfm"),
)
