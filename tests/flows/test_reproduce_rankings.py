"""The reproduction of the rankings paper: every method from the same start, figures that agree with each other."""

import json
from pathlib import Path
from typing import Any

import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.rankings.study import METHODS
from predilect.tasks.parameters_reproduce_rankings import MethodName, ReproduceRankingsParameters
from predilect.tasks.rankings_reproduce import grid, real_sets
from predilect.tasks.settings import Settings


@pytest.fixture(scope="module")
def study(home: Settings, prefect: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from predilect.flows.reproduce_rankings import reproduce_rankings

    table = tmp_path_factory.mktemp("real") / "small.txt"
    orders = ("a,b,c,d,e", "b,a,d", "c,e,a,b", "d,c", "e,d,c,b,a", "a,c,e", "b,d,a,e")
    table.write_text("\n".join(f"{9 + 2 * at}: {order}" for at, order in enumerate(orders)) + "\n")
    parameters = ReproduceRankingsParameters(
        data=str(table), name="study", n_items=[6], informative=[4], k=[2], ballots=[400], trials=2, real_k=[1, 2],
        max_iterations=40,
    )  # fmt: skip
    return reproduce_rankings(parameters)


def test_every_method_has_a_row(study: dict[str, Any]) -> None:
    found = {(row["method"], row["start"]) for row in study["synthetic"]}
    expected = {(method, "spectral") for method in METHODS if method != "fit"}
    assert found == expected | {("true labels", "own"), ("spectral start", "spectral"), ("fit", "own")}
    assert {(row["method"], row["n_components"]) for row in study["real"]} >= {(m, k) for m in METHODS for k in (1, 2)}
    assert all(row["trials"] == 2 for row in study["synthetic"])


def test_climbers_of_the_likelihood_end_above_their_start_and_the_others(study: dict[str, Any]) -> None:
    value = {row["method"]: row["log_likelihood"] for row in study["synthetic"]}
    for method in ("em-lsr", "emm", "accelerated", "fit"):
        assert value[method] >= value["spectral start"]
        assert value[method] >= max(value["em-cml"], value["em-gmm"], value["stochastic"]) - 0.05
    assert value["em-lsr"] == pytest.approx(value["accelerated"], abs=0.5)
    one = {row["method"]: row["log_likelihood"] for row in study["real"] if row["n_components"] == 1}
    assert one["em-lsr"] == pytest.approx(one["fit"], abs=1e-4)  # one component has one maximum


def test_ratio_is_the_error_over_that_with_true_labels(study: dict[str, Any]) -> None:
    rows = json.loads((Path(study["report_path"]).parent / "synthetic.json").read_text())
    known = {row["trial"]: row["error"] for row in rows if row["method"] == "true labels"}
    assert len(known) == 2
    for row in rows:
        assert row["ratio"] == pytest.approx(row["error"] / known[row["trial"]])


def test_page_and_tracking(home: Settings, study: dict[str, Any]) -> None:
    from mlflow import MlflowClient

    page = Path(study["report_path"]).read_text()
    assert page.count("<svg") == 3
    assert "n, L, K, m" in page
    client = MlflowClient(home.mlflow_uri)
    run = client.get_run(study["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.tags["predilect.part"] == "reproduction"
    where = f"tags.`mlflow.parentRunId` = '{study['run_id']}'"
    children = {child.info.run_name for child in client.search_runs([run.info.experiment_id], filter_string=where)}
    assert children == {"n=6 L=4 K=2 m=400", "small K=1", "small K=2"}
    assert {file.path for file in client.list_artifacts(study["run_id"])} >= {
        "report.html",
        "synthetic.csv",
        "real.csv",
    }


def test_grid_is_every_combination_that_exists() -> None:
    asked = ReproduceRankingsParameters.parse(None, ["n_items=10,20", "informative=10,15", "k=2", "ballots=50"])
    assert [(s.n_items, s.n_informative) for s in grid(asked)] == [(10, 10), (20, 10), (20, 15)]
    assert [method.value for method in MethodName] == list(METHODS)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("k=0", "k = 0: give 1 to 50"),
        ("methods=em", "em-lsr"),
        ("ballots=", "ballots"),
        ("informative=30", "no setting has that many items"),
    ],
)
def test_impossible_grids_are_refused(assignment: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        ReproduceRankingsParameters.parse(None, [assignment])


def test_missing_sets(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert (
        real_sets(ReproduceRankingsParameters(), settings) == []
    )  # the usual ones are left out when they are not there
    with pytest.raises(DataError, match="data = 'd_apa': no such file"):
        real_sets(ReproduceRankingsParameters(data="d_apa"), settings)
