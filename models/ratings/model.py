"""The estimator: a mean-field variational-Bayes latent-factor model of ratings."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predilect.models.ids import IdMap
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.prediction import Prediction
from predilect.models.ratings.scale import RatingScale

OnSweep = Callable[[int, float, float], None]
Csr = tuple[NDArray[np.int64], NDArray[np.int32]]


@dataclass
class RatingsModel:
    """A fitted model."""

    scale: RatingScale
    config: VBConfig
    user_ids: IdMap
    item_ids: IdMap

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
    ) -> Self:
        raise NotImplementedError

    def predict(self, users: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]]) -> Prediction:
        raise NotImplementedError

    def predict_ids(self, user_ids: ArrayLike, item_ids: ArrayLike) -> Prediction:
        raise NotImplementedError

    def recommend(
        self, user_id: int | str, n: int, exclude: ArrayLike | None = None
    ) -> tuple[NDArray[Any], Prediction]:
        raise NotImplementedError

    def recommend_codes(
        self, user_codes: NDArray[np.integer[Any]], n: int, seen: Csr | None = None
    ) -> NDArray[np.int32]:
        raise NotImplementedError

    def fold_in(self, item_ids: ArrayLike, ratings: ArrayLike) -> Any:
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    @classmethod
    def load(cls, folder: Path) -> Self:
        raise NotImplementedError
