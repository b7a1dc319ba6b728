"""From ids and feature columns to a design, and the same way again at scoring."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from predilect.models.clicks.clusters import UserClusters
from predilect.models.clicks.design import Design
from predilect.models.clicks.features import FeatureColumns, FeatureEncoder, TextOptions
from predilect.models.ids import UNKNOWN, IdMap


class ContextEncoder:
    """Features of items, clusters of users and codes of groups, as learned from the training rows."""

    def __init__(self, features: FeatureEncoder, clusters: UserClusters | None, groups: IdMap | None) -> None:
        self.features, self.clusters, self.groups = features, clusters, groups

    @classmethod
    def fit(
        cls,
        columns: FeatureColumns,
        *,
        options: TextOptions | None = None,
        clusters: UserClusters | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """columns: the contexts of training rows, one line each; clusters: of users, from the history before training;
        groups: ids of the groups of the training rows (each at least once)."""
        group_ids = None if groups is None else IdMap.of(groups)[0]
        return cls(FeatureEncoder.fit(columns, options), clusters, group_ids)

    def encode(
        self,
        columns: FeatureColumns,
        *,
        lines: ArrayLike | None = None,
        users: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Design:
        """The design of rows: row r shows line `lines[r]` of `columns` (line r without `lines`) to `users[r]`.

        An encoder without feature columns takes the number of rows from `lines`, `users` or `groups`. Unknown users,
        users without history and unknown groups get -1; without `users` or `groups` all rows do.
        """
        features = self.features.transform(columns)
        if not self.features.parts:
            known = [len(np.asarray(ids)) for ids in (lines, users, groups) if ids is not None]
            features, lines = sparse.csr_matrix((known[0] if known else 0, 0), dtype=np.float32), None
        n_rows = features.shape[0] if lines is None else len(np.asarray(lines))
        missing = np.full(n_rows, UNKNOWN, np.int32)
        return Design.of(
            features,
            lines=lines,
            clusters=missing if self.clusters is None or users is None else self.clusters.encode(users),
            n_clusters=0 if self.clusters is None else self.clusters.n_clusters,
            groups=missing if self.groups is None or groups is None else self.groups.encode(groups),
            n_groups=0 if self.groups is None else len(self.groups),
            parts=self.features.parts,
        )

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and facts for `models.artifact`."""
        arrays, facts = self.features.to_arrays()
        facts = {"features": facts, "n_clusters": self.clusters.n_clusters if self.clusters else 0}
        if self.clusters is not None:
            arrays |= {**self.clusters.users.to_arrays("users"), "user_clusters": self.clusters.labels}
        if self.groups is not None:
            arrays |= self.groups.to_arrays("groups")
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """The inverse of `to_arrays`."""
        clusters = groups = None
        if "user_clusters" in arrays:
            users = IdMap.from_arrays(arrays, "users")
            clusters = UserClusters(users, arrays["user_clusters"], facts["n_clusters"])
        if "groups" in arrays or "groups_utf8" in arrays:
            groups = IdMap.from_arrays(arrays, "groups")
        return cls(FeatureEncoder.from_arrays(arrays, facts["features"]), clusters, groups)
