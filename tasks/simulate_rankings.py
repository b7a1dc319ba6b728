"""A simulated table of rankings with known truth: towns for a holiday, ranked by three kinds of traveller."""

import json
from pathlib import Path

import numpy as np

from predilect.models.random import stream
from predilect.models.rankings import Mixture
from predilect.models.rankings.simulate import simulate
from predilect.tasks.output import new_folder

TABLE, TRUTH = "ballots.csv", "truth.json"
TOWNS = (
    "Athens", "Bergen", "Cádiz", "Dublin", "Évora", "Florence", "Ghent", "Helsinki", "Innsbruck", "Kraków", "Lisbon",
    "Marseille",
)  # fmt: skip
SHARES = (0.5, 0.3, 0.2)
LENGTH = 5


def simulate_rankings(folder: Path, *, n_ballots: int, seed: int) -> Path:
    """Write `ballots.csv` (a ballot a row: its five best towns) and `truth.json`; returns the path of the former.

    Each of three segments has its own worths. The same numbers give the same table.
    """
    log_worths = stream(seed, "towns").normal(scale=1.2, size=(len(TOWNS), len(SHARES)))
    mixture = Mixture(log_worths - log_worths.mean(axis=0), np.array(SHARES))
    ballots, _ = simulate(mixture, n_ballots, seed=seed, length=LENGTH, menu="all")
    lines = [",".join(TOWNS[item] for item in ballots.row(row)) for row in range(len(ballots))]
    head = ",".join(f"rank{place}" for place in range(1, LENGTH + 1))
    truth = {"items": TOWNS, "shares": SHARES, "log_worths": mixture.log_worths.T.tolist()}
    with new_folder(folder, replace=True) as draft:
        (draft / TABLE).write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
        (draft / TRUTH).write_text(json.dumps(truth, indent=2, ensure_ascii=False), encoding="utf-8")
    return folder / TABLE
