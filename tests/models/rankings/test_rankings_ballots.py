"""The container: what it refuses, and that collapsing, taking and splitting keep every ballot."""

import numpy as np
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.rankings import Ballots
from predilect.models.rankings.layout import Layout


@pytest.mark.parametrize(
    ("rows", "n_items", "options", "message"),
    [
        ([[0, 1], [2, 1, 2]], 3, {}, "Ballot 2 names item 2 twice"),
        ([[0, 1], []], 3, {}, "Ballot 2 is empty"),
        ([[0, 1], [0, 3]], 3, {}, "Ballot 2 names item 3; item codes go from 0 to 2"),
        ([[0, -1]], 3, {}, "Ballot 1 names item -1"),
        ([], 3, {}, "There is no ballot"),
        ([[0]], 1, {}, "There is 1 item"),
        ([[0, 1], [1, 0]], 2, {"weights": [1, 0]}, "Ballot 2 has weight 0; weights are finite and above 0"),
        ([[0, 1], [1, 0]], 2, {"weights": [-1, 1]}, "Ballot 1 has weight -1"),
        ([[0, 1], [1, 0]], 2, {"weights": [1, np.nan]}, "Ballot 2 has weight nan"),
        ([[0, 1], [1, 0]], 2, {"counts": [1, 0]}, "Ballot 2 has count 0"),
        ([[0, 1], [1, 0]], 2, {"weights": [1]}, "2 ballots but 1 weights"),
    ],
)
def test_bad_ballots_are_refused_by_number(rows, n_items, options, message):
    with pytest.raises(DataError, match=message):
        Ballots.from_rows(rows, n_items, "all", **options)


def test_the_menu_must_be_chosen_and_the_error_explains_the_difference():
    with pytest.raises(ParameterError, match=r'"all" when every item was on offer.*"ranked" when only.*found None'):
        Ballots.from_rows([[0, 1]], 2, None)


def test_bad_offsets_are_refused():
    with pytest.raises(DataError, match="offsets"):
        Ballots.of([0, 1], [0, 3], 2, "all")


def test_stages_count_the_choices_that_were_made():
    rows = [[0, 1, 2], [0, 1], [2]]
    assert Ballots.from_rows(rows, 3, "all").stages.tolist() == [2, 2, 1]
    assert Ballots.from_rows(rows, 3, "ranked").stages.tolist() == [2, 1, 0]


def test_collapse_adds_counts_and_weights_of_equal_ballots_only():
    generator = np.random.default_rng(3)
    rows = [generator.permutation(4)[: generator.integers(1, 5)].tolist() for _ in range(400)]
    weights = generator.random(400) + 0.1
    ballots = Ballots.from_rows(rows, 4, "all", weights=weights)
    distinct, index = ballots.collapse()
    expected: dict[tuple[int, ...], list[float]] = {}
    for row, weight in zip(rows, weights, strict=True):
        expected.setdefault(tuple(row), []).append(weight)
    assert [tuple(distinct.row(number).tolist()) for number in range(len(distinct))] == list(expected)
    assert distinct.counts.tolist() == [len(values) for values in expected.values()]
    np.testing.assert_allclose(distinct.weights, [sum(values) for values in expected.values()])
    assert all(distinct.row(index[number]).tolist() == row for number, row in enumerate(rows))


def test_taking_and_counting_anew_keep_rows_whole():
    ballots = Ballots.from_rows([[0, 1, 2], [2], [1, 0]], 3, "ranked", counts=[4, 2, 1], weights=[2.0, 2.0, 3.0])
    taken = ballots.take(np.array([2, 0]))
    assert [taken.row(0).tolist(), taken.row(1).tolist()] == [[1, 0], [0, 1, 2]]
    fewer = ballots.with_counts(np.array([1, 0, 1]))
    assert fewer.counts.tolist() == [1, 1]
    assert fewer.weights.tolist() == [0.5, 3.0]


def test_split_puts_every_counted_ballot_in_one_part_of_equal_size():
    ballots = Ballots.from_rows([[0, 1], [1, 0], [2, 1]], 3, "all", counts=[50, 30, 23])
    parts = ballots.split(4, np.random.default_rng(0))
    assert parts.sum(axis=1).tolist() == [50, 30, 23]
    assert sorted(parts.sum(axis=0).tolist()) == [25, 26, 26, 26]


def test_short_ballots_over_many_items_are_laid_out_without_their_tails():
    rows = [[3, 1], [5, 2, 0]]
    long = Layout(Ballots.from_rows(rows, 1000, "all"))
    assert len(long.items) == 5
    short = Layout(Ballots.from_rows(rows, 6, "all"))
    assert short.items.tolist() == [3, 1, 0, 2, 4, 5, 5, 2, 0, 1, 3, 4]
