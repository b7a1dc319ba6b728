"""The estimator: fit, ids, segments, warnings, errors, save and load."""

import json

import numpy as np
import pytest
from rankings_oracles import A, B, a_ballots, c_ballots

from predilect.models.errors import ArtifactError, DataError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.rankings import Ballots, Mixture, RankingsConfig, RankingsModel
from predilect.models.rankings.compile import warm_up
from predilect.models.rankings.objective import prior_level
from predilect.models.rankings.simulate import draw_mixture, simulate

TOWNS = IdMap(["bern", "graz", "köln", "lyon", "oslo"])


@pytest.fixture(scope="module")
def model():
    return RankingsModel.fit(c_ballots(), RankingsConfig(2), item_ids=TOWNS, seed=1)


def test_defaults_meet_the_oracles():
    model = RankingsModel.fit(a_ballots(), RankingsConfig(), seed=0)
    assert model.converged
    np.testing.assert_allclose(model.log_worths[:, 0], A["theta"], atol=1e-8)
    for menu in ("all", "ranked"):
        ballots = Ballots.from_rows(B["rankings"], 4, menu, weights=B["weights"])
        fitted = RankingsModel.fit(ballots, RankingsConfig(), seed=0)
        np.testing.assert_allclose(fitted.log_worths[:, 0], B[menu][0], atol=1e-8)
        assert fitted.log_likelihood == pytest.approx(B[menu][1], rel=1e-9)


