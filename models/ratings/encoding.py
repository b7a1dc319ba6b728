"""From the columns of a table of people or things to sparse features.

Every column contributes a row of norm about `WEIGHT`, half of the constant's: with one learned λ a coordinate for all
of a side's features, that is the prior ratio of what they are expected to explain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from predilect.models.errors import ParameterError
from predilect.models.ratings.features import Features

Kind = Literal["categorical", "multi", "numeric", "text"]
WEIGHT = 0.5
KNOTS = 7
"""Quantiles between which a number's effect is linear."""
LEAST_ROWS = 2
"""Values and words that fewer rows have are left out: they say nothing about others."""
MOST_WORDS = 5000


@dataclass(frozen=True)
class Column:
    """One column. What is missing (None, NaN, "") gives no feature."""

    name: str
    kind: Kind
    values: Sequence[Any]
    """(n,): strings; for `multi`, lists of strings; for `numeric`, numbers."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ParameterError(f"Column {self.name} is {self.kind!r}; give one of {', '.join(get_args(Kind))}.")


def encode(columns: Sequence[Column], rows: NDArray[np.integer[Any]]) -> Features:
    """The features of the rows `rows` of a table, -1 for one that is not in it; vocabularies are the whole table's."""
    encoders = {"categorical": _categorical, "multi": _multi, "numeric": _numeric, "text": _text}
    parts: list[csr_array] = []
    names: list[str] = []
    groups: list[str] = []
    for column in columns:
        matrix, labels = encoders[column.kind](column)
        parts.append(matrix)
        names += labels
        groups += [column.name] * len(labels)
    if not names:
        return Features(csr_array((len(rows), 0)), (), (), np.zeros(0))
    whole = csr_array(hstack(parts, format="csr"))
    nothing = csr_array((1, whole.shape[1]))
    padded = csr_array(hstack([whole.T, nothing.T], format="csr").T.tocsr())
    return Features(csr_array(padded[rows]), tuple(names), tuple(groups), np.full(len(names), WEIGHT))


def _categorical(column: Column) -> tuple[csr_array, list[str]]:
    lists = [[] if _missing(value) else [str(value)] for value in column.values]
    return _multi(Column(column.name, "multi", lists))


def _multi(column: Column) -> tuple[csr_array, list[str]]:
    lists = [sorted({str(value) for value in values or [] if not _missing(value)}) for values in column.values]
    flat = [value for values in lists for value in values]
    seen, counts = np.unique(np.array(flat, np.str_), return_counts=True)
    kept = seen[counts >= LEAST_ROWS].tolist()
    place = {value: k for k, value in enumerate(kept)}
    rows, columns, weights = [], [], []
    for row, values in enumerate(lists):
        for value in values:
            if value in place:
                rows.append(row)
                columns.append(place[value])
                weights.append(WEIGHT / np.sqrt(len(values)))
    shape = (len(lists), len(kept))
    return csr_array((weights, (rows, columns)), shape=shape), [f"{column.name}: {value}" for value in kept]


def _numeric(column: Column) -> tuple[csr_array, list[str]]:
    """Weights on the two nearest of some quantiles, so that any smooth effect can be learned."""
    values = np.array([np.nan if _missing(value) else float(value) for value in column.values])
    known = values[np.isfinite(values)]
    knots = np.unique(np.quantile(known, np.linspace(0, 1, KNOTS))) if len(known) else known
    if len(knots) < 2:
        return csr_array((len(values), 0)), []
    rows = np.flatnonzero(np.isfinite(values))
    at = np.clip(np.searchsorted(knots, known, side="right") - 1, 0, len(knots) - 2)
    share = (known - knots[at]) / (knots[at + 1] - knots[at])
    weights = WEIGHT * np.concatenate([1 - share, share])
    matrix = csr_array(
        (weights, (np.concatenate([rows, rows]), np.concatenate([at, at + 1]))), shape=(len(values), len(knots))
    )
    return matrix, [f"{column.name} near {knot:g}" for knot in knots]


def _text(column: Column) -> tuple[csr_array, list[str]]:
    """Words by inverse frequency, rows scaled to norm `WEIGHT`."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["" if _missing(value) else str(value) for value in column.values]
    words = TfidfVectorizer(min_df=LEAST_ROWS, max_features=MOST_WORDS, sublinear_tf=True, strip_accents="unicode")
    try:
        matrix = words.fit_transform(texts)
    except ValueError:  # no word in two rows
        return csr_array((len(texts), 0)), []
    return csr_array(WEIGHT * matrix), [f"{column.name}: “{word}”" for word in words.get_feature_names_out()]


def _missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and not np.isfinite(value))
