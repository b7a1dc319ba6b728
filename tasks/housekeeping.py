"""Retention: which runs, logs, quarantined rows, search journals and flow runs are old enough to go, and their going.

A run goes from MLflow first (with its children, models and artifacts) and from its folder last, so a housekeeping that
dies half way finds the rest next time.
"""

import contextlib
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from predilect.models.errors import DataError
from predilect.tasks import processes, runs
from predilect.tasks.parameters_housekeeping import HousekeepingParameters
from predilect.tasks.prefect_housekeeping import housekeep_flow_runs, reached
from predilect.tasks.quarantine import QUARANTINE
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import JOURNAL, delete_run, flow_run_of, store, whole_journal

DAY = 86_400.0


def housekeep(settings: Settings, parameters: HousekeepingParameters) -> list[dict[str, Any]]:
    """What goes (or would, in a dry run): kind, name, age in days, bytes, and why.

    Flow runs go through the Prefect server, where it is up. Raises DataError when MLflow's store cannot be asked which
    models are registered; then nothing goes.
    """
    gone = []
    for kind, path, why in _old(settings, parameters):
        age = (time.time() - _time(path)) / DAY
        size = sum(each.stat().st_size for each in path.rglob("*") if each.is_file()) if path.is_dir() else 0
        size = size or path.stat().st_size
        name = path.name if kind == "run" else str(path.relative_to(settings.state))
        gone.append({"kind": kind, "name": name, "days": round(age, 1), "bytes": size, "why": why})
        if not parameters.dry_run:
            _remove(settings, kind, path)
    if server := reached(settings):
        going = {each["name"] for each in gone if each["kind"] == "run"}
        staying = (path.parent for path in settings.runs.glob(f"*/{JOURNAL}") if path.parent.name not in going)
        kept = {run for folder in staying if (run := flow_run_of(folder))}
        gone += housekeep_flow_runs(server, parameters, kept)
    processes.rotate_logs(settings.services)
    return gone


def _old(settings: Settings, parameters: HousekeepingParameters) -> Iterator[tuple[str, Path, str]]:
    going = dict(_old_runs(settings, parameters))
    for folder, why in going.items():
        yield "run", folder, why
    before = time.time() - parameters.file_days * DAY
    why = f"older than {parameters.file_days} days"
    for path in sorted(settings.runs.glob(f"*/{QUARANTINE}")):
        if path.parent not in going and path.stat().st_mtime < before and not (path.parent / runs.LOCK).exists():
            yield "quarantine", path, why
    for path in sorted((settings.services / "logs").glob("*.log.*")):
        if path.stat().st_mtime < before:
            yield "log", path, why
    for path in sorted((settings.state / "searches").glob("*.jsonl")):
        if path.stat().st_mtime < before:
            yield "search journal", path, why
    for path in sorted((settings.state / "fits").glob("*")):
        if path.stat().st_mtime < before:
            yield "checkpoints of a fit", path, why


def _old_runs(settings: Settings, parameters: HousekeepingParameters) -> Iterator[tuple[Path, str]]:
    """Run folders to go, each with the reason; never one at work, one not yet logged, or one of a registered model."""
    finished = defaultdict(list)
    registered = _registered(settings)
    for folder in sorted(settings.runs.glob("*")):
        if not (folder / JOURNAL).is_file() or (folder / runs.LOCK).exists() or (folder / ".untracked").exists():
            continue
        events = whole_journal(folder)
        if not events or events[-1]["do"] != "finish" or runs.mlflow_id(folder) in registered:
            continue
        if events[-1]["status"] == "FINISHED":
            finished[events[0]["experiment"]].append(folder)
        elif time.time() - _time(folder) > parameters.failed_days * DAY:
            yield folder, f"{events[-1]['status'].lower()}, older than {parameters.failed_days} days"
    for folders in finished.values():
        newest_first = sorted(folders, key=_time, reverse=True)
        for folder in newest_first[parameters.keep :]:
            if time.time() - _time(folder) > parameters.days * DAY:
                yield folder, f"older than {parameters.days} days, not among the newest {parameters.keep}"


def _registered(settings: Settings) -> set[str]:
    try:
        with store(settings) as client:
            return {version.run_id for version in client.search_model_versions()}
    except Exception as error:
        raise DataError(f"MLflow's store does not say which models are registered; nothing goes ({error}).") from error


def _time(path: Path) -> float:
    """When a file was written, or when a run ended."""
    journal = path / JOURNAL
    return (journal if journal.is_file() else path).stat().st_mtime


def _remove(settings: Settings, kind: str, path: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    run_id = runs.mlflow_id(path) if kind == "run" else None
    if run_id:
        delete_run(settings, run_id)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
