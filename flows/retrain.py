"""The nightly retraining: find new data → check → train a challenger → compare with the champion → promote or refuse.

A flow for each family, all of them `retrain`. What a process leaves that dies on the way: finished search candidates
and a trained challenger, which the next night takes up; a version without an alias at most; the champion as it was.
"""

import hashlib
import json
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from predilect.flows.families import FAMILIES, Family
from predilect.flows.wiring import RETRY, as_task, link_runs
from predilect.models.errors import DataError
from predilect.tasks import promotion, registry, retrain_data, runs
from predilect.tasks.output import cannot_write
from predilect.tasks.parameters_retrain import (
    RetrainClicksParameters,
    RetrainRankingsParameters,
    RetrainRatingsParameters,
    training_parameters,
)
from predilect.tasks.patience import patience
from predilect.tasks.processes import own_output
from predilect.tasks.promotion import PROMOTE, REFUSE, SKIP, Decision
from predilect.tasks.retrain_data import Busy, Found, Memory
from predilect.tasks.retrain_family import Steps, volume_checks
from predilect.tasks.settings import Settings
from predilect.tasks.tracking import Tracker
from predilect.tasks.training_run import TrainingRun, training_run

ATTEMPTS = 3
"""Comparisons with a champion that another retraining replaces meanwhile, before giving up."""
STATES = {SKIP: "Skipped", PROMOTE: "Promoted", REFUSE: "Refused"}

find_task = as_task(retrain_data.find, "find new data", 1, **RETRY)
gather_task = as_task(retrain_data.gather, "read files", 6)
register_task = as_task(registry.register, "register", 1)


@flow(
    name="retrain-ratings", description="Retrain on new ratings; promote the challenger when it is shown to be better."
)
def retrain_ratings(parameters: RetrainRatingsParameters) -> State[dict[str, Any]]:
    """Retrain ratings; what `predilect retrain ratings --json` prints."""
    return retrain(FAMILIES["ratings"], parameters)


@flow(
    name="retrain-rankings", description="Refit on new rankings; promote the challenger when it is shown to be better."
)
def retrain_rankings(parameters: RetrainRankingsParameters) -> State[dict[str, Any]]:
    """Retrain rankings; what `predilect retrain rankings --json` prints."""
    return retrain(FAMILIES["rankings"], parameters)


@flow(name="retrain-clicks", description="Refit on new clicks; promote the challenger when it is shown to be better.")
def retrain_clicks(parameters: RetrainClicksParameters) -> State[dict[str, Any]]:
    """Retrain clicks; what `predilect retrain clicks --json` prints."""
    return retrain(FAMILIES["clicks"], parameters)


def retrain(family: Family, parameters: Any) -> State[dict[str, Any]]:
    """Skip, promote or refuse; the flow run's state is named after it, and its artifacts say why.

    Raises PredilectError when no decision could be made, as when the tracking store is away.
    """
    own_output()
    settings, steps = Settings(), family.steps()
    try:
        with patience(), retrain_data.memory(settings, family.name, parameters.data) as known:
            found = find_task(parameters.data, known)
            if not found.new:
                reason = f"Nothing new: all {len(found.files)} files were there on {known.watermark}."
                return _conclude(Decision(SKIP, [reason], facts={"family": family.name}), steps, known)
            name = parameters.name or f"retrain-{family.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
            experiment = f"predilect-{family.name}-retraining"
            named = parameters.model_copy(update={"name": name})
            with training_run(named, family.name, flow_run.id, "retrain", experiment) as run:
                decision = _decide(family, steps, named, run, known, found)
                for path in promotion.write(run.folder, decision, steps):
                    run.tracker.artifact(path)
                run.tracker.tags(promotion.tags(decision))
                run.tracker.table("decision_table.json", promotion.table(decision))
                link_runs(run, promotion.card(decision, steps))
            return _conclude(decision, steps, known)
    except Busy as busy:
        return _conclude(Decision(SKIP, [str(busy)], facts={"family": family.name}), steps, None)
    except OSError as error:
        raise cannot_write(settings.state, error) from error