def test_components_are_ordered_by_share_and_centred(model):
    assert model.shares[0] > model.shares[1]
    assert model.shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(model.log_worths.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(model.worths.sum(axis=0), 1)


def test_collapsed_and_repeated_ballots_give_the_same_model():
    counted = c_ballots()
    repeated = Ballots.from_rows(
        [counted.row(row).tolist() for row in range(len(counted)) for _ in range(counted.counts[row])], 5, "all"
    )
    one, other = (RankingsModel.fit(ballots, RankingsConfig(2), seed=1) for ballots in (counted, repeated))
    assert np.array_equal(one.log_worths, other.log_worths)
    assert one.n_ballots == other.n_ballots == 36


@pytest.mark.parametrize("n_components", [1, 3])
def test_the_model_is_the_same_for_any_number_of_threads(n_components):
    ballots, _ = simulate(draw_mixture(12, 3, seed=1), 6000, seed=2)
    assert len(ballots.items) > 2 * 32_768  # several chunks
    config = RankingsConfig(n_components, n_starts=2, tolerance=1e-5)
    one, two, four = (RankingsModel.fit(ballots, config, seed=3, n_threads=n) for n in (1, 2, 4))
    assert np.array_equal(one.log_worths, two.log_worths)
    assert np.array_equal(one.log_worths, four.log_worths)
    assert np.array_equal(one.trace, four.trace)


def test_seed_and_start_are_used():
    ballots, _ = simulate(draw_mixture(6, 2, seed=1), 300, seed=2)
    first, again, other = (RankingsModel.fit(ballots, RankingsConfig(2), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.log_worths, again.log_worths)
    assert [start.value for start in first.starts] != [start.value for start in other.starts]
    warm = RankingsModel.fit(ballots, RankingsConfig(2), seed=9, start=first.mixture)
    assert warm.starts == []
    assert warm.n_passes <= 3
    np.testing.assert_allclose(warm.log_worths, first.log_worths, atol=1e-4)


def test_pairwise_and_first_probabilities_by_id(model):
    chance = model.win_probability(["bern", "oslo", "bern"], ["oslo", "bern", "nowhere"])
    assert chance[0] == pytest.approx(model.win_matrix()[0, 4])
    assert chance[0] + chance[1] == pytest.approx(1)
    assert np.isnan(chance[2])
    first = model.first_probability(["köln", "nowhere", "bern"])
    assert np.isnan(first[1])
    assert first[0] + first[2] == pytest.approx(1)
    assert first[2] == pytest.approx(model.win_probability(["bern"], ["köln"])[0])


def test_segment_of_a_new_ballot(model):
    ballot = Ballots.from_rows([[4, 3, 2, 1, 0]], 5, "all")
    found = model.segment(["oslo", "lyon", "köln", "graz", "bern"])
    np.testing.assert_allclose(found.probabilities, model.responsibilities(ballot)[0])
    assert found.known == 5
    assert found.probabilities.max() > 0.95
    unknown = model.segment(["paris", "rom"])
    assert unknown.known == 0
    np.testing.assert_allclose(unknown.probabilities, model.shares)
    assert model.segment([]).known == 0
    assert model.segment(["paris", "oslo"]).known == 1
    with pytest.raises(DataError, match="item oslo twice"):
        model.segment(["oslo", "bern", "oslo"])


def test_held_out_log_likelihoods(model):
    distinct = c_ballots()
    total = distinct.weights @ model.log_likelihoods(distinct)
    assert total == pytest.approx(model.log_likelihood, rel=1e-12)
    with pytest.raises(DataError, match="over 6 items, but the model knows 5"):
        model.log_likelihoods(Ballots.from_rows([[0, 5]], 6, "all"))


def test_save_and_load(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = RankingsModel.load(tmp_path / "m")
    assert np.array_equal(loaded.log_worths, model.log_worths)
    assert np.array_equal(loaded.trace, model.trace)
    assert loaded.item_ids.ids.tolist() == TOWNS.ids.tolist()
    for name in ("menu", "config", "log_likelihood", "n_ballots", "converged", "starts", "warnings", "bic"):
        assert getattr(loaded, name) == getattr(model, name)
    np.testing.assert_allclose(loaded.segment(["oslo"]).probabilities, model.segment(["oslo"]).probabilities)


def test_a_model_of_another_kind_is_refused(model, tmp_path):
    model.save(tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    (tmp_path / "m" / "manifest.json").write_text(json.dumps(manifest | {"kind": "ratings"}))
    with pytest.raises(ArtifactError, match="ratings"):
        RankingsModel.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components is 0; give 1 or more"),
        ({"nu": -1.0}, "nu is -1.0; give a number of 0 or more"),
        ({"nu": float("nan")}, "nu is nan"),
        ({"solver": "magic"}, "solver is 'magic'; give one of auto, squarem, mm, lsr, newton"),
        ({"link": "cauchit"}, "link is 'cauchit'; give one of logit, probit"),
        ({"n_starts": -1}, "n_starts is -1"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
        ({"max_passes": 0}, "max_passes is 0"),
        ({"n_components": 2, "n_starts": 0, "spectral": False}, "there is no start"),
    ],
)
def test_impossible_parameters_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        RankingsConfig(**options)


def test_more_components_than_distinct_ballots_are_refused():
    ballots = Ballots.from_rows([[0, 1], [1, 0]], 2, "all", counts=[50, 50])
    with pytest.raises(ParameterError, match="n_components is 3, but there are only 2 distinct ballots"):
        RankingsModel.fit(ballots, RankingsConfig(3), seed=0)


def test_islands_are_refused_by_name_and_fitted_with_a_prior():
    ballots = Ballots.from_rows([[0, 1], [1, 0], [2, 3, 4], [4, 3, 2]], 5, "ranked")
    with pytest.raises(DataError, match=r"items bern, graz are never compared with the others"):
        RankingsModel.fit(ballots, RankingsConfig(), item_ids=TOWNS, seed=0)
    held = RankingsModel.fit(ballots, RankingsConfig(nu=0.1), item_ids=TOWNS, seed=0)
    assert held.converged
    assert held.win_probability(["bern"], ["graz"])[0] == pytest.approx(0.5)
    assert held.win_probability(["lyon"], ["köln"])[0] > 0.5  # twice second of three beats once first, once last


def test_other_mismatches_are_refused():
    with pytest.raises(ParameterError, match="5 item ids for 4 items"):
        RankingsModel.fit(a_ballots(), RankingsConfig(), item_ids=TOWNS, seed=0)
    with pytest.raises(ParameterError, match="start from a model of the same kind"):
        RankingsModel.fit(a_ballots(), RankingsConfig(2), seed=0, start=Mixture(np.zeros((4, 1)), np.ones(1)))


def test_warnings_say_what_the_numbers_cannot():
    ballots, _ = simulate(draw_mixture(3, 1, seed=1), 200, seed=2)
    model = RankingsModel.fit(ballots, RankingsConfig(2), seed=0)
    assert any("cannot be told apart for certain (that takes at least 4 items)" in text for text in model.warnings)
    short = RankingsModel.fit(a_ballots(), RankingsConfig(max_passes=1), seed=0)
    assert not short.converged
    assert any("stopped before its tolerance" in text for text in short.warnings)
    singles = Ballots.from_rows([[0, 1], [1, 0], [0], [1]], 2, "ranked", counts=[1, 1, 2, 1])
    assert any(
        text.startswith("3 ballots name a single")
        for text in RankingsModel.fit(singles, RankingsConfig(), seed=0).warnings
    )


def test_a_component_whose_worths_run_off_is_named():
    rows = [[0, 1, 2, 3], [1, 0, 2, 3], [3, 2, 1, 0], [3, 2, 0, 1], [2, 3, 1, 0]]
    ballots = Ballots.from_rows(rows, 4, "all", counts=[30, 30, 20, 20, 20])
    model = RankingsModel.fit(ballots, RankingsConfig(2), seed=0)
    assert any("In component 1" in text and "no finite estimate" in text for text in model.warnings)
    assert np.all(np.isfinite(model.log_worths))
    held = RankingsModel.fit(ballots, RankingsConfig(2, nu=0.5), seed=0)
    assert not any("finite" in text for text in held.warnings)
    assert np.abs(held.log_worths).max() < np.abs(model.log_worths).max()


def test_the_level_under_a_prior_is_found_again():
    ballots, _ = simulate(draw_mixture(6, 2, seed=1), 200, seed=2)
    model = RankingsModel.fit(ballots, RankingsConfig(2, nu=1.0), seed=0)
    level = prior_level(model.log_worths)
    np.testing.assert_allclose((1 - 2 / (1 + np.exp(-level))).sum(axis=0), 0, atol=1e-10)


def test_progress_is_reported_and_kernels_compile_ahead():
    seen = []
    ballots, _ = simulate(draw_mixture(6, 2, seed=1), 300, seed=2)
    RankingsModel.fit(ballots, RankingsConfig(2), seed=0, on_pass=lambda *args: seen.append(args))
    assert len(seen) > 3
    assert seen[-1][2] <= 1e-4
    assert warm_up() < 30
