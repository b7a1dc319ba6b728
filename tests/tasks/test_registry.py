"""Versions, aliases, promotion by compare-and-set and rollback, against a real store; also across processes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from predilect.models.errors import ParameterError
from predilect.models.ids import IdMap
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.scale import RatingScale
from predilect.tasks import registry, runs
from predilect.tasks.settings import Settings, prepare_environment
from predilect.tasks.tracking import Tracker, TrackingError


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home with three finished runs, each with a logged model."""
    found = Settings(home=tmp_path_factory.mktemp("registry"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PREFECT_HOME", "MPLCONFIGDIR"):
            patch.setenv(name, str(found.home / name))
        prepare_environment(found)
    rng = np.random.default_rng(1)
    for name in ("one", "two", "three"):
        run = runs.RunFolder.create(found, name, "ratings")
        model = RatingsModel.fit(
            rng.integers(0, 9, 60).astype(np.int32), rng.integers(0, 7, 60).astype(np.int32),
            rng.integers(1, 6, 60).astype(np.float32), RatingScale(1, 5, (1.0, 2.0, 3.0, 4.0, 5.0)),
            VBConfig(n_user_latents=1, n_item_latents=0, max_sweeps=3, restarts=1),
            user_ids=IdMap([f"u{k}" for k in range(9)]), item_ids=IdMap(np.arange(7)), seed=0,
        )  # fmt: skip
        model.save(run.path / "model")
        tracker = Tracker(run.path, found)
        tracker.start("predilect-ratings", {"predilect.family": "ratings"})
        tracker.metrics({"rmse": 0.9})
        tracker.model("ratings", run.path / "model", {"user": ["u1"], "item": [1]})
        tracker.finish("FINISHED")
        tracker.send()
        facts = {"run": {"family": "ratings", "seed": 0}, "dataset": {"digest": "d" * 64, "name": "stars"}}
        runs.write_json(run.path / runs.RESULTS, facts | {"split": {"kind": "stable:0.2"}})
        run.release()
    return found


def _registered(settings: Settings, run: str) -> registry.Version:
    return registry.register(settings, settings.runs / run)


def test_a_run_is_registered_once_with_what_it_is(settings: Settings) -> None:
    first = _registered(settings, "one")
    assert _registered(settings, "one").number == first.number
    assert len([v for v in registry.versions(settings, "ratings") if v.run == "one"]) == 1
    assert first.metrics["rmse"] == 0.9
    assert first.tags["predilect.split"] == "stable:0.2"
    assert registry.find(settings, "ratings", "one") == registry.find(settings, "ratings", str(first.number))
    with pytest.raises(ParameterError, match="no version of predilect-ratings"):
        registry.find(settings, "ratings", "nine")
    assert registry.versions(settings, "rankings") == []
    assert registry.by_alias(settings, "rankings") is None


def test_promotion_compares_with_the_basis_and_rollback_goes_back(settings: Settings) -> None:
    one, two, three = (_registered(settings, name) for name in ("one", "two", "three"))
    with pytest.raises(ParameterError, match="no earlier champion"):
        registry.rollback(settings, "ratings")
    registry.promote(settings, one, basis=None, reason="first")
    with pytest.raises(registry.ChampionMoved, match="was none when version"):
        registry.promote(settings, two, basis=None, reason="late")
    registry.promote(settings, two, basis=one.number, reason="better")
    with pytest.raises(registry.ChampionMoved, match=f"is version {two.number} now"):
        registry.promote(settings, three, basis=one.number, reason="late")
    registry.promote(settings, three, basis=two.number, reason="better")
    champion = registry.by_alias(settings, "ratings")
    assert champion is not None
    assert champion.run == "three"
    assert champion.tags["predilect.promoted_because"] == "better"
    now, was = registry.rollback(settings, "ratings")
    assert (now.run, was.run) == ("two", "three")
    assert "predilect.rolled_back" in was.tags
    assert registry.rollback(settings, "ratings")[0].run == "one"
    with pytest.raises(ParameterError, match="no earlier champion"):
        registry.rollback(settings, "ratings")


def test_history_survives_a_death_before_the_alias_moved(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    one, two, three = (_registered(settings, name) for name in ("one", "two", "three"))
    registry.promote(settings, one, basis=registry.ANY, reason="start")
    registry.promote(settings, two, basis=registry.ANY, reason="next")

    def dies(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "set_registered_model_alias", dies)
        with pytest.raises(KeyboardInterrupt):
            registry.promote(settings, three, basis=two.number, reason="dies")
    champion = registry.by_alias(settings, "ratings")
    assert champion is not None
    assert champion.run == "two"
    assert registry.rollback(settings, "ratings")[0].run == "one"


def test_of_two_processes_with_the_same_basis_one_promotes(settings: Settings) -> None:
    one, two, three = (_registered(settings, name) for name in ("one", "two", "three"))
    registry.promote(settings, one, basis=registry.ANY, reason="start")
    script = (
        "import sys, pathlib\n"
        "from predilect.tasks import registry\n"
        "from predilect.tasks.settings import Settings\n"
        "settings = Settings(home=pathlib.Path(sys.argv[1]))\n"
        "version = registry.find(settings, 'ratings', sys.argv[2])\n"
        "sys.stdin.readline() if print('ready', flush=True) is None else None\n"
        "try:\n"
        "    registry.promote(settings, version, basis=int(sys.argv[3]), reason='race')\n"
        "    print('promoted')\n"
        "except registry.ChampionMoved:\n"
        "    print('moved')\n"
    )
    words = [[sys.executable, "-c", script, str(settings.home), run, str(one.number)] for run in ("two", "three")]
    racers = [subprocess.Popen(w, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for w in words]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    said = [racer.communicate("go\n", timeout=120)[0].strip() for racer in racers]
    assert sorted(said) == ["moved", "promoted"]
    champion = registry.by_alias(settings, "ratings")
    assert champion is not None
    assert champion.number == (two, three)[said.index("promoted")].number


def test_champion_loads_anywhere_with_pinned_requirements(settings: Settings, tmp_path: Path) -> None:
    two = _registered(settings, "two")
    registry.promote(settings, two, basis=registry.ANY, reason="start")
    script = (
        "import sys, json, pandas as pd, mlflow\n"
        "where = 'models:/predilect-ratings@champion'\n"
        "model = mlflow.pyfunc.load_model(where)\n"
        "pins = open(mlflow.pyfunc.get_model_dependencies(where)).read().split()\n"
        "frame = pd.DataFrame({'user': ['u1', 'nobody'], 'item': [1, 2]})\n"
        "print(json.dumps([model.predict(frame)['mean'].tolist(), pins]))\n"
    )
    env = {"MLFLOW_TRACKING_URI": settings.mlflow_database, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    means, pins = json.loads(ran.stdout.splitlines()[-1])
    model = RatingsModel.load(registry.model_folder(settings, two))
    assert means == pytest.approx(model.scale.clip(model.predict_ids(["u1", "nobody"], [1, 2]).mean).tolist())
    assert all("==" in pin for pin in pins)
    assert registry.model_folder(settings, two) == registry.model_folder(settings, two)


def test_commands_list_promote_and_go_back(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from predilect.flows.cli import app

    monkeypatch.setenv("PREDILECT_HOME", str(settings.home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def said(*words: str) -> list[dict[str, object]]:
        ran = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        found = json.loads(ran.stdout.splitlines()[-1])
        return found if isinstance(found, list) else [found]

    said("promote", "ratings", "one", "--reason", "known to be good")
    said("promote", "ratings", "two")
    listed = {str(version["run"]): version for version in said("models", "ratings")}
    assert listed["two"]["aliases"] == ["champion"]
    assert said("rollback", "ratings")[0]["run"] == "one"
    with pytest.raises(ParameterError, match="choose one of ratings, rankings"):
        CliRunner().invoke(app, ["models", "films"], catch_exceptions=False)
    with pytest.raises(ParameterError, match="no version of predilect-ratings"):
        CliRunner().invoke(app, ["promote", "ratings", "99"], catch_exceptions=False)
    shown = CliRunner().invoke(app, ["models"], catch_exceptions=False)
    assert "RMSE 0.900" in shown.stdout


def test_a_store_that_is_away_is_one_sentence(settings: Settings) -> None:
    away = Settings(home=settings.home, tracking_uri="http://u:secret@127.0.0.1:9")
    with pytest.raises(TrackingError, match="nothing was promoted") as error:
        registry.by_alias(away, "ratings")
    assert "secret" not in str(error.value)
    (settings.runs / "half").mkdir()
    with pytest.raises(ParameterError, match="did not finish"):
        registry.register(settings, settings.runs / "half")
