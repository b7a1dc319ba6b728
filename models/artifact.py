"""Models on disk: one `.npz` of arrays and one JSON manifest, never a pickle; complete or absent."""

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.errors import ArtifactError

FORMAT = "predilect-model"
ARRAYS, MANIFEST = "arrays.npz", "manifest.json"


def save(
    folder: Path, kind: str, schema_version: int, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
) -> None:
    """Write a model folder beside `folder`, then rename it into place; an older model there is replaced.

    kind: the family, such as "ratings". facts: anything JSON can hold (configuration, scale, …).
    """
    draft = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        np.savez(draft / ARRAYS, allow_pickle=False, **arrays)
        manifest = {
            "format": FORMAT,
            "kind": kind,
            "schema_version": schema_version,
            "sha256": hashlib.sha256((draft / ARRAYS).read_bytes()).hexdigest(),
            "facts": dict(facts),
        }
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def load(folder: Path, kind: str, schema_version: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and facts of a model folder. Raises ArtifactError when it is missing, damaged or of another kind."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        content = (folder / ARRAYS).read_bytes()
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{folder} is not a model folder: {error}; give the folder that `train` wrote.") from error
    if not (isinstance(manifest, dict) and isinstance(manifest.get("facts"), dict)):
        raise ArtifactError(f"{folder / MANIFEST} is damaged (it holds no facts); restore or retrain the model.")
    found = (manifest.get("format"), manifest.get("kind"), manifest.get("schema_version"))
    if found != (FORMAT, kind, schema_version):
        raise ArtifactError(
            f"{folder} holds {found[1]} model schema {found[2]}, but {kind} schema {schema_version} is wanted; "
            "retrain it."
        )
    if hashlib.sha256(content).hexdigest() != manifest.get("sha256"):
        raise ArtifactError(
            f"{folder / ARRAYS} is damaged (its checksum differs from the manifest's); restore or retrain it."
        )
    try:
        with np.load(folder / ARRAYS, allow_pickle=False) as stored:
            return dict(stored), manifest["facts"]
    except (ValueError, zipfile.BadZipFile) as error:
        raise ArtifactError(f"{folder / ARRAYS} cannot be read: {error}; restore or retrain it.") from error
