"""A new user's posterior from a few ratings, the items held fixed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predilect.models.ratings.draws import Draws
from predilect.models.ratings.kernels import update_rows
from predilect.models.ratings.posterior import Side
from predilect.models.ratings.prediction import Prediction

if TYPE_CHECKING:
    from predilect.models.ratings.model import RatingsModel

MAX_PASSES = 10_000
"""A bound on the passes over the user's coordinates; some tens suffice."""


def fold_in(
    items: NDArray[np.int32],
    ratings: NDArray[np.float32],
    item_side: Side,
    user_side: Side,
    noise: float,
    prior_means: NDArray[np.float64] | None = None,
) -> Side:
    """The posterior (one row) of a user who gave `ratings` to the known `items`: the optimum given the items.

    user_side: where the prior is taken from. noise: ⟨θ⟩. prior_means: (1, K+1), what features say instead of it.
    """
    user = Side.at_prior(1, user_side.prior, user_side.table.dtype)
    if prior_means is not None:
        user.row_means, user.leverage = prior_means, np.zeros_like(prior_means)
        user.place(np.array([0]), prior_means, 1 / user.prior.precisions[None])
    k = user.n_factors
    update_rows(
        0,
        1,
        np.array([0, len(items)]),
        items,
        ratings.astype(user.table.dtype, copy=False),
        user.table,
        item_side.table,
        user.prior.precisions,
        *user.row_priors(),
        noise,
        MAX_PASSES,
        np.zeros((3, k + 1)),
        np.zeros(2),
    )
    return user


@dataclass(frozen=True)
class FoldedUser:
    """A user who was not in the training data, known from the ratings given to `fold_in`."""

    model: "RatingsModel"
    side: Side
    """One row: the user's posterior."""
    items: NDArray[np.int32]
    """Codes of the rated items."""
    n_unknown: int
    """Ratings of items that the model does not know, which say nothing here and were left out."""
    draws: Draws | None = None
    """Of a sampled model: the user's draws, from which predictions come."""

    def predict(self, items: NDArray[np.integer[Any]]) -> Prediction:
        """Predict the ratings of `items`: (M,) codes, -1 for unknown."""
        return self.model._predict(self.side, np.zeros(len(items), np.int32), items, self.draws)

    def predict_ids(self, item_ids: ArrayLike) -> Prediction:
        """Predict the ratings of the items with these ids, (M,), known or not."""
        return self.predict(self.model.item_ids.encode(item_ids))

    def recommend(self, n: int, exclude: ArrayLike | None = None) -> tuple[NDArray[Any], Prediction]:
        """Ids and predictions of up to `n` items, best first, without the rated ones and those in `exclude`."""
        left_out = self.items if exclude is None else np.append(self.items, self.model.item_ids.encode(exclude))
        return self.model._recommend(self.side, 0, n, left_out, self.draws)
