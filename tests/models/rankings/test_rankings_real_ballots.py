"""Full-data log-likelihoods on real ballots: at least the best known."""

import pytest
from rankings_oracles import FULL_DATA

from predilect.models.rankings import Ballots, RankingsConfig, RankingsModel


def counted(path) -> Ballots:
    header, *lines = path.read_text().splitlines()
    n_items = int(header.split("n_items=")[1].split()[0])
    pairs = [line.split(":") for line in lines]
    rows = [[int(item) for item in row.split(",")] for _, row in pairs]
    return Ballots.from_rows(rows, n_items, "all", counts=[int(count) for count, _ in pairs])


@pytest.mark.parametrize(
    ("name", "n_components"),
    [(name, k) for name, values in FULL_DATA.items() for k in range(1, len(values) + 1)],
)
def test_full_data_log_likelihood(data_dir, name, n_components):
    ballots = counted(data_dir / "rankings" / "plmix_gpl" / f"{name}.csv")
    model = RankingsModel.fit(ballots, RankingsConfig(n_components), seed=0)
    best = FULL_DATA[name][n_components - 1]
    assert model.converged
    assert model.log_likelihood >= best - 0.01
    if n_components == 1:
        assert model.log_likelihood == pytest.approx(best, abs=1e-3)
