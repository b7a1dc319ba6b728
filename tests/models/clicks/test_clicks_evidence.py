"""Empirical Bayes: traces, planted precisions, the paper's rule."""

import numpy as np
import pytest
from clicks_examples import dense, table

from predilect.models.clicks.config import ClicksConfig
from predilect.models.clicks.evidence import HIGHEST, fixed_point
from predilect.models.clicks.model import ClicksModel


def planted(**changes):
    return table(**{"n_rows": 4000, "n_words": 120, "impressions": 60, "precision": 4.0, "seed": 2} | changes)


@pytest.mark.parametrize("evidence", ["hutchinson", "svd"])
def test_the_planted_precision_is_found_for_any_rank(evidence):
    found = []
    for rank in (8, 64):
        fitted = ClicksModel.fit(*planted(), ClicksConfig(model="l-prop", evidence=evidence, rank=rank))
        assert fitted.report.evidence_converged
        found.append(fitted.precisions["mean.features"])
    assert found == pytest.approx([4.0, 4.0], rel=0.3)
    assert found[0] == pytest.approx(found[1], rel=0.1)


def test_group_effects_get_the_precision_they_were_drawn_with():
    fitted = ClicksModel.fit(*planted(n_groups=300, group_sd=0.5), ClicksConfig(model="l-bbl"))
    assert fitted.precisions["mean.group"] == pytest.approx(4.0, rel=0.3)
    assert fitted.precisions["mean.features"] == pytest.approx(4.0, rel=0.3)


@pytest.mark.parametrize("evidence", ["hutchinson", "svd"])
def test_learned_precisions_solve_the_evidence_equation(evidence):
    design, n, v = planted(n_words=40, n_groups=60)
    config = ClicksConfig(model="l-bbl", evidence=evidence, rank=1000, evidence_tolerance=1e-4, n_probes=200)
    fitted = ClicksModel.fit(design, n, v, config)
    from test_clicks_posterior import information

    h = information(fitted, design, n)
    _, covariance = dense(fitted, design, n, 0, h[0])
    for block in fitted.layout.one_side(0).blocks[1:]:
        where = slice(block.start, block.stop)
        precision = fitted.precisions[block.name]
        determined = block.size - precision * np.trace(covariance[where, where])
        mean, _ = fitted.block(block.name)
        tolerance = 0.01 if evidence == "svd" else 0.1
        assert precision * float(mean @ mean) == pytest.approx(determined, rel=tolerance)


def test_the_paper_rule_solves_its_own_equation_and_sinks_with_the_rank():
    design, n, v = planted()
    found = {}
    for rank in (8, 100):
        config = ClicksConfig(
            model="l-bbl", evidence="paper", residual="none", rank=rank, evidence_tolerance=1e-4, single_block=True
        )
        fitted = ClicksModel.fit(design, n, v, config)
        precision = found[rank] = fitted.precisions["mean.features"]
        posterior = fitted.posteriors[0]
        explained = precision * (posterior.factor[1:] ** 2).sum()  # Σ λ/(λ+c) over the kept directions
        mean, _ = fitted.block("mean.features")
        assert precision * float(mean @ mean) == pytest.approx(explained, rel=0.02)
    assert found[8] < 0.5 * found[100]


def test_a_held_precision_stays():
    fitted = ClicksModel.fit(*planted(), ClicksConfig(precisions={"dispersion.features": 3.0}))
    assert fitted.precisions["dispersion.features"] == 3.0
    assert fitted.precisions["mean.features"] == pytest.approx(4.0, rel=0.3)


def test_blocks_without_effect_are_switched_off_not_broken():
    design, n, _ = table()
    v = np.random.default_rng(0).binomial(n, 0.2)
    fitted = ClicksModel.fit(design, n, v, ClicksConfig(model="l-bbl"))
    assert 30 < fitted.precisions["mean.features"] <= HIGHEST
    np.testing.assert_allclose(fitted.block("mean.features")[0], 0.0, atol=0.3)


def test_rounds_are_reported():
    rounds = []
    config = ClicksConfig(model="m-bbl", max_rounds=2, evidence_tolerance=1e-9)
    fitted = ClicksModel.fit(*planted(), config, on_round=lambda number, found: rounds.append((number, found)))
    assert [number for number, _ in rounds] == [0, 1]
    assert rounds[0][1]["mean.features"] == pytest.approx(10.0)
    assert not fitted.report.evidence_converged
    assert fitted.report.precision_trace[0] == pytest.approx(rounds[0][1])


def test_acceleration_finds_the_fixed_point_of_a_slow_map():
    def update(c):
        return {name: value**0.9 * target**0.1 for (name, value), target in zip(c.items(), (3.0, 50.0), strict=True)}, {
            "a": 1e6,
            "b": 1e6,
        }

    found, trace, converged = fixed_point(update, {"a": 10.0, "b": 10.0}, tolerance=1e-6, max_rounds=30)
    assert converged
    assert len(trace) < 10
    assert [found["a"], found["b"]] == pytest.approx([3.0, 50.0], rel=1e-4)
