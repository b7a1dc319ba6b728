"""The vector of coefficients, cut into blocks that share a prior precision (math page §9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.config import ClicksConfig
from predilect.models.clicks.design import Design

Array = NDArray[np.float64]

SIDES = ("mean", "dispersion")
"""β, which moves the expected click probability through ζ, and ρ, which moves its variability through η."""


@dataclass(frozen=True)
class Block:
    """A slice of the coefficients under the prior N(0, 1/precision)."""

    name: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Side:
    """Which columns one linear predictor has."""

    name: str
    has_features: bool
    has_groups: bool


class Layout:
    """Where every block lies.

    The vector holds, side after side, [intercept, shared features, cluster copies] and then, side after side, the group
    effects; the first `n_linear` entries are everything but the group effects.
    """

    def __init__(self, sides: tuple[Side, ...], feature_blocks: tuple[tuple[str, int], ...], n_groups: int) -> None:
        """feature_blocks: names and sizes of the blocks of a side that has features, one after the other."""
        self.sides, self.n_groups = sides, n_groups
        self._feature_blocks = feature_blocks
        self.linear: list[slice] = []
        self.blocks: list[Block] = []
        start = 0
        for side in sides:
            first = start
            for name, size in (("intercept", 1), *(feature_blocks if side.has_features else ())):
                self.blocks.append(Block(f"{side.name}.{name}", start, start + size))
                start += size
            self.linear.append(slice(first, start))
        self.n_linear = start
        self.group_sides = [s for s, side in enumerate(sides) if side.has_groups and n_groups]
        for s in self.group_sides:
            self.blocks.append(Block(f"{sides[s].name}.group", start, start + n_groups))
            start += n_groups
        self.size = start
        self.feature_sides = [s for s, side in enumerate(sides) if side.has_features and feature_blocks]

    @classmethod
    def of(cls, config: ClicksConfig, design: Design) -> Self:
        """The blocks of a model on a design."""
        groups = design.n_groups > 0 and config.group_effect != "none"
        sides: tuple[Side, ...] = (Side(SIDES[0], has_features=True, has_groups=groups),)
        if config.likelihood != "log":
            sides += (Side(SIDES[1], config.likelihood == "prop", groups and config.group_effect == "both"),)
        feature_blocks = design.parts
        if design.width > design.n_features:
            feature_blocks += (("clusters", design.width - design.n_features),)
        if config.single_block and design.width:
            feature_blocks = (("features", design.width),)
        return cls(sides, feature_blocks, design.n_groups)

    def precision_vector(self, precisions: Mapping[str, float]) -> Array:
        """The prior precision of every coefficient, from the precision of every block."""
        return np.concatenate([np.full(block.size, precisions[block.name]) for block in self.blocks])

    def group_slice(self, s: int) -> slice:
        """The group effects of side s."""
        start = self.n_linear + self.group_sides.index(s) * self.n_groups
        return slice(start, start + self.n_groups)

    def one_side(self, s: int) -> "Layout":
        """The layout of side s alone."""
        return Layout((self.sides[s],), self._feature_blocks, self.n_groups)

    def side_entries(self, s: int, vector: Array) -> Array:
        """The entries of a full vector in the order of `one_side(s)`."""
        pieces = [vector[self.linear[s]]]
        if s in self.group_sides:
            pieces.append(vector[self.group_slice(s)])
        return np.concatenate(pieces)
