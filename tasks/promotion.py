"""Whether a challenger becomes champion: the checks with their figures, the decision with its reasons, the card."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from predilect.tasks.formatting import interval, metric_of
from predilect.tasks.parameters_retrain import PromoteWhen
from predilect.tasks.retrain_family import Check, Comparison, Steps
from predilect.tasks.runs import write_json

Json = dict[str, Any]
SKIP, PROMOTE, REFUSE = "skip", "promote", "refuse"
DECISION, CARD = "decision.json", "card.md"


@dataclass
class Decision:
    """outcome: skip, promote or refuse. reasons: a sentence each. checks: all that was looked at, in order."""

    outcome: str
    reasons: list[str]
    checks: list[Check] = field(default_factory=list)
    comparison: Comparison | None = None
    facts: Json = field(default_factory=dict)

    def to_facts(self) -> Json:
        """For JSON."""
        comparison = self.comparison
        return {
            "outcome": self.outcome,
            "reasons": self.reasons,
            "checks": [check.facts() for check in self.checks],
            "differences": dict(comparison.differences) if comparison else None,
            **self.facts,
        }


def refused(failed: Sequence[Check], what: str) -> list[str]:
    """A reason for each failed check."""
    return [f"{what}: {check.name} is {check.value}; allowed is {check.allowed}." for check in failed]


def decide_first(steps: Steps, results: Mapping[str, Any]) -> Decision:
    """Without a champion: the challenger must beat the simplest baseline that knows anything."""
    gap = results.get("differences", {}).get(steps.baseline, {}).get(steps.headline)
    name = metric_of(steps.headline).label
    if gap is None:
        return Decision(REFUSE, [f"There is no champion, and no {name} against “{steps.baseline}” to judge by."])
    good = gap["low"] > 0 if steps.higher else gap["high"] < 0
    check = Check(f"{name} less that of “{steps.baseline}”", interval(gap, signed=True), _side(steps, 0.0), good)
    said = "is clearly better than" if good else "is not clearly better than"
    reason = f"There is no champion yet, and the challenger {said} “{steps.baseline}” ({name} {check.value})."
    return Decision(PROMOTE if good else REFUSE, [reason], [check])


def decide(steps: Steps, comparison: Comparison, parameters: Any) -> Decision:
    """Against the champion: the paired interval of the headline metric, then the guards."""
    gap = comparison.differences[steps.headline]
    label = metric_of(steps.headline).label
    limit = 0.0 if parameters.promote_when == PromoteWhen.better else parameters.tolerance
    good = gap["low"] > -limit if steps.higher else gap["high"] < limit
    check = Check(f"{label}, challenger less champion", interval(gap, signed=True), _side(steps, limit), good)
    failed = [guard for guard in comparison.guards if not guard.ok]
    sure = "better" if parameters.promote_when == PromoteWhen.better else "not worse"
    on = f"on {comparison.rows:,} rows held out from both"
    reasons = []
    if not good:
        worse = gap["high"] < 0 if steps.higher else gap["low"] > 0
        said = "The challenger is worse" if worse else f"The challenger is not shown to be {sure}"
        reasons.append(f"{said}: {label} differs by {check.value} {on}; allowed is {check.allowed}.")
    reasons += refused(failed, "Guard")
    if not reasons:
        reasons = [f"The challenger is {sure}: {label} differs by {check.value} {on}, and no guard got worse."]
    outcome = PROMOTE if good and not failed else REFUSE
    return Decision(outcome, reasons, [check, *comparison.guards], comparison)


def card(decision: Decision, steps: Steps) -> str:
    """The model card: the decision, what was looked at, and the figures of both, as Markdown."""
    facts = decision.facts
    lines = [f"# {facts.get('family', 'model').capitalize()}: {decision.outcome}", ""]
    lines += [f"- {reason}" for reason in decision.reasons]
    lines += ["", "| | |", "|---|---|"]
    lines += [f"| {name.replace('_', ' ')} | {_cell(value)} |" for name, value in facts.items() if value is not None]
    if decision.checks:
        lines += ["", "## What was looked at", "", "| check | found | allowed | |", "|---|---|---|---|"]
        for check in decision.checks:
            lines.append(f"| {_cell(check.name)} | {_cell(check.value)} | {_cell(check.allowed)} | {_mark(check)} |")
    if decision.comparison:
        both = decision.comparison
        lines += ["", f"## Challenger and champion on {both.rows:,} rows held out from both", ""]
        lines += ["| metric | challenger | champion | difference, paired 95 % interval |", "|---|---|---|---|"]
        for name, gap in both.differences.items():
            metric = metric_of(name)
            figures = [interval(one[name], metric.is_share) for one in (both.challenger, both.champion)]
            difference = interval(gap, metric.is_share, signed=True)
            lines.append(f"| {metric.label} | {figures[0]} | {figures[1]} | {difference} |")
        lines += ["", f"Decides: {metric_of(steps.headline).label}, {'higher' if steps.higher else 'lower'} is better."]
    return "\n".join(lines) + "\n"


def table(decision: Decision) -> list[Json]:
    """The checks as rows, for table artifacts."""
    rows = [{**check.facts(), "ok": _mark(check)} for check in decision.checks]
    return rows or [{"name": "decision", "value": decision.outcome, "allowed": "", "ok": ""}]


def write(folder: Path, decision: Decision, steps: Steps) -> list[Path]:
    """decision.json and card.md in the run folder."""
    write_json(folder / DECISION, decision.to_facts())
    (folder / CARD).write_text(card(decision, steps), encoding="utf-8")
    return [folder / DECISION, folder / CARD]


def tags(decision: Decision) -> dict[str, str]:
    """What MLflow's pages can be filtered by."""
    facts = {f"predilect.{name}": str(value) for name, value in decision.facts.items() if value is not None}
    return facts | {
        "predilect.decision": decision.outcome,
        "predilect.reasons": " ".join(decision.reasons)[:5000],
        "predilect.checks_failed": json.dumps([check.name for check in decision.checks if not check.ok]),
    }


def _side(steps: Steps, limit: float) -> str:
    return f"all of it above {0 - limit:g}" if steps.higher else f"all of it below {limit:g}"


def _mark(check: Check) -> str:
    return "✓" if check.ok else "✗"


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
