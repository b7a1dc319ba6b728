"""From Prefect: servers and worker run the deployment, the form shows every parameter, bad values are refused."""

import urllib.error
from pathlib import Path
from typing import Any

import pytest
from operated import Operated, until

from predilect.tasks.parameters import RatingsParameters

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def deployment(operated: Operated) -> dict[str, Any]:
    found: dict[str, Any] = operated.deployment("train-ratings")
    return found


def test_form_explains_every_parameter(deployment: dict[str, Any]) -> None:
    schema = deployment["parameter_openapi_schema"]
    shown = schema["definitions"]["RatingsParameters"]["properties"]
    assert set(shown) == set(RatingsParameters.model_fields)
    assert all(field["description"] and ("title" in field or "$ref" in field) for field in shown.values())
    assert schema["definitions"]["Search"]["enum"] == ["auto", "greedy", "none"]


def test_bad_values_are_refused_before_the_run(operated: Operated, deployment: dict[str, Any]) -> None:
    good = {"data": "x"}
    wrong: list[dict[str, Any]] = [{**good, "tau": -1}, {**good, "tua": 1}, {**good, "search": "all"}, {}]
    for bad in (*({"parameters": each} for each in wrong), {"parameters": good, "tau": 1}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            operated.ask(f"/deployments/{deployment['id']}/create_flow_run", {"parameters": bad})
        assert refused.value.code in (409, 422)


def test_triggered_run_finishes_and_is_linked_both_ways(operated: Operated, ratings_csv: Path) -> None:
    parameters = {"data": str(ratings_csv), "name": "from-prefect", "resamples": 100, "restarts": 1}
    run = operated.trigger("train-ratings", parameters)
    assert operated.ended(run) == "COMPLETED"
    artifacts = operated.ask("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    kinds = {artifact["key"]: artifact for artifact in artifacts}
    assert kinds["progress"]["data"] == 100.0
    assert "MAE" in kinds["results"]["data"]
    from mlflow import MlflowClient

    client = MlflowClient(operated.mlflow)
    (experiment,) = client.search_experiments(filter_string="name = 'predilect-ratings'")
    (tracked,) = client.search_runs([experiment.experiment_id], "attributes.run_name = 'from-prefect'")
    assert tracked.info.artifact_uri.startswith("mlflow-artifacts:/")
    assert tracked.info.status == "FINISHED"
    assert tracked.data.tags["prefect.flow_run_id"] == run
    assert tracked.info.run_id in kinds["mlflow-run"]["data"]


def test_user_mistake_is_a_sentence_in_the_log(operated: Operated, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("user,item,rating\na,b,3\na,b,4\n")
    run = operated.trigger("train-ratings", {"data": str(bad)})
    assert operated.ended(run) == "FAILED"

    def said() -> str:
        logs = operated.ask("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}})
        return "\n".join(entry["message"] for entry in logs)

    until("the sentence in its log", 60, lambda: "bad.csv" in said())  # logs arrive in batches, after the state
    assert "Traceback" not in said()
