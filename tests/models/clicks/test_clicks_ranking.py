"""Lists under an exploration budget."""

import numpy as np
import pytest
from clicks_examples import fixed, table

from predilect.models.clicks.model import ClicksModel
from predilect.models.clicks.ranking import SCORES, rank, score
from predilect.models.errors import ParameterError


def test_without_budget_the_lists_follow_the_mean():
    mean = np.array([0.1, 0.9, 0.5, 0.3, 0.7])
    ranking = rank(mean, {"uqp": -mean}, np.array([7, 7, 7, 3, 3]), 2, 0.0)
    assert ranking.lists.tolist() == [3, 7]
    assert ranking.rows.tolist() == [[4, 3], [1, 2]]
    assert not ranking.chosen_by.any()


def test_the_budget_is_kept_and_exploring_scores_take_turns():
    mean = np.arange(20) / 20.0
    exploring = {"low": -mean, "middle": -np.abs(mean - 0.28)}
    ranking = rank(mean, exploring, np.zeros(20, int), 10, 0.4)
    assert ranking.exploring == ("low", "middle")
    assert ranking.rows[0].tolist() == [19, 0, 18, 17, 6, 16, 1, 15, 14, 5]
    assert ranking.chosen_by[0].tolist() == [0, 1, 0, 0, 2, 0, 1, 0, 0, 2]


def test_a_budget_of_everything_explores_only():
    mean = np.arange(5.0)
    ranking = rank(mean, {"low": -mean}, np.zeros(5, int), 3, 1.0)
    assert ranking.rows[0].tolist() == [0, 1, 2]
    assert (ranking.chosen_by == 1).all()


def test_short_lists_are_filled_with_what_there_is():
    mean = np.array([0.2, 0.1, 0.3])
    ranking = rank(mean, {"low": -mean}, np.array([0, 0, 1]), 4, 0.5)
    assert ranking.rows.tolist() == [[0, 1, -1, -1], [2, -1, -1, -1]]


def test_no_row_appears_twice_and_every_row_stays_in_its_list():
    rng = np.random.default_rng(0)
    lists = rng.integers(30, size=900)
    mean, other, third = rng.random((3, 900))
    ranking = rank(mean, {"a": other, "b": third}, lists, 12, 0.25)
    for code, rows, by in zip(ranking.lists, ranking.rows, ranking.chosen_by, strict=True):
        shown = rows[rows >= 0]
        assert len(np.unique(shown)) == len(shown) == min(12, (lists == code).sum())
        assert (lists[shown] == code).all()
        assert (by > 0).sum() <= 3


@pytest.mark.parametrize(
    ("length", "budget", "message"), [(0, 0.1, "length is 0"), (5, -0.1, "budget is -0.1"), (5, 1.2, "budget is 1.2")]
)
def test_impossible_lists_are_named(length, budget, message):
    with pytest.raises(ParameterError, match=message):
        rank(np.ones(3), {}, np.zeros(3, int), length, budget)


def test_all_scores_of_a_model():
    design, n, v = table(n_rows=300, n_groups=10, n_clusters=2)
    fitted = ClicksModel.fit(design, n, v, fixed())
    found = score(fitted, design, nu=0.9)
    assert tuple(found) == SCORES
    for name, values in found.items():
        assert values.shape == (300,)
        assert ((values >= 0) & (values <= 1)).all(), name
    for name in ("ucbe", "ucqe", "euq", "uqp"):
        assert (found[name] > found["mean"] - 1e-12).mean() > 0.99, name
    again = score(fitted, design, ("thompson",), nu=0.9)
    assert np.array_equal(again["thompson"], found["thompson"])
    assert not np.array_equal(score(fitted, design, ("thompson",), seed=1)["thompson"], found["thompson"])


def test_a_score_that_is_not_there_is_named():
    design, n, v = table(n_rows=300)
    with pytest.raises(ParameterError, match="There is no score 'greedy'; choose from mean, ucbe"):
        score(ClicksModel.fit(design, n, v, fixed()), design, ("greedy",))
