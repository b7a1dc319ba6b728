"""Imports run one way: flows → tasks → {models, data_contracts}, and heavy libraries stay where they belong."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("models", "data_contracts", "tasks", "flows")
MAY_IMPORT = {
    "models": {"models"},
    "data_contracts": {"data_contracts"},
    "tasks": {"tasks", "models", "data_contracts"},
    "flows": {"flows", "tasks", "models", "data_contracts"},
}
NUMERICS = {"numpy", "scipy", "numba", "llvmlite", "sklearn", "threadpoolctl"}
# Not pandas: scikit-learn imports it by itself.
HEAVY = ("prefect", "mlflow", "great_expectations", "matplotlib", "dask")


def imports(source: str) -> set[str]:
    """The dotted names that a file imports anywhere in it, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            # `from predilect import tasks` names a layer, `from predilect.tasks.runs import x` may name a module
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def files(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


def each(layer: str) -> Iterator[tuple[str, str]]:
    """(file, imported name) of a layer."""
    for path in files(layer):
        for name in imports(path.read_text(encoding="utf-8")):
            yield path.relative_to(ROOT).as_posix(), name


def test_imports_are_found_wherever_they_stand() -> None:
    source = "import a.b\ndef f():\n    from c.d import e\n    from . import g\n"
    assert imports(source) == {"a.b", "c.d.e", "..g"}


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_run_one_way(layer: str) -> None:
    assert files(layer)
    wrong = []
    for path, name in each(layer):
        top, _, rest = name.partition(".")
        if not top or top in LAYERS:
            wrong.append(f"{path} imports {name}: write predilect.{layer}…")
        elif top == "predilect" and (target := rest.partition(".")[0]) in LAYERS and target not in MAY_IMPORT[layer]:
            wrong.append(f"{path} imports {name}: {layer} may not know {target}")
    assert wrong == []


def test_models_need_numerics_only() -> None:
    known = NUMERICS | {"predilect"} | set(sys.stdlib_module_names)
    assert [pair for pair in each("models") if pair[1].partition(".")[0] not in known] == []


def test_contracts_know_neither_prefect_nor_mlflow() -> None:
    assert [pair for pair in each("data_contracts") if pair[1].partition(".")[0] in ("prefect", "mlflow")] == []


def test_mlflow_has_one_door() -> None:
    doors = {path for layer in LAYERS for path, name in each(layer) if name.partition(".")[0] == "mlflow"}
    assert {path for path in doors if path != "tasks/tracking.py" and not path.startswith("tasks/pyfunc_")} == set()
    assert "tasks/tracking.py" in doors


def test_dask_has_one_door() -> None:
    imported = [pair for layer in LAYERS for pair in each(layer)]
    doors = {path for path, name in imported if name.partition(".")[0] in ("dask", "distributed")}
    assert doors == {"tasks/compute.py"}


@pytest.mark.parametrize("layer", ["models", "data_contracts"])
def test_importing_a_layer_loads_nothing_heavy(layer: str) -> None:
    probe = (
        "import importlib, pkgutil, sys\n"
        f"import predilect.{layer} as layer\n"
        "names = [module.name for module in pkgutil.walk_packages(layer.__path__, layer.__name__ + '.')]\n"
        "for name in names: importlib.import_module(name)\n"
        f"print(len(names), sorted(set({HEAVY!r}) & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    n_modules, _, loaded = done.stdout.strip().partition(" ")
    assert loaded == "[]"
    assert int(n_modules) == len(files(layer)) - 1  # all but the layer's own __init__
