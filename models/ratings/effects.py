"""Which features matter: their effect on ratings under each draw, in rating units."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from predilect.models.ratings.features import CONSTANT, RATED, Features


@dataclass(frozen=True, eq=False)
class Effects:
    """The features of one side under D draws. Factors have no direction of their own; these numbers do not need one."""

    names: tuple[str, ...]
    """(F,): the features of the tables, without the constant and the rated set."""
    shift: NDArray[np.float32]
    """(D, F): what having the feature (at value 1 in its table) adds to a rating, on average over the other side."""
    spread: NDArray[np.float32]
    """(D, F): standard deviation over the other side of what it adds: how much tastes differ by it."""
    groups: tuple[str, ...]
    """(G,): the rated set and the columns of the tables."""
    group_sd: NDArray[np.float32]
    """(D, G): standard deviation over all pairs of what the group adds to a rating."""

    def to_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Arrays for `artifact.save`."""
        return {f"{name}_effect_{part}": getattr(self, part) for part in ("shift", "spread", "group_sd")}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str, names: list[str], groups: list[str]) -> Self:
        """The inverse of `to_arrays`; the texts are kept in the manifest."""
        shift, spread, sd = (arrays[f"{name}_effect_{part}"] for part in ("shift", "spread", "group_sd"))
        return cls(tuple(names), shift, spread, tuple(groups), sd)


class EffectRecorder:
    """Fills `Effects` draw by draw."""

    def __init__(self, features: Features, n_draws: int) -> None:
        """features: the design, of the rows that have ratings."""
        self.groups = [group for group in dict.fromkeys(features.groups) if group != CONSTANT]
        labels = np.array(features.groups)
        self._columns = [np.flatnonzero(labels == group) for group in self.groups]
        self._parts = [features.matrix[:, columns] for columns in self._columns]
        self._own = np.flatnonzero((labels != CONSTANT) & (labels != RATED))
        self._scale = features.unit[self._own]
        self.effects = Effects(
            tuple(np.array(features.names)[self._own].tolist()),
            np.zeros((n_draws, len(self._own)), np.float32),
            np.zeros((n_draws, len(self._own)), np.float32),
            tuple(self.groups),
            np.zeros((n_draws, len(self.groups)), np.float32),
        )

    def keep(self, draw: int, weights: NDArray[np.float64], other: NDArray[Any]) -> None:
        """weights: β, (d, K+1). other: (n_other, K+1) factors and offsets of the other side's rated rows."""
        partner = np.column_stack([other[:, :-1], np.ones(len(other))])
        mean, second = partner.mean(axis=0), partner.T @ partner / len(partner)
        own = weights[self._own] * self._scale[:, None]
        shift = own @ mean
        self.effects.shift[draw] = shift
        self.effects.spread[draw] = np.sqrt(np.maximum(np.sum((own @ second) * own, axis=1) - shift**2, 0))
        for g, (columns, part) in enumerate(zip(self._columns, self._parts, strict=True)):
            added = part @ weights[columns]
            squares = np.sum((added.T @ added / len(added)) * second)
            self.effects.group_sd[draw, g] = np.sqrt(max(squares - float(added.mean(axis=0) @ mean) ** 2, 0))
