"""In a real browser: a run is filled in, started and watched on Prefect's pages, and runs are compared on MLflow's."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from operated import Operated

pytestmark = pytest.mark.e2e
WAIT = 60_000  # milliseconds


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1280, "height": 1000})
    yield opened
    opened.close()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go, to be looked at."""
    return Path(os.environ.get("PREDILECT_SCREENSHOTS", str(tmp_path)))


def test_run_is_triggered_watched_and_read_in_the_browser(
    operated: Operated, ratings_csv: Path, page: Any, pictures: Path
) -> None:
    deployment = operated.deployment("train-ratings")
    page.goto(f"{operated.prefect}/deployments/deployment/{deployment['id']}/run")
    page.get_by_text("auto: one empirical-Bayes fit").first.wait_for(timeout=WAIT)
    fields = page.locator(".p-label")
    for says, value in (("A file or folder, or the name", str(ratings_csv)), ("folds:NAME", "user:0.2")):
        fields.filter(has_text=says).last.locator("textarea").first.fill(value)
    page.screenshot(path=pictures / "run_form.png", full_page=True)
    page.get_by_role("button", name="Submit").click()
    page.locator("a[href*='/runs/flow-run/']").first.click(timeout=WAIT)  # the deployment's page lists its runs
    page.wait_for_url(re.compile("/runs/flow-run/"))
    run = re.search(r"flow-run/([0-9a-f-]{36})", page.url)
    assert run
    assert operated.ended(run[1]) == "COMPLETED"
    page.get_by_text("Completed", exact=True).first.wait_for(timeout=WAIT)
    page.get_by_text("Finished in state Completed").first.wait_for(timeout=WAIT)
    page.screenshot(path=pictures / "run.png", full_page=True)
    page.get_by_text("Artifacts", exact=True).first.click()
    for key in ("progress", "results", "mlflow-run"):
        page.locator("a[href*='/artifacts/']").filter(has_text=key).first.wait_for(timeout=WAIT)
    page.screenshot(path=pictures / "artifacts.png", full_page=True)


@pytest.fixture(scope="module")
def ten_runs(operated: Operated) -> tuple[str, list[str]]:
    """An experiment of ten runs with parameters, figures and a curve each: its id and theirs."""
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(operated.mlflow)
    experiment = client.create_experiment("ten", tags={"mlflow.experimentKind": "custom_model_development"})
    made = []
    for k in range(10):
        run = client.create_run(experiment, run_name=f"run-{k}").info.run_id
        curve = [Metric("bound", -1000 / (step + k + 1), 1_700_000_000_000 + step, step) for step in range(20)]
        figures = [Metric("rmse", 0.9 + 0.01 * (k - 4) ** 2, 1, 0), Metric("mae_rounded", 0.7 + 0.01 * k, 1, 0)]
        client.log_batch(
            run, metrics=curve + figures, params=[Param("user_latents", str(k)), Param("tau", str(10 - k))]
        )
        client.set_terminated(run)
        made.append(run)
    return experiment, made


def test_ten_runs_side_by_side(operated: Operated, ten_runs: tuple[str, list[str]], page: Any, pictures: Path) -> None:
    experiment, made = ten_runs
    words = f"runs={quote(json.dumps(made))}&experiments={quote(json.dumps([experiment]))}"
    page.goto(f"{operated.mlflow}/#/compare-runs?{words}")
    page.get_by_text("Parallel Coordinates Plot").first.wait_for(timeout=WAIT)
    plot = page.locator(".js-plotly-plot .parcoords").first
    plot.wait_for(timeout=WAIT)
    assert page.get_by_text("user_latents").count() > 0
    page.screenshot(path=pictures / "parallel_coordinates.png")
    page.goto(
        f"{operated.mlflow}/#/metric?runs={quote(json.dumps(made))}&metric=%22bound%22&experiments=[%22{experiment}%22]&plot_metric_keys=[%22bound%22]"
    )
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    page.screenshot(path=pictures / "metric.png")
