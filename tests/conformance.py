"""What every model family must do, whatever it models: subclass `Conformance` and say how to fit and to ask."""

import json
import pickle
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray

from predilect.models.errors import ArtifactError

Arrays = Mapping[str, NDArray[Any]]


class Model(Protocol):
    """What the suite itself needs of a model."""

    def save(self, folder: Path) -> None: ...


def same_bits(one: Arrays, other: Arrays) -> bool:
    """Whether the arrays have the same names, shapes, types and bytes."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype
        and np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f")
        for name in one
    )


def _edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    changed = change(manifest)
    path.write_text(json.dumps(manifest if changed is None else changed), encoding="utf-8")


def _flip(folder: Path) -> None:
    path = folder / "arrays.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def _truncate(folder: Path) -> None:
    path = folder / "arrays.npz"
    path.write_bytes(path.read_bytes()[:-100])


def _remove_all(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "a flipped bit": _flip,
    "cut short": _truncate,
    "no arrays": lambda folder: (folder / "arrays.npz").unlink(),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "no folder": _remove_all,
    "a manifest that is no JSON": lambda folder: (folder / "manifest.json").write_text("{"),
    "a manifest that is no object": lambda folder: _edit(folder, lambda manifest: [manifest]),
    "a manifest without facts": lambda folder: _edit(folder, lambda manifest: manifest.pop("facts") and None),
    "a manifest with empty facts": lambda folder: _edit(folder, lambda manifest: manifest.update(facts={})),
    "another family": lambda folder: _edit(folder, lambda manifest: manifest.update(kind="other")),
    "a later schema": lambda folder: _edit(folder, lambda manifest: manifest.update(schema_version=999)),
}


class Conformance(ABC):
    """The suite. `fit` should take well under a second; results are arrays under any names."""

    @abstractmethod
    def fit(self, seed: int, n_threads: int) -> Any:
        """A model of some small data that does not change; work enough for several chunks."""

    @abstractmethod
    def load(self, folder: Path) -> Any:
        """The family's `load`."""

    @abstractmethod
    def learned(self, model: Any) -> Arrays:
        """All that was estimated."""

    @abstractmethod
    def answers(self, model: Any) -> Arrays:
        """What the model says about known ids."""

    @abstractmethod
    def answers_unknown(self, model: Any) -> Arrays:
        """What it says about ids that it has not seen: numbers and strings."""

    @abstractmethod
    def answers_nothing(self, model: Any) -> Arrays:
        """What it says to a query without rows: arrays of length 0."""

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Any:
        return cls().fit(seed=1, n_threads=1)

    def test_the_same_seed_gives_the_same_bits(self, model: Any) -> None:
        assert same_bits(self.learned(self.fit(seed=1, n_threads=1)), self.learned(model))

    def test_the_seed_matters(self, model: Any) -> None:
        assert not same_bits(self.learned(self.fit(seed=2, n_threads=1)), self.learned(model))

    @pytest.mark.parametrize("n_threads", [2, 4])
    def test_any_number_of_threads_gives_the_same_bits(self, model: Any, n_threads: int) -> None:
        other = self.fit(seed=1, n_threads=n_threads)
        assert same_bits(self.learned(other), self.learned(model))
        assert same_bits(self.answers(other), self.answers(model))

    def test_what_was_learned_is_finite(self, model: Any) -> None:
        numbers = [array for array in self.learned(model).values() if array.dtype.kind == "f"]
        assert numbers
        assert all(np.isfinite(array).all() for array in numbers)

    def test_a_saved_model_answers_alike(self, model: Any, tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        loaded = self.load(tmp_path / "model")
        assert same_bits(self.learned(loaded), self.learned(model))
        for ask in (self.answers, self.answers_unknown, self.answers_nothing):
            assert same_bits(ask(loaded), ask(model))

    def test_saving_again_writes_the_same_arrays(self, model: Any, tmp_path: Path) -> None:
        model.save(tmp_path / "one")
        self.load(tmp_path / "one").save(tmp_path / "two")
        contents = [dict(np.load(tmp_path / name / "arrays.npz", allow_pickle=False)) for name in ("one", "two")]
        assert same_bits(*contents)

    def test_a_saved_model_replaces_an_older_one(self, model: Any, tmp_path: Path) -> None:
        self.fit(seed=2, n_threads=1).save(tmp_path / "model")
        model.save(tmp_path / "model")
        assert same_bits(self.learned(self.load(tmp_path / "model")), self.learned(model))
        assert [path.name for path in tmp_path.iterdir()] == ["model"]

    def test_there_is_no_pickle_in_the_artifact(self, model: Any, tmp_path: Path) -> None:
        model.save(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["arrays.npz", "manifest.json"]
        with zipfile.ZipFile(tmp_path / "arrays.npz") as archive:
            for name in archive.namelist():
                with archive.open(name) as stream:
                    version = np.lib.format.read_magic(stream)
                    read = (
                        np.lib.format.read_array_header_1_0
                        if version == (1, 0)
                        else np.lib.format.read_array_header_2_0
                    )
                    assert not read(stream)[2].hasobject, name
                with archive.open(name) as stream, pytest.raises((pickle.UnpicklingError, EOFError, ValueError)):
                    pickle.load(stream)

    @pytest.mark.parametrize("damage", DAMAGE)
    def test_a_damaged_artifact_gives_one_clear_error(self, model: Any, tmp_path: Path, damage: str) -> None:
        folder = tmp_path / "model"
        model.save(folder)
        DAMAGE[damage](folder)
        with pytest.raises(ArtifactError) as caught:
            self.load(folder)
        message = str(caught.value)
        assert str(folder) in message
        assert "\n" not in message
        assert message.endswith(".")

    def test_unknown_ids_are_a_result(self, model: Any) -> None:
        answers = self.answers_unknown(model)
        assert answers
        for name, array in answers.items():
            assert len(array), name
            assert array.dtype.kind != "f" or np.isfinite(array).all(), name

    def test_a_query_without_rows_has_an_answer_without_rows(self, model: Any) -> None:
        answers = self.answers_nothing(model)
        assert answers
        assert all(len(array) == 0 for array in answers.values())
