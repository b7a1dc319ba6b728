"""What the report page of a rankings run shows: tables, plots and captions, from plain results."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from predilect.tasks import formatting, plots_rankings
from predilect.tasks.formatting import count, duration, interval, is_number, number, share
from predilect.tasks.rankings_tables import as_markdown, rank_interval
from predilect.tasks.report_common import MOST_ROWS, all_numbers, common, files, options_line
from predilect.tasks.words_rankings import MENUS

Json = Mapping[str, Any]
TEMPLATE = "report_rankings.html.j2"
STRIP = ("heldout_log_likelihood_ballot", "pair_accuracy", "log_likelihood", "bic")
PANELS = ("heldout_log_likelihood_ballot", "heldout_log_likelihood_choice", "pair_accuracy")
MOST_ITEMS = 25  # of a plot or heat map
MOST_PASTED = 100
SOURCES = {
    "bootstrap": "Intervals: 95 %, of {draws} bootstrap refits of all ballots",
    "information": "Intervals: 95 %, normal, of the observed information",
    "none": "There are no intervals",
}


def page(results: dict[str, Any]) -> dict[str, Any]:
    """The template's variables."""
    board = results.get("leaderboard") or []
    return {
        **common(results, STRIP, PANELS, "ballots", "ballots"),
        "calibration": results.get("calibration") or {},
        "segments": _segments(results),
        "sizes_line": _sizes_line(results),
        "intervals_line": _intervals_line(results),
        "board": board[:MOST_ROWS],
        "board_rows": [_board_row(row) for row in board[:MOST_ROWS]],
        "n_items": len(board),
        "pasted": as_markdown(board[:MOST_PASTED]) if board else "",
        "n_pasted": min(len(board), MOST_PASTED),
        "data_facts": _data_facts(results),
        "fit_facts": _fit_facts(results.get("fit") or {}),
        "search_line": _search_line(results.get("search") or {}),
        "figures": {name: Markup(svg) for name, svg in _figures(results).items()},
        "tables": _tables(results),
        "most_items": MOST_ITEMS,
    }


def _names(results: Json) -> list[str]:
    return list((results.get("items") or {}).get("names") or [])


def _board_row(row: Json) -> list[str]:
    return [
        count(row["rank"]),
        formatting.plain_value(row["name"], 60),
        interval(row["wins"], is_share=True),
        interval(row["first"], is_share=True),
        rank_interval(dict(row)),
        count(row["ballots"]),
    ]


def _segments(results: Json) -> list[dict[str, Any]]:
    """Each segment: its size, what it likes, what sets it apart, and its worths as a plot and as rows."""
    found, names = results.get("segments") or {}, _names(results)
    made: list[dict[str, Any]] = []
    if not found:
        return made
    order = (results.get("overall") or {}).get("order") or list(range(len(names)))
    every = [found["log_worths"][k][i] for k in range(found["n"]) for i in _shown(found, k, order)]
    ends = [end for each in every for end in (each["value"], each["low"], each["high"]) if is_number(end)]
    margin = 0.05 * (max(ends) - min(ends)) + 0.05
    limits = (min(ends) - margin, max(ends) + margin)
    for k in range(found["n"]):
        shown = _shown(found, k, order)
        theta = found["log_worths"][k]
        plot = plots_rankings.worths(k + 1, [(names[i], theta[i]) for i in shown], limits)
        apart = found["telling"][k]
        made.append(
            {
                "number": k + 1,
                "size": interval(found["shares"][k], is_share=True),
                "ballots": count(found["ballots"][k]),
                "assigned": count(found["assigned"][k]),
                "top": ", ".join(names[i] for i in apart["top"]),
                "more": ", ".join(f"{names[each['item']]} (odds ×{number(each['by'], 1)})" for each in apart["more"]),
                "less": ", ".join(f"{names[each['item']]} (odds ÷{number(each['by'], 1)})" for each in apart["less"]),
                "plot": Markup(plot),
                "rows": [_worth_row(found, k, i, names) for i in shown],
            }
        )
    return made


def _shown(found: Json, k: int, order: list[int]) -> list[int]:
    """Items of a plot of worths: all, best of the segment first, or of many the best and the worst."""
    ranked = sorted(order, key=lambda i: -found["log_worths"][k][i]["value"])
    return ranked if len(ranked) <= MOST_ITEMS else ranked[: MOST_ITEMS - 5] + ranked[-5:]


