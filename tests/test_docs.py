"""Docs are true: the parameter page is the parameter model's, and every command shown runs."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAKE = ("make demo", "make test")  # the gate itself runs these


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_parameter_page_is_current() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "build_parameters.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "run: python docs/build_parameters.py"


def test_links_and_pictures_exist() -> None:
    for page in ("README.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md")), "infra/README.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"


def test_make_targets_exist() -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in MAKE:
        assert f"\n{command.split()[1]}:" in rules


@pytest.mark.e2e
@pytest.mark.timeout(1200)  # each command has its own
def test_readme_commands_run(tmp_path: Path) -> None:
    """In the order of the page, in an empty folder, with an empty home."""
    bin_dir = str(Path(sys.executable).parent)
    env = {
        **{
            name: value for name, value in os.environ.items() if not name.startswith(("PREDILECT", "PREFECT", "MLFLOW"))
        },
        "PATH": f"{bin_dir}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "PREDILECT_HOME": str(tmp_path),
    }
    (tmp_path / "home").mkdir()
    commands = [line for block in _blocks("README.md", "sh") for line in block.splitlines()]
    for command in (line.split("#")[0].strip() for line in commands):
        if command in MAKE:
            continue
        ran = subprocess.run(
            shlex.split(command), cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    for code in _blocks("README.md", "python"):
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
