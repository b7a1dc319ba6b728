"""The other inferences and the tables of users and items, from parameters to report."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.ratings.model import RatingsModel
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.ratings_source import check_source
from predilect.tasks.settings import Settings

QUICK = {"chains": 2, "burn_in": 10, "samples": 20, "draws": 10, "max_sweeps": 10, "resamples": 100}


def _train(data: Path, **values: Any) -> dict[str, Any]:
    from predilect.flows.train import train_ratings

    given = {"n_user_latents": 1, "n_item_latents": 1} | QUICK | values
    return train_ratings(RatingsParameters(data=str(data), **given))


@pytest.fixture(scope="module")
def tables(ratings_csv: Path) -> dict[str, str]:
    """Tables beside the ratings, of one person and one thing more than were rated."""
    folder = ratings_csv.parent
    (folder / "people.csv").write_text(
        "user,team,age\n" + "".join(f"u{k},{'red' if k % 2 else 'blue'},{20 + k % 37}\n" for k in range(121))
    )
    (folder / "things.csv").write_text("item,tags\n" + "".join(f"{k},a|{'b' if k % 3 else 'c'}\n" for k in range(61)))
    return {"users": "people.csv", "items": "things.csv"}


@pytest.mark.parametrize("inference", ["gmf", "em"])
def test_every_inference_trains(home: Settings, prefect: None, ratings_csv: Path, inference: str) -> None:
    found = _train(ratings_csv, inference=inference)
    assert found["differences"]["global mean"]["rmse"]["high"] < 0


def test_gibbs_with_tables_says_what_matters(
    home: Settings, prefect: None, ratings_csv: Path, tables: dict[str, str]
) -> None:
    found = _train(ratings_csv, inference="gibbs", rated_set=True, **tables)
    folder = Path(found["model_path"]).parent
    results = json.loads((folder / "results.json").read_text())
    fit = results["fit"]
    assert fit["sampling"]["chains"] == 2
    assert fit["sampling"]["draws"] == 20
    assert [len(chain) for chain in fit["sampling"]["noise_sd"]] == [20, 20]
    assert fit["tables"]["users"]["columns"] == {"team": "categorical", "age": "numeric"}
    assert {group["name"] for group in fit["effects"]["users"]["groups"]} == {"rated set", "team", "age"}
    assert {group["name"] for group in fit["effects"]["items"]["groups"]} == {"rated set", "tags"}
    report = (folder / "report.html").read_text()
    assert "Did the chains mix?" in report
    assert "Which features of users matter" in report
    assert "team: red" in report
    model = RatingsModel.load(folder / "model")
    assert {"u120", "u3"} <= set(model.user_ids.ids)
    assert 60 in model.item_ids.ids
    new = model.predict_ids(["u120", "nobody"], [3, 3])
    assert new.mean[0] != new.mean[1]
    assert np.isfinite(new.variance).all()


def test_mean_field_with_tables_knows_people_without_ratings(
    home: Settings, prefect: None, ratings_csv: Path, tables: dict[str, str]
) -> None:
    found = _train(ratings_csv, split="user:0.2", users=tables["users"], cold_start=True, cold_start_kappas=[0],
                   cold_start_repeats=1, cold_start_groups=2)  # fmt: skip
    assert found["split"]["unseen_users"] > 0
    results = json.loads((Path(found["model_path"]).parent / "results.json").read_text())
    assert results["cold_start"]["mae"][0] > 0
    gain = results["cold_start"]["side_information"]
    assert gain["difference"][0] == pytest.approx(results["cold_start"]["mae"][0] - gain["mae_of_other"][0])
    assert gain["low"][0] <= gain["difference"][0] <= gain["high"][0]
    assert "MAE without side information" in Path(found["report_path"]).read_text(encoding="utf-8")
    model = RatingsModel.load(Path(found["model_path"]))
    assert len(model.user_ids) == 121
    assert (model.user_counts == 0).sum() >= found["split"]["unseen_users"]


def test_mistakes_are_one_sentence(home: Settings, ratings_csv: Path) -> None:
    for values, says in (
        ({"inference": "em", "rated_set": "true"}, "em takes no rated sets"),
        ({"draws": "50", "samples": "20"}, "draws = 50 must not be above samples = 20"),
        ({"inference": "magic"}, "inference"),
    ):
        with pytest.raises(ParameterError, match=says):
            RatingsParameters.parse(None, [f"{name}={value}" for name, value in values.items()], data=str(ratings_csv))
    with pytest.raises(DataError, match=r"nowhere.csv: no such file"):
        check_source(RatingsParameters(data=str(ratings_csv), users="nowhere.csv"), home)
