"""Greedy search: the walk on known loss surfaces, shared fits, budget, resuming; then with the real model."""

import json
from typing import Any

import numpy as np
import pytest

from predilect.models.errors import NotConvergedError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.scale import RatingScale
from predilect.models.ratings.search import (
    TAU_LADDER,
    FoldScorer,
    SearchResult,
    Structure,
    finished_candidates,
    greedy,
    record,
)
from predilect.models.structure_search import Candidate, StructureSearch


class Surface:
    """A loss with its minimum at K and τ; counts what it is asked."""

    def __init__(self, n_factors: int, tau: float) -> None:
        self.n_factors, self.tau = n_factors, tau
        self.asked: list[Structure] = []

    def __call__(self, structure: Structure) -> list[float]:
        self.asked.append(structure)
        n_factors, tau = structure.key
        loss = 0.01 * (n_factors - self.n_factors) ** 2 + 0.1 * np.log(tau / self.tau) ** 2 + 0.7
        return [loss - 0.1, loss, loss, loss + 0.1]


def test_tau_ladder() -> None:
    assert TAU_LADDER[:8] == (1, 2, 5, 10, 20, 50, 100, 200)


def test_the_walk_by_hand() -> None:
    surface = Surface(4, 5)
    result = greedy(surface)
    assert (result.chosen.structure.key, result.stopped_by) == ((4, 5.0), "no improvement")
    walked = [(c.structure.n_user_latents, c.structure.n_item_latents, c.structure.tau) for c in result.candidates]
    assert walked == [
        *[(1, 1, 1), (1, 1, 2), (1, 1, 5), (1, 1, 10)],  # τ climbs, 10 is worse
        *[(1, 2, 5), (1, 2, 10), (2, 1, 5), (2, 1, 10)],  # K = 3 from τ = 5 on
        *[(1, 3, 5), (1, 3, 10), (2, 2, 5), (2, 2, 10)],  # K = 4
        *[(1, 4, 5), (1, 4, 10), (2, 3, 5), (2, 3, 10)],  # K = 5 is worse: stop at K = 4
    ]


def test_equivalent_structures_are_fitted_once() -> None:
    surface = Surface(4, 5)
    result = greedy(surface)
    keys = [structure.key for structure in surface.asked]
    assert len(keys) == len(set(keys)) == 10
    assert result.n_fits == 40
    for candidate in result.candidates:
        if candidate.shared_with is not None:
            twin = result.candidates[candidate.shared_with]
            assert twin.shared_with is None
            assert twin.structure.key == candidate.structure.key
            assert twin.fold_losses == candidate.fold_losses
    assert sum(candidate.shared_with is not None for candidate in result.candidates) == 6


def test_the_chosen_one_has_the_smallest_loss_of_a_bumpy_surface() -> None:
    noise = np.random.default_rng(0).normal(0, 0.02, 10_000)

    def bumpy(structure: Structure) -> list[float]:
        n_factors, tau = structure.key
        return [0.7 + 0.01 * abs(n_factors - 6) + noise[hash((n_factors, tau)) % 10_000]] * 4

    result = greedy(bumpy)
    assert result.chosen.loss == min(candidate.loss for candidate in result.candidates)


def test_a_surface_that_only_falls_in_tau_ends_with_the_ladder() -> None:
    result = greedy(lambda structure: [1 / structure.tau] * 4)
    assert result.chosen.structure == Structure(1, 1, TAU_LADDER[-1])


