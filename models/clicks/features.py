"""Context features of items: TF-IDF of texts, one-hot categories, standardised numbers; unit norm by part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import IdMap

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer


@dataclass(frozen=True)
class FeatureColumns:
    """The columns of n_lines contexts (items, or distinct combinations of context), by name."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    categories: Mapping[str, ArrayLike] = field(default_factory=dict)
    """Strings or integers; a value unseen in training has no feature."""
    numbers: Mapping[str, ArrayLike] = field(default_factory=dict)

    def n_lines(self) -> int:
        """The common length; DataError when columns differ in length."""
        lengths = {
            name: len(np.asarray(column, dtype=object))
            for columns in (self.texts, self.categories, self.numbers)
            for name, column in columns.items()
        }
        if len(set(lengths.values())) > 1:
            raise DataError(f"The feature columns differ in length, {lengths}; give one value of each for every line.")
        return next(iter(lengths.values()), 0)


@dataclass(frozen=True)
class TextOptions:
    """How words are counted. Rare words make a model without group effects over-confident, and help one with them."""

    min_lines: int = 5
    """Lines in which a word must occur."""
    max_words: int | None = None
    """The most frequent words kept; None keeps all."""
    longest_phrase: int = 1
    """2 counts pairs of neighbouring words too."""

    def __post_init__(self) -> None:
        for name in ("min_lines", "longest_phrase"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} is {getattr(self, name)}; give a whole number of at least 1.")


class FeatureEncoder:
    """Columns → CSR features with the vocabulary, categories and scales of the training lines."""

    def __init__(
        self,
        texts: "dict[str, TfidfVectorizer]",
        categories: dict[str, IdMap],
        numbers: dict[str, tuple[float, float]],
        options: TextOptions,
    ) -> None:
        self._texts, self._categories, self._numbers, self.options = texts, categories, numbers, options

    @classmethod
    def fit(cls, columns: FeatureColumns, options: TextOptions | None = None) -> Self:
        """Learn words and their idf, categories, and means and standard deviations from training lines.

        A text column without any word frequent enough gets no features; a constant number gets the value 0.
        Raises DataError for numbers that are not finite.
        """
        options = options or TextOptions()
        columns.n_lines()
        texts = {name: _fit_text(column, options) for name, column in columns.texts.items()}
        categories = {name: IdMap.of(column)[0] for name, column in columns.categories.items()}
        numbers = {}
        for name, column in columns.numbers.items():
            values = _finite(name, column)
            numbers[name] = (float(values.mean()) if len(values) else 0.0, float(values.std()) if len(values) else 0.0)
        return cls(texts, categories, numbers, options)

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Name and width of each range of columns; one for every text and category, one for all numbers."""
        parts = [(name, len(words.vocabulary_)) for name, words in self._texts.items()]
        parts += [(name, len(ids)) for name, ids in self._categories.items()]
        return tuple(parts) + ((("numbers", len(self._numbers)),) if self._numbers else ())

    @property
    def columns(self) -> dict[str, list[str]]:
        """The names of the columns it reads, by kind: text, category, number."""
        return {"text": list(self._texts), "category": list(self._categories), "number": list(self._numbers)}

    @property
    def names(self) -> list[str]:
        """What each column stands for: the word, `column=value`, or the number's name."""
        names: list[str] = []
        for words in self._texts.values():
            names += sorted(words.vocabulary_, key=words.vocabulary_.get)
        for name, ids in self._categories.items():
            names += [f"{name}={value}" for value in ids.ids.tolist()]
        return names + list(self._numbers)

    def transform(self, columns: FeatureColumns) -> Any:
        """CSR (n_lines, n_features), float32. Unseen words and categories, and empty texts, have no feature.

        Raises DataError when a column is missing or a number is not finite.
        """
        n_lines = columns.n_lines()
        parts: list[Any] = []
        for name, words in self._texts.items():
            column = _column(columns.texts, name)
            empty = not n_lines or not words.vocabulary_
            parts.append(sparse.csr_matrix((n_lines, len(words.vocabulary_))) if empty else words.transform(column))
        for name, ids in self._categories.items():
            codes = ids.encode(_column(columns.categories, name))
            known = np.flatnonzero(codes >= 0)
            parts.append(sparse.csr_matrix((np.ones(len(known)), (known, codes[known])), shape=(n_lines, len(ids))))
        if self._numbers:
            scaled = np.zeros((n_lines, len(self._numbers)))
            for i, (name, (mean, sd)) in enumerate(self._numbers.items()):
                if sd > 1e-12 * max(abs(mean), 1.0):
                    scaled[:, i] = (_finite(name, _column(columns.numbers, name)) - mean) / sd
            parts.append(sparse.csr_matrix(scaled))
        return sparse.hstack([sparse.csr_matrix((n_lines, 0)), *parts], format="csr", dtype=np.float32)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and facts for `models.artifact`."""
        arrays: dict[str, NDArray[Any]] = {}
        for i, words in enumerate(self._texts.values()):
            ordered = sorted(words.vocabulary_, key=words.vocabulary_.get)
            arrays |= IdMap(np.array(ordered, dtype=np.str_)).to_arrays(f"words_{i}")
            arrays[f"idf_{i}"] = words.idf_ if ordered else np.zeros(0)
        for i, ids in enumerate(self._categories.values()):
            arrays |= ids.to_arrays(f"category_{i}")
        facts = {
            "texts": list(self._texts),
            "categories": list(self._categories),
            "numbers": self._numbers,
            "options": vars(self.options),
        }
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """The inverse of `to_arrays`."""
        options = TextOptions(**facts["options"])
        texts = {
            name: _restored_text(IdMap.from_arrays(arrays, f"words_{i}").ids, arrays[f"idf_{i}"], options)
            for i, name in enumerate(facts["texts"])
        }
        categories = {name: IdMap.from_arrays(arrays, f"category_{i}") for i, name in enumerate(facts["categories"])}
        numbers = {name: (float(mean), float(sd)) for name, (mean, sd) in facts["numbers"].items()}
        return cls(texts, categories, numbers, options)


def _vectorizer(options: TextOptions, vocabulary: dict[str, int] | None = None) -> "TfidfVectorizer":
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import

    return TfidfVectorizer(
        min_df=1 if vocabulary is not None else options.min_lines,
        max_features=options.max_words,
        ngram_range=(1, options.longest_phrase),
        vocabulary=vocabulary,
    )


def _fit_text(column: Sequence[str], options: TextOptions) -> "TfidfVectorizer":
    words = _vectorizer(options)
    try:
        words.fit(column)
    except ValueError:  # scikit-learn's way to say that no word is left
        return _restored_text(np.zeros(0, np.str_), np.zeros(0), options)
    return words


def _restored_text(words: NDArray[Any], idf: NDArray[Any], options: TextOptions) -> "TfidfVectorizer":
    restored = _vectorizer(options, {str(word): i for i, word in enumerate(words)})
    if len(words):
        restored.idf_ = idf
    else:
        restored.vocabulary_ = {}
    return restored


def _column(columns: Mapping[str, Any], name: str) -> Any:
    if name not in columns:
        raise DataError(f"The column {name} is missing; the model was trained with it, so give it for scoring too.")
    return columns[name]


def _finite(name: str, column: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(column, dtype=np.float64)
    if not np.isfinite(values).all():
        line = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"Line {line} has {values[line]} in column {name}; give a finite number or drop the line.")
    return values
