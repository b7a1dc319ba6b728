"""What ingestion asks of a table before it is written: enough of everything, a scale, one rating a pair."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from predilect.models.errors import DataError, ParameterError
from predilect.tasks.canonical import CanonicalRatings
from predilect.tasks.rating_scale import Values, infer_step, on_scale
from predilect.tasks.readers import AUTO
from predilect.tasks.readers.base import Reading, Scale, Where
from predilect.tasks.repeats import Repeats, repeated_pairs, scale_of_means

# From here on, unix times are in thousandths, millionths or billionths of a second: the first is the year 5138.
_TIME_UNITS = {1e11: 1_000, 1e14: 1_000_000, 1e17: 1_000_000_000}


@dataclass(frozen=True)
class IngestOptions:
    """How a source is read.

    reader: a reader's name, or "auto": chosen by content.
    columns: `user`, `item`, `rating`, `timestamp`, `fold` → the name in the file, or its number in a file without a
        header; the rest is guessed from common names.
    duplicates: what happens to a (user, item) pair rated twice: "error", "last" (the latest by time where there is
        one, else by row) or "mean" (that row, with the mean of the ratings).
    scale_low, scale_high, scale_step: the legal ratings; step 0 = continuous; None = the format's, or inferred.
    leave_to_contract: ratings off the scale and pairs rated twice (under "error") are kept for the data contract,
        which can set them aside, instead of being refused here.
    """

    reader: str = AUTO
    columns: Mapping[str, str] = field(default_factory=dict)
    duplicates: Literal["error", "last", "mean"] = "error"
    scale_low: float | None = None
    scale_high: float | None = None
    scale_step: float | None = None
    leave_to_contract: bool = False

    def __post_init__(self) -> None:
        if self.duplicates not in ("error", "last", "mean"):
            raise ParameterError(f"duplicates = {self.duplicates!r} is unknown; choose error, last or mean.")
        for name in ("scale_low", "scale_high", "scale_step"):
            value = getattr(self, name)
            if value is not None and not np.isfinite(value):
                raise ParameterError(f"{name} = {value} is not a finite number; give one.")
        if self.scale_low is not None and self.scale_high is not None and self.scale_low >= self.scale_high:
            raise ParameterError(f"scale_low = {self.scale_low:g} must be below scale_high = {self.scale_high:g}.")
        if self.scale_step is not None and self.scale_step < 0:
            raise ParameterError(f"scale_step = {self.scale_step:g} is negative; give a step, or 0 for continuous.")


def refuse_empty(n_rows: int, reading: Reading, label: str) -> None:
    """Raise DataError when a source that has been read held no rating at all."""
    if not n_rows:
        why = (
            f"all {reading.left_out:,} rows are left out ({reading.left_out_reason})" if reading.left_out else "no rows"
        )
        raise DataError(f"{label} holds no ratings ({why}); give a file with one rating a line.")


def check_enough(n_rows: int, users: pa.Array, items: pa.Array, values: Values, label: str) -> None:
    """Raise DataError when nothing can be learnt: one user, one item, or one rating throughout.

    users, items: the distinct ids. values: the distinct ratings.
    """
    for what, names in (("user", users), ("item", items)):
        if len(names) < 2:
            raise DataError(
                f"{label}: every rating is of the {what} {names[0].as_py()!r}; a model needs two {what}s or more, "
                "so check which column is which."
            )
    if len(values) < 2:
        raise DataError(
            f"{label}: all {n_rows:,} ratings are {values[0]:g}, so there is nothing to learn; check which column "
            "is the rating."
        )


def choose_scale(values: Values, documented: Scale | None, options: IngestOptions) -> tuple[Scale, bool]:
    """The scale by the options, else the format's, else inferred from the ratings; and whether it was inferred."""
    asked = (options.scale_low, options.scale_high, options.scale_step)
    if asked == (None, None, None) and documented is not None:
        return documented, False
    low = float(values[0]) if options.scale_low is None else options.scale_low
    high = float(values[-1]) if options.scale_high is None else options.scale_high
    if low >= high:
        raise ParameterError(
            f"the scale {low:g} to {high:g} is empty: the ratings run from {values[0]:g} to {values[-1]:g}; "
            "correct scale_low and scale_high."
        )
    if options.scale_step is None:
        inside = values[(values >= low) & (values <= high)]
        step = infer_step(inside if len(inside) else np.array([low]), low, high)
    else:
        step = options.scale_step or None
    if step is not None and abs((high - low) / step - round((high - low) / step)) > 1e-6:
        raise ParameterError(f"scale_step = {step:g} does not lead from {low:g} to {high:g}; correct the scale.")
    return Scale(low, high, step), None in asked[:2]


