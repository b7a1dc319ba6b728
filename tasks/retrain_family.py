"""What retraining asks of a family, and the checks of new data and the guards of promotion that families share."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from predilect.models.errors import DataError
from predilect.models.evaluation.bootstrap import Estimate
from predilect.tasks.formatting import interval
from predilect.tasks.parameters import Parameters
from predilect.tasks.runs import MANIFEST, data_folder
from predilect.tasks.settings import Settings

Json = dict[str, Any]
Estimates = Mapping[str, Estimate]
WATCHED = 200
"""Values whose share of the rows is watched, the most frequent ones; all others are one cell."""
CELLS = 20
"""Of the distribution of a number: between quantiles of the previous data."""
TIMES = 5
"""Each model's predictions are timed so often, in turn; the best counts."""
OTHERS = "(others)"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found beside what is allowed."""

    name: str
    value: str
    allowed: str
    ok: bool

    def facts(self) -> Json:
        """For tables and JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    """Challenger and champion on the rows that neither was trained on.

    challenger, champion: metrics with intervals; differences: challenger less champion, paired. rows: compared.
    guards: what must not have got worse.
    """

    challenger: Mapping[str, Estimate]
    champion: Mapping[str, Estimate]
    differences: Mapping[str, Estimate]
    rows: int
    guards: list[Check]


@dataclass(frozen=True)
class Steps:
    """A family's part in its retraining.

    parameters, training: the classes of both runs' parameters. table: name of the file of all rows. read: the rows of
    one file, as a table whose columns every file has alike. profile: what is remembered of all rows for the next time.
    watched: name of the value whose distribution is watched. headline: the metric that decides; higher: which way is
    better. baseline: what a first champion must beat. plain: of all rows and the parameters, what is written to `table`
    and the training parameters that read it. compare: (run folder, champion's model folder, parameters).
    """

    parameters: type[Parameters]
    training: type[Parameters]
    table: str
    rows: str
    read: Callable[[Path, Any], pa.Table]
    profile: Callable[[pa.Table], Json]
    check: Callable[[pa.Table, Json, Any], list[Check]]
    headline: str
    higher: bool
    baseline: str
    plain: Callable[[pa.Table, Any], tuple[pa.Table, Json]]
    warm: Callable[[Path, Any], str | None]
    compare: Callable[[Path, Path, Any], Comparison]


def volume_checks(new: int, now: int, before: int, parameters: Any) -> list[Check]:
    """How many rows came, and how many of the earlier ones are gone. before: rows of the previous data."""
    low, high = parameters.min_batch_share, parameters.max_batch_share
    share = new / before
    lost = max(0.0, 1 - (now - new) / before)
    return [
        Check("new rows", f"{new:,} ({share:.1%} of {before:,})", f"{low:.1%} to {high:.1%}", low <= share <= high),
        Check(
            "rows lost", f"{lost:.1%}", f"at most {parameters.max_lost_share:.1%}", lost <= parameters.max_lost_share
        ),
    ]


def type_checks(table: pa.Table, before: Mapping[str, str]) -> list[Check]:
    """Whether the columns are those of the previous data, of the same kinds."""
    return [
        Check(f"column {name}", _kind(table, name), kind, _kind(table, name) == kind) for name, kind in before.items()
    ]


def kinds(table: pa.Table) -> dict[str, str]:
    """The columns of a table with their kinds, as `type_checks` compares them."""
    return {name: _kind(table, name) for name in table.column_names}


def psi_check(what: str, new: Mapping[str, int], before: Mapping[str, int], limit: float) -> Check:
    """Population stability index Σ (p − q) ln(p / q) over the values of `before`, others in one cell of their own.

    Two samples of one distribution have about (cells − 1)(1/n + 1/m) by chance, which is taken off.
    """
    counts = [
        np.array(
            [*(cells.get(name, 0) for name in before), sum(many for name, many in cells.items() if name not in before)]
        )
        for cells in (new, before)
    ]
    n, m = (float(count.sum()) for count in counts)
    used = counts[0] + counts[1] > 0
    p, q = ((count[used] + 0.5) / (count[used] + 0.5).sum() for count in counts)
    found = float(((p - q) * np.log(p / q)).sum()) - (int(used.sum()) - 1) * (1 / max(n, 1) + 1 / max(m, 1))
    return Check(f"PSI of {what}", f"{max(found, 0.0):.3f}", f"at most {limit:g}", bool(found <= limit))


def share_check(what: str, share: float, limit: float) -> Check:
    """A share that has a limit."""
    return Check(what, f"{share:.1%}", f"at most {limit:.1%}", bool(share <= limit))


