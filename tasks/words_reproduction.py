"""What is said of a reproduction of the rankings paper, in sentences."""

from collections.abc import Mapping
from typing import Any

from predilect.tasks.formatting import count, is_number, number

Results = Mapping[str, Any]
HEADLINE: tuple[str, ...] = ()
FIGURES: tuple[str, ...] = ()


def learned(results: Results) -> str:
    """What was compared on what."""
    settings, sets = results.get("synthetic") or [], results.get("real") or []
    names = list(dict.fromkeys(row["set"] for row in sets))
    methods = [row["method"] for row in settings or sets if not row["method"].endswith(("start", "labels"))]
    said = f"{count(len(set(methods)))} algorithms from common starts on "
    cells = {(row["n_items"], row["n_informative"], row["n_components"], row["n_ballots"]) for row in settings}
    parts = [f"{count(len(cells))} synthetic settings"] if cells else []
    parts += [f"the real ballots of {', '.join(names)}"] if names else []
    return f"Predilect compared {said}{' and '.join(parts)}."


def how_good(results: Results, against: str) -> str:
    """How close to the best possible the paper's algorithm and ours come."""
    said = []
    for method, name in (("em-lsr", "EM-LSR"), ("fit", "Predilect’s fit")):
        ratios = [row["ratio"] for row in results.get("synthetic") or [] if row["method"] == method]
        ratios = [ratio for ratio in ratios if is_number(ratio)]
        if ratios:
            said.append(f"{name} {number(sum(ratios) / len(ratios), 2)} times")
    if not said:
        return "Errors are against the planted worths, up to the order of segments."
    known = "Against the error of an estimate that knows every ballot’s segment, on average"
    return f"{known}: {', '.join(said)} as large."


def fit_line(results: Results) -> str:
    """Nothing is kept of the fits but their figures."""
    return "every fit's figures are in synthetic.csv and real.csv."
