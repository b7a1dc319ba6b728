"""The command line as a person uses it: real processes, one sentence for a mistake, nothing but JSON with --json."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from predilect.flows import cli_common
from predilect.tasks import runs, temporary_server
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import store
from predilect.tasks.training_run import training_run

COMMAND = str(Path(sys.executable).with_name("predilect"))


def _run(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PREDILECT", "PREFECT", "MLFLOW"))}
    return subprocess.run(
        [COMMAND, *words],
        env=plain | {"PREDILECT_HOME": str(home), **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "ratings"], "data: must be given"),
        (["train", "ratings", "--data", "nowhere.csv"], "nowhere.csv"),
        (["train", "rankings", "--data", "."], "the two are different models"),
        (["train", "rankings", "--data", "nowhere.soc", "--set", "menu=all"], "nowhere.soc"),
        (["reproduce", "rankings", "--data", "nowhere.soc"], "nowhere.soc"),
        (["train", "clicks", "--data", "nowhere.csv"], "nowhere.csv"),
        (["reproduce", "clicks", "--data", "nowhere.csv"], "nowhere.csv"),
        (["score", "clicks", "--model", "nobody", "--data", "a.parquet", "--out", "b.parquet"], "no run matches"),
        (["train", "ratings", "--data", ".", "--set", "tua=1"], "did you mean tau?"),
        (["train", "ratings", "--data", ".", "--set", "tau=-1"], "greater than 0"),
        (["train", "ratings", "--data", ".", "--config", "none.toml"], "none.toml"),
        (["train", "ratings", "--data", "ml-100k", "--data-dir", "nowhere"], "nowhere"),
        (["train", "ratings", "--data", ".", "--set", "reader=excel"], "reader = 'excel'"),
        (["train", "ratings", "--data", ".", "--name", "a/b"], "name = 'a/b'"),
        (["train", "ratings", "--data", "ml-100k"], "no data folder to look in"),
        (["report", "nothing"], "no run matches"),
        (["sync", "nothing"], "no run matches"),
    ],
)
def test_mistakes_are_one_sentence_before_any_work(tmp_path: Path, words: list[str], said: str) -> None:
    ran = _run(tmp_path, *words)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""
    assert not list((tmp_path / "state" / "runs").glob("*"))


def test_home_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    ran = _run(blocked / "home", "runs")
    assert ran.returncode == 2
    assert "PREDILECT_HOME" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_json_on_stdout_and_nothing_else(tmp_path: Path, ratings_csv: Path) -> None:
    words = ["--set", "resamples=100", "--set", "restarts=1", "--set", "max_sweeps=5", "--seed", "3", "--threads", "1"]
    ran = _run(tmp_path, "train", "ratings", "--data", str(ratings_csv), "--name", "one", "--json", *words)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["run"] == "one"
    assert found["parameters"]["seed"] == 3
    assert Path(found["model_path"], "manifest.json").is_file()
    listed = json.loads(_run(tmp_path, "runs", "--json").stdout)
    assert [(row["run"], row["status"], row["run_id"]) for row in listed] == [("one", "FINISHED", found["run_id"])]
    assert "one" in _run(tmp_path, "runs").stdout
    assert _run(tmp_path, "report", "on", "--no-open").stdout.strip() == found["report_path"]
    assert _run(tmp_path, "sync").stdout.startswith("Nothing waits")


def test_doctor_says_what_is_there(tmp_path: Path) -> None:
    ran = _run(tmp_path, "doctor", "--json", "--data-dir", str(tmp_path))
    assert ran.returncode == 0, ran.stdout
    checks = {check["name"]: check for check in json.loads(ran.stdout)}
    assert set(checks) >= {
        "packages",
        "threads",
        "home",
        "port 4200",
        "port 5000",
        "port 8000",
        "data folder",
        "tracking store",
    }
    bad = _run(tmp_path, "doctor", "--data-dir", str(tmp_path / "nowhere"), PREDILECT_TRACKING_URI="http://127.0.0.1:9")
    assert bad.returncode == 1
    assert "nowhere is not a folder" in bad.stdout
    assert "does not answer" in bad.stdout


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("raised", [None, RuntimeError("of a library that was interrupted"), OSError("closed")])
def test_a_signal_stops_a_run_whatever_it_raises_then(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sent: signal.Signals,
    code: int,
    raised: Exception | None,
) -> None:
    monkeypatch.setattr(temporary_server, "start", lambda: lambda: None)
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts without
    before = signal.getsignal(signal.SIGTERM)

    def run(_parameters: object) -> dict[str, Any]:
        with training_run(RatingsParameters(data="x", name="stopped"), "ratings", None):
            try:
                signal.raise_signal(sent)
            except KeyboardInterrupt:
                if raised:
                    raise raised from None
                raise
        return {}

    with pytest.raises(typer.Exit) as left:
        cli_common.call_flow(lambda: run, None)
    assert left.value.exit_code == code
    assert "Stopped. The run is marked KILLED" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.signal(signal.SIGINT, heard) == signal.default_int_handler
    with store(Settings()) as client:
        found = client.get_run(runs.mlflow_id(Settings().runs / "stopped") or "")
    assert found.info.status == "KILLED"


@pytest.mark.parametrize(
    ("sent", "code", "compute"), [(signal.SIGINT, 130, "processes"), (signal.SIGKILL, -9, "threads")]
)
def test_a_stopped_run_is_closed(
    tmp_path: Path, ratings_csv: Path, sent: signal.Signals, code: int, compute: str
) -> None:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PREDILECT", "PREFECT", "MLFLOW"))}
    words = ["--data", str(ratings_csv), "--name", "long", "--set", "max_sweeps=100000", "--set", "tolerance=1e-15"]
    (tmp_path / "uvicorn.py").write_text("raise SystemExit('a file of the user, called as a library is')\n")
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts without
    process = subprocess.Popen(
        [COMMAND, "train", "ratings", *words, "--set", "restarts=100", "--set", f"compute={compute}"],
        env=plain | {"PREDILECT_HOME": str(tmp_path)},
        cwd=tmp_path,
        stderr=open(tmp_path / "stderr", "w"),  # noqa: SIM115 (a pipe would be held by the server left behind)
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, heard)
    settings = Settings(home=tmp_path)
    folder = settings.runs / "long"
    end = time.monotonic() + 240
    while not (folder / ("orders" if compute == "processes" else "test_rows.npy")).exists():  # it fits
        assert time.monotonic() < end
        assert process.poll() is None, (tmp_path / "stderr").read_text()
        time.sleep(0.2)
    time.sleep(1)
    if sent == signal.SIGINT:  # a terminal sends it to all
        os.killpg(process.pid, sent)
    else:
        process.send_signal(sent)
    left_with = process.wait(timeout=240)
    errors = (tmp_path / "stderr").read_text()
    assert left_with == code, errors
    assert json.loads(_run(tmp_path, "runs", "--json").stdout)[0]["status"] == "KILLED"
    if sent != signal.SIGKILL:
        assert errors.splitlines()[-1].startswith("Stopped.")
        assert "Traceback" not in errors
    from mlflow import MlflowClient

    found = MlflowClient(f"sqlite:///{tmp_path / 'mlruns' / 'mlflow.db'}").get_run(runs.mlflow_id(folder) or "")
    assert found.info.status == "KILLED"
    assert not (folder / "model").exists()
    left = ["ps", "-s", str(process.pid), "-o", "stat=", "-o", "args="]
    found = subprocess.run(left, capture_output=True, text=True, check=False).stdout.splitlines()
    assert [line for line in found if not line.startswith("Z")] == []  # Prefect's temporary server, and workers
