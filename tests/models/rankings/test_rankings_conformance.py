"""The suite that every family passes, on rankings."""

from pathlib import Path

import numpy as np
from conformance import Arrays, Conformance

from predilect.models.ids import IdMap
from predilect.models.rankings import Ballots, RankingsConfig, RankingsModel
from predilect.models.rankings.layout import CHUNK_PLACES
from predilect.models.rankings.simulate import draw_mixture, simulate

ITEMS = IdMap(["007", "Ann", "Bo", "Šárka", "o'Neil", *(f"town {n}" for n in range(7))])


def ballots() -> Ballots:
    """Enough for several chunks."""
    return simulate(draw_mixture(12, 2, seed=1), 6000, seed=2)[0]


class TestRankings(Conformance):
    def fit(self, seed: int, n_threads: int) -> RankingsModel:
        assert len(ballots().items) > 2 * CHUNK_PLACES
        config = RankingsConfig(2, n_starts=2, tolerance=1e-4)
        return RankingsModel.fit(ballots(), config, item_ids=ITEMS, seed=seed, n_threads=n_threads)

    def load(self, folder: Path) -> RankingsModel:
        return RankingsModel.load(folder)

    def learned(self, model: RankingsModel) -> Arrays:
        starts = np.array([start.value for start in model.starts])
        return {"worths": model.log_worths, "shares": model.shares, "trace": model.trace, "starts": starts}

    def answers(self, model: RankingsModel) -> Arrays:
        return {
            "wins": model.win_matrix(),
            "pairs": model.win_probability(["Ann", "Bo"], ["Bo", "007"]),
            "first": model.first_probability(["Ann", "town 3", "Šárka"]),
            "segment": model.segment(["o'Neil", "Ann"]).probabilities,
            "log-likelihoods": model.log_likelihoods(ballots().take(np.arange(50))),
        }

    def answers_unknown(self, model: RankingsModel) -> Arrays:
        return {
            "segment": model.segment(["nobody", "Ann "]).probabilities,
            "of numbers": model.segment([5, 7]).probabilities,
            "in part": model.segment(["nobody", "Ann"]).probabilities,
            "pairs": np.isnan(model.win_probability(["nobody", "Ann"], ["Ann", "nobody"])),
            "first": np.isnan(model.first_probability([3, 4])),
        }

    def answers_nothing(self, model: RankingsModel) -> Arrays:
        return {"pairs": model.win_probability([], []), "first": model.first_probability([])}
