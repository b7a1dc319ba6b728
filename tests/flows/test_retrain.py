"""Retraining on data that grow: skip, promote, refuse, each with its reasons; and what a death on the way leaves."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nights import batch

from predilect.models.errors import DataError
from predilect.tasks import registry
from predilect.tasks.parameters_retrain import RetrainRankingsParameters, RetrainRatingsParameters
from predilect.tasks.settings import Settings

QUICK = {"resamples": 200, "n_user_latents": 2, "n_item_latents": 2, "max_sweeps": 40, "max_latency_ratio": 50}


@pytest.fixture
def empty(home: Settings, prefect: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home of its own: no champion yet."""
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path / "home"))
    return Settings()


def nightly(data: Path | str, **values: Any) -> dict[str, Any]:
    from predilect.flows.retrain import retrain_ratings

    found: dict[str, Any] = retrain_ratings(RetrainRatingsParameters(data=str(data), **(QUICK | values)))  # type: ignore[assignment]
    return found


def champion(settings: Settings, family: str = "ratings") -> int | None:
    found = registry.by_alias(settings, family)
    return found.number if found else None


def test_nights_on_growing_data(empty: Settings, tmp_path: Path) -> None:
    data = tmp_path / "nights"
    batch(data, 0)
    first = nightly(data)
    assert first["outcome"] == "promote"
    assert "no champion yet" in first["reasons"][0]
    assert champion(empty) == 1

    again = nightly(data)
    assert again["outcome"] == "skip"
    assert "Nothing new: all 1 files" in again["reasons"][0]
    from predilect.flows.retrain import retrain_ratings

    state: Any = retrain_ratings(RetrainRatingsParameters(data=str(data), **QUICK), return_state=True)
    assert (state.name, state.type.value) == ("Skipped", "COMPLETED")
    assert state.message == again["reasons"][0]

    batch(data, 1)
    grown = nightly(data)
    assert grown["outcome"] == "promote", grown["reasons"]
    assert grown["champion"] == "predilect-ratings version 1"
    assert grown["differences"]["rmse"]["high"] < 0
    assert champion(empty) == 2

    corrupt = batch(data, 2, corrupt=True)
    refused = nightly(data)
    assert refused["outcome"] == "refuse"
    assert any("PSI of ratings is" in reason and "at most 0.25" in reason for reason in refused["reasons"])
    assert nightly(data)["outcome"] == "refuse"  # until somebody takes the file away
    corrupt.write_text("user,item,rating\nu1,2,9\n")
    assert "off the scale" in nightly(data)["reasons"][0]
    corrupt.write_text("user,item,rating\nu1,2,\n")
    assert "night-2.csv" in nightly(data)["reasons"][0]
    corrupt.unlink()

    batch(data, 3, rows=300)
    worse = nightly(data, n_user_latents=1, n_item_latents=0, max_sweeps=1)
    assert worse["outcome"] == "refuse"
    assert worse["reasons"][0].startswith("The challenger is worse: RMSE differs by")
    assert champion(empty) == 2
    _is_recorded(empty, worse)
    lines = (next((empty.state / "retrain").iterdir()) / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == [
        "promote", "skip", "skip", "promote", "refuse", "refuse", "refuse", "refuse", "refuse",
    ]  # fmt: skip


def _is_recorded(settings: Settings, decision: dict[str, Any]) -> None:
    """In the run folder, on the retraining's MLflow run, on the version and on its training run."""
    from mlflow import MlflowClient

    folder = settings.runs / decision["retraining"]
    card = (folder / "card.md").read_text()
    assert decision["reasons"][0] in card
    assert "| prediction time |" in card
    version = registry.find(settings, "ratings", registry.CHALLENGER)
    assert version.run == decision["challenger_run"]
    client = MlflowClient(settings.mlflow_uri)
    for tags in (version.tags, client.get_run(version.run_id).data.tags):
        assert tags["predilect.decision"] == "refuse"
        assert tags["predilect.reasons"].startswith("The challenger is worse")
        assert tags["predilect.retraining"] == decision["retraining"]
    (experiment,) = client.search_experiments(filter_string="name = 'predilect-ratings-retraining'")
    runs = client.search_runs([experiment.experiment_id], "tags.`predilect.decision` = 'refuse'")
    newest = max(runs, key=lambda run: run.info.start_time)
    assert newest.info.run_name == decision["retraining"]
    assert {a.path for a in client.list_artifacts(newest.info.run_id)} >= {
        "card.md",
        "decision.json",
        "decision_table.json",
    }


def test_warm_start_is_the_champion_and_models_of_another_split_are_not_compared(
    empty: Settings, tmp_path: Path
) -> None:
    data = tmp_path / "nights"
    batch(data, 0)
    nightly(data)
    batch(data, 1)
    second = nightly(data)
    from predilect.tasks.runs import read_json

    run = empty.runs / second["challenger_run"]
    assert Path(read_json(run / "results.json")["parameters"]["warm_start"]).is_relative_to(empty.state / "models")
    batch(data, 2)
    third = nightly(data, split="stable:0.3")
    assert third["outcome"] == "refuse"
    assert "may know the held-out rows" in third["reasons"][0]


def test_two_at_once_promote_once(empty: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both judge against the same champion; the one that comes second compares again, with the first one's model."""
    from predilect.flows import retrain

    for name in ("left", "right"):
        batch(tmp_path / name, 0)
    nightly(tmp_path / "left")
    batch(tmp_path / "left", 1)
    batch(tmp_path / "right", 1)
    judged, waited = [], retrain._judge

    def judge(*words: Any) -> Any:
        decision = waited(*words)
        judged.append(words[-1].number)
        if len(judged) == 1:  # meanwhile the other retraining, from beginning to end
            with ThreadPoolExecutor(1) as pool:
                other.append(pool.submit(nightly, tmp_path / "right").result())
        return decision

    other: list[dict[str, Any]] = []
    monkeypatch.setattr(retrain, "_judge", judge)
    late = nightly(tmp_path / "left")
    assert other[0]["outcome"] == "promote"
    assert judged == [1, 1, champion(empty)]
    assert late["outcome"] == "refuse"
    promoted = [v for v in registry.versions(empty, "ratings") if "predilect.promoted" in v.tags]
    assert len(promoted) == 2  # the first night's and one of this night's
    from predilect.tasks import retrain_data

    with retrain_data.memory(empty, "ratings", str(tmp_path / "left")):
        busy = nightly(tmp_path / "left")
    assert busy["outcome"] == "skip"
    assert "under way" in busy["reasons"][0]


def test_rankings_are_retrained_too(empty: Settings, tmp_path: Path) -> None:
    from predilect.flows.retrain import retrain_rankings
    from predilect.tasks.simulate_rankings import simulate_rankings

    data = tmp_path / "ballots"
    data.mkdir()
    for night in (0, 1):
        table = simulate_rankings(tmp_path / f"made-{night}", n_ballots=300, seed=1)
        lines = table.read_text().splitlines()
        rng = np.random.default_rng(night)
        kept = [lines[1 + k] for k in rng.choice(300, 150, replace=False)]
        (data / f"night-{night}.csv").write_text("\n".join([lines[0], *kept]) + "\n")
        done: Any = retrain_rankings(
            RetrainRankingsParameters(
                data=str(data / "*.csv"), menu="all", k="1", resamples=200, refits=0, nu=1, max_latency_ratio=50
            )
        )
        assert done["outcome"] == ("promote" if night == 0 else done["outcome"])
    assert done["champion"] == "predilect-rankings version 1"
    assert done["challenger"] == "predilect-rankings version 2"
    assert {check["name"] for check in done["checks"]} >= {"PSI of items ranked", "pair accuracy", "model size"}


# Where a process dies: a function of retraining, and whether it has done its work by then.
DEATHS = {
    "reading": ("predilect.tasks.retrain_data", "find", False),
    "checking": ("predilect.tasks.retrain_data", "write_table", False),
    "fitting": ("predilect.tasks.fit", "RatingsModel.save", False),
    "evaluating": ("predilect.flows.train", "evaluate_task", False),
    "trained": ("predilect.tasks.registry", "register", False),
    "registered": ("predilect.tasks.registry", "register", True),
    "challenger": ("predilect.tasks.registry", "set_challenger", True),
    "judged": ("predilect.flows.retrain", "_judge", True),
    "tagged": ("predilect.tasks.registry", "describe", True),
    "moving": ("mlflow.MlflowClient", "set_registered_model_tag", True),
    "promoted": ("mlflow.MlflowClient", "set_registered_model_alias:champion", True),
    "remembering": ("predilect.tasks.retrain_data", "Memory.note", False),
}
SCRIPT = """
import importlib, json, os, signal, sys
from predilect.tasks.settings import Settings, prepare_environment
prepare_environment(Settings())
from predilect.flows import retrain
from predilect.tasks.parameters_retrain import RetrainRatingsParameters

place, name, after = sys.argv[2:5]
if place:
    if place == "mlflow.MlflowClient":
        from mlflow import MlflowClient as owner
    else:
        owner = importlib.import_module(place)
    name, _, only = name.partition(":")
    *way, name = name.split(".")
    for step in way:
        owner = getattr(owner, step)
    whole = getattr(owner, name)
    seen = []

    def dies(*args, **kwargs):
        found = whole(*args, **kwargs) if after == "True" else None
        if not only or only in map(str, args):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, dies)
    for task in ("find", "gather", "register"):  # wrapped when the module was read
        if name == task:
            setattr(retrain, task + "_task", dies)
values = json.loads(sys.argv[1])
print(json.dumps(retrain.retrain_ratings(RetrainRatingsParameters(**values))))
"""


def _process(
    home: Path, data: Path, place: str = "", name: str = "", after: bool = False
) -> subprocess.CompletedProcess[str]:
    from prefect.settings import get_current_settings

    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PREDILECT", "PREFECT", "MLFLOW"))}
    api = str(get_current_settings().api.url)  # the tests' own server: one that the process started would outlive it
    env = plain | {"PREDILECT_HOME": str(home), "PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_API_URL": api}
    words = [sys.executable, "-c", SCRIPT, json.dumps(QUICK | {"data": str(data)}), place, name, str(after)]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=200, check=False)


def killed_then_resumed(tmp_path: Path, at: str) -> dict[str, Any]:
    """Kill the second night's retraining at a point; what it left, and what the next one made of it."""
    home, data = tmp_path / "home", tmp_path / "nights"
    batch(data, 0)
    ran = _process(home, data)
    assert ran.returncode == 0, ran.stderr
    batch(data, 1)
    died = _process(home, data, *DEATHS[at])
    assert died.returncode == -9, died.stdout + died.stderr
    settings = Settings(home=home)
    versions = registry.versions(settings, "ratings")
    folders = [registry.model_folder(settings, version) for version in versions]
    whole = all("predilect.digest" in v.tags for v in versions) and all(
        (f / "manifest.json").is_file() for f in folders
    )
    left = {"champion": champion(settings), "versions": len(versions), "whole": whole}
    from predilect.tasks.tracking import reconcile

    closed = reconcile(settings)
    resumed = _process(home, data)
    assert resumed.returncode == 0, resumed.stderr
    done = json.loads(resumed.stdout.splitlines()[-1])
    from mlflow import MlflowClient

    client = MlflowClient(settings.mlflow_uri)
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return {
        "left": left,
        "closed": closed,
        "outcome": done["outcome"],
        "champion": champion(settings),
        "versions": len(registry.versions(settings, "ratings")),
        "running": len(client.search_runs(ids, "attributes.status = 'RUNNING'")),
        "trained": len(list(settings.runs.glob("*-challenger"))),
    }


@pytest.mark.e2e
@pytest.mark.parametrize("at", ["moving"])
def test_death_on_the_way_promotes_nothing_and_the_next_night_goes_on(prefect: None, tmp_path: Path, at: str) -> None:
    _holds(killed_then_resumed(tmp_path, at), at)


@pytest.mark.skipif(not os.environ.get("PREDILECT_SLOW"), reason="slow: set PREDILECT_SLOW=1 for every point")
@pytest.mark.parametrize("at", [at for at in DEATHS if at != "moving"])
def test_death_at_every_other_point(prefect: None, tmp_path: Path, at: str) -> None:
    _holds(killed_then_resumed(tmp_path, at), at)


def _holds(found: dict[str, Any], at: str) -> None:
    names = list(DEATHS)
    past = names.index(at) >= names.index("promoted")
    registered = names.index(at) >= names.index("registered")
    trained = names.index(at) >= names.index("trained")
    assert found["left"] == {"champion": 2 if past else 1, "versions": 2 if registered else 1, "whole": True}
    assert found["outcome"] == ("skip" if at == "remembering" else "promote")
    assert (found["champion"], found["versions"], found["running"]) == (2, 2, 0)
    if trained:
        assert found["trained"] == 2  # what was trained is not trained again


def test_no_files_is_one_sentence(empty: Settings, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no files with rows"):
        nightly(tmp_path / "nowhere")
