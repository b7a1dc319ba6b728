"""What a run learned in two sentences; the same facts as Markdown for Prefect and as tables for the terminal."""

import html
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from predilect.tasks.formatting import (
    MINUS,
    count,
    duration,
    in_order,
    interval,
    is_number,
    metric_of,
    number,
    plain,
    scale_range,
    share,
    time_span,
    verdict,
)

if TYPE_CHECKING:
    from rich.console import Group

Results = Mapping[str, Any]
HEADLINE_METRICS = {
    "mae_rounded": "its guesses, rounded to a legal rating, miss by {} on average",
    "mae": "its guesses miss by {} on average",
    "rmse": "its guesses miss by {} (root mean square)",
}
SIGNS = {"better": "✓", "worse": "✗", "no clear difference": "≈"}


def sentences(results: Results) -> list[str]:
    """What was learned from what data, then how good it is: two plain sentences."""
    return [_what_was_learned(results), _how_good_it_is(results)]


def _what_was_learned(results: Results) -> str:
    data, split = results.get("dataset") or {}, results.get("split") or {}
    whose = f"how {count(data['n_users'])} users rate {count(data['n_items'])} items" if _sized(data) else "preferences"
    ratings = f"the {count(data.get('rows'))} ratings"
    if is_number(split.get("train_rows")) and split["train_rows"] != data.get("rows"):
        ratings = f"{count(split['train_rows'])} of {ratings}"
    facts = [scale_range(data.get("scale")), time_span(data.get("time_span"))]
    aside = f" ({', '.join(fact for fact in facts if fact)})" if any(facts) else ""
    return f"Predilect learned {whose} from {ratings} in {data.get('name') or 'an unnamed set'}{aside}."


def _sized(data: Results) -> bool:
    return is_number(data.get("n_users")) and is_number(data.get("n_items"))


def _how_good_it_is(results: Results) -> str:
    metrics = results.get("metrics") or {}
    name = next((name for name in HEADLINE_METRICS if is_number((metrics.get(name) or {}).get("value"))), None)
    if name is None:
        return "No ratings were held out, so how well it predicts is not known."
    unseen = (results.get("split") or {}).get("test_rows")
    said = f"On {f'the {count(unseen)} ratings' if is_number(unseen) else 'ratings'} it did not see, "
    said += HEADLINE_METRICS[name].format(interval(metrics[name]))
    said += _against_baseline(results, name)
    covered = (metrics.get("coverage_90") or {}).get("value")
    return said + (f"; its 90\u00a0% intervals hold {share(covered)} of them." if is_number(covered) else ".")


def _against_baseline(results: Results, name: str) -> str:
    words = {"better": "clearly less than", "worse": "clearly more than", "no clear difference": "not clearly unlike"}
    for baseline, other in ranked_baselines(results).items():  # the strongest that can be compared
        found = verdict(name, ((results.get("differences") or {}).get(baseline) or {}).get(name))
        if found:
            return f", {words[found]} the “{baseline}” baseline ({number((other.get(name) or {}).get('value'))})"
    return ""


def notices(results: Results) -> list[str]:
    """What a reader must know before trusting the run: a broken contract, no convergence, and every warning."""
    said = []
    contract, fit = results.get("contract") or {}, results.get("fit") or {}
    if contract.get("success") is False and contract.get("quarantined"):
        said.append(f"{count(contract['quarantined'])} rows broke the data contract and were set aside.")
    elif contract.get("success") is False:
        said.append(f"The data contract is broken: {contract_line(contract)}")
    if fit.get("converged") is False:
        said.append(f"The fit stopped after {count(fit.get('n_sweeps'))} sweeps before it converged; raise max_sweeps.")
    said += (results.get("dataset") or {}).get("warnings") or []
    return said + (results.get("warnings") or [])


def contract_line(contract: Results | None) -> str:
    """`6 of 6 rules hold on 100,000 rows; no row was set aside.`"""
    if not contract:
        return "No contract was checked."
    rules = contract.get("rules") or []
    n_held = sum(rule.get("success") is True for rule in rules)
    said = f"{n_held} of {len(rules)} rules hold"
    if is_number(contract.get("rows")):
        said += f" on {count(contract['rows'])} rows"
    aside = contract.get("quarantined")
    if is_number(aside):
        said += f"; {count(aside)} rows were set aside" if aside else "; no row was set aside"
    return said + "."


def ranked_baselines(results: Results) -> dict[str, Results]:
    """The baselines, strongest first by the headline metric that all of them have; in their own order without one."""
    baselines = {who: other or {} for who, other in (results.get("baselines") or {}).items()}
    for name in HEADLINE_METRICS:
        values = [(other.get(name) or {}).get("value") for other in baselines.values()]
        if all(is_number(value) for value in values):
            return dict(sorted(baselines.items(), key=lambda pair: float(pair[1][name]["value"])))
    return baselines


