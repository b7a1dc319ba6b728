"""Fold-in where the cold-start study would fit again: the cold-start users are left out of the fit and folded in."""

from collections.abc import Callable
from itertools import pairwise
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from predilect.models.ids import UNKNOWN, IdMap
from predilect.models.ratings.fold_in import fold_in
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.posterior import Side

Rows = NDArray[np.int64]


class FoldInPredict:
    """A `FitPredict` for `evaluation.cold_start`: one fit a group of users, whatever κ and the repeat.

    The model is fitted to the training rows of the other groups, and each cold user's posterior comes from the kept
    ratings by fold-in. The fit on all ratings, tested on more than one group, is one where nobody is cold.
    """

    def __init__(
        self,
        users: NDArray[np.int32],
        items: NDArray[np.int32],
        ratings: NDArray[np.float32],
        user_ids: IdMap,
        item_ids: IdMap,
        group_of: NDArray[np.int32],
        fit: Callable[[Rows], RatingsModel],
    ) -> None:
        """users, items: codes over the whole data, (N,), by its id maps. group_of: the plan's. fit: a model of some
        rows, by the same ids."""
        self._users, self._items, self._ratings, self._fit = users, items, ratings, fit
        self._user_ids, self._item_ids, self._group_of = user_ids, item_ids, group_of
        self._models: dict[int, RatingsModel] = {}
        self._locks: dict[int, Lock] = {}
        self._lock = Lock()

    def __call__(self, train_rows: Rows, test_rows: Rows) -> NDArray[np.float64]:
        """The predicted mean of each test row."""
        groups = np.unique(self._group_of[self._users[test_rows]])
        cold = self._group_of[self._users[train_rows]] == groups[0]
        if len(groups) > 1:
            model = self._fit(train_rows)
            users = model.user_ids.encode(self._user_ids.ids)[self._users[test_rows]]
            return model.predict(users, model.item_ids.encode(self._item_ids.ids)[self._items[test_rows]]).mean
        model = self._of(int(groups[0]), train_rows[~cold])
        kept = train_rows[cold]
        posterior = model.posterior
        code_of = model.item_ids.encode(self._item_ids.ids)
        codes = code_of[self._items[kept]]
        kept, codes = kept[codes != UNKNOWN], codes[codes != UNKNOWN]
        order = np.argsort(self._users[kept], kind="stable")
        kept, codes = kept[order], codes[order]
        people, asked = np.unique(self._users[test_rows], return_inverse=True)
        bounds = np.searchsorted(self._users[kept], np.append(people, people[-1] + 1))
        folded = Side.at_prior(len(people), posterior.users.prior, posterior.users.table.dtype)
        for row, (first, last) in enumerate(pairwise(bounds.tolist())):
            one = fold_in(
                codes[first:last], self._ratings[kept[first:last]], posterior.items, posterior.users,
                model.noise_precision,
            )  # fmt: skip
            folded.table[row] = one.table[0]
        offset = folded.n_factors + 1
        left, right = folded.table[asked], posterior.items.table[code_of[self._items[test_rows]]]
        products = np.einsum("nk,nk->n", left[:, : offset - 1], right[:, : offset - 1], dtype=np.float64)
        mean: NDArray[np.float64] = products + left[:, offset] + right[:, offset]
        return mean

    def _of(self, group: int, rows: Rows) -> RatingsModel:
        """The model of everybody outside the group; whoever asks first fits it, others wait."""
        with self._lock:
            lock = self._locks.setdefault(group, Lock())
        with lock:
            if group not in self._models:
                self._models[group] = self._fit(rows)
            return self._models[group]