def scale_facts(scale: Scale, inferred: bool) -> dict[str, Any]:
    """The scale as manifests have it."""
    return {"low": scale.low, "high": scale.high, "levels": scale.levels(), "inferred": inferred}


def check_scale(values: Values, scale: Scale, ratings: Values, label: str, where: Where) -> None:
    """Raise DataError when a rating is off the scale. values: the different ratings."""
    wrong = values[~on_scale(values, scale)]
    if len(wrong):
        rows = np.flatnonzero(np.isin(ratings, wrong))
        raise off_scale(where(int(rows[0])), ratings[rows[0]], len(rows), len(ratings), scale, label)


def off_scale(place: str, rating: float, n_wrong: int, n_rows: int, scale: Scale, label: str) -> DataError:
    """The error of ratings off the scale, of which the first is at `place`."""
    steps = "" if scale.step is None else f" in steps of {scale.step:g}"
    return DataError(
        f"{label}, {place}: the rating {rating:g} is off the scale {scale.low:g} to "
        f"{scale.high:g}{steps} ({n_wrong:,} of {n_rows:,} ratings are); correct them or the scale."
    )


def merge(
    table: CanonicalRatings, scale: Scale, options: IngestOptions, label: str, where: Where, warnings: list[str]
) -> tuple[CanonicalRatings, Scale, int]:
    """One rating a (user, item) pair by the policy; the scale of the result, and how many rows were merged away."""
    pairs = table.users.codes.astype(np.int64) * len(table.items.names) + table.items.codes
    ordered = np.sort(pairs)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]  # Once or more for each such pair.
    del ordered
    if not len(repeated) or (options.duplicates == "error" and options.leave_to_contract):
        return table, scale, 0
    rows = np.flatnonzero(np.isin(pairs, repeated))
    times = rows if table.timestamps is None else table.timestamps[rows]
    repeats = Repeats.of(rows, pairs[rows], times, table.ratings[rows])
    if options.duplicates == "error":
        names = table.users.names, table.items.names
        raise DataError(repeated_pairs(label, len(repeats.first), repeats.examples(), *names, where))
    last, merged = repeats.kept(options.duplicates)
    ratings = table.ratings.copy()
    ratings[last] = merged
    if options.duplicates == "mean":
        scale = scale_of_means(scale, int((~on_scale(merged, scale)).sum()), warnings)
    kept = np.ones(len(table), bool)
    kept[rows] = False
    kept[last] = True
    chosen = np.flatnonzero(kept)
    return table.take(chosen, ratings[chosen]), scale, len(table) - len(chosen)


def seconds(times: NDArray[np.int64], warnings: list[str]) -> NDArray[np.int64]:
    """Unix seconds; times that are evidently in a finer unit are divided, and a warning says so."""
    unit = time_unit(int(times.min()), warnings)
    return times // unit if unit > 1 else times


def time_unit(earliest: int, warnings: list[str]) -> int:
    """What times whose first is `earliest` must be divided by; a warning says so when it is not 1."""
    unit = next((unit for limit, unit in reversed(_TIME_UNITS.items()) if earliest >= limit), 1)
    if unit > 1:
        warnings.append(f"the timestamps are not in seconds but in 1/{unit:,} s: they were divided by {unit:,}")
    return unit


def doubtful_ids(n_rows: int, n_users: int, n_items: int) -> list[str]:
    """What makes the user and item columns look wrong."""
    if n_rows > 100 and max(n_users, n_items) == n_rows:
        what = "user" if n_users == n_rows else "item"
        return [f"every {what} has one rating only: check which column is which"]
    return []
