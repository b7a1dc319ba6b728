"""The reproduction of the clicks paper on a small table: all models and scores, paired gaps, going on when stopped."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from predilect.models.clicks import SCORES
from predilect.models.errors import ParameterError
from predilect.tasks import clicks_reproduce
from predilect.tasks.canonical_clicks import ClicksTable
from predilect.tasks.clicks_fit import Parts, fit_model
from predilect.tasks.clicks_source import ingest_clicks
from predilect.tasks.parameters_reproduce_clicks import ReproduceClicksParameters
from predilect.tasks.settings import Settings
from predilect.tasks.simulate_clicks import simulate_clicks

MODELS = ["m-log", "l-log", "l-bbl", "l-prop", "no-context"]


def _parameters(data: str, **values: Any) -> ReproduceClicksParameters:
    given: dict[str, Any] = {"texts": ["title"], "categories": ["place"], "group": "test", "models": MODELS}
    return ReproduceClicksParameters(data=data, **(given | {"resamples": 100, "rank": 16} | values))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate_clicks(tmp_path_factory.mktemp("study") / "headlines", n_headlines=480, seed=8)


@pytest.fixture(scope="module")
def study(home: Settings, prefect: None, data: Path) -> dict[str, Any]:
    """A study that stopped at its fourth fit, started again."""
    from predilect.flows.reproduce_clicks import reproduce_clicks

    n_fits = 0

    def stops(*arguments: Any) -> Any:
        nonlocal n_fits
        n_fits += 1
        if n_fits == 4:
            raise KeyboardInterrupt
        return fit_model(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clicks_reproduce, "fit_model", stops)
        folder = ingest_clicks(_parameters(str(data)))
        run = home.runs / "study-broken"
        run.mkdir(parents=True)
        clicks_reproduce_split(folder, run, _parameters(str(data)))
        with pytest.raises(KeyboardInterrupt):
            clicks_reproduce.study_clicks(folder, run, _parameters(str(data)))
    return reproduce_clicks(_parameters(str(data), name="clicks-study"))


def clicks_reproduce_split(folder: Path, run: Path, parameters: ReproduceClicksParameters) -> None:
    """The split of a run that is made without the flow."""
    from predilect.tasks.clicks_fit import split_clicks

    split_clicks(folder, run, parameters)


def test_every_model_has_a_row_and_finished_fits_are_kept(study: dict[str, Any]) -> None:
    assert [(row["model"], row["group_effect"]) for row in study["rows"]] == [
        (name, effect) for effect in ("none", "mean") for name in MODELS
    ]
    assert study["cells_resumed"] == 3
    assert study["cells_run"] == 7
    for row in study["rows"]:
        if row["model"] == "no-context":
            assert row["areas"] == {}
            continue
        names = set(SCORES) - (set() if row["model"].startswith("l-") else {"thompson"})
        assert set(row["areas"]) == names
        for areas in row["areas"].values():
            assert all(len(areas[metric]["folds"]) == 5 for metric in ("auc", "sauc"))


def test_gaps_are_paired_and_the_beta_binomial_knows_the_spread(study: dict[str, Any]) -> None:
    rows = {(row["model"], row["group_effect"]): row for row in study["rows"]}
    for effect in ("none", "mean"):
        reference = rows["l-prop", effect]
        assert reference["against"] == {}
        for name in MODELS:
            row = rows[name, effect]
            for metric, gap in row["against"].items():
                assert gap["value"] == pytest.approx(
                    row["metrics"][metric]["value"] - reference["metrics"][metric]["value"]
                )
        # θ varies by headline, which a logistic regression does not know.
        gap = rows["l-log", effect]["against"]["log_likelihood_row"]
        assert gap["high"] < 0
    assert rows["l-log", "none"]["against"]["log_likelihood_row"]["value"] < -0.5


def test_figures_are_those_of_the_files_and_the_first_resamples(study: dict[str, Any]) -> None:
    run = Path(study["report_path"]).parent
    table = pd.read_csv(run / "comparison.csv", keep_default_na=False)
    assert json.loads((run / "results.json").read_text())["study"]["rows"] == study["rows"]
    for row in study["rows"]:
        mine = table[(table["model"] == row["model"]) & (table["group_effect"] == row["group_effect"])]
        alone = mine[mine["score"] == ""].set_index("metric")
        for metric, each in row["metrics"].items():
            assert float(alone.loc[metric, "value"]) == each["value"]
            assert alone.loc[metric, "resample_1"] == pytest.approx(row["folds"][metric][0])
        if row["areas"]:  # all test rows are scored, so the mean's area is the model's
            assert row["areas"]["mean"]["auc"]["value"] == pytest.approx(row["metrics"]["auc"]["value"], abs=1e-12)
            np.testing.assert_allclose(row["areas"]["mean"]["auc"]["folds"], row["folds"]["auc"], atol=1e-12)


def test_page_and_tracking(home: Settings, study: dict[str, Any]) -> None:
    from mlflow import MlflowClient

    page = Path(study["report_path"]).read_text()
    assert page.count("<svg") == 8
    assert "Takahashi and Zhang (2017)" in page
    assert "L-BBL is" in page
    client = MlflowClient(home.mlflow_uri)
    run = client.get_run(study["run_id"])
    assert run.info.status == "FINISHED"
    where = f"tags.`mlflow.parentRunId` = '{study['run_id']}'"
    children = {child.info.run_name: child for child in client.search_runs([run.info.experiment_id], where)}
    assert set(children) == {f"{name} group {effect}" for effect in ("none", "mean") for name in MODELS}
    row = next(row for row in study["rows"] if (row["model"], row["group_effect"]) == ("l-bbl", "mean"))
    logged = children["l-bbl group mean"].data.metrics
    assert logged["log_likelihood_row"] == pytest.approx(row["metrics"]["log_likelihood_row"]["value"])
    assert logged["auc_low"] == pytest.approx(row["metrics"]["auc"]["low"])


def test_without_groups_each_model_is_fitted_once(
    home: Settings, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = _parameters(str(data), group="none", models=["m-log"], split="random:0.3")
    folder = ingest_clicks(parameters)
    clicks_reproduce_split(folder, tmp_path, parameters)
    monkeypatch.setattr(clicks_reproduce, "Tracker", lambda *_: type("Silent", (), {"child": lambda *_: None})())
    rows = clicks_reproduce.study_clicks(folder, tmp_path, parameters)["rows"]
    assert [(row["model"], row["group_effect"], row["against"]) for row in rows] == [("m-log", "none", {})]
    table, parts = ClicksTable.read(folder), Parts.read(tmp_path)
    fitted = fit_model(table, parts, parameters.of_cell(parameters.group_effects[0]), "m-log", "cells")
    assert rows[0]["precisions"] == fitted.precisions


@pytest.mark.parametrize(
    ("assignment", "said"),
    [("models=glm", "glm is none of"), ("models=", "at least one"), ("group_effects=all", "all")],
)
def test_impossible_comparisons_are_refused(assignment: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        ReproduceClicksParameters.parse(None, [assignment])
