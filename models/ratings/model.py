"""The estimator: a mean-field variational-Bayes latent-factor model of ratings."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predilect.models import artifact
from predilect.models.compiled import default_threads, threads
from predilect.models.errors import ArtifactError, DataError, ParameterError
from predilect.models.ids import UNKNOWN, IdMap
from predilect.models.ratings.bound import Noise
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.draws import Draws
from predilect.models.ratings.features import Features
from predilect.models.ratings.fit import Ascent, Fit, FitState, OnState, OnSweep, Start
from predilect.models.ratings.fold_in import FoldedUser, fold_in
from predilect.models.ratings.gibbs import Sampled
from predilect.models.ratings.inference import infer
from predilect.models.ratings.orders import Order, by_user_and_item
from predilect.models.ratings.posterior import Side
from predilect.models.ratings.prediction import Prediction, predict
from predilect.models.ratings.scale import RatingScale
from predilect.models.ratings.sweep import HalfSweep
from predilect.models.ratings.top import top_items

KIND, SCHEMA_VERSION = "ratings", 2
DEAD = 0.01
"""A dimension counts when its contribution to the ratings varies by more than this share of the noise."""
Csr = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Compressed rows: where each begins, (n_rows + 1,), and their codes."""


@dataclass(frozen=True, eq=False, repr=False)
class RatingsModel:
    """A fitted model: r_pi = A_p·B_i + φ_p + ψ_i + ε, every coordinate's posterior an independent Gaussian.

    Langseth & Nielsen, "Scalable learning of probabilistic latent models for collaborative filtering" (2015), with A
    for the paper's (v, u) and B for its (m, w) side by side, so that K = s + t.
    """

    scale: RatingScale
    config: VBConfig
    user_ids: IdMap
    item_ids: IdMap
    posterior: Fit
    user_counts: NDArray[np.int32]
    """(n_users,): training ratings a user."""
    item_counts: NDArray[np.int32]
    """(n_items,): training ratings an item."""
    n_threads: int | None = None
    """Threads for predictions and recommendations; None: all cores."""
    sampled: Sampled | None = None
    """With `gibbs`, the draws: predictions, recommendations and folded users come from them, and `posterior` is the
    variational fit of the best start, which knows no features."""

    @classmethod
    def fit(
        cls,
        users: NDArray[np.int32],
        items: NDArray[np.int32],
        ratings: NDArray[np.float32],
        scale: RatingScale,
        config: VBConfig,
        *,
        user_ids: IdMap,
        item_ids: IdMap,
        seed: int,
        n_threads: int | None = None,
        warm_start: Self | None = None,
        on_sweep: OnSweep | None = None,
        user_features: Features | None = None,
        item_features: Features | None = None,
        on_state: OnState | None = None,
        resume: FitState | None = None,
        half_sweep: Callable[[Order], HalfSweep] = HalfSweep,
    ) -> Self:
        """Fit to (N,) ratings on `scale`, users and items as codes of their id maps.

        The same data, parameters and seed give the same bits for any `n_threads` (None: all cores). warm_start: an
        earlier model, perhaps of other users and items, with as many factors; one start, then, instead of `restarts`.
        on_sweep: called after each sweep with its number (counted on through the restarts), the bound in nats and
        the noise's standard deviation in rating units. At the peak 22 B a rating are held, the arguments' 12 included
        (24 or 28 B where there are more than 256 or 65,536 different ratings), and the factors. user_features,
        item_features: what is known of every user and item, by code, those without ratings included. on_state: called
        after each sweep with what `resume` takes to go on to the same bits (`mf` and `gmf`; the others begin anew).
        half_sweep: what does the sweeps over an order.
        Raises DataError for ratings that cannot be fitted, ParameterError for a warm start that does not fit.
        """
        _check(users, items, ratings, len(user_ids), len(item_ids), scale)
        by_user, by_item = by_user_and_item(
            users.astype(np.int32, copy=False),
            items.astype(np.int32, copy=False),
            ratings.astype(np.float32, copy=False),
            len(user_ids),
            len(item_ids),
        )
        return cls.fit_orders(
            by_user,
            by_item,
            scale,
            config,
            user_ids=user_ids,
            item_ids=item_ids,
            seed=seed,
            n_threads=n_threads,
            warm_start=warm_start,
            on_sweep=on_sweep,
            user_features=user_features,
            item_features=item_features,
            on_state=on_state,
            resume=resume,
            half_sweep=half_sweep,
        )

    @classmethod
    def fit_orders(
        cls,
        by_user: Order,
        by_item: Order,
        scale: RatingScale,
        config: VBConfig,
        *,
        user_ids: IdMap,
        item_ids: IdMap,
        seed: int,
        n_threads: int | None = None,
        warm_start: Self | None = None,
        on_sweep: OnSweep | None = None,
        user_features: Features | None = None,
        item_features: Features | None = None,
        on_state: OnState | None = None,
        resume: FitState | None = None,
        half_sweep: Callable[[Order], HalfSweep] = HalfSweep,
    ) -> Self:
        """Like `fit`, to ratings that are in both orders already, in memory or mapped from files."""
        if warm_start is not None and warm_start.config.n_factors != config.n_factors:
            raise ParameterError(
                f"The model to start from has {warm_start.config.n_factors} factors and the new one "
                f"{config.n_factors}; give as many latents, or fit from random starts."
            )

        def warm(ascent: Ascent) -> Start:
            assert warm_start is not None
            return warm_start._start(ascent.random_start(seed, 0), config, user_ids, item_ids)

        posterior, sampled = infer(
            by_user,
            by_item,
            scale.midpoint,
            config,
            user_features,
            item_features,
            seed=seed,
            n_threads=n_threads or default_threads(),
            warm_start=None if warm_start is None else warm,
            on_sweep=on_sweep,
            on_state=on_state,
            resume=resume,
            half_sweep=half_sweep,
        )
        user_counts, item_counts = (order.counts.astype(np.int32) for order in (by_user, by_item))
        return cls(scale, config, user_ids, item_ids, posterior, user_counts, item_counts, n_threads, sampled)

    def predict(self, users: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]]) -> Prediction:
        """Predict the rating of each pair of codes, (M,) and (M,); -1: unknown, predicted from the prior."""
        return self._predict(self.posterior.users, users, items, self._draws)

    def predict_ids(self, user_ids: ArrayLike, item_ids: ArrayLike) -> Prediction:
        """Predict the rating of each pair of ids, (M,) and (M,), known or not."""
        return self.predict(self.user_ids.encode(user_ids), self.item_ids.encode(item_ids))

    def recommend(
        self, user_id: int | str, n: int, exclude: ArrayLike | None = None
    ) -> tuple[NDArray[Any], Prediction]:
        """Ids and predictions of up to `n` items, best first, for a user, known or not.

        exclude: ids of items to leave out, such as those already rated: the model does not remember them.
        """
        code = int(self.user_ids.encode([user_id])[0])
        left_out = self.item_ids.encode([] if exclude is None else exclude)
        return self._recommend(self.posterior.users, code, n, left_out, self._draws)

    def recommend_codes(
        self, user_codes: NDArray[np.integer[Any]], n: int, seen: Csr | None = None
    ) -> NDArray[np.int32]:
        """(U, n) codes of the best items for each user, best first; -1 where none is left.

        seen: compressed rows, one a user of the model, of the items to leave out.
        """
        codes = np.asarray(user_codes)
        _check_codes(codes, len(self.user_ids), "user")
        left_out = (np.zeros(len(codes) + 1, np.int64), np.empty(0, np.int32)) if seen is None else _rows(seen, codes)
        with threads(self.n_threads or default_threads()) as pool:
            if self._draws is not None:
                return self._draws.top(codes, n, left_out, pool)
            return top_items(codes, self.posterior.users, self.posterior.items, n, left_out, pool)

    def fold_in(self, item_ids: ArrayLike, ratings: ArrayLike) -> FoldedUser:
        """A new user's posterior from some ratings, (M,) and (M,), the items held fixed; no rating: the prior.

        Raises DataError when the two differ in length or a rating is off the scale.
        """
        items, given = self.item_ids.encode(item_ids), np.asarray(ratings, np.float32)
        _check(np.zeros(len(items), np.int32), np.maximum(items, 0), given, 1, len(self.item_ids), self.scale, least=0)
        known = items != UNKNOWN
        posterior = self.posterior
        with threads(1):
            means = None if posterior.user_weights is None else self._rated_prior(items[known])
            side = fold_in(
                items[known], given[known], posterior.items, posterior.users, self.noise_precision, prior_means=means
            )
            draws = None if self._draws is None else self._draws.fold_in(items[known], given[known])
        return FoldedUser(self, side, items[known], int(np.sum(~known)), draws)

    @property
    def bound_trace(self) -> NDArray[np.float64]:
        """(n_sweeps,): the bound F after each sweep, in nats."""
        return np.array(self.posterior.bound_trace)

    @property
    def noise_sd_trace(self) -> NDArray[np.float64]:
        """(n_sweeps,): 1/√⟨θ⟩ after each sweep, in rating units."""
        return np.array(self.posterior.noise_sd_trace)

    @property
    def n_sweeps(self) -> int:
        """Sweeps of the start that was kept."""
        return len(self.posterior.bound_trace)

    @property
    def converged(self) -> bool:
        """Whether the tolerance was reached before `max_sweeps`."""
        return self.posterior.converged

    @property
    def noise_precision(self) -> float:
        """⟨θ⟩, in 1 / rating units²."""
        return self.posterior.noise.precision

    @property
    def user_precisions(self) -> NDArray[np.float64]:
        """(K,): prior precisions of the users' factors. Only their products with the items' are identified."""
        return self.posterior.users.prior.precisions[:-1]

    @property
    def item_precisions(self) -> NDArray[np.float64]:
        """(K,): prior precisions of the items' factors."""
        return self.posterior.items.prior.precisions[:-1]

    @property
    def dimension_sd(self) -> NDArray[np.float64]:
        """(K,): how much A_k·B_k varies over the training ratings, in rating units, users and items independent."""
        squares, means = np.ones(self.config.n_factors), np.ones(self.config.n_factors)
        for side, counts in ((self.posterior.users, self.user_counts), (self.posterior.items, self.item_counts)):
            share = counts / counts.sum()
            squares *= share @ np.square(side.means, dtype=np.float64)
            means *= share @ side.means
        sd: NDArray[np.float64] = np.sqrt(np.maximum(squares - means**2, 0))
        return sd

    @property
    def effective_dimensions(self) -> int:
        """Dimensions whose contribution varies by more than 1 % of the noise's standard deviation."""
        return int(np.sum(self.dimension_sd > DEAD * self.noise_precision**-0.5))

    def save(self, folder: Path) -> None:
        """Write the model folder (npz and JSON); a model that is there is replaced."""
        arrays: dict[str, NDArray[Any]] = {"user_counts": self.user_counts, "item_counts": self.item_counts}
        arrays |= {"bound_trace": self.bound_trace, "noise_sd_trace": self.noise_sd_trace}
        for name, ids, side in (
            ("user", self.user_ids, self.posterior.users),
            ("item", self.item_ids, self.posterior.items),
        ):
            arrays |= ids.to_arrays(f"{name}_ids") | side.to_arrays(name)
        facts: dict[str, Any] = {
            "scale": self.scale.to_facts(),
            "config": asdict(self.config),
            "noise": asdict(self.posterior.noise),
            "converged": self.converged,
        }
        posterior = self.posterior
        for name, weights in (("user_weights", posterior.user_weights), ("item_weights", posterior.item_weights)):
            if weights is not None:
                arrays[name] = weights
        if self.sampled is not None:
            arrays |= self.sampled.to_arrays()
            facts["sampled"] = self.sampled.to_facts()
        artifact.save(folder, KIND, SCHEMA_VERSION, arrays, facts)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a model folder. Raises ArtifactError when it is missing, damaged or of another kind."""
        arrays, facts = artifact.load(folder, KIND, SCHEMA_VERSION)
        try:
            return cls(
                RatingScale.from_facts(facts["scale"]),
                VBConfig(**facts["config"]),
                IdMap.from_arrays(arrays, "user_ids"),
                IdMap.from_arrays(arrays, "item_ids"),
                Fit(
                    Side.from_arrays(arrays, "user"),
                    Side.from_arrays(arrays, "item"),
                    Noise(**facts["noise"]),
                    arrays["bound_trace"].tolist(),
                    arrays["noise_sd_trace"].tolist(),
                    facts["converged"],
                    arrays.get("user_weights"),
                    arrays.get("item_weights"),
                ),
                arrays["user_counts"],
                arrays["item_counts"],
                sampled=Sampled.from_arrays(arrays, facts["sampled"]) if "sampled" in facts else None,
            )
        except (KeyError, TypeError, ParameterError) as error:
            raise ArtifactError(f"{folder} lacks a part of a ratings model ({error}); retrain it.") from error

    @property
    def _draws(self) -> Draws | None:
        return None if self.sampled is None else self.sampled.draws

    def _rated_prior(self, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """(1, K+1): the prior means of a new user who rated `items`, of whom nothing else is known."""
        weights = self.posterior.user_weights
        assert weights is not None
        means: NDArray[np.float64] = weights[0].copy()
        if self.config.rated_set and len(items):
            means += weights[1 + items].sum(axis=0) / np.sqrt(len(items))
        return means[None]

    def _predict(
        self,
        side: Side,
        users: NDArray[np.integer[Any]],
        items: NDArray[np.integer[Any]],
        draws: Draws | None = None,
    ) -> Prediction:
        user_codes, item_codes = (np.ascontiguousarray(codes, np.int32) for codes in (users, items))
        if user_codes.shape != item_codes.shape:
            raise DataError(f"{len(user_codes)} users and {len(item_codes)} items make no pairs; give as many of each.")
        _check_codes(user_codes, side.n_rows, "user")
        _check_codes(item_codes, len(self.item_ids), "item")
        with threads(self.n_threads or default_threads()) as pool:
            if draws is not None:
                return draws.predict(user_codes, item_codes, pool)
            return predict(user_codes, item_codes, side, self.posterior.items, 1 / self.noise_precision, pool)

    def _recommend(
        self, side: Side, code: int, n: int, exclude: NDArray[np.int32], draws: Draws | None = None
    ) -> tuple[NDArray[Any], Prediction]:
        left_out = exclude[exclude != UNKNOWN]
        with threads(1) as pool:
            seen = (np.array([0, len(left_out)]), left_out)
            rows = np.array([code])
            if draws is None:
                best = top_items(rows, side, self.posterior.items, n, seen, pool)[0]
            else:
                best = draws.top(rows, n, seen, pool)[0]
        best = best[best != UNKNOWN]
        return self.item_ids.decode(best), self._predict(side, np.full(len(best), code), best, draws)

    def _start(self, start: Start, config: VBConfig, user_ids: IdMap, item_ids: IdMap) -> Start:
        """`start` with what this model knows of the new fit's users and items."""
        for new, old, ids, old_ids in (
            (start.users, self.posterior.users, user_ids, self.user_ids),
            (start.items, self.posterior.items, item_ids, self.item_ids),
        ):
            codes = old_ids.encode(ids.ids)
            new.table[:-1] = np.where((codes == UNKNOWN)[:, None], new.table[:-1], old.table[codes])
            if config.precisions == "empirical_bayes":
                new.prior = old.prior
        return Start(start.users, start.items, self.posterior.noise)


