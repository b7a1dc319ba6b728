"""The model registry: versions of each family's model, which of them is champion, and how that changes.

The alias `champion` is what is served. It moves in one call to the store, under a lock of this home, and only when it
still stands where the mover saw it: so a process that dies at any point has promoted nothing, and of two that compared
with the same champion one is refused. Tags on the registered model remember the champions before.
"""

import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from predilect.models.errors import ParameterError, PredilectError
from predilect.tasks.addresses import first_line, shown
from predilect.tasks.output import new_folder
from predilect.tasks.patience import retried
from predilect.tasks.runs import RESULTS, mlflow_id, model_id, read_json
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import TrackingError, as_default, fetch_model, store

CHAMPION, CHALLENGER = "champion", "challenger"
HISTORY = "predilect.champions"
ABOUT = "Trained by Predilect; the alias champion is what is served, challenger the latest candidate."
ANY = -1
"""As `basis` of a promotion: whatever the champion is."""


class ChampionMoved(PredilectError):
    """The champion is no longer the one that the decision was about."""


@dataclass(frozen=True)
class Version:
    """One registered version. metrics: the figures of its training run; tags: of the version."""

    family: str
    number: int
    run_id: str
    run: str
    """Name of the training run."""
    source: str
    """`models:/…` address of the logged model."""
    aliases: tuple[str, ...]
    created: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]

    @property
    def name(self) -> str:
        """`predilect-ratings` version 3 is written so everywhere."""
        return f"{model_name(self.family)} version {self.number}"

    @property
    def uri(self) -> str:
        """What `mlflow.pyfunc.load_model` takes."""
        return f"models:/{model_name(self.family)}/{self.number}"


def model_name(family: str) -> str:
    """The registered model of a family."""
    return f"predilect-{family}"


@retried(TrackingError)
def register(settings: Settings, run: Path, tags: Mapping[str, str] | None = None) -> Version:
    """The version of a finished training run; made in one call, and only once a run.

    Raises ParameterError when the run has no finished model, TrackingError when the store cannot be written.
    """
    if not (run / RESULTS).is_file():
        raise ParameterError(f"RUN = {run.name!r}: it did not finish; register a run that `predilect runs` lists.")
    results, run_id = read_json(run / RESULTS), mlflow_id(run)
    family = results["run"]["family"]
    if run_id is None:
        raise ParameterError(f"RUN = {run.name!r} is not logged yet; run `predilect sync {run.name}` first.")
    with _locked(settings, family), _client(settings) as client:
        for found in _versions(client, family):
            if found.run_id == run_id:
                return found
        model = model_id(run)
        if model is None:
            raise ParameterError(f"RUN = {run.name!r}: no model of it is logged; train again.")
        known = {
            "predilect.family": family,
            "predilect.run": run.name,
            "predilect.digest": results["dataset"]["digest"],
            "predilect.dataset": results["dataset"]["name"],
            "predilect.split": results["split"]["kind"],
            "predilect.seed": str(results["run"]["seed"]),
        }
        if "unit" in results["split"]:
            known["predilect.unit"] = results["split"]["unit"]
        _ensure_model(client, family)
        with as_default(settings.mlflow_uri):  # MLflow looks the source up there
            made = client.create_model_version(
                model_name(family),
                source=f"models:/{model}",
                run_id=run_id,
                tags=known | dict(tags or {}),
                model_id=model,
            )
        return _version(client, family, made, {})


@retried(TrackingError)
def versions(settings: Settings, family: str) -> list[Version]:
    """All versions, newest first; none when nothing was registered."""
    with _client(settings) as client:
        return _versions(client, family)


@retried(TrackingError)
def by_alias(settings: Settings, family: str, alias: str = CHAMPION) -> Version | None:
    """The version that has the alias, None when none has."""
    with _client(settings) as client:
        number = _aliases(client, family).get(alias)
        return None if number is None else _get(client, family, number)


def find(settings: Settings, family: str, text: str) -> Version:
    """The version that `text` means: an alias, a number, or a run's name. Raises ParameterError when there is none."""
    for found in versions(settings, family):
        if text in (*found.aliases, str(found.number), f"v{found.number}", found.run, found.run_id):
            return found
    raise ParameterError(
        f"{text!r} is no version of {model_name(family)}; `predilect models` lists what there is."
        if text != CHAMPION
        else f"{model_name(family)} has no champion yet; run `predilect retrain {family}` or `predilect promote`."
    )


@retried(TrackingError)
def set_challenger(settings: Settings, version: Version) -> None:
    """Give the version the alias `challenger`."""
    with _locked(settings, version.family), _client(settings) as client:
        client.set_registered_model_alias(model_name(version.family), CHALLENGER, str(version.number))


@retried(TrackingError)
def tag(settings: Settings, version: Version, tags: Mapping[str, str]) -> None:
    """Say something of a version, and of its training run."""
    with _client(settings) as client:
        for key, value in tags.items():
            client.set_model_version_tag(model_name(version.family), str(version.number), key, value[:5000])
            client.set_tag(version.run_id, key, value[:5000])


@retried(TrackingError)
def describe(settings: Settings, version: Version, text: str) -> None:
    """Show `text` (Markdown) as the version's description."""
    with _client(settings) as client:
        client.update_model_version(model_name(version.family), str(version.number), text)


