"""The spectral start: embedding, clusters, adaptive rank, and least squares on log-odds."""

import numpy as np
import pytest
from rankings_oracles import C, c_ballots
from scipy.special import ndtr

from predilect.models.random import stream
from predilect.models.rankings import Ballots, Mixture, spectral
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.resampling import distance
from predilect.models.rankings.simulate import draw_mixture, simulate
from predilect.models.rankings.spectral import cluster, embed, least_squares, pair_wins, spectral_start


def test_pair_vectors_say_before_after_and_not_compared():
    rows = [[2, 0], [1]]
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]

    def expected(order, menu):
        before = [(a, b) for place, a in enumerate(order) for b in order[place + 1 :]]
        if menu == "all":
            before += [(a, b) for a in order for b in range(4) if b not in order]
        return [0.5 if pair in before else -0.5 if pair[::-1] in before else 0.0 for pair in pairs]

    for menu in ("all", "ranked"):
        found = embed(Layout(Ballots.from_rows(rows, 4, menu)), "pairs")
        assert found.tolist() == [expected(row, menu) for row in rows]


@pytest.mark.parametrize("menu", ["all", "ranked"])
def test_positions_are_a_linear_image_of_the_pair_vectors(menu):
    generator = np.random.default_rng(0)
    rows = [generator.permutation(9)[: generator.integers(1, 10)].tolist() for _ in range(50)]
    layout = Layout(Ballots.from_rows(rows, 9, menu))
    i, j = np.triu_indices(9, 1)
    image = np.zeros((36, 9))
    image[np.arange(36), i], image[np.arange(36), j] = 1, -1
    np.testing.assert_allclose(embed(layout, "positions"), embed(layout, "pairs") @ image, atol=1e-6)


def test_singular_values_do_not_depend_on_the_numbering_of_the_items():
    generator = np.random.default_rng(1)
    rows = np.array([generator.permutation(7) for _ in range(40)])
    relabelled = generator.permutation(7)[rows]
    first, second = (
        np.linalg.svd(embed(Layout(Ballots.from_rows(r.tolist(), 7, "all")), "pairs"), compute_uv=False)
        for r in (rows, relabelled)
    )
    np.testing.assert_allclose(first, second, rtol=1e-5)


@pytest.mark.parametrize("entries", [spectral.PAIR_ENTRIES, 0])
def test_distinct_segments_are_told_apart(entries, monkeypatch):
    monkeypatch.setattr(spectral, "PAIR_ENTRIES", entries)
    truth = draw_mixture(20, 3, seed=4, spread=2.0)
    ballots, labels = simulate(truth, 900, seed=5)
    found = cluster(Layout(ballots), 3, stream(0, "spectral"))
    assert found.embedding == ("pairs" if entries else "positions")
    table = np.zeros((3, 3))
    np.add.at(table, (labels, found.labels), 1)
    assert table.max(axis=1).sum() >= 0.97 * 900
    assert found.rank >= 2


def test_pure_noise_has_rank_one():
    generator = np.random.default_rng(2)
    rows = [generator.permutation(8).tolist() for _ in range(2000)]
    assert cluster(Layout(Ballots.from_rows(rows, 8, "all")), 3, stream(0, "spectral")).rank == 1


def test_counted_rows_weigh_like_repeated_ones():
    ballots, _ = simulate(draw_mixture(5, 2, seed=1, spread=2.0), 400, seed=2)
    distinct = ballots.collapse()[0]
    whole, _ = spectral_start(Layout(ballots), 2, stream(3, "spectral"))
    counted, _ = spectral_start(Layout(distinct), 2, stream(3, "spectral"))
    assert distance(whole, counted) < 0.3


def test_least_squares_oracle():
    np.testing.assert_allclose(least_squares(pair_wins(Layout(c_ballots()))), C["least_squares"], atol=1e-9)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_links_recover_their_own_model(link):
    theta = np.array([1.2, 0.4, -0.1, -0.6, -0.9])
    gap = theta[:, None] - theta[None, :]
    wins = 1e9 * (1 / (1 + np.exp(-gap)) if link == "logit" else ndtr(gap / np.sqrt(2)))
    np.fill_diagonal(wins, 0)
    np.testing.assert_allclose(least_squares(wins, link), theta, atol=1e-6)


def test_least_squares_leaves_out_pairs_that_never_met():
    wins = np.array([[0, 30, 0], [10, 0, 30], [0, 10, 0]], float)
    step = np.log(30.5 / 10.5)
    np.testing.assert_allclose(least_squares(wins), [step, 0, -step], atol=1e-12)
    alone = np.zeros((3, 3))
    alone[0, 1] = alone[1, 0] = 5
    np.testing.assert_allclose(least_squares(alone), 0, atol=1e-12)


def test_start_has_shares_of_the_clusters():
    ballots, _ = simulate(Mixture(draw_mixture(15, 2, seed=1, spread=2).log_worths, np.array([0.8, 0.2])), 1000, seed=1)
    start, clusters = spectral_start(Layout(ballots), 2, stream(0, "spectral"))
    assert sorted(start.shares) == pytest.approx(sorted(np.bincount(clusters.labels) / 1000))
    assert max(start.shares) == pytest.approx(0.8, abs=0.05)
