"""Lists that mix what is expected to be clicked with what is worth finding out, under an exploration budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from predilect.models.clicks import scores
from predilect.models.clicks.design import Design
from predilect.models.clicks.model import ClicksModel
from predilect.models.clicks.prediction import Prediction
from predilect.models.compiled import Threads
from predilect.models.errors import ParameterError
from predilect.models.random import stream

Array = NDArray[np.float64]

SCORES = ("mean", "ucbe", "ucqe", "euq", "ucquq", "uqp", "thompson")
_CHUNK_ROWS = 512


def score(
    model: ClicksModel,
    design: Design,
    names: tuple[str, ...] = SCORES,
    *,
    prediction: Prediction | None = None,
    nu: float = 0.95,
    n_points: int = 64,
    seed: int = 0,
    block: int = 0,
) -> dict[str, Array]:
    """The named scores of every row, (n_rows,) each; `score_block` is the way through millions of rows.

    nu: the quantile of all optimistic scores (ν₁ = ν₂ = ν for ucquq). "thompson" is σ(ζ) under one joint draw of the
    coefficients, the same draw for every block of this seed; m- models have none. Raises ParameterError.
    """
    unknown = [name for name in names if name not in SCORES]
    if unknown:
        raise ParameterError(f"There is no score {unknown[0]!r}; choose from {', '.join(SCORES)}.")
    normals = prediction if prediction is not None else model.predict(design)
    points = scores.normal_points(n_points, seed)
    ways: dict[str, Callable[[], Array]] = {
        "mean": lambda: scores.mean(normals, points),
        "ucbe": lambda: scores.ucbe(normals, points, nu),
        "ucqe": lambda: scores.ucqe(normals, nu),
        "euq": lambda: scores.euq(normals, points, nu),
        "ucquq": lambda: scores.ucquq(normals, points, nu, nu),
        "uqp": lambda: scores.uqp(normals, points, nu),
        "thompson": lambda: special.expit(
            model.draw_zeta(design, stream(seed, "thompson"), stream(seed, "thompson rows", block))
        ),
    }
    return {name: ways[name]() for name in names}


def score_block(
    model: ClicksModel,
    design: Design,
    names: tuple[str, ...],
    pool: Threads,
    *,
    nu: float = 0.95,
    n_points: int = 64,
    seed: int = 0,
    block: int = 0,
) -> tuple[Prediction, dict[str, Array]]:
    """The predictive normals and the named scores of the rows of one of many blocks, numbered by `block`.

    Rows of equal context, cluster and group are scored once; the rest as `score`. The same for any number of threads.
    """
    key = design.lines.astype(np.int64) * (design.n_clusters + 1) + design.clusters + 1
    key = key * (design.n_groups + 1) + design.groups + 1
    first, place = np.unique(key, return_index=True, return_inverse=True)[1:]
    some = design.take(first)
    normals = model.predict(some)
    alike = tuple(name for name in names if name != "thompson")
    found = {name: np.empty(len(first)) for name in alike}

    def work(chunk: int) -> None:
        rows = slice(chunk * _CHUNK_ROWS, (chunk + 1) * _CHUNK_ROWS)
        part = normals.take(rows)
        for name, values in score(
            model, some.take(rows), alike, prediction=part, nu=nu, n_points=n_points, seed=seed
        ).items():
            found[name][rows] = values

    pool.run(work, -(-len(first) // _CHUNK_ROWS))
    out = {name: values[place] for name, values in found.items()}
    if "thompson" in names:
        out |= score(model, design, ("thompson",), prediction=normals, seed=seed, block=block)
    return normals.take(place), {name: out[name] for name in names}


@dataclass(frozen=True)
class Ranking:
    """One list a line; places beyond the last item are -1."""

    lists: NDArray[Any]
    """(n_lists,) the code of each list."""
    rows: NDArray[np.int64]
    """(n_lists, length) the row shown at each place, best first."""
    chosen_by: NDArray[np.int8]
    """(n_lists, length) 0 = by the mean, i = by the i-th exploring score."""
    exploring: tuple[str, ...]
    """Names of the exploring scores."""


def rank(mean: Array, exploring: Mapping[str, Array], lists: NDArray[Any], length: int, budget: float) -> Ranking:
    """The best `length` rows of every list, a share `budget` of the places given to exploring scores.

    mean: (n_rows,) what the other places go by; exploring: scores by name, (n_rows,) each, which take turns; lists:
    (n_rows,) code of the list (user) a row may be shown in. Exploring places are spread evenly, each the last of its
    section.
    No row is shown twice. Raises ParameterError for an impossible length or budget.
    """
    if length < 1:
        raise ParameterError(f"length is {length}; give a whole number of at least 1.")
    if not 0.0 <= budget <= 1.0:
        raise ParameterError(f"budget is {budget}; give the share of exploring places, between 0 and 1.")
    n_exploring = int(np.floor(budget * length + 1e-9)) if exploring else 0
    explored = np.zeros(length, bool)
    explored[(np.arange(1, n_exploring + 1) * length) // max(n_exploring, 1) - 1] = n_exploring > 0
    names = tuple(exploring)
    order = np.argsort(lists, kind="stable")
    codes, starts = np.unique(lists[order], return_index=True)
    rows = np.full((len(codes), length), -1, np.int64)
    chosen_by = np.zeros((len(codes), length), np.int8)
    for i, members in enumerate(np.split(order, starts[1:])):
        # The mean chooses first, so that exploring places add rows which it would not show.
        by_mean = members[np.argsort(-mean[members], kind="stable")]
        n_mean = min(length - n_exploring, len(members))
        left = by_mean[n_mean:]
        picked: list[tuple[int, int]] = []
        for turn in range(min(n_exploring, len(left))):
            which = turn % len(names)
            best = int(np.argmax(exploring[names[which]][left]))
            picked.append((int(left[best]), which + 1))
            left = np.delete(left, best)
        mean_rows, explore_rows = iter(by_mean[:n_mean].tolist()), iter(picked)
        for place in range(min(length, n_mean + len(picked))):
            following = next(explore_rows, None) if explored[place] else None
            if following is None:
                row = next(mean_rows, None)
                following = next(explore_rows) if row is None else (row, 0)
            rows[i, place], chosen_by[i, place] = following
    return Ranking(codes, rows, chosen_by, names)