def metric_rows(results: Results) -> list[dict[str, Any]]:
    """The metrics in reading order: name, metric, value (its interval), and `against`, a dict a baseline (strongest
    first) with its own value, the paired difference (model minus baseline, "" when there is none) and its verdict."""
    metrics, differences = results.get("metrics") or {}, results.get("differences") or {}
    rows = []
    for name in in_order(list(metrics)):
        metric = metric_of(name)
        against = []
        for who, other in ranked_baselines(results).items():
            gap = (differences.get(who) or {}).get(name)
            against.append(
                {
                    "value": interval(other.get(name), metric.is_share),
                    "difference": interval(gap, metric.is_share, signed=True) if gap else "",
                    "verdict": verdict(name, gap),
                }
            )
        value = interval(metrics[name], metric.is_share)
        rows.append({"name": name, "metric": metric, "value": value, "against": against})
    return rows


def markdown_summary(results: Results) -> str:
    """The run as Markdown for a Prefect artifact. Text from the data is escaped: it shows as it is and does nothing."""
    results = plain(results)
    run = results.get("run") or {}
    lines = [f"# {_inert(run.get('name') or 'run')}", "", *(f"{_inert(said)}  " for said in sentences(results)), ""]
    if notices(results):
        lines += [*(f"- ⚠ {_inert(said)}" for said in notices(results)), ""]
    rows = metric_rows(results)
    if rows:
        head = ["metric", "model"]
        for who in ranked_baselines(results):
            head += [who, f"model {MINUS} {who}"]
        lines += [_table_row([_inert(cell) for cell in head]), "|" + " --- |" * len(head)]
        for row in rows:
            gaps = [(gap["value"], f"{gap['difference']} {SIGNS.get(gap['verdict'], '')}") for gap in row["against"]]
            lines.append(
                _table_row([_inert(row["metric"].label), row["value"], *(cell for pair in gaps for cell in pair)])
            )
        lines += ["", "Brackets are 95 % bootstrap intervals; ✓ better, ✗ worse, ≈ no clear difference.", ""]
    facts: dict[str, Any] = {"Contract": contract_line(results.get("contract")), "Fit": fit_line(results)}
    facts |= {"MLflow run": run.get("mlflow_run_id"), "Git": run.get("git_revision"), "Command": run.get("command")}
    lines.append("  \n".join(f"**{label}**: {_inert(fact)}" for label, fact in facts.items() if fact))
    return "\n".join(lines) + "\n"


def fit_line(results: Results) -> str:
    """`converged in 63 sweeps; 5 of 10 dimensions count; noise sd 0.890; 1.28 s.`"""
    fit = results.get("fit")
    if not fit:
        return "not recorded."
    said = []
    if is_number(fit.get("n_sweeps")):
        said.append(
            f"{'did not converge' if fit.get('converged') is False else 'converged'} in {count(fit['n_sweeps'])} sweeps"
        )
    if is_number(fit.get("effective_dimensions")):
        of = f" of {len(fit['dimension_sd'])}" if fit.get("dimension_sd") else ""
        said.append(f"{fit['effective_dimensions']:g}{of} dimensions count")
    if fit.get("noise_sd"):
        said.append(f"noise sd {number(fit['noise_sd'][-1])}")
    if is_number(fit.get("seconds")):
        said.append(duration(fit["seconds"]))
    return "; ".join(said) + "."


def _table_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _inert(text: object) -> str:
    """Text that neither Markdown nor HTML reads anything into, on one line."""
    flat = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", flat)


def terminal_summary(results: Results) -> "Group":
    """The run as rich renderables: the two sentences, notices, the metrics with their intervals, contract and fit."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    results = plain(results)
    parts: list[Any] = [Text(" ".join(sentences(results))), Text("")]
    parts += [Text.assemble(("! ", "bold yellow"), said) for said in notices(results)]
    rows = metric_rows(results)
    if rows:
        strongest = next(iter(ranked_baselines(results)), None)  # 80 columns have no room for more
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("metric")
        table.add_column("model", style="bold", justify="right", no_wrap=True)
        if strongest:
            table.add_column(Text(f"model {MINUS} {strongest}"), justify="right", no_wrap=True)
        colors = {"better": "green", "worse": "red"}
        for row in rows:
            cells = [Text(row["metric"].label), Text(row["value"])]
            for gap in row["against"][:1]:
                difference = f"{gap['difference']} {SIGNS.get(gap['verdict'], ' ')}"
                cells.append(Text(difference, style=colors.get(gap["verdict"], "")))
            table.add_row(*cells)
        parts.append(table)
    parts.append(Text.assemble(("contract  ", "dim"), contract_line(results.get("contract"))))
    parts.append(Text.assemble(("fit       ", "dim"), fit_line(results)))
    return Group(*parts)