@pytest.mark.parametrize("budget", [4, 11, 24, 39])
def test_the_budget_is_respected(budget: int) -> None:
    surface = Surface(4, 5)
    result = greedy(surface, budget=budget)
    assert result.stopped_by == "budget"
    assert result.n_fits == 4 * len(surface.asked) == 4 * (budget // 4)
    assert result.chosen.loss == min(candidate.loss for candidate in result.candidates)


def test_a_budget_below_one_candidate_is_an_error() -> None:
    with pytest.raises(ParameterError, match="3 fits"):
        greedy(Surface(4, 5), budget=3)


def resumed(path: list[dict[str, Any]], surface: Surface, **options: Any) -> SearchResult:
    return greedy(surface, finished=finished_candidates(json.loads(json.dumps(path))), **options)


@pytest.mark.parametrize("budget", [None, 24])
@pytest.mark.parametrize("crash_after", [0, 1, 5, 7])
def test_a_resumed_search_refits_nothing_and_ends_the_same(crash_after: int, budget: int | None) -> None:
    class Crash(Exception):
        pass

    journal: list[dict[str, Any]] = []

    def keep(candidate: Candidate[Structure]) -> None:
        journal.append(record(candidate))
        if len(journal) > crash_after:
            raise Crash

    whole = greedy(Surface(4, 5), budget=budget)
    with pytest.raises(Crash):
        greedy(Surface(4, 5), budget=budget, on_candidate=keep)
    surface = Surface(4, 5)
    seen: list[Candidate[Structure]] = []
    result = resumed(journal, surface, budget=budget, on_candidate=seen.append)
    assert result.to_facts() == whole.to_facts()
    assert not {structure.key for structure in surface.asked} & {
        (s["n_user_latents"] + s["n_item_latents"], s["tau"]) for s in journal
    }
    assert [candidate.resumed for candidate in seen[: len(journal)]] == [True] * len(journal)
    assert tuple(seen) == result.candidates


def test_a_damaged_journal_is_an_error() -> None:
    with pytest.raises(ParameterError, match="entry 1"):
        finished_candidates([{"n_user_latents": 1}])
    with pytest.raises(ParameterError, match="4 finite"):
        greedy(Surface(4, 5), finished={Structure(1, 1, 1.0): [0.7, 0.7]})


def test_a_score_that_is_not_a_number_names_the_structure() -> None:
    with pytest.raises(NotConvergedError, match="n_user_latents=1"):
        greedy(lambda structure: [0.7, float("nan"), 0.7, 0.7])


def test_facts_are_json_with_one_chosen() -> None:
    facts = json.loads(json.dumps(greedy(Surface(3, 2)).to_facts()))
    assert sum(candidate["chosen"] for candidate in facts["candidates"]) == 1
    assert facts["chosen"]["tau"] == 2
    assert facts["chosen"]["mae"] == pytest.approx(np.mean(facts["chosen"]["fold_mae"]))


def test_choice_of_k_with_patience() -> None:
    """Another family's use: the number of segments K by held-out loss, not stopped by one bad K."""
    losses = {1: 3.0, 2: 2.0, 3: 2.1, 4: 1.9, 5: 2.0, 6: 2.0, 7: 0.0}
    search = StructureSearch(lambda k: [losses[k]] * 2, 2)
    assert search.climb(range(1, 8), patience=2).structure == 4
    assert [candidate.structure for candidate in search.candidates] == [1, 2, 3, 4, 5, 6]
    assert search.evaluate(3).step == 2  # asked again: no new candidate
    with pytest.raises(ParameterError, match="no structure"):
        search.climb([])


@pytest.fixture(scope="module")
def planted() -> dict[str, Any]:
    """Ratings with two strong latent factors."""
    rng = np.random.default_rng(5)
    n_users, n_items = 120, 60
    users, items = np.divmod(rng.choice(n_users * n_items, 3600, replace=False), n_items)
    weights, latents = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    exact = 3 + (weights[users] * latents[items]).sum(axis=1) + rng.normal(0, 0.3, 3600)
    scale = RatingScale(-20, 26)
    return {
        "users": users.astype(np.int32),
        "items": items.astype(np.int32),
        "ratings": exact.astype(np.float32),
        "scale": scale,
        "config": VBConfig(max_sweeps=60),
        "user_ids": IdMap(np.arange(n_users)),
        "item_ids": IdMap(np.arange(n_items)),
        "seed": 2,
    }


def test_folds_of_the_real_model(planted: dict[str, Any]) -> None:
    scorers = [FoldScorer.of(**planted, n_threads=n_threads) for n_threads in (1, 2, 5)]
    scores = [scorer(Structure(2, 1, 2.0)) for scorer in scorers]
    assert scores[0] == scores[1] == scores[2]  # to the last bit
    assert len(scores[0]) == 4
    np.testing.assert_allclose(scorers[0](Structure(1, 2, 2.0)), scores[0], atol=0.02)  # one model
    assert np.mean(scores[0]) < 0.5 < np.mean(scorers[0](Structure(0, 0, 1.0)))


def test_greedy_finds_planted_factors(planted: dict[str, Any]) -> None:
    result = greedy(FoldScorer.of(**planted), budget=80)
    assert result.chosen.structure.key[0] >= 2
    assert result.chosen.loss < 0.45
