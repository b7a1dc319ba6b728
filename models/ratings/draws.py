"""The posterior as draws: what a sampled model keeps, and predictions that carry them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import Threads, kernel
from predilect.models.random import stream
from predilect.models.ratings.posterior import Prior, Side
from predilect.models.ratings.prediction import PAIRS, Prediction
from predilect.models.ratings.top import Seen, best_of


@dataclass(frozen=True, eq=False)
class SideDraws:
    """D draws of one side. The last row stands for whoever is unknown."""

    factors: NDArray[np.float32]
    """(n_rows + 1, D, K): A. For a row without ratings, the mean of its prior under each draw."""
    offsets: NDArray[np.float32]
    """(n_rows + 1, D): φ; alike."""
    precisions: NDArray[np.float32]
    """(D, K+1): α_1 … α_K and κ, with which a row without ratings varies about that mean."""
    rated: NDArray[np.bool_]
    """(n_rows + 1,): whether a row has ratings."""

    @classmethod
    def empty(cls, counts: NDArray[np.integer[Any]], n_draws: int, n_factors: int) -> Self:
        """Room for the draws; counts: ratings a row."""
        n = len(counts) + 1
        return cls(
            np.zeros((n, n_draws, n_factors), np.float32),
            np.zeros((n, n_draws), np.float32),
            np.ones((n_draws, n_factors + 1), np.float32),
            np.append(counts > 0, False),
        )

    def keep(self, draw: int, values: NDArray[Any], precisions: NDArray[Any]) -> None:
        """Set one draw from (n_rows + 1, K+1) factors and offsets."""
        self.factors[:, draw], self.offsets[:, draw] = values[:, :-1], values[:, -1]
        self.precisions[draw] = precisions

    def to_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Arrays for `artifact.save`."""
        parts = ("factors", "offsets", "precisions", "rated")
        return {f"{name}_draws_{part}": getattr(self, part) for part in parts}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> Self:
        """The inverse of `to_arrays`."""
        return cls(*(arrays[f"{name}_draws_{part}"] for part in ("factors", "offsets", "precisions", "rated")))