@retried(TrackingError)
def promote(settings: Settings, version: Version, *, basis: int | None, reason: str) -> None:
    """Make the version champion if the champion is still `basis` (a number, None: there was none, or ANY).

    Raises ChampionMoved, and changes nothing, when another version has become champion meanwhile.
    """
    with _locked(settings, version.family), _client(settings) as client:
        current = _aliases(client, version.family).get(CHAMPION)
        if current == version.number:  # perhaps by a process that died before it had noted why
            if "predilect.promoted" not in client.get_model_version(model_name(version.family), str(current)).tags:
                _note(client, version.family, current, reason)
            return
        if basis not in (ANY, current):
            seen, now = (f"version {n}" if n is not None else "none" for n in (basis, current))
            raise ChampionMoved(
                f"The champion of {model_name(version.family)} was {seen} when version {version.number} was compared "
                f"with it and is {now} now; compare again."
            )
        history = _history(client, version.family, current)
        _move(client, version.family, version.number, [*history, version.number], reason)


def rollback(settings: Settings, family: str, reason: str = "rolled back by hand") -> tuple[Version, Version]:
    """Make the champion before the present one champion again: (who is it now, who was it).

    Raises ParameterError when there was none before.
    """
    with _locked(settings, family), _client(settings) as client:
        current = _aliases(client, family).get(CHAMPION)
        there = {found.number for found in _versions(client, family)}
        history = [number for number in _history(client, family, current) if number in there]
        if current is None or len(history) < 2:
            raise ParameterError(f"{model_name(family)} has no earlier champion to go back to.")
        _move(client, family, history[-2], history[:-1], reason)
        client.set_model_version_tag(model_name(family), str(current), "predilect.rolled_back", _now())
        return _get(client, family, history[-2]), _get(client, family, current)


@retried(TrackingError)
def model_folder(settings: Settings, version: Version) -> Path:
    """The version's model folder on this machine, fetched from the store once; complete or absent."""
    folder = settings.state / "models" / f"{model_name(version.family)}-{version.source.rpartition('/')[2]}"
    if folder.is_dir():
        return folder
    with new_folder(folder, replace=False) as draft:
        try:
            fetched = fetch_model(settings, version.source, draft / ".fetched")
            for part in fetched.iterdir():
                shutil.move(str(part), draft / part.name)
        except Exception as error:
            raise TrackingError(
                f"{version.name} cannot be fetched from {shown(settings.mlflow_uri)} ({first_line(error)}); "
                "check that the tracking store is up."
            ) from error
        shutil.rmtree(draft / ".fetched", ignore_errors=True)
    return folder


@contextmanager
def _client(settings: Settings) -> Iterator[Any]:
    """The store's client; what goes wrong with it becomes one sentence."""
    try:
        with store(settings) as client:
            yield client
    except (PredilectError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise TrackingError(
            f"The model registry in {shown(settings.mlflow_uri)} failed ({first_line(error)}); nothing was promoted."
        ) from error


@contextmanager
def _locked(settings: Settings, family: str) -> Iterator[None]:
    """One process at a time changes a family's versions and aliases."""
    folder = settings.state / "registry"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{family}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ensure_model(client: Any, family: str) -> None:
    if not client.search_registered_models(f"name = '{model_name(family)}'"):
        client.create_registered_model(model_name(family), tags={"predilect.family": family}, description=ABOUT)


def _aliases(client: Any, family: str) -> dict[str, int]:
    found = client.search_registered_models(f"name = '{model_name(family)}'")
    return {alias: int(number) for alias, number in found[0].aliases.items()} if found else {}


def _versions(client: Any, family: str) -> list[Version]:
    aliases = _aliases(client, family)
    found = client.search_model_versions(f"name = '{model_name(family)}'")
    made = [_version(client, family, one, aliases) for one in found]
    return sorted(made, key=lambda version: -version.number)


def _get(client: Any, family: str, number: int) -> Version:
    found = client.get_model_version(model_name(family), str(number))
    return _version(client, family, found, _aliases(client, family))


def _version(client: Any, family: str, found: Any, aliases: Mapping[str, int]) -> Version:
    number, tags = int(found.version), dict(found.tags)
    try:
        metrics = dict(client.get_run(found.run_id).data.metrics)
    except Exception:  # the run was cleaned away; the version stands
        metrics = {}
    return Version(
        family=family,
        number=number,
        run_id=found.run_id,
        run=tags.get("predilect.run", found.run_id),
        source=found.source,
        aliases=tuple(sorted(alias for alias, other in aliases.items() if other == number)),
        created=datetime.fromtimestamp(found.creation_timestamp / 1000, UTC).isoformat(timespec="seconds"),
        tags=tags,
        metrics=metrics,
    )


def _history(client: Any, family: str, current: int | None) -> list[int]:
    """The champions so far, the present one last: what a process wrote that died before the alias moved is cut off."""
    if current is None:
        return []
    tags = client.get_registered_model(model_name(family)).tags
    known: list[int] = json.loads(tags.get(HISTORY, "[]"))
    if current not in known:  # the alias was moved in MLflow's own pages
        return [*known, current]
    return known[: len(known) - known[::-1].index(current)]


def _move(client: Any, family: str, number: int, history: list[int], reason: str) -> None:
    """The history first, then the alias, which decides; the version's own tags say when and why."""
    name = model_name(family)
    client.set_registered_model_tag(name, HISTORY, json.dumps(history[-100:]))
    client.set_registered_model_alias(name, CHAMPION, str(number))
    _note(client, family, number, reason)


def _note(client: Any, family: str, number: int, reason: str) -> None:
    name = model_name(family)
    client.set_model_version_tag(name, str(number), "predilect.promoted", _now())
    client.set_model_version_tag(name, str(number), "predilect.promoted_because", reason[:5000])


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
