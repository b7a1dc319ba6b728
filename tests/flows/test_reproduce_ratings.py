"""Reproduction on a small set under a public name: the figures are those of the fits; a second run is resumed."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.ratings.strawmen import Neighbours
from predilect.tasks import ratings_reproduce
from predilect.tasks.parameters_reproduce_ratings import ReproduceRatingsParameters
from predilect.tasks.ratings_published import METHODS, PUBLISHED
from predilect.tasks.ratings_reproduce import datasets, parts_of, verdict
from predilect.tasks.ratings_table import parts_of_rows, read_table
from predilect.tasks.runs import read_json
from predilect.tasks.settings import Settings


@pytest.fixture(scope="module")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and journals of these tests only: other tests count those in the common home."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def own(home: Settings, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of that home; Prefect's is the common one."""
    monkeypatch.setenv("PREDILECT_HOME", str(own_home))
    return Settings()


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an ml-100k of 60 users, 40 items and two folds."""
    folder = tmp_path_factory.mktemp("public")
    (folder / "ml-100k").mkdir()
    rng = np.random.default_rng(0)
    taste, kind = rng.normal(size=60), rng.normal(size=40)
    pairs = rng.choice(60 * 40, 1200, replace=False)
    lines = []
    for pair in pairs:
        user, item = divmod(int(pair), 40)
        star = int(np.clip(np.rint(3 + taste[user] * kind[item] + rng.normal(0, 0.5)), 1, 5))
        lines.append(f"{user + 1}\t{item + 1}\t{star}\t{880000000 + pair}\n")
    (folder / "ml-100k" / "u.data").write_text("".join(lines))
    for fold in range(5):
        test = lines[fold * 240 : (fold + 1) * 240]
        (folder / "ml-100k" / f"u{fold + 1}.test").write_text("".join(test))
        (folder / "ml-100k" / f"u{fold + 1}.base").write_text("".join(line for line in lines if line not in set(test)))
    return folder


def _run(public: Path, experiment: str, **values: Any) -> dict[str, Any]:
    from predilect.flows.reproduce_ratings import reproduce_paper

    return reproduce_paper(
        ReproduceRatingsParameters(
            experiment=experiment, data_dir=str(public), search_budget=12, resamples=100, **{"threads": 2, **values}
        )
    )


def test_a_table_is_that_of_the_fits_and_is_resumed(own: Settings, prefect: None, public: Path) -> None:
    found = _run(public, "table2", dimensions=[1, 3], folds=["u1", "u2"])
    rows = {row["method"]: row for row in found["rows"]}
    assert list(rows) == list(METHODS)
    assert [one["dataset"] for one in found["missing"]] == ["ml-1m", "ml-10m"]
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows.values())
    assert rows["MF"]["difference"] == pytest.approx(rows["MF"]["value"] - PUBLISHED["ml-100k", "MF"])
    assert rows["SVD(0)"]["chosen"] in ("C = 1", "C = 3")
    assert rows["GMF"]["chosen"] == rows["MF"]["chosen"] == rows["EM"]["chosen"]

    folders, _ = datasets(ReproduceRatingsParameters(experiment="table2", data_dir=str(public)))
    table = read_table(folders["ml-100k"])
    part = parts_of(table, ReproduceRatingsParameters(experiment="table2", folds=["u2"]))[0]
    train, test = parts_of_rows(table, part.train, part.test)
    model = Neighbours.fit(
        train.users, train.items, train.ratings, table.scale, user_ids=train.user_ids, item_ids=train.item_ids, k=25
    )
    mean = table.scale.round(model.predict(test.users, test.items).mean)
    assert rows["Pearson(25)"]["fold_mae"][1] == pytest.approx(np.mean(np.abs(mean - test.ratings)))
    assert rows["Pearson(25)"]["value"] == pytest.approx(np.mean(rows["Pearson(25)"]["fold_mae"]))

    again = _run(public, "table2", dimensions=[1, 3], folds=["u1", "u2"])
    assert again["rows"] == found["rows"]
    assert again["cells_run"] == 0
    assert again["cells_resumed"] == found["cells_run"] == 2 * 16

    run = Path(found["report_path"]).parent
    with open(found["table_path"], encoding="utf-8", newline="") as file:
        written = list(csv.reader(file))
    assert len(written) == 1 + len(METHODS) + 2
    assert written[-1][:2] == ["ml-10m", "missing"]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Table 2" in page
    assert "ml-10m is missing: put ml-10m.zip" in page
    assert "<svg" in page
    assert read_json(run / "results.json")["reproduction"]["rows"] == found["rows"]
    from mlflow import MlflowClient

    client = MlflowClient(own.mlflow_uri)
    experiment = client.get_experiment_by_name("predilect-reproduce")
    children = client.search_runs(
        [experiment.experiment_id], f"tags.mlflow.parentRunId = '{found['run_id']}'", max_results=100
    )
    assert len(children) == len(METHODS)
    assert {child.data.metrics["value"] for child in children} == {row["value"] for row in rows.values()}


def test_an_interrupted_run_goes_on(prefect: None, public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {
        "kappas": [1, 5],
        "repeats": 1,
        "groups": 2,
        "folds": ["u1"],
        "dimensions": [1],
        "threads": 1,
    }
    fit, calls = ratings_reproduce.fit_method, []

    def fails(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 6:
            raise DataError("no more.")
        return fit(*arguments, **named)

    monkeypatch.setattr(ratings_reproduce, "fit_method", fails)
    with pytest.raises(DataError, match=r"kappa=.*no more"):
        _run(public, "figure3", **options)
    monkeypatch.setattr(ratings_reproduce, "fit_method", fit)
    found = _run(public, "figure3", **options)
    # Three methods on all ratings, and on two groups with two kappas each.
    assert found["cells_resumed"] == 5
    assert found["cells_run"] + found["cells_resumed"] == 3 + 3 * 4
    rows = found["rows"]
    assert [(row["method"], row["kappa"]) for row in rows[:2]] == [("SVD(0.01)", 1), ("SVD(0.01)", 5)]
    assert all(row["value"] == pytest.approx(row["full_mae"] / row["mae"]) for row in rows)
    assert all(row["fits"] == 2 for row in rows)


def test_times_of_structures(prefect: None, public: Path) -> None:
    rows = _run(public, "figure2", latents=2, folds=["u1"])["rows"]
    assert [(row["s"], row["t"]) for row in rows] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert all(row["mf_seconds"] > 0 and row["em_seconds"] > 0 for row in rows)


def test_what_counts_as_reproduced() -> None:
    assert [verdict(value, 0.7) for value in (0.69, 0.696, 0.704, 0.706)] == [
        "better", "reproduced", "reproduced", "worse",
    ]  # fmt: skip
    assert verdict(0.7, None) == "not in the paper"


def test_mistakes_are_one_sentence(public: Path, tmp_path: Path) -> None:
    def ask(**values: Any) -> ReproduceRatingsParameters:
        return ReproduceRatingsParameters(**({"experiment": "table3", "data_dir": str(public)} | values))

    with pytest.raises(DataError, match="None of lastfm, jester, bookcrossing"):
        datasets(ask())
    with pytest.raises(ParameterError, match="table3 is on"):
        datasets(ask(data="ml-100k"))
    with pytest.raises(ParameterError, match="data_dir"):
        datasets(ask(data_dir=str(tmp_path / "none")))
    folders, _ = datasets(ask(experiment="table2"))
    with pytest.raises(ParameterError, match="there is no u9"):
        parts_of(read_table(folders["ml-100k"]), ask(experiment="table2", folds=["u9"]))
    for assignment in ("methods=MF,magic", "dimensions=0", "kappas=0", "experiment=table9"):
        with pytest.raises(ParameterError):
            ReproduceRatingsParameters.parse(None, ["experiment=table2", assignment])
    json.dumps(ask().model_dump(mode="json"))
