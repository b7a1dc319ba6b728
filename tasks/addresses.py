"""Addresses and what goes wrong at them, short and without the passwords that they may hold."""

import re


def first_line(error: Exception) -> str:
    """What went wrong, short, without addresses that may hold a password."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "Max retries exceeded" in line:  # MLflow wraps why a server cannot be reached in all that it tried
        line = re.sub(r".*(\[Errno -?\d+\] |ResponseError\(')([^'\")]*).*", r"\2", line)
    return re.sub(r"//[^/@\s]*@", "//", line)[:200]


def shown(uri: str) -> str:
    """The address without a password."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
