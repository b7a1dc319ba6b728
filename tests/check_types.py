"""Runs mypy on the package and makes sure that it saw every file: a path it cannot follow would pass unchecked."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("models", "tasks", "flows", "data_contracts")
# A folder of templates is no package: mypy would count it as a file.
MYPY = [sys.executable, "-m", "mypy", "--no-namespace-packages"]


def expected_files() -> int:
    """The Python files of the four folders, and the package's own `__init__.py`."""
    return 1 + sum(1 for folder in FOLDERS for _ in (ROOT / folder).rglob("*.py"))


def checked_files(output: str) -> int | None:
    """The number of files that mypy says it checked; None when it does not say."""
    found = re.search(r"(?:no issues found in|checked) (\d+) source files?", output)
    return int(found[1]) if found else None


def main() -> int:
    mypy = subprocess.run(MYPY, cwd=ROOT, capture_output=True, text=True, check=False)
    print(mypy.stdout + mypy.stderr, end="")
    checked, expected = checked_files(mypy.stdout), expected_files()
    if checked != expected:
        print(f"types: mypy checked {checked} files, but there are {expected}; look at [tool.mypy] and the links.")
        return 1
    if mypy.returncode:
        return mypy.returncode
    print(f"types: all {expected} files checked.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
