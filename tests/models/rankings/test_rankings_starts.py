"""The search for the best maximum: rare components, what is recorded, large data, recovery of planted mixtures."""

import numpy as np
import pytest

from predilect.models.compiled import Threads
from predilect.models.rankings import Ballots, Mixture, RankingsConfig, RankingsModel, starts
from predilect.models.rankings.em import climb_from
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Objective
from predilect.models.rankings.resampling import distance
from predilect.models.rankings.simulate import draw_mixture, simulate
from predilect.models.rankings.solvers import maximise

POOL = Threads(1)


def unbalanced(seed):
    truth = Mixture(draw_mixture(20, 3, seed=seed).log_worths, np.array([0.9, 0.07, 0.03]))
    return truth, simulate(truth, 1000, seed=seed)[0]


# Seeds on which the spectral start, most random starts, or both end on a lower hill.
@pytest.mark.parametrize("seed", [2, 7, 13])
def test_rare_components_are_found_as_by_the_best_of_many_starts(seed):
    truth, ballots = unbalanced(seed)
    layout = Layout(ballots)
    generator = np.random.default_rng(1000 + seed)
    begins = [Mixture(generator.normal(size=(20, 3)), np.full(3, 1 / 3)) for _ in range(20)] + [truth]
    values = [climb_from(Objective(layout, POOL), begin, "auto", 1e-6, 400).point.value for begin in begins]
    model = RankingsModel.fit(ballots, RankingsConfig(3), seed=0)
    assert model.log_likelihood >= max(values) - 0.01
    assert min(values) < max(values) - 10  # the case does have lower hills


def test_a_move_saves_a_search_without_luck():
    truth, ballots = unbalanced(3)
    layout = Layout(ballots)
    merged = Mixture(  # the common component twice, the rare ones not at all
        np.column_stack(
            [truth.log_worths[:, 0] + 0.1 * np.arange(20) % 1, truth.log_worths[:, 0], truth.log_worths[:, 1]]
        ),
        np.array([0.45, 0.45, 0.1]),
    )
    stuck = climb_from(Objective(layout, POOL), merged, "auto", 1e-6, 400).point
    found, records = starts.search(layout, POOL, 3, 1, 0, use_spectral=False, given=stuck.mixture)
    assert Objective(layout, POOL).at(found).value > stuck.value + 10
    assert [record.kind for record in records][:2] == ["given", "random"]


@pytest.mark.parametrize(
    ("n_items", "n_components", "n_ballots", "allowed"),
    [(20, 2, 8000, 1.05), (20, 5, 4000, 1.05), (100, 3, 500, 1.05), (100, 5, 2000, 1.05)],
)
def test_planted_mixtures_are_recovered_as_with_known_labels(n_items, n_components, n_ballots, allowed):
    truth = draw_mixture(n_items, n_components, seed=1, n_informative=10, spread=2.0)
    ballots, labels = simulate(truth, n_ballots, seed=101)
    layout = Layout(ballots)
    known = np.empty((n_items, n_components))
    for k in range(n_components):
        part = Objective(layout.reweighted((labels == k).astype(float)), POOL)
        known[:, k] = maximise(part, Mixture.single(np.zeros(n_items)), "auto", 1e-8, 500).point.mixture.log_worths[
            :, 0
        ]
    model = RankingsModel.fit(ballots, RankingsConfig(n_components, n_starts=3), seed=0)
    assert distance(model.mixture, truth) <= allowed * distance(Mixture(known, truth.shares), truth)


def test_emptied_starts_are_recorded_and_replaced():
    ballots = Ballots.from_rows([[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]], 3, "all", counts=[40, 30, 20, 10])
    gone = Mixture(np.zeros((3, 2)), np.array([1 - 1e-9, 1e-9]))
    _, records = starts.search(Layout(ballots), POOL, 2, 2, 0, given=gone)
    assert records[0].emptied
    assert [record.kind for record in records[:5]] == ["given", "spectral", "random", "random", "random"]


def test_large_data_are_searched_on_a_sample_and_climbed_whole(monkeypatch):
    truth = draw_mixture(8, 3, seed=2, spread=1.5)
    ballots, _ = simulate(truth, 4000, seed=3)
    whole = RankingsModel.fit(ballots, RankingsConfig(3, n_starts=4), seed=0)
    monkeypatch.setattr(starts, "SEARCH_PLACES", 6000)
    sample = starts.sample_layout(Layout(ballots.collapse()[0]), 3, 0)
    assert 700 <= len(sample) < 1000
    sampled = RankingsModel.fit(ballots, RankingsConfig(3, n_starts=4), seed=0)
    assert sampled.log_likelihood == pytest.approx(whole.log_likelihood, abs=1e-4)
