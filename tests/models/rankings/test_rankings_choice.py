"""How many components: folds, held-out log-likelihood and BIC."""

import numpy as np
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.rankings import Ballots, RankingsConfig, RankingsModel
from predilect.models.rankings.choice import (
    best_bic,
    best_held_out,
    choose_components,
    folds,
    held_out_log_likelihood,
    hold_out,
)
from predilect.models.rankings.simulate import draw_mixture, simulate


def test_the_true_number_is_chosen():
    ballots, _ = simulate(draw_mixture(8, 2, seed=2, spread=1.5), 600, seed=3)
    scores = choose_components(ballots.collapse()[0], [1, 2, 3], RankingsConfig(n_starts=3), n_folds=3, seed=1)
    assert [score.n_components for score in scores] == [1, 2, 3]
    assert best_held_out(scores).n_components == 2
    assert best_bic(scores).n_components == 2
    assert all(0 < score.standard_error < 0.3 for score in scores)


def test_bic_counts_parameters_and_ballots_not_distinct_rows():
    ballots = Ballots.from_rows([[0, 1, 2], [1, 2, 0], [2, 0, 1]], 3, "all", counts=[10, 5, 5])
    model = RankingsModel.fit(ballots, RankingsConfig(), seed=0)
    assert model.n_parameters == 2
    assert model.bic == pytest.approx(-2 * model.log_likelihood + 2 * np.log(20))
    two = RankingsModel.fit(ballots, RankingsConfig(2, n_starts=1), seed=0)
    assert two.n_parameters == 5


def test_folds_split_counts_and_are_those_of_the_seed():
    ballots = Ballots.from_rows([[0, 1], [1, 0]], 2, "all", counts=[70, 31])
    parts = folds(ballots, 4, 5)
    assert parts.sum(axis=1).tolist() == [70, 31]
    assert np.array_equal(parts, folds(ballots, 4, 5))
    assert not np.array_equal(parts, folds(ballots, 4, 6))
    train, test = hold_out(ballots, parts, 2)
    assert train.counts.sum() + test.counts.sum() == 101
    for wrong in (1, 102):
        with pytest.raises(ParameterError, match="n_folds"):
            folds(ballots, wrong, 0)


def test_held_out_value_is_that_of_the_model_of_the_other_folds():
    ballots, _ = simulate(draw_mixture(5, 1, seed=2), 200, seed=3)
    parts = folds(ballots, 4, 0)
    train, test = hold_out(ballots, parts, 1)
    model = RankingsModel.fit(train, RankingsConfig(), seed=0)
    expected = model.log_likelihoods(test).mean()
    assert held_out_log_likelihood(ballots, parts, 1, RankingsConfig(), seed=0) == pytest.approx(expected)


def test_a_fold_that_disconnects_the_items_is_named():
    ballots = Ballots.from_rows([[0, 1], [1, 0], [2, 0], [0, 2]], 3, "ranked", counts=[20, 20, 1, 20])
    parts = np.zeros((4, 2), np.int64)
    parts[:, 0] = [10, 10, 1, 10]
    parts[:, 1] = ballots.counts - parts[:, 0]
    with pytest.raises(DataError, match=r"Without fold 1: No finite worths.*item 2 .*set nu above 0"):
        held_out_log_likelihood(ballots, parts, 0, RankingsConfig(), seed=0)