@dataclass(frozen=True, eq=False)
class Draws:
    """D draws of everything, all chains one after the other."""

    users: SideDraws
    items: SideDraws
    noise: NDArray[np.float64]
    """(D,): θ."""
    rated_weights: NDArray[np.float32] | None = None
    """(n_items, D, K+1): with the rated set, what having rated an item adds, times √n_p, to a user's prior means."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays for `artifact.save`."""
        more = {} if self.rated_weights is None else {"draws_rated_weights": self.rated_weights}
        return self.users.to_arrays("user") | self.items.to_arrays("item") | {"draws_noise": self.noise} | more

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `to_arrays`."""
        sides = [SideDraws.from_arrays(arrays, name) for name in ("user", "item")]
        return cls(sides[0], sides[1], arrays["draws_noise"], arrays.get("draws_rated_weights"))

    @property
    def n_draws(self) -> int:
        return len(self.noise)

    def predict(self, users: NDArray[np.int32], items: NDArray[np.int32], pool: Threads) -> Prediction:
        """Mean over the draws, and the variance of a rating: ⟨1/θ⟩ + the variance over the draws."""
        mean, variance = np.empty(len(users)), np.empty(len(users))
        noise_variance = float(np.mean(1 / self.noise))

        def piece(number: int) -> None:
            part = slice(number * PAIRS, (number + 1) * PAIRS)
            predict_pairs(
                users[part], items[part],
                self.users.factors, self.users.offsets, self.users.precisions, self.users.rated,
                self.items.factors, self.items.offsets, self.items.precisions, self.items.rated,
                noise_variance, mean[part], variance[part],
            )  # fmt: skip

        pool.run(piece, -(-len(users) // PAIRS))
        return Prediction(mean, variance)

    def pairs(self, users: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """(M, D): the expected rating of each pair under each draw, the noise not included."""
        product = np.einsum("mdk,mdk->md", self.users.factors[users], self.items.factors[items])
        found: NDArray[np.float32] = product + self.users.offsets[users] + self.items.offsets[items]
        return found

    def top(self, rows: NDArray[np.integer[Any]], n: int, seen: Seen, pool: Threads) -> NDArray[np.int32]:
        """(len(rows), n) item codes by falling mean; see `top_items`. A product of K·D columns a tile."""
        n_items = len(self.items.offsets) - 1
        users, items = (side.factors.reshape(len(side.factors), -1) for side in (self.users, self.items))
        offsets, item_offsets = (side.offsets.mean(axis=1) for side in (self.users, self.items))

        def mean(part: slice, tile: slice, out: NDArray[Any]) -> None:
            mine = rows[part]
            np.matmul(users[mine], items[tile].T, out=out)
            out /= np.float32(self.n_draws)
            out += item_offsets[tile] + offsets[mine][:, None]

        return best_of(len(rows), n_items, n, seen, mean, pool)

    def one(self, draw: int) -> tuple[Side, Side]:
        """One draw of users and items, as sides without variance."""
        sides = []
        for source in (self.users, self.items):
            prior = Prior(source.precisions[draw].astype(np.float64), np.zeros(source.factors.shape[2] + 1))
            side = Side.at_prior(len(source.factors) - 1, prior)
            side.table[:] = 0
            side.table[:, side.n_factors] = 1
            side.table[:, : side.n_factors] = source.factors[:, draw]
            side.table[:, side.n_factors + 1] = source.offsets[:, draw]
            sides.append(side)
        return sides[0], sides[1]

    def fold_in(self, items: NDArray[np.int32], ratings: NDArray[np.float32]) -> "Draws":
        """The draws of one new user who gave `ratings` to known `items`: from the full conditional, a draw each."""
        rng = stream(0, "fold in")
        value = np.concatenate([self.users.factors[-1], self.users.offsets[-1][:, None]], axis=1).astype(np.float64)
        unknown = value.copy()
        if len(items):
            partner = self.items.factors[items].astype(np.float64).transpose(1, 0, 2)
            partner = np.concatenate([partner, np.ones((*partner.shape[:2], 1))], axis=2)
            if self.rated_weights is not None:
                value += self.rated_weights[items].sum(axis=0) / np.sqrt(len(items))
            noise = self.noise[:, None]
            alpha = self.users.precisions.astype(np.float64)
            precision = noise[:, :, None] * (partner.transpose(0, 2, 1) @ partner)
            precision[:, range(alpha.shape[1]), range(alpha.shape[1])] += alpha
            target = ratings - self.items.offsets[items].T
            pull = alpha * value + noise * np.einsum("dmk,dm->dk", partner, target)
            root = np.linalg.cholesky(precision)
            half = np.linalg.solve(root, pull[:, :, None]) + rng.standard_normal((*pull.shape, 1))
            value = np.linalg.solve(root.transpose(0, 2, 1), half)[:, :, 0]
        user = SideDraws.empty(np.array([len(items)]), self.n_draws, value.shape[1] - 1)
        for place, rows in ((0, value), (1, unknown)):
            user.factors[place], user.offsets[place] = rows[:, :-1], rows[:, -1]
        user.precisions[:] = self.users.precisions
        return Draws(user, self.items, self.noise, self.rated_weights)


@kernel
def predict_pairs(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    user_factors: NDArray[np.float32],
    user_offsets: NDArray[np.float32],
    user_precisions: NDArray[np.float32],
    user_rated: NDArray[np.bool_],
    item_factors: NDArray[np.float32],
    item_offsets: NDArray[np.float32],
    item_precisions: NDArray[np.float32],
    item_rated: NDArray[np.bool_],
    noise_variance: float,
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
) -> None:
    """Fill `mean` and `variance`; the code -1 is the last row.

    A row without ratings varies about its stored mean with the draw's prior precisions: that part is in closed form.
    """
    n_draws, n_factors = user_factors.shape[1:]
    for n in range(len(users)):
        user, item = users[n], items[n]
        new_user, new_item = not user_rated[user], not item_rated[item]
        first, total, squares, prior = 0.0, 0.0, 0.0, 0.0
        for d in range(n_draws):
            a, b = user_factors[user, d], item_factors[item, d]
            product = np.float32(0)
            for k in range(n_factors):
                product += a[k] * b[k]
            value = float(product) + float(user_offsets[user, d]) + float(item_offsets[item, d])
            if new_user:
                prior += 1 / user_precisions[d, n_factors]
                for k in range(n_factors):
                    prior += b[k] * b[k] / user_precisions[d, k]
            if new_item:
                prior += 1 / item_precisions[d, n_factors]
                for k in range(n_factors):
                    prior += a[k] * a[k] / item_precisions[d, k]
            if new_user and new_item:
                for k in range(n_factors):
                    prior += 1 / (user_precisions[d, k] * item_precisions[d, k])
            if d == 0:
                first = value
            # About the first draw, so that little is lost to rounding.
            total += value - first
            squares += (value - first) * (value - first)
        mean[n] = first + total / n_draws
        variance[n] = noise_variance + prior / n_draws + max(squares - total * total / n_draws, 0.0) / n_draws