def _worth_row(found: Json, k: int, i: int, names: list[str]) -> list[str]:
    errors, quasi = found["standard_errors"][k], found["quasi_variances"][k]
    rank = found["ranks"][k][i]
    low_high = rank_interval({"rank_low": rank["low"], "rank_high": rank["high"]})
    if is_number(rank["low"]) and is_number(rank["high"]):
        low_high = f"{rank['low']:.0f}–{rank['high']:.0f}" if rank["low"] != rank["high"] else f"{rank['low']:.0f}"
    return [
        names[i],
        interval(found["log_worths"][k][i]),
        number(errors[i]) if errors else formatting.NOTHING,
        number(quasi[i] ** 0.5) if quasi and is_number(quasi[i]) else formatting.NOTHING,
        interval(found["worths"][k][i], is_share=True),
        f"{rank['value']:.0f} ({low_high})",
    ]


def _sizes_line(results: Json) -> str:
    found = results.get("segments") or {}
    if not found:
        return ""
    if found["n"] == 1:
        return "One segment: everybody is taken to share one set of worths."
    return (
        f"{count(found['n'])} segments, the largest first. On average a ballot belongs to its likeliest segment with "
        f"probability {share(found.get('certainty'))}: "
        + ("they are well apart." if found.get("certainty", 0) > 0.8 else "they overlap, so read sizes, not labels.")
    )


def _intervals_line(results: Json) -> str:
    found = (results.get("segments") or {}).get("intervals") or {}
    said = SOURCES.get(found.get("kind", "none"), "").format(draws=count(found.get("draws")))
    lost = (found.get("disconnected") or 0) + (found.get("emptied") or 0)
    return said + (f"; {count(lost)} of {count(found.get('refits'))} refits were degenerate." if lost else ".")


def _data_facts(results: Json) -> list[tuple[str, str]]:
    data, split, parameters = (results.get(part) or {} for part in ("dataset", "split", "parameters"))
    facts = [("Name", data.get("name")), ("Ballots", count(data.get("n_ballots")))]
    facts += [("Distinct", count(data.get("rows"))), ("Items", count(data.get("n_items")))]
    if data.get("n_items_unranked"):
        facts.append(("Never ranked", f"{count(data['n_items_unranked'])} items"))
    facts.append(("Menu", MENUS.get(parameters.get("menu", ""), parameters.get("menu"))))
    lengths = {int(size): n for size, n in (data.get("lengths") or {}).items()}
    if lengths:
        span = f"{min(lengths)} to {max(lengths)}" if len(lengths) > 1 else f"{min(lengths)}"
        facts.append(("Items a ballot", f"{span}, mean {number(data.get('mean_length'), 2)}"))
    facts += [("Weights", "given" if data.get("weighted") else "equal"), ("Test part", split.get("kind"))]
    facts += [("Fitted on", f"{count(split.get('train_rows'))} ballots")]
    if split.get("test_rows"):
        facts.append(("Tested on", f"{count(split['test_rows'])} ballots"))
    if left_out := data.get("left_out"):
        facts.append(("Left out", f"{count(left_out.get('count'))} ballots: {left_out.get('reason')}"))
    options = {name: value for name, value in (data.get("options") or {}).items() if name != "ties"}
    ties = (data.get("options") or {}).get("ties") or {}
    facts += [("Read by", f"{data.get('reader')}, form {data.get('form')}"), ("Ties inside a ballot", ties.get("rule"))]
    facts += [("Reader options", options_line(options)), ("Source", files(data.get("source")))]
    facts.append(("Digest", f"sha256 {data['digest']}" if data.get("digest") else ""))
    return [(label, text) for label, text in facts if text]


def _fit_facts(fit: Json) -> list[tuple[str, str]]:
    starts = fit.get("starts") or []
    kinds = {kind: sum(start["kind"] == kind for start in starts) for kind in ("spectral", "random", "moved", "given")}
    facts = [
        ("Final log-likelihood", number(fit.get("log_likelihood"), 3)),
        ("BIC", number(fit.get("bic"), 1)),
        ("Parameters", count(fit.get("n_parameters"))),
        ("Converged", "yes" if fit.get("converged") else "no"),
        ("Largest derivative", f"{fit['certificate']:.1e} of all weight" if is_number(fit.get("certificate")) else ""),
        ("Passes", count(fit.get("n_passes"))),
        ("Starts", ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n)),
        ("Solver", (fit.get("config") or {}).get("solver")),
        ("Prior nu", number((fit.get("config") or {}).get("nu"), 2) if (fit.get("config") or {}).get("nu") else ""),
        ("Time", duration(fit.get("seconds"))),
    ]
    return [(label, text) for label, text in facts if text and text != formatting.NOTHING]


def _search_line(search: Json) -> str:
    chosen = (search.get("chosen") or {}).get("k")
    if search.get("kind") == "none":
        return f"None: K = {chosen} was given."
    said = f"{count(len(search.get('candidates') or []))} numbers of segments, {count(search.get('n_fits'))} fits"
    said += f"; held-out ballots prefer K = {search.get('best_held_out')}, BIC prefers K = {search.get('best_bic')}"
    by = {"bic": "BIC", "held_out": "held-out log-likelihood"}.get(search.get("criterion", ""), "")
    said += f"; chosen by {by}: K = {chosen}"
    return said + (f"; stopped by {search['stopped_by']}." if search.get("stopped_by") else ".")