def new_share(column: pa.ChunkedArray, known: list[Any]) -> float:
    """The share of rows whose value is not known."""
    names = pa.array([str(one) for one in known], pa.string())
    return 1.0 - float(pc.mean(pc.is_in(column.cast(pa.string()), value_set=names)).as_py() or 0.0)


def appearances(
    values: pa.ChunkedArray, counts: pa.ChunkedArray | None = None, names: Collection[str] | None = None
) -> dict[str, int]:
    """How often each of these values appears (None: the most frequent ones), and all others together.

    counts: how often each row counts; default once.
    """
    table = pa.table({"value": values, "count": counts if counts is not None else np.ones(len(values), np.int64)})
    found = table.group_by("value").aggregate([("count", "sum")])
    each = dict(zip(map(str, found["value"].to_pylist()), map(int, found["count_sum"].to_pylist()), strict=True))
    kept = sorted(each, key=lambda name: (-each[name], name))[:WATCHED] if names is None else names
    shown = {name: each[name] for name in kept if name in each and name != OTHERS}
    return shown | {OTHERS: sum(each.values()) - sum(shown.values())}


def quantile_edges(values: NDArray[np.float64]) -> list[float]:
    """The distinct quantiles between which numbers are counted."""
    edges: list[float] = np.unique(np.quantile(values, np.linspace(0, 1, CELLS + 1))).tolist()
    return edges


def in_cells(values: NDArray[np.float64], edges: Sequence[float]) -> dict[str, int]:
    """How many values lie below the first edge, from each edge to the next, and from the last one on."""
    place = np.searchsorted(np.asarray(edges), values, side="right")
    return {str(cell): int(many) for cell, many in enumerate(np.bincount(place, minlength=len(edges) + 1))}


def ratio_check(what: str, value: float, other: float, limit: float, unit: str) -> Check:
    """A figure as a multiple of the champion's."""
    return Check(what, f"{value:,.3g} {unit}, the champion {other:,.3g}", f"at most {limit:g} times that",
                 bool(value <= limit * other))  # fmt: skip


def size_check(challenger: Path, champion: Path, limit: float) -> Check:
    """The bytes of the model folders."""
    sizes = [
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) for folder in (challenger, champion)
    ]
    return ratio_check("model size", sizes[0] / 1e6, sizes[1] / 1e6, limit, "MB")


def loss_check(
    what: str, values: Sequence[float], limit: float, *, gap: Estimate | None = None, higher: bool = False
) -> Check:
    """A metric that may be so much worse than the champion's. higher: is better.

    values: the challenger's and the champion's. gap: their difference, paired; where its interval holds 0, as on few
    rows, nothing is shown to be worse.
    """
    ours, theirs = values
    lost = theirs - ours if higher else ours - theirs
    shown = gap is None or not gap["low"] <= 0 <= gap["high"]
    said = f"{ours:.4f}, the champion {theirs:.4f}"
    if gap is not None:
        said += f" (difference {interval(gap, signed=True)})"
    allowed = f"at most {limit:g} {'less' if higher else 'more'}"
    return Check(what, said, allowed if gap is None else f"{allowed}, or no clear difference",
                 bool(lost <= limit or not shown))  # fmt: skip


def coverage_check(what: str, ours: Estimates, theirs: Estimates, limit: float) -> Check:
    """How much farther from 0.9 the share of the 90 % intervals that hold may be than the champion's."""
    held = [one["coverage_90"]["value"] for one in (ours, theirs)]
    off = [abs(value - 0.9) for value in held]
    return Check(what, f"{held[0]:.3f}, the champion {held[1]:.3f}", f"at most {limit:g} farther from 0.9",
                 bool(off[0] <= off[1] + limit))  # fmt: skip


def time_check(predictions: Sequence[Callable[[], object]], limit: float) -> Check:
    """Processor time of the same predictions by the challenger and by the champion."""
    best = [np.inf, np.inf]
    for _ in range(TIMES):
        for k, predict in enumerate(predictions):
            start = time.process_time()
            predict()
            best[k] = min(best[k], time.process_time() - start)
    return ratio_check("prediction time", 1e3 * best[0], 1e3 * best[1], limit, "ms")


def dataset_of(run: Path) -> Path:
    """The canonical folder that a run was trained on. Raises DataError when it is gone."""
    folder = data_folder(run, Settings(), MANIFEST)
    if folder is not None:
        return folder
    raise DataError(f"The data that run {run.name} was trained on are no longer kept; retrain on them again.")


def _kind(table: pa.Table, name: str) -> str:
    if name not in table.column_names:
        return "missing"
    kind = table.schema.field(name).type
    return "text" if pa.types.is_string(kind) else "whole number" if pa.types.is_integer(kind) else "number"
