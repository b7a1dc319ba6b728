"""Retraining by its schedule on data that grow: promoted, skipped and refused, with the reasons on Prefect's pages."""

import os
from pathlib import Path
from typing import Any

import pytest
from nights import batch
from operated import Operated, until

pytestmark = pytest.mark.e2e
EVERY = 20  # seconds
WAIT = 60_000  # milliseconds
QUICK = {"resamples": 200, "n_user_latents": 2, "n_item_latents": 2, "max_sweeps": 40, "max_latency_ratio": 50}


class Nights:
    """The deployment's runs as its schedule makes them, and the folder that they watch."""

    def __init__(self, at: Operated, folder: Path) -> None:
        self.at, self.folder = at, folder
        (folder / "watched").mkdir()
        at.forget_champion("predilect-ratings")
        self.deployment = at.deployment("retrain-ratings")
        path = f"/deployments/{self.deployment['id']}"
        at.ask(path, {"parameters": {"parameters": QUICK | {"data": str(folder / "watched")}}}, "PATCH")
        made = at.ask(f"{path}/schedules", [{"active": False, "schedule": {"interval": EVERY}}])
        self.schedule = f"{path}/schedules/{made[0]['id']}"

    def add(self, night: int, **kind: bool) -> None:
        """A new file is there whole or not at all."""
        made = batch(self.folder / "made", night, **kind)  # type: ignore[arg-type]
        made.rename(self.folder / "watched" / made.name)

    def switch(self, active: bool) -> None:
        """As the switch on the deployment's page does."""
        self.at.ask(self.schedule, {"active": active}, "PATCH")

    def ended(self, name: str, many: int = 1) -> dict[str, Any]:
        """The newest of `many` runs that ended in a state of that name."""
        asked = {
            "deployments": {"id": {"any_": [self.deployment["id"]]}},
            "flow_runs": {"state": {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED"]}}},
            "sort": "START_TIME_ASC",
        }

        def found() -> Any:
            # Other tests have others of this deployment die on purpose.
            runs = [run for run in self.at.ask("/flow_runs/filter", asked) if run["auto_scheduled"]]
            assert {run["state"]["type"] for run in runs} <= {"COMPLETED"}, [run["state"] for run in runs]
            named = [run for run in runs if run["state"]["name"] == name]
            return named[-1] if len(named) >= many else None

        run: dict[str, Any] = until(f"{many} {name}", 240, found)
        return run


def test_three_retrainings_by_their_schedule(operated: Operated, browser: Any, tmp_path: Path) -> None:
    pictures = Path(os.environ.get("PREDILECT_SCREENSHOTS", str(tmp_path)))
    nights = Nights(operated, tmp_path)
    nights.add(0)
    nights.switch(True)
    try:
        first = nights.ended("Promoted")
        assert first["state"]["message"].startswith("There is no champion yet, and the challenger is clearly better")
        nothing = nights.ended("Skipped")
        assert nothing["state"]["message"].startswith("Nothing new: all 1 files were there on ")
        nights.add(1)
        better = nights.ended("Promoted", 2)
        assert better["state"]["message"].startswith("The challenger is better: RMSE differs by ")
        nights.add(2, corrupt=True)
        refused = nights.ended("Refused")
        assert refused["state"]["message"].startswith("The new data: PSI of ratings is ")
    finally:
        nights.switch(False)
    _is_shown(operated, browser, {"promoted": better, "skipped": nothing, "refused": refused}, pictures)
    _is_linked(operated, refused)


def _is_shown(at: Operated, browser: Any, runs: dict[str, dict[str, Any]], pictures: Path) -> None:
    """The run's page says how it ended and why; its table of checks is an artifact."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    for name, run in runs.items():
        page.goto(f"{at.prefect}/runs/flow-run/{run['id']}")
        page.get_by_text(name.capitalize(), exact=True).first.wait_for(timeout=WAIT)
        page.get_by_text(run["state"]["message"][:60]).first.wait_for(timeout=WAIT)
        page.screenshot(path=pictures / f"retraining_{name}.png")
    page.get_by_text("Artifacts", exact=True).first.click()
    for key in ("decision", "decision-checks", "mlflow-run"):
        page.locator("a[href*='/artifacts/']").filter(has_text=key).first.wait_for(timeout=WAIT)
    page.screenshot(path=pictures / "retraining_artifacts.png")
    page.locator("a[href*='/artifacts/']").filter(has_text="decision-checks").first.click()
    page.wait_for_url("**/artifacts/artifact/**")
    page.get_by_text("PSI of ratings", exact=True).first.wait_for(timeout=WAIT)
    page.screenshot(path=pictures / "retraining_checks.png")
    page.close()


def _is_linked(at: Operated, run: dict[str, Any]) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(at.mlflow)
    (experiment,) = client.search_experiments(filter_string="name = 'predilect-ratings-retraining'")
    asked = f"tags.`prefect.flow_run_id` = '{run['id']}'"
    (found,) = client.search_runs([experiment.experiment_id], asked)
    assert found.data.tags["predilect.decision"] == "refuse"
    page = f"{at.prefect}/runs/flow-run/{run['id']}"
    assert page in found.data.tags["mlflow.note.content"]
    links = at.ask("/artifacts/filter", {"artifacts": {"key": {"any_": ["mlflow-run"]}}})
    (link,) = [each["data"] for each in links if each["flow_run_id"] == run["id"]]
    assert f"{at.mlflow}/#/experiments/{experiment.experiment_id}/runs/{found.info.run_id}" in link
