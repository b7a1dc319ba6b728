"""The files that a rankings run leaves for people: worths, leaderboard, and the segment of every ballot."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from predilect.models.rankings import RankingsModel
from predilect.tasks.canonical_ballots import RankingsTable
from predilect.tasks.formatting import count, number, share

Json = dict[str, Any]
HEAD = ("rank", "item", "wins", "first", "rank interval", "ballots")


def leaderboard(items: Json, found: Json) -> list[Json]:
    """One row an item, best first: rank and its interval, id, name, chance to win and to be first, ballots."""
    rows = []
    for code in found["order"]:
        ranks = found["ranks"][code]
        rows.append(
            {
                "rank": int(ranks["value"]),
                "item": items["ids"][code],
                "name": items["names"][code],
                "wins": found["wins"][code],
                "first": found["first"][code],
                "rank_low": None if ranks["low"] is None else int(np.floor(ranks["low"])),
                "rank_high": None if ranks["high"] is None else int(np.ceil(ranks["high"])),
                "ballots": found["ballots"][code],
            }
        )
    return rows


def as_markdown(rows: list[Json]) -> str:
    """The leaderboard as a Markdown table, to paste."""
    lines = ["| rank | item | wins | first | rank interval | ballots |", "| ---: | :--- | ---: | ---: | ---: | ---: |"]
    for row in rows:
        name = " ".join(row["name"].split()).replace("\\", "\\\\").replace("|", "\\|")
        cells = [str(row["rank"]), name, _percent(row["wins"]), _percent(row["first"])]
        cells += [rank_interval(row), count(row["ballots"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def as_csv(rows: list[Json]) -> str:
    """The leaderboard as CSV, figures in full."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["rank", "rank_low", "rank_high", "item", "name", "wins", "wins_low", "wins_high",
                     "first", "first_low", "first_high", "ballots"])  # fmt: skip
    for row in rows:
        wins, first = row["wins"], row["first"]
        writer.writerow([row["rank"], row["rank_low"], row["rank_high"], row["item"], row["name"],
                         wins["value"], wins["low"], wins["high"], first["value"], first["low"], first["high"],
                         row["ballots"]])  # fmt: skip
    return out.getvalue()


def rank_interval(row: Json) -> str:
    """`2–4`, or one number when both ends are that."""
    low, high = row["rank_low"], row["rank_high"]
    if low is None or high is None:
        return "–"
    return str(low) if low == high else f"{low}–{high}"


def write_tables(run: Path, table: RankingsTable, model: RankingsModel, segments: Json, board: list[Json],
                 n_threads: int) -> None:  # fmt: skip
    """`worths.parquet` (a row a segment and item), `leaderboard.csv` and `.md`, `segments.parquet` (a row a distinct
    ballot of all the data, with the probability of each segment)."""
    _replace(run / "leaderboard.csv", lambda path: path.write_text(as_csv(board), encoding="utf-8"))
    _replace(run / "leaderboard.md", lambda path: path.write_text(as_markdown(board), encoding="utf-8"))
    ids, n_items = table.item_ids.ids, len(table.item_ids)
    columns: dict[str, Any] = {
        "segment": np.repeat(np.arange(1, segments["n"] + 1), n_items),
        "item": np.tile(ids, segments["n"]),
        "name": table.item_names * segments["n"],
    }
    for name, key in (("log_worth", "log_worths"), ("worth", "worths"), ("rank", "ranks")):
        for end in ("value", "low", "high"):
            values = [each[end] for part in segments[key] for each in part]
            columns[name if end == "value" else f"{name}_{end}"] = pa.array(values, pa.float64())
    for name, key in (("standard_error", "standard_errors"), ("quasi_variance", "quasi_variances")):
        values = [value for part in segments[key] for value in (part or [None] * n_items)]
        columns[name] = pa.array(values, pa.float64())
    _replace(run / "worths.parquet", lambda path: pq.write_table(pa.table(columns), path))
    posterior = model.responsibilities(table.ballots, n_threads)
    ballots = table.ballots
    lists = pa.ListArray.from_arrays(pa.array(ballots.offsets.astype(np.int32)), pa.array(ids[ballots.items].tolist()))
    found = {"items": lists, "count": ballots.counts, "segment": posterior.argmax(axis=1) + 1}
    found |= {f"probability_{k + 1}": posterior[:, k] for k in range(segments["n"])}
    _replace(run / "segments.parquet", lambda path: pq.write_table(pa.table(found), path))


def _replace(path: Path, write: Any) -> None:
    draft = path.with_name(f".{path.name}.part")
    write(draft)
    draft.rename(path)


def _percent(estimate: Json) -> str:
    said = share(estimate["value"])
    if estimate["low"] is None:
        return said
    return f"{said} [{number(100 * estimate['low'], 1)}, {number(100 * estimate['high'], 1)}]"
