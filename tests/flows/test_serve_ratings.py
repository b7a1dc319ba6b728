"""The HTTP service by real requests: answers are the model's, mistakes are named, a new champion loses no request."""

import asyncio
import base64
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from predilect.flows.serve_ratings import create_app
from predilect.models.ids import IdMap
from predilect.models.ratings import RatingScale, RatingsModel, VBConfig
from predilect.models.ratings.groups import Group
from predilect.tasks import registry, runs
from predilect.tasks.settings import Settings, prepare_environment
from predilect.tasks.tracking import Tracker

AUTH = "maria:a long password"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home with two registered versions of other ratings, the first of them champion."""
    settings = Settings(home=tmp_path_factory.mktemp("served"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PREFECT_HOME", "MPLCONFIGDIR"):
            patch.setenv(name, str(settings.home / name))
        prepare_environment(settings)
    rng = np.random.default_rng(2)
    for name in ("one", "two"):
        run = runs.RunFolder.create(settings, name, "ratings")
        users, items = np.divmod(rng.permutation(30 * 20)[:400].astype(np.int32), 20)
        RatingsModel.fit(
            users, items, rng.integers(1, 6, 400).astype(np.float32), RatingScale(1, 5, (1, 2, 3, 4, 5)),
            VBConfig(n_user_latents=2, n_item_latents=0, max_sweeps=5, restarts=1),
            user_ids=IdMap([f"u{k:02}" for k in range(30)]), item_ids=IdMap(np.arange(20)), seed=0,
        ).save(run.path / "model")  # fmt: skip
        tracker = Tracker(run.path, settings)
        tracker.start("predilect-ratings", {"predilect.family": "ratings"})
        tracker.model("ratings", run.path / "model", {"user": ["u01"], "item": [1]})
        tracker.finish("FINISHED")
        tracker.send()
        facts = {"run": {"family": "ratings", "seed": 0}, "dataset": {"digest": "d" * 64, "name": "stars"}}
        runs.write_json(run.path / runs.RESULTS, facts | {"split": {"kind": "stable:0.2"}})
        run.release()
        registry.register(settings, run.path)
    registry.promote(settings, registry.find(settings, "ratings", "one"), basis=None, reason="first")
    return settings


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def _environment(settings: Settings, **more: str) -> dict[str, str]:
    return os.environ | {"PREDILECT_HOME": str(settings.home), "NO_COLOR": "1", "COLUMNS": "300"} | more


def _serve(settings: Settings, port: int, **more: str) -> subprocess.Popen[str]:
    command = [
        str(Path(sys.executable).with_name("predilect")),
        "serve",
        "ratings",
        "--port",
        str(port),
        "--every",
        "0.2",
    ]
    return subprocess.Popen(
        command, env=_environment(settings, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def client(served: Settings) -> Iterator[httpx.Client]:
    port = _free_port()
    process = _serve(served, port)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        for _ in range(600):
            try:
                client.get("/healthz")
                break
            except httpx.TransportError:
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.1)
        yield client
    process.terminate()
    assert process.wait(20) in (0, -15)


def _model(settings: Settings, name: str) -> RatingsModel:
    return RatingsModel.load(settings.runs / name / "model")


def test_answers_are_those_of_the_champion(served: Settings, client: httpx.Client) -> None:
    model, version = _model(served, "one"), registry.find(served, "ratings", "one")
    assert client.get("/healthz").json() == {
        "status": "ok", "model": version.uri, "run": "one", "users": 30, "items": 20
    }  # fmt: skip
    said = client.post("/predict", json={"users": ["u03", "nobody"], "items": [4, 4]}).json()
    expected = model.predict_ids(["u03", "nobody"], [4, 4])
    np.testing.assert_allclose(said["mean"], expected.mean)
    np.testing.assert_allclose(said["sd"], np.sqrt(expected.variance))
    assert said["known"] == [True, False]
    assert said["model"] == version.uri
    said = client.get("/recommend", params={"user": "u03", "n": 4, "exclude": [1, 2]}).json()
    items, expected = model.recommend("u03", 4, [1, 2])
    assert said["items"] == items.tolist()
    np.testing.assert_allclose(said["mean"], expected.mean)
    assert said["known"] is True
    assert client.get("/recommend", params={"user": "nobody"}).json()["known"] is False
    said = client.post("/fold-in", json={"items": [1, 2], "ratings": [5, 1], "n": 3}).json()
    assert said["items"] == model.fold_in([1, 2], [5, 1]).recommend(3)[0].tolist()
    said = client.post("/group", json={"users": ["u01", "u02"], "n": 3, "by": "least"}).json()
    items, found = Group.of(model, ["u01", "u02"]).recommend(3, "least")
    assert said["items"] == items.tolist()
    np.testing.assert_allclose(said["least"], found.least)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("POST", "/predict", {"users": ["u01"], "items": [1, 2]}), "there are 1 users and 2 items"),
        (("POST", "/predict", {"users": ["u01"]}), "items"),
        (("POST", "/fold-in", {"items": [1], "ratings": [9]}), "9"),
        (("POST", "/fold-in", {"items": [1], "ratings": [5], "size": 3}), "size"),
        (("POST", "/group", {"users": [], "n": 3}), "users"),
        (("GET", "/recommend?user=u01&n=-1", None), "n"),
    ],
)
def test_mistakes_are_named(client: httpx.Client, call: tuple[str, str, Any], said: str) -> None:
    answer = client.request(call[0], call[1], json=call[2])
    assert answer.status_code == 422
    assert said in answer.text
    assert "Traceback" not in answer.text


def test_the_api_explains_itself(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    assert {"/predict", "/recommend", "/fold-in", "/group", "/healthz", "/metrics"} <= set(described["paths"])
    assert described["components"]["schemas"]["Newcomer"]["properties"]["ratings"]["examples"] == [[5, 1]]


def test_a_new_champion_takes_over_and_loses_no_request(served: Settings, client: httpx.Client) -> None:
    failed: list[str] = []
    answered: set[str] = set()
    done = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=client.base_url, timeout=30) as own:
            while not done.is_set():
                answer = own.get("/recommend", params={"user": "u03", "n": 10})
                if answer.status_code != 200:
                    failed.append(answer.text)
                answered.add(answer.json()["model"])

    thread = threading.Thread(target=ask)
    thread.start()
    for turn in range(4):
        chosen = registry.find(served, "ratings", "two" if turn % 2 == 0 else "one")
        registry.promote(served, chosen, basis=registry.ANY, reason=f"turn {turn}")
        for _ in range(200):
            if client.get("/healthz").json()["model"] == chosen.uri:
                break
            time.sleep(0.05)
        else:
            pytest.fail(f"{chosen.name} never took over")
    done.set()
    thread.join()
    assert not failed
    assert len(answered) == 2
    figures = client.get("/metrics").text
    assert "predilect_model_swaps 4.0" in figures
    assert 'predilect_requests_total{path="/recommend",status="200"}' in figures


def test_beyond_loopback_a_password_is_asked_for(served: Settings) -> None:
    port = _free_port()
    bare = _serve(served, port, PREDILECT_HOST="0.0.0.0")
    assert "set PREDILECT_AUTH" in bare.communicate(timeout=60)[1]
    assert bare.returncode == 2
    process = _serve(served, port, PREDILECT_AUTH=AUTH)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            for _ in range(200):
                try:
                    assert client.get("/healthz").status_code == 200
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            assert client.get("/recommend", params={"user": "u03"}).status_code == 401
            signed = {"Authorization": "Basic " + base64.b64encode(AUTH.encode()).decode()}
            assert client.get("/recommend", params={"user": "u03"}, headers=signed).status_code == 200
        other = _serve(served, port)
        assert f"port {port} is taken by process {process.pid}" in other.communicate(timeout=60)[1].replace(
            "Port", "port"
        )
    finally:
        process.terminate()
        process.wait(20)


def _get(app: FastAPI, path: str) -> httpx.Response:
    """The answer of a service in this process."""

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            return await client.get(path)

    return asyncio.run(ask())


def test_a_registry_that_is_away_is_a_sentence(served: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise ConnectionError("no route to the store")

    monkeypatch.setattr(registry, "by_alias", away)
    app = create_app(served, 60)
    answer = _get(app, "/healthz")
    assert answer.status_code == 503
    assert "no route to the store" in answer.json()["detail"]
    assert "predilect_model_version 0.0" in _get(app, "/metrics").text
    app.state.champion.close()


def test_without_a_champion_one_sentence_until_there_is_one(served: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    champion = registry.by_alias(served, "ratings")
    found: list[registry.Version] = []
    monkeypatch.setattr(registry, "by_alias", lambda *_: found[0] if found else None)
    app = create_app(served, 0.05)
    for path in ("/healthz", "/recommend?user=u03"):
        answer = _get(app, path)
        assert answer.status_code == 503
        assert "has no champion yet" in answer.json()["detail"]
    assert champion is not None
    found.append(champion)
    for _ in range(200):
        if _get(app, "/healthz").status_code == 200:
            break
        time.sleep(0.05)
    assert _get(app, "/healthz").json()["model"] == champion.uri
    assert "predilect_model_swaps 0.0" in _get(app, "/metrics").text
    app.state.champion.close()
