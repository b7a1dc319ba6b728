"""Retraining of clicks: how files are read, what is watched in them, and how two models are compared."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from predilect.models.clicks import ClicksModel, score
from predilect.models.errors import DataError
from predilect.tasks.canonical_clicks import KINDS, ClicksTable
from predilect.tasks.clicks_evaluate import judge, test_rows
from predilect.tasks.clicks_fit import Parts, Rows, design_for
from predilect.tasks.clicks_metrics import estimates, gaps, measure
from predilect.tasks.clicks_source import read_clicks, wanted_columns
from predilect.tasks.parameters_clicks import NO_CONTEXT, NONE, ClicksParameters
from predilect.tasks.parameters_retrain import RetrainClicksParameters
from predilect.tasks.readers.clicks import choose_clicks
from predilect.tasks.readers.source import Source
from predilect.tasks.retrain_family import (
    Check,
    Comparison,
    Estimates,
    Json,
    Steps,
    appearances,
    coverage_check,
    dataset_of,
    in_cells,
    kinds,
    loss_check,
    new_share,
    psi_check,
    quantile_edges,
    share_check,
    size_check,
    time_check,
    type_checks,
)

FOLDERS = ("mind", "open_bandit")
"""Readers of folders, where a night is no file."""
TIMED_ROWS = 5_000


def read(path: Path, parameters: RetrainClicksParameters) -> pa.Table:
    """The canonical clicks of a file; of a log, a row a user, item and context."""
    if parameters.reader in FOLDERS:
        raise DataError(
            f"{path.name}: reader={parameters.reader} reads one folder, which cannot grow by files; write each night's "
            "impressions to a file with the columns user, item, clicked, time and the context."
        )
    source = Source(path)
    table = read_clicks(source, choose_clicks(source, parameters.reader), parameters).table
    if not table.num_rows:
        raise DataError(f"{path.name} holds no clicks; remove it or write it again.")
    return table


def profile(table: pa.Table) -> Json:
    """Rows, kinds of columns, users, items, the click rate, and how what is shown is distributed."""
    clicks, shown = _totals(table)
    known = {name: table[name].unique().to_pylist() for name in ("user", "item") if name in table.column_names}
    watched = {name: _cells(table, name, None) for name in _watched(table)}
    return {"rows": len(table), "kinds": kinds(table), "clicks": clicks, "impressions": shown, "known": known,
            "watched": watched}  # fmt: skip


def check(new: pa.Table, before: Json, parameters: RetrainClicksParameters) -> list[Check]:
    """The new rows against the profile of the previous data."""
    checks = type_checks(new, before["kinds"])
    if not all(one.ok for one in checks):
        return checks
    checks.append(rate_check(_totals(new), (before["clicks"], before["impressions"]), parameters.max_rate_ratio))
    for name, was in before["watched"].items():
        what = "impressions a row" if name == "impressions" else f"words of {_own(name)}" if "text." in name \
            else _own(name)  # fmt: skip
        checks.append(psi_check(what, _cells(new, name, was)["counts"], was["counts"], parameters.max_psi))
    limits = {"user": parameters.max_new_users_share, "item": parameters.max_new_items_share}
    for name, known in before["known"].items():
        checks.append(share_check(f"rows of new {name}s", new_share(new[name], known), limits[name]))
    return checks


def rate_check(new: tuple[int, int], before: tuple[int, int], limit: float) -> Check:
    """Clicks an impression against those before, (clicks, impressions) each, less two standard errors of chance."""
    rates = [(clicks + 0.5) / (shown + 1) for clicks, shown in (new, before)]
    chance = 2 * float(np.sqrt(sum(1 / (clicks + 0.5) for clicks, _ in (new, before))))
    found = abs(float(np.log(rates[0] / rates[1]))) - chance
    value = f"{rates[0]:.2%}, before {rates[1]:.2%}"
    return Check("click rate", value, f"{1 / limit:.3g} to {limit:g} times that", found <= float(np.log(limit)))


def plain(table: pa.Table, parameters: RetrainClicksParameters) -> tuple[pa.Table, Json]:
    """All rows under the users' own names for the columns, as a table of counts: a served model asks for these."""
    wanted = wanted_columns(parameters.reader, parameters)
    names, columns = [], {}
    given: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name in table.column_names:
        kind, _, own = name.partition(".")
        if name in ("user", "item", "time"):
            own = columns[name] = wanted.columns.get(name, name)
        elif name == "group":
            own = wanted.group or name
        elif kind in KINDS:
            given[kind].append(own)
        names.append(own or name)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"The column {twice[0]!r} would be two things at once; rename it in the files.")
    group = wanted.group if "group" in table.column_names else NONE
    columns |= {"impressions": "impressions", "clicks": "clicks"}
    return table.rename_columns(names), {
        "reader": "table", "columns": columns, "group": group, "texts": given["text"],
        "categories": given["category"], "numbers": given["number"],
    }  # fmt: skip


