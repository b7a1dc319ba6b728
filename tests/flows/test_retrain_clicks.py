"""Retraining of clicks on tests of headlines that come night by night: skip, promote, refuse; the champion predicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from predilect.tasks import registry
from predilect.tasks.parameters_retrain import RetrainClicksParameters
from predilect.tasks.score import ScoredFamily, ScoreParameters
from predilect.tasks.settings import Settings
from predilect.tasks.simulate_clicks import simulate_clicks

NIGHTS = (400, 800, 160, 160)
COLUMNS: dict[str, Any] = {"texts": ["title"], "categories": ["place"], "group": "test"}
QUICK = COLUMNS | {"resamples": 200, "max_latency_ratio": 50, "max_batch_share": 10, "max_size_ratio": 10}


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[pd.DataFrame]:
    """The tests of headlines of each night."""
    folder = tmp_path_factory.mktemp("made")
    frame = pd.read_csv(simulate_clicks(folder / "all", n_headlines=sum(NIGHTS), seed=2)).drop(columns="week")
    return [frame.iloc[end - size : end] for size, end in zip(NIGHTS, np.cumsum(NIGHTS), strict=True)]


def nightly(data: Path, **values: Any) -> dict[str, Any]:
    from predilect.flows.retrain import retrain_clicks

    found: dict[str, Any] = retrain_clicks(RetrainClicksParameters(data=str(data), **(QUICK | values)))  # type: ignore[assignment]
    return found


def test_nights_of_clicks(
    home: Settings, prefect: None, nights: list[pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path / "home"))
    data, settings = tmp_path / "nights", Settings()
    data.mkdir()
    nights[0].to_csv(data / "night-0.csv", index=False)
    first = nightly(data)
    assert first["outcome"] == "promote", first["reasons"]
    assert "clearly better than “no-context” (Log-likelihood a row" in first["reasons"][0]
    again = nightly(data)
    assert again["outcome"] == "skip"

    nights[1].to_parquet(data / "night-1.parquet", index=False)
    second = nightly(data)
    assert second["outcome"] == "promote", second["reasons"]
    assert second["differences"]["log_likelihood_row"]["low"] > 0
    assert {check["name"] for check in second["checks"]} >= {
        "click rate", "PSI of impressions a row", "PSI of words of title", "PSI of place", "AUC", "prediction time",
        "90 % intervals of click counts that hold", "model size",
    }  # fmt: skip

    corrupt = nights[2].assign(clicks=nights[2]["impressions"] // 2)
    corrupt.to_csv(data / "night-2.csv", index=False)
    refused = nightly(data)
    assert refused["outcome"] == "refuse"
    assert refused["reasons"][0].startswith("The new data: click rate is ")
    nights[2].to_csv(data / "night-2.csv", index=False)
    worse = nightly(data, model="m-log", group_effect="none", evidence="fixed", start_precision=1e4, compare="")
    assert worse["outcome"] == "refuse"
    assert worse["reasons"][0].startswith("The challenger is worse: Log-likelihood a row differs by")
    champion = registry.by_alias(settings, "clicks")
    assert champion is not None
    assert (champion.number, champion.tags["predilect.unit"]) == (2, "whole groups (test)")
    _is_linked(settings, worse)
    _serves(settings, nights[3], tmp_path)


def _links(key: str) -> list[str]:
    """The link artifacts of a key, as Prefect keeps them."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[key])))
    return [str(artifact.data) for artifact in found]


def _is_linked(settings: Settings, decision: dict[str, Any]) -> None:
    """The flow run has a link to the MLflow run of the retraining, and the latter one to the former."""
    from mlflow import MlflowClient

    client = MlflowClient(settings.mlflow_uri)
    (experiment,) = client.search_experiments(filter_string="name = 'predilect-clicks-retraining'")
    (run,) = client.search_runs(
        [experiment.experiment_id], f"attributes.run_name = '{decision['retraining']}'"
    )  # fmt: skip
    assert any(f"/runs/{run.info.run_id}?" in link for link in _links("mlflow-run"))
    page = f"/runs/flow-run/{run.data.tags['prefect.flow_run_id']})"
    assert page in run.data.tags["mlflow.note.content"]


def _serves(settings: Settings, rows: pd.DataFrame, folder: Path) -> None:
    """The champion loads by its alias, and scores by the names of the columns that the files have."""
    import mlflow

    from predilect.flows.score import score_batch
    from predilect.tasks.tracking import as_default

    with as_default(settings.mlflow_uri):
        served = mlflow.pyfunc.load_model("models:/predilect-clicks@champion")
    said = served.predict(rows[["title", "place", "test"]].rename(columns={"test": "group"}))
    rate = rows["clicks"].sum() / rows["impressions"].sum()
    assert 0.5 * rate < np.average(said["mean"], weights=rows["impressions"]) < 2 * rate
    rows.to_parquet(folder / "new.parquet", index=False)
    asked = ScoreParameters(family=ScoredFamily.clicks, data=str(folder / "new.parquet"), out=str(folder / "x.parquet"))
    done = score_batch(asked)
    assert _links("model") == [
        "[predilect-clicks version 2](http://127.0.0.1:5000/#/models/predilect-clicks/versions/2)"
    ]
    assert done["predilect.model"] == "models:/predilect-clicks/2"
    assert done["warnings"] == []
    np.testing.assert_allclose(pd.read_parquet(folder / "x.parquet")["mean"], said["mean"], rtol=1e-6)
