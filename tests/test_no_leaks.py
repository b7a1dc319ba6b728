"""What is tracked can be published: no package index, no path of a machine, no licensed data, nothing large."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 1_000_000
MOST_DATA_BYTES = 4096  # enough for a hand-made example of a format

INDEX = re.compile(r"--(extra-)?index-url|--find-links|\bpypi\.|pythonhosted\.|https?://\S+/simple\b", re.IGNORECASE)
PATH = re.compile(r"(?<![\w.$}/-])/(work|root|home/\w+|Users/\w+|tmp|private/var)/[\w.-]")
DATA = re.compile(r"\.(base|test|dat|data|zip|gz|csv|tsv|parquet|npz|npy|soc|soi|toc|toi|db)$")


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """The files git tracks here."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing says which files are tracked")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def findings(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """file:line: text of every match; this file, which names what it looks for, is left out."""
    found = []
    for path in paths:
        if path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    return found


def lines_of_data(folder: Path) -> Iterator[str]:
    """The first lines of each data file that no one writes by chance: those with eight digits or more."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in (".md", ".zip", ".gz"):
            with path.open(encoding="utf-8", errors="replace") as lines:
                for line in islice(lines, 20):
                    if sum(letter.isdigit() for letter in line) >= 8:
                        yield line.strip()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (INDEX, "--index-url https://example.org/simple"),
        (INDEX, "# https://mirror.example.org/api/py/simple/numpy"),
        (PATH, 'path = "/home/someone/data"'),
        (PATH, "/tmp/x.txt"),
        (DATA, "tests/data/u1.base"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def test_no_package_index(tracked: list[Path]) -> None:
    assert findings(INDEX, tracked) == []


def test_no_machine_path(tracked: list[Path]) -> None:
    assert findings(PATH, tracked) == []
    assert findings(re.compile(re.escape(str(ROOT))), tracked) == []


def test_nothing_large(tracked: list[Path]) -> None:
    sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in tracked}
    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}
    assert {name: size for name, size in sizes.items() if DATA.search(name) and size > MOST_DATA_BYTES} == {}


def test_no_line_of_the_real_data(tracked: list[Path], data_dir: Path) -> None:
    known = set(lines_of_data(data_dir))
    assert known
    copied = []
    for path in tracked:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.strip() in known:
                copied.append(f"{path.relative_to(ROOT)}: {line.strip()}")
    assert copied == []