def _rows(rows: Csr, codes: NDArray[np.integer[Any]]) -> Csr:
    """The compressed rows `codes`, nothing for -1."""
    indptr, index = rows
    parts = [index[indptr[code] : indptr[code + 1]] if code >= 0 else index[:0] for code in codes.tolist()]
    return np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)]), np.concatenate(parts)


def _check_codes(codes: NDArray[np.integer[Any]], n: int, name: str) -> None:
    if codes.size and not (codes.min() >= UNKNOWN and codes.max() < n):
        raise DataError(
            f"The {name} codes reach from {codes.min()} to {codes.max()}; give 0 … {n - 1}, or -1 for unknown."
        )


def _check(
    users: NDArray[Any],
    items: NDArray[Any],
    ratings: NDArray[Any],
    n_users: int,
    n_items: int,
    scale: RatingScale,
    least: int = 1,
) -> None:
    """Raise DataError unless these are ratings that can be fitted."""
    if not len(users) == len(items) == len(ratings):
        raise DataError(
            f"There are {len(users)} users, {len(items)} items and {len(ratings)} ratings; give one of each a row."
        )
    if len(ratings) < least:
        raise DataError("There are no ratings; give at least one.")
    for codes, n, name in ((users, n_users, "user"), (items, n_items, "item")):
        if len(codes) and not (codes.min() >= 0 and codes.max() < n):
            raise DataError(
                f"The {name} codes reach from {codes.min()} to {codes.max()}, but there are {n} {name} ids."
            )
    low, high = np.float32(scale.low), np.float32(scale.high)
    if len(ratings) and not (ratings.min() >= low and ratings.max() <= high):
        row = int(np.argmax(~((ratings >= low) & (ratings <= high))))
        raise DataError(
            f"Rating {row} is {ratings[row]}, not on the scale {scale.low} … {scale.high}; mend it or the scale."
        )
