"""The vector of coefficients, cut into blocks that share a prior precision (math page §9)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    def __init__(self, design: Design, sides: tuple[Side, ...], *, single_block: bool) -> None:
        """single_block: one precision for the shared features and the cluster copies together, as in the paper."""
        self.sides = sides
        self.width, self.n_groups = design.width, design.n_groups
        self.linear: list[slice] = []
        self.blocks: list[Block] = []
        start = 0
        for side in sides:
            stop = start + 1 + (self.width if side.has_features else 0)
            self.linear.append(slice(start, stop))
            self.blocks.append(Block(f"{side.name}.intercept", start, start + 1))
            if side.has_features and self.width:
                self._add_features(design, side, start + 1, stop, single_block)
            start = stop
        self.n_linear = start
        self.group_sides = [s for s, side in enumerate(sides) if side.has_groups and self.n_groups]
        for s in self.group_sides:
            self.blocks.append(Block(f"{sides[s].name}.group", start, start + self.n_groups))
            start += self.n_groups
        self.size = start
        self.feature_sides = [s for s, side in enumerate(sides) if side.has_features and self.width]

    def _add_features(self, design: Design, side: Side, start: int, stop: int, single_block: bool) -> None:
        if single_block:
            self.blocks.append(Block(f"{side.name}.features", start, stop))
            return
        for name, width in design.parts:
            self.blocks.append(Block(f"{side.name}.{name}", start, start + width))
            start += width
        if start < stop:
            self.blocks.append(Block(f"{side.name}.clusters", start, stop))

    def precision_vector(self, precisions: Mapping[str, float]) -> Array:
        """The prior precision of every coefficient, from the precision of every block."""
        return np.concatenate([np.full(block.size, precisions[block.name]) for block in self._in_order()])

    def group_slice(self, s: int) -> slice:
        """The group effects of side s."""
        start = self.n_linear + self.group_sides.index(s) * self.n_groups
        return slice(start, start + self.n_groups)

    def one_side(self, s: int) -> "Layout":
        """The layout of side s alone."""
        part = Layout.__new__(Layout)
        part.sides, part.width, part.n_groups = (self.sides[s],), self.width, self.n_groups
        start, stop = self.linear[s].start, self.linear[s].stop
        part.linear = [slice(0, stop - start)]
        part.n_linear = stop - start
        part.blocks = [Block(b.name, b.start - start, b.stop - start) for b in self.blocks if start <= b.start < stop]
        part.group_sides = [0] if s in self.group_sides else []
        part.size = part.n_linear + self.n_groups * len(part.group_sides)
        if part.group_sides:
            part.blocks.append(Block(f"{self.sides[s].name}.group", part.n_linear, part.size))
        part.feature_sides = [0] if s in self.feature_sides else []
        return part

    def side_entries(self, s: int, vector: Array) -> Array:
        """The entries of a full vector in the order of `one_side(s)`."""
        pieces = [vector[self.linear[s]]]
        if s in self.group_sides:
            pieces.append(vector[self.group_slice(s)])
        return np.concatenate(pieces)

    def _in_order(self) -> list[Block]:
        return sorted(self.blocks, key=lambda block: block.start)