def _figures(results: Json) -> dict[str, str]:
    """Every plot the results have numbers for, by name."""
    drawn: dict[str, str] = {}
    search, fit, calibration = (results.get(part) or {} for part in ("search", "fit", "calibration"))
    candidates = search.get("candidates") or []
    chosen = (search.get("chosen") or {}).get("k")
    if len(candidates) > 1:
        drawn["k_curve"] = plots_rankings.k_curve(candidates, chosen)
        drawn["bic_curve"] = plots_rankings.bic_curve(candidates, chosen)
    if all_numbers(fit.get("log_likelihood_trace"), at_least=3):
        drawn["likelihood"] = plots_rankings.likelihood(fit["log_likelihood_trace"])
    records = [record for record in fit.get("starts") or [] if is_number(record.get("value"))]
    if len(records) > 1:
        drawn["starts"] = plots_rankings.starts(records)
    if all_numbers(calibration.get("predicted")):
        drawn["calibration"] = plots_rankings.calibration(
            calibration["predicted"], calibration["observed"], calibration["weight"]
        )
    found, together, names = results.get("segments") or {}, results.get("overall") or {}, _names(results)
    if found and together:
        drawn["ranks"] = _rank_map(found, together, names)
        drawn["wins"] = _win_map(together, names)
    return drawn


def _rank_map(found: Json, together: Json, names: list[str]) -> str:
    shown = together["order"][:MOST_ITEMS]
    columns = [together["ranks"]] * (found["n"] > 1) + list(found["ranks"])
    heads = ["all"] * (found["n"] > 1) + [
        f"segment {k + 1}" if found["n"] <= 4 else f"{k + 1}" for k in range(found["n"])
    ]
    cells = [[column[i]["value"] for column in columns] for i in shown]
    texts = [[f"{rank:.0f}" for rank in row] for row in cells]
    strength = [[1 - (rank - 1) / max(len(names) - 1, 1) for rank in row] for row in cells]
    said = "; ".join(f"{names[i]} {', '.join(row)}" for i, row in zip(shown, texts, strict=True))
    return plots_rankings.heat("ranks", f"Ranks by segment: {said}.", [names[i] for i in shown], heads, texts, strength)


def _win_map(together: Json, names: list[str]) -> str:
    matrix = together["matrix"]
    n_shown = min(len(matrix["items"]), 15)
    shown = [names[i] for i in matrix["items"][:n_shown]]
    chance = [row[:n_shown] for row in matrix["chance"][:n_shown]]
    texts = [[f"{100 * p:.0f}" if y != x else "" for x, p in enumerate(row)] for y, row in enumerate(chance)]
    strength = [[2 * (p - 0.5) for p in row] for row in chance]
    said = f"Chance in per cent that the row's item comes before the column's, {n_shown} items"
    return plots_rankings.heat("wins", f"{said}.", shown, shown, texts, strength)


def _tables(results: Json) -> dict[str, list[list[str]]]:
    """The numbers behind the plots, as rows of text."""
    calibration, found, names = (results.get(part) or {} for part in ("calibration", "segments", "items"))
    together = results.get("overall") or {}
    labels = names.get("names") or []
    matrix = together.get("matrix") or {"items": [], "chance": []}
    ranked: list[list[str]] = []
    for i in (together.get("order") or [])[:MOST_ROWS]:
        ranks = [together["ranks"][i], *(part[i] for part in found["ranks"])]
        ranked.append([labels[i], *(_rank_text(rank) for rank in ranks)])
    return {
        "calibration": [
            [share(p), share(o), count(w)]
            for p, o, w in zip(
                calibration.get("predicted") or [], calibration.get("observed") or [], calibration.get("weight") or [],
                strict=True,
            )
        ],
        "ranks": ranked,
        "wins_head": ["", *(labels[i] for i in matrix["items"])],
        "wins": [
            [labels[i], *(share(p, 0) for p in row)]
            for i, row in zip(matrix["items"], matrix["chance"], strict=True)
        ],
        "search": [
            [
                count(line["k"]),
                number(line["held_out"], 4),
                number(line["standard_error"], 4),
                number(line["bic"], 1),
                number(line["log_likelihood"], 2), " ".join(number(value) for value in line["fold_held_out"]),
            ]
            for line in (results.get("search") or {}).get("candidates") or []
        ],
    }  # fmt: skip


def _rank_text(rank: Json) -> str:
    if not (is_number(rank.get("low")) and is_number(rank.get("high"))):
        return f"{rank['value']:.0f}"
    return f"{rank['value']:.0f} [{rank['low']:.0f}, {rank['high']:.0f}]"
