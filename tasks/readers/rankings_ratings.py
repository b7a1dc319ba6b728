"""Rankings derived from ratings: every user's items by rating, the highest first."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.tasks.readers.rankings_base import RankedRows, RankingsReading, TieRule, assemble


def rank_ratings(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    ratings: NDArray[np.float64],
    item_ids: pa.Array,
    *,
    label: str,
    ties: TieRule,
) -> RankingsReading:
    """One ballot a user from canonical ratings: codes of users and items, ratings, all (N,), and the ids of the items.

    Equal ratings are ties: the last of a ballot are cut, the others follow the rule. Users are told apart by their
    order in messages. Raises DataError when every user has a single rating, or as `assemble` does.
    """
    present, ballot = np.unique(users, return_inverse=True)
    if len(present) == len(users):
        raise DataError(f"{label}: every user rated one item only; rankings need at least two ratings a user.")
    rows = RankedRows(
        ballot.astype(np.int64),
        items.astype(np.int32),
        -ratings.astype(np.float64),
        np.ones(len(present), np.int64),
        None,
        lambda row: f"row {row + 1}",
    )
    return assemble(rows, item_ids, label=label, reader="ratings", form="ratings", ties=ties)
