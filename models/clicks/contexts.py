"""The rows of a fit, those of the same context together, cut into chunks of about equal work."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.design import Codes, Design
from predilect.models.clicks.kernels import Counts

_LONGEST = 4096
"""Rows of one context; more of them count as another context, so that a chunk can end between."""
_ROW_WORK = 64
"""What the derivatives of a row's likelihood take, in products with a non-zero."""
_LEAST_WORK, _WORK_PER_SUM, _MOST_CHUNKS = 200_000, 32, 32
"""A chunk does at least so much work, so much for each of the sums that are added up over the chunks."""


@dataclass(frozen=True)
class Contexts:
    """Rows with the same context are one row to everything linear; sums over chunks do not depend on who has which."""

    design: Design
    """One row a context, sorted by line, cluster and group."""
    impressions: Counts
    clicks: Counts
    """(n_rows,) context after context."""
    starts: NDArray[np.int64]
    """(n_contexts + 1,) the first row of each context, and the end."""
    bounds: NDArray[np.int64]
    """(n_chunks + 1,) the first context of each chunk, and the end."""

    @classmethod
    def of(cls, design: Design, impressions: Counts, clicks: Counts, n_sides: int) -> Self:
        """Sort and cut the rows. n_sides: of the linear predictor."""
        order = np.lexsort((design.groups, design.clusters, design.lines))
        design = design.take(order)
        change = np.arange(len(design)) % _LONGEST == 0
        for codes in (design.lines, design.clusters, design.groups):
            change[1:] |= np.diff(codes) != 0
        starts = np.append(np.flatnonzero(change), len(design))
        contexts = design.take(starts[:-1])
        copies = 2 if design.n_clusters else 1
        work = 1 + copies * np.diff(contexts.features.indptr)[contexts.lines] + _ROW_WORK * np.diff(starts)
        ends = np.cumsum(work, dtype=np.int64)
        least = max(_LEAST_WORK, _WORK_PER_SUM * n_sides * design.width)
        n_chunks = int(np.clip(ends[-1] // least, 1, _MOST_CHUNKS))
        inner = np.searchsorted(ends, ends[-1] * np.arange(1, n_chunks) / n_chunks)
        bounds = np.concatenate([[0], inner, [len(contexts)]]).astype(np.int64)
        return cls(contexts, impressions[order], clicks[order], starts, bounds)

    @property
    def n_chunks(self) -> int:
        return len(self.bounds) - 1

    @cached_property
    def groups(self) -> list[Codes]:
        """The groups of each chunk, ascending."""
        groups = [np.unique(self.design.groups[self.chunk(chunk)]) for chunk in range(self.n_chunks)]
        return [codes[codes >= 0] for codes in groups]

    def chunk(self, number: int) -> slice:
        """Its contexts."""
        return slice(int(self.bounds[number]), int(self.bounds[number + 1]))

    def rows(self, number: int) -> slice:
        """Its rows."""
        return slice(int(self.starts[self.bounds[number]]), int(self.starts[self.bounds[number + 1]]))

    def part(self, first: int, last: int) -> Self:
        """Chunks first … last-1, with the lines of features that they show."""
        contexts = slice(int(self.bounds[first]), int(self.bounds[last]))
        rows = slice(int(self.starts[contexts.start]), int(self.starts[contexts.stop]))
        design = self.design.take(contexts)
        low, high = (int(design.lines[0]), int(design.lines[-1]) + 1) if len(design) else (0, 0)
        return replace(
            self,
            design=replace(design, features=design.features[low:high], lines=design.lines - np.int32(low)),
            impressions=self.impressions[rows],
            clicks=self.clicks[rows],
            starts=self.starts[contexts.start : contexts.stop + 1] - rows.start,
            bounds=self.bounds[first : last + 1] - contexts.start,
        )
