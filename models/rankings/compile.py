"""Compile every kernel of the family ahead of the work."""

import time

import numpy as np

from predilect.models.compiled import Threads
from predilect.models.rankings import pair_kernels
from predilect.models.rankings.ballots import Ballots
from predilect.models.rankings.connectivity import diagnose
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Mixture, Objective
from predilect.models.rankings.solvers import lsr_direction
from predilect.models.rankings.spectral import embed, pair_wins
from predilect.models.rankings.uncertainty import observed_information


def warm_up() -> float:
    """Compile all kernels, or load them from the disk cache; the seconds it took."""
    began = time.perf_counter()
    ballots = Ballots.from_rows([[0, 1, 2], [0, 1, 2], [2, 0], [1]], 8, "all").collapse()[0]
    layout = Layout(ballots)
    layout.take(np.array([0, 1]))
    pool = Threads(1)
    theta = np.linspace(0.0, 1.0, 8)
    for spread in (1.0, 1000.0):  # both passes: worths, and log-worths
        layout.run(pool, spread * theta[:, None], np.ones(1))
    objective = Objective(layout, pool)
    lsr_direction(objective, objective.at(Mixture.single(theta)))
    observed_information(objective, Mixture(np.column_stack([theta, -theta]), np.full(2, 0.5)))
    pair_kernels.stationary(np.ones((2, 2)))
    diagnose(layout)
    pair_wins(layout)
    embed(layout, "positions")
    return time.perf_counter() - began
