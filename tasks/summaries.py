"""What a run learned in two sentences; the same facts as Markdown for Prefect and as tables for the terminal."""

import html
import re
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from predilect.tasks import words_clicks, words_clicks_reproduction, words_rankings, words_ratings, words_reproduction
from predilect.tasks.formatting import (
    MINUS,
    count,
    in_order,
    interval,
    is_number,
    metric_of,
    number,
    plain,
    share,
    verdict,
)

if TYPE_CHECKING:
    from rich.console import Group

Results = Mapping[str, Any]
# How a family tells what it learned: a module with HEADLINE, the metrics its baselines are ranked by, the first that is
# there; FIGURES, those listed beside a run; learned(results) and how_good(results, against), a sentence each; and
# fit_line(results).
FAMILIES = {
    "ratings": words_ratings,
    "rankings": words_rankings,
    "rankings-reproduction": words_reproduction,
    "clicks": words_clicks,
    "clicks-reproduction": words_clicks_reproduction,
}
SIGNS = {"better": "✓", "worse": "✗", "no clear difference": "≈"}


def sentences(results: Results) -> list[str]:
    """What was learned from what data, then how good it is: two plain sentences."""
    words = _words(results)
    return [words.learned(results), words.how_good(results, _against_baseline(results))]


def fit_line(results: Results) -> str:
    """How the fit went, in a line that ends in a full stop."""
    line: str = _words(results).fit_line(results)
    return line


def figures(results: Results) -> str:
    """The family's first few metrics on one line, such as `MAE, rounded 0.669 · RMSE 0.931`."""
    metrics = results.get("metrics") or {}
    shown = [(metric_of(name), metrics[name].get("value")) for name in _words(results).FIGURES if name in metrics]
    return " · ".join(f"{metric.label} {share(value) if metric.is_share else number(value)}" for metric, value in shown)


def _words(results: Results) -> ModuleType:
    return FAMILIES.get(str((results.get("run") or {}).get("family")), words_ratings)


def _against_baseline(results: Results) -> str:
    """`, clearly better than the “bias only” baseline (0.7)` by the headline metric; "" when there is none."""
    metrics = results.get("metrics") or {}
    for name in _words(results).HEADLINE:
        if not is_number((metrics.get(name) or {}).get("value")):
            continue
        for baseline, other in ranked_baselines(results).items():  # the strongest that can be compared
            gap = ((results.get("differences") or {}).get(baseline) or {}).get(name)
            found = verdict(name, gap)
            if found:
                more = gap["value"] > 0 if gap else False
                said = f"clearly {'more' if more else 'less'} than"
                said = "not clearly unlike" if found == "no clear difference" else said
                return f", {said} the “{baseline}” baseline ({number((other.get(name) or {}).get('value'))})"
        return ""
    return ""


def notices(results: Results) -> list[str]:
    """What a reader must know before trusting the run: a broken contract, no convergence, and every warning."""
    said = []
    contract, fit = results.get("contract") or {}, results.get("fit") or {}
    if contract.get("success") is False and contract.get("quarantined"):
        said.append(f"{count(contract['quarantined'])} rows broke the data contract and were set aside.")
    elif contract.get("success") is False:
        said.append(f"The data contract is broken: {contract_line(contract)}")
    if fit.get("converged") is False and "n_sweeps" in fit:
        said.append(f"The fit stopped after {count(fit.get('n_sweeps'))} sweeps before it converged; raise max_sweeps.")
    said += (results.get("dataset") or {}).get("warnings") or []
    said += [warning] if (warning := (results.get("search") or {}).get("warning")) else []
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
    for name in _words(results).HEADLINE:
        values = [(other.get(name) or {}).get("value") for other in baselines.values()]
        if all(is_number(value) for value in values):
            sign = -1 if metric_of(name).better == "higher" else 1
            return dict(sorted(baselines.items(), key=lambda pair: sign * float(pair[1][name]["value"])))
    return baselines


def metric_rows(results: Results) -> list[dict[str, Any]]:
    """The metrics in reading order: name, metric, value (its interval), and `against`, a dict a baseline (strongest
    first) with its own value, the paired difference (model minus baseline, "" when there is none) and its verdict."""
    metrics, differences = results.get("metrics") or {}, results.get("differences") or {}
    rows = []
    for name in in_order(list(metrics)):
        metric = metric_of(name, str((results.get("run") or {}).get("family")))
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


def _table_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _inert(text: object) -> str:
    """Text that neither Markdown nor HTML reads anything into, on one line."""
    flat = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", flat)


def data_line(dataset: Mapping[str, Any]) -> str:
    """How the data was read: by which reader, from which columns, on which scale; empty when nothing is known."""
    columns = (dataset.get("options") or {}).get("columns") or {}
    shown = ", ".join(f"{name} ← {column}" for name, column in columns.items())
    scale = dataset.get("scale") or {}
    said = [f"read by {dataset['reader']}" if dataset.get("reader") else "", shown]
    if scale.get("inferred"):
        kind = f"{len(scale['levels'])} levels" if scale.get("levels") else "continuous"
        said.append(f"scale {scale['low']:g} to {scale['high']:g}, {kind}, inferred")
    return "; ".join(filter(None, said))


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
    if read := data_line(results.get("dataset") or {}):
        parts.append(Text.assemble(("data      ", "dim"), read))
    parts.append(Text.assemble(("contract  ", "dim"), contract_line(results.get("contract"))))
    parts.append(Text.assemble(("fit       ", "dim"), fit_line(results)))
    return Group(*parts)
