"""Why no maximum exists, by the names of the items."""

import numpy as np
import pytest

from predilect.models.errors import DataError
from predilect.models.rankings import Ballots
from predilect.models.rankings.connectivity import diagnose, require_finite
from predilect.models.rankings.layout import Layout

NAMES = ["ant", "bee", "cat", "dog", "eel", "fox"]


def layout(rows, n_items, menu="ranked", weights=None):
    return Layout(Ballots.from_rows(rows, n_items, menu, weights=weights))


@pytest.mark.parametrize(
    ("rows", "n_items", "menu", "message"),
    [
        ([[0, 1], [1, 0]], 3, "ranked", "item cat is never ranked before another item"),
        ([[0, 1], [1, 0]], 3, "all", "item cat is never ranked before another item"),
        ([[0, 1, 2], [1, 0, 2]], 3, "all", "item cat is never ranked before another item"),
        ([[0, 1], [1, 0], [2, 3], [3, 2]], 4, "ranked", r"items cat, dog are never compared .*2 separate islands"),
        ([[0, 1], [1, 0], [2, 3], [3, 2], [0, 2]], 4, "ranked", "items ant, bee are only ever before the other items"),
        ([[1, 2, 3], [3, 2, 1], [0, 1]], 4, "ranked", "item ant is only ever before the other items"),
        (
            [[4, 5], [5, 4], [0, 1], [1, 2], [2, 0], [3, 0], [0, 3], [0, 4]],
            6,
            "ranked",
            "eel, fox are only ever behind",
        ),
    ],
)
def test_the_items_in_the_way_are_named(rows, n_items, menu, message):
    with pytest.raises(DataError, match=f"No finite worths fit these ballots: .*{message}.*set nu above 0"):
        require_finite(layout(rows, n_items, menu), NAMES)


def test_many_items_are_not_all_listed():
    rows = [[0, 1], [1, 0]]
    assert "2, 3, 4, 5, 6 and 13 more" in diagnose(layout(rows, 20)).describe()


def test_ballots_that_connect_only_together_are_accepted():
    assert diagnose(layout([[0, 1, 2], [2, 3], [3, 0]], 4)).connected
    assert diagnose(layout([[0], [1], [2]], 3, "all")).connected


def test_faint_wins_do_not_connect():
    rows, weights = [[0, 1], [1, 0], [1, 2], [2, 1]], [1.0, 1.0, 1.0, 1e-9]
    assert diagnose(layout(rows, 3, weights=weights)).connected
    faint = diagnose(layout(rows, 3, weights=weights), threshold=1e-6)
    assert not faint.connected
    assert faint.unseen.tolist() == [2]


def test_agrees_with_reachability_by_matrix_powers():
    generator = np.random.default_rng(0)
    for _ in range(50):
        rows = [generator.permutation(7)[: generator.integers(2, 4)].tolist() for _ in range(6)]
        reach = np.eye(7)
        for row in rows:
            for place, better in enumerate(row):
                reach[better, row[place + 1 :]] = 1
        reach = np.linalg.matrix_power(reach, 7) > 0
        assert diagnose(layout(rows, 7)).connected == bool((reach & reach.T).all())