def _decide(family: Family, steps: Steps, parameters: Any, run: TrainingRun, known: Memory, found: Found) -> Decision:
    facts = {
        "family": family.name,
        "retraining": run.folder.name,
        "watermark": found.watermark,
        "files_new": len(found.new),
        "files_all": len(found.files),
        "files_digest": found.digest,
    }
    with run.stage("check new data"):
        try:
            table, new = gather_task(found, lambda path: steps.read(path, parameters))
        except DataError as error:
            return Decision(REFUSE, [f"The new data cannot be read: {error}"], facts=facts)
        checks = []
        if known.profile:
            checks = volume_checks(len(new), len(table), known.profile["rows"], parameters)
            checks += steps.check(new, known.profile, parameters)
        facts |= {"rows_new": len(new), "rows_all": len(table)}
        failed = [check for check in checks if not check.ok]
        if failed:
            return Decision(REFUSE, promotion.refused(failed, "The new data"), checks, facts=facts)
    try:
        challenger = _challenger(family, steps, parameters, run, known, found, table)
    except DataError as error:
        return Decision(REFUSE, [f"The data break the contract or cannot be fitted: {error}"], checks, facts=facts)
    with run.stage("register"):
        Tracker(challenger, run.settings).send()  # an earlier attempt may have found the store away
        version = register_task(run.settings, challenger)
        registry.set_challenger(run.settings, version)
    facts |= {"challenger": version.name, "challenger_run": version.run, "digest": version.tags["predilect.digest"]}
    with run.stage("compare"):
        decision = _compare_and_promote(steps, parameters, run.settings, version, checks, facts)
    known.save(files=found.files, watermark=found.watermark, profile=steps.profile(table), pending=None)
    return decision


def _challenger(
    family: Family, steps: Steps, parameters: Any, run: TrainingRun, known: Memory, found: Found, table: Any
) -> Path:
    """The run folder of the challenger: trained now, or by an earlier attempt that died before it had decided."""
    asked = parameters.model_dump(mode="json", exclude={"name", "threads"})
    key = hashlib.sha256(json.dumps([found.digest, asked], sort_keys=True).encode()).hexdigest()
    if known.pending and known.pending["key"] == key:
        earlier: Path = run.settings.runs / known.pending["run"]
        if (earlier / runs.RESULTS).is_file():
            return earlier
    plain, source = steps.plain(table, parameters)
    data = retrain_data.write_table(known, found, parameters.data, steps.table, plain)
    training = training_parameters(parameters, steps.training, data=str(data), name=f"{parameters.name}-challenger",
                                   **source)  # fmt: skip
    champion = registry.by_alias(run.settings, family.name)
    if parameters.warm and champion:
        start = steps.warm(registry.model_folder(run.settings, champion), training)
        training = training.model_copy(update={"warm_start": start}) if start else training
    known.save(pending={"key": key, "run": training.name})
    family.training_flow()(training)
    return run.settings.runs / str(training.name)


def _compare_and_promote(
    steps: Steps, parameters: Any, settings: Settings, version: registry.Version, checks: list[Any], facts: Any
) -> Decision:
    """The decision, carried out: what is said of the version is written first, then the alias moves or stays."""
    for _ in range(ATTEMPTS):
        champion = registry.by_alias(settings, version.family)
        if champion and champion.number == version.number:
            reason = "The challenger is champion: a retraining that was cut short had promoted it."
            registry.promote(settings, version, basis=version.number, reason=reason)
            return Decision(PROMOTE, [reason], checks, facts=facts)
        decision = _judge(steps, parameters, settings, version, champion)
        decision.checks = [*checks, *decision.checks]
        decision.facts = facts | {"champion": champion.name if champion else None}
        registry.tag(settings, version, promotion.tags(decision))
        registry.describe(settings, version, promotion.card(decision, steps))
        if decision.outcome != PROMOTE:
            return decision
        try:
            basis = champion.number if champion else None
            registry.promote(settings, version, basis=basis, reason=" ".join(decision.reasons))
            return decision
        except registry.ChampionMoved:
            continue
    decision = Decision(REFUSE, [f"The champion moved during each of {ATTEMPTS} comparisons."], checks, facts=facts)
    registry.tag(settings, version, promotion.tags(decision))
    return decision


def _judge(
    steps: Steps, parameters: Any, settings: Settings, version: registry.Version, champion: registry.Version | None
) -> Decision:
    if champion is None:
        return promotion.decide_first(steps, runs.read_json(settings.runs / version.run / runs.RESULTS))
    for name in ("split", "seed", "unit"):
        ours, theirs = (one.tags.get(f"predilect.{name}") for one in (version, champion))
        if ours != theirs:
            reason = (
                f"The champion was trained with {name}={theirs}, the challenger with {name}={ours}: it may know the "
                f"held-out rows; give both the same {name}, or promote the challenger by hand."
            )
            return Decision(REFUSE, [reason])
    try:
        folder = registry.model_folder(settings, champion)
        comparison = steps.compare(settings.runs / version.run, folder, parameters)
    except DataError as error:
        return Decision(REFUSE, [str(error)])
    return promotion.decide(steps, comparison, parameters)


def _conclude(decision: Decision, steps: Steps, known: Memory | None) -> State[dict[str, Any]]:
    """Show the decision in Prefect, note it in the history, and name the flow run's state after it."""
    if known is not None:
        known.note(decision.to_facts())
    reasons = " ".join(decision.reasons)
    create_markdown_artifact(
        promotion.card(decision, steps), key="decision", description=f"{decision.outcome}: {reasons}"
    )
    create_table_artifact(promotion.table(decision), key="decision-checks", description="What was looked at")
    return Completed(name=STATES[decision.outcome], message=reasons[:2000], data=decision.to_facts())
