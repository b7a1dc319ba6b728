"""Why a maximum of the likelihood does not exist, by item.

Worths have a finite maximum-likelihood estimate exactly when the graph of wins is strongly connected (Ford 1957): every
item has beaten, through others, every item that beat it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from predilect.models.errors import DataError
from predilect.models.rankings import pair_kernels
from predilect.models.rankings.layout import Layout

SHOWN = 5


@dataclass(frozen=True)
class Connectivity:
    """The strong components of the graph of wins, as arrays of item codes.

    unseen: items in no comparison, or (menu "all") never chosen and so only ever behind. groups: the other strong
    components, largest first. only_win, only_lose: the groups no other group beats, or that beat no other group, when
    there is more than one group. n_islands: how many sets of items have no comparison between them at all.
    """

    unseen: NDArray[np.int64]
    groups: list[NDArray[np.int64]]
    only_win: list[NDArray[np.int64]]
    only_lose: list[NDArray[np.int64]]
    n_islands: int

    @property
    def connected(self) -> bool:
        """Whether finite worths exist."""
        return not len(self.unseen) and len(self.groups) == 1

    def describe(self, names: Sequence[object] | None = None) -> str:
        """One clause that names the items in the way: those never ranked, or that only win, only lose or are apart."""
        if self.connected:
            return "every item is compared with every other, directly or through others"
        if len(self.unseen):
            return f"{_items(self.unseen, names)} never ranked before another item"
        if self.n_islands > 1:
            smallest = self.groups[-1]
            return f"{_items(smallest, names)} never compared with the others ({self.n_islands} separate islands)"
        group, verb = min(
            [(group, "only ever before") for group in self.only_win]
            + [(group, "only ever behind") for group in self.only_lose],
            key=lambda pair: len(pair[0]),
        )
        return f"{_items(group, names)} {verb} the other items"


def diagnose(layout: Layout, threshold: float = 0.0) -> Connectivity:
    """The connectivity of weighted ballots; wins that weigh `threshold` or less in all do not count."""
    n_items = layout.n_items
    weight = np.zeros((n_items, n_items))
    pair_kernels.successions(layout.items, layout.offsets, layout.stages, layout.tail_stored, layout.weights, weight)
    graph = csr_array(weight > threshold)
    n_groups, label = connected_components(graph, directed=True, connection="strong")
    if n_groups == 1:
        return Connectivity(np.empty(0, np.int64), [np.arange(n_items)], [], [], 1)
    better, worse = graph.nonzero()
    unseen = np.setdiff1d(np.arange(n_items), better)
    sizes = np.bincount(label, minlength=n_groups)
    unseen = unseen[sizes[label[unseen]] == 1]
    seen = np.setdiff1d(np.arange(n_items), unseen)
    crossing = label[better] != label[worse]
    winners, losers = np.unique(label[better[crossing]]), np.unique(label[worse[crossing]])
    names = sorted(set(label[seen].tolist()), key=lambda group: -int(sizes[group]))
    members = {group: np.flatnonzero(label == group) for group in names}
    n_weak, _ = connected_components(graph[seen][:, seen], directed=False)
    return Connectivity(
        unseen,
        [members[group] for group in names],
        [members[group] for group in names if group in winners and group not in losers],
        [members[group] for group in names if group in losers and group not in winners],
        int(n_weak),
    )


def require_finite(layout: Layout, names: Sequence[object] | None = None) -> None:
    """Raises DataError, naming the items, unless finite worths exist."""
    found = diagnose(layout)
    if not found.connected:
        raise DataError(
            f"No finite worths fit these ballots: {found.describe(names)}; set nu above 0 (a prior that every item "
            "beats and loses to), or leave those items out."
        )


def _items(codes: NDArray[np.int64], names: Sequence[object] | None) -> str:
    shown = [str(names[code] if names is not None else int(code)) for code in codes[:SHOWN]]
    more = f" and {len(codes) - SHOWN} more" if len(codes) > SHOWN else ""
    return f"item {shown[0]} is" if len(codes) == 1 else f"items {', '.join(shown)}{more} are"
