"""The rating scale of a table: as given, or inferred from the ratings, with a warning where that looks wrong."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from predilect.tasks.readers.base import Scale

MAX_LEVELS = 101
"""More levels than a scale of 0 to 100 by ones: continuous."""
SMALL = 11
"""So few whole-number levels are stars even when most are unused."""
MOST_DISTINCT = 2**20
"""Different ratings that are kept of a source that is not in memory; as many or more lie on no scale of steps."""
_FRACTIONS = (0.5, 0.25, 0.1, 0.05)

Values = NDArray[np.float64]


def infer_step(values: Values, low: float, high: float) -> float | None:
    """The step of a star scale from `low` to `high` on which all `values` (distinct, sorted) lie; None = continuous.

    At least half of the levels must be used, unless they are a few whole numbers.
    """
    whole = bool((values == np.round(values)).all())
    if whole:
        divisor = int(np.gcd.reduce((np.append(values, high) - low).astype(np.int64))) if high - low < 2**53 else 0
        steps: tuple[float, ...] = (1.0, float(divisor)) if divisor > 0 else (1.0,)
    else:
        steps = _FRACTIONS
    for step in steps:
        n_levels = round((high - low) / step) + 1
        few = whole and step == 1 and n_levels <= SMALL
        if n_levels <= MAX_LEVELS and (few or 2 * len(values) >= n_levels):
            scale = Scale(low, high, step)
            if on_scale(np.append(values, high), scale).all():
                return step
    return None


def on_scale(ratings: Values, scale: Scale) -> NDArray[np.bool_]:
    """Whether each rating is legal."""
    legal = (ratings >= scale.low) & (ratings <= scale.high)
    if scale.step is not None:
        steps = (ratings - scale.low) / scale.step
        legal &= np.abs(steps - np.round(steps)) < 1e-6
    return legal


def doubts(values: Values, counts: NDArray[np.int64], n_rows: int, scale: Scale) -> list[str]:
    """What makes an inferred scale look wrong. values: distinct, sorted; counts: of the rows with each value."""
    found = []
    whole = bool((values == np.round(values)).all())
    least = "" if all_kept(values) else "at least "
    span = f"{least}{len(values):,} different {'whole ' * whole}numbers from {values[0]:g} to {values[-1]:g}"
    if scale.step is None and whole:
        found.append(f"the ratings are {span}: they look like ids, counts or times; check which column is the rating")
    elif scale.step is None and values[-1] - values[0] > 1000:
        found.append(f"the ratings are {span}: that is wide for a scale; check which column is the rating")
    if scale.step is not None:
        unused = [level for level in scale.levels() or [] if not (np.abs(values - level) < 1e-6).any()]
        if unused:
            shown = ", ".join(f"{level:g}" for level in unused[:5]) + (", …" if len(unused) > 5 else "")
            found.append(f"no rating is {shown}, though the inferred scale has it; check the scale")
    top = int(np.argmax(counts))
    if counts[top] > 0.99 * n_rows:
        found.append(f"{counts[top] / n_rows:.1%} of the ratings are {values[top]:g}: there is little to learn")
    return found


def distinct(ratings: Values) -> tuple[Values, NDArray[np.int64]]:
    """The different ratings in ascending order, and how many rows have each."""
    found = pc.value_counts(pa.array(ratings))
    values = found.field("values").to_numpy()
    order = np.argsort(values)
    return values[order], found.field("counts").to_numpy()[order]


def all_kept(values: Values) -> bool:
    """Whether these, of `distinct_of_parts`, are all different ratings that there are."""
    return len(values) < MOST_DISTINCT


def distinct_of_parts(parts: Iterable[Values]) -> tuple[Values, NDArray[np.int64]]:
    """The same of parts; of more than `MOST_DISTINCT` the lowest, the highest and most of the frequent ones."""
    values, counts = np.empty(0), np.empty(0, np.int64)
    for ratings in parts:
        more, more_counts = distinct(ratings)
        both, both_counts = np.concatenate([values, more]), np.concatenate([counts, more_counts])
        values, place = np.unique(both, return_inverse=True)
        counts = np.bincount(place, both_counts).astype(np.int64)
        if len(values) > MOST_DISTINCT:
            frequent = np.argsort(-counts[1:-1], kind="stable")[: MOST_DISTINCT - 2] + 1
            kept = np.sort(np.concatenate([[0], frequent, [len(values) - 1]]))
            values, counts = values[kept], counts[kept]
    return values, counts