def compare(run: Path, champion: Path, parameters: RetrainClicksParameters) -> Comparison:
    """The models on the rows held out from both, drawn together by group, else by user, else one by one."""
    table, parts = ClicksTable.read(dataset_of(run)), Parts.read(run)
    models = [ClicksModel.load(run / "model"), ClicksModel.load(champion)]
    rows, _ = test_rows(models[0], table, parts, parameters)
    found = [measure(judge(model, table, parts.test, parameters)[1], rows) for model in models]
    ours, theirs = (estimates(*one) for one in found)
    between = gaps(*found[0], *found[1])
    checks = [
        *guards(ours, theirs, between, parameters),
        time_check([_predictions(model, table, parts.test) for model in models], parameters.max_latency_ratio),
        size_check(run / "model", champion, parameters.max_size_ratio),
    ]
    return Comparison(ours, theirs, between, len(parts.test), checks)


def guards(ours: Estimates, theirs: Estimates, between: Estimates, parameters: RetrainClicksParameters) -> list[Check]:
    """Coverage of the intervals of click counts, and how well clicks are told from passes."""
    found = [coverage_check("90 % intervals of click counts that hold", ours, theirs, parameters.max_coverage_loss)]
    if "auc" in between:
        values, gap = [one["auc"]["value"] for one in (ours, theirs)], between["auc"]
        found.append(loss_check("AUC", values, parameters.max_guard_loss, gap=gap, higher=True))
    return found


def _predictions(model: ClicksModel, table: ClicksTable, test: Rows) -> Callable[[], object]:
    """What is timed: the mean of rows, from their contexts."""
    rows = np.resize(test, TIMED_ROWS)
    return lambda: score(model, design_for(model, table, rows), ("mean",))


def _watched(table: pa.Table) -> list[str]:
    return ["impressions", *(name for name in table.column_names if name.partition(".")[0] in KINDS)]


def _cells(table: pa.Table, name: str, before: Json | None) -> Json:
    """How often each value of a column appears, or each word of a text; of a number, how many lie in each cell."""
    column = table[name]
    if pa.types.is_string(column.type):
        if name.startswith("text."):
            column = pc.list_flatten(pc.utf8_split_whitespace(pc.utf8_lower(column)))
        return {"counts": appearances(column, names=None if before is None else before["counts"])}
    values = column.drop_null().to_numpy()
    edges = quantile_edges(values) if before is None else before["edges"]
    return {"edges": edges, "counts": in_cells(values, edges)}


def _totals(table: pa.Table) -> tuple[int, int]:
    """Clicks and impressions of all rows."""
    return int(pc.sum(table["clicks"]).as_py() or 0), int(pc.sum(table["impressions"]).as_py() or 0)


def _own(name: str) -> str:
    return name.partition(".")[2]


STEPS = Steps(
    parameters=RetrainClicksParameters,
    training=ClicksParameters,
    table="clicks.parquet",
    rows="rows",
    read=read,
    profile=profile,
    check=check,
    headline="log_likelihood_row",
    higher=True,
    baseline=NO_CONTEXT,
    plain=plain,
    warm=lambda _champion, _parameters: None,
    compare=compare,
)
