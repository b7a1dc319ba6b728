"""What the report page of a ratings run shows: tables, plots and captions, from plain results."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from predilect.tasks import formatting, plots, report_chains
from predilect.tasks.formatting import (
    compact,
    count,
    duration,
    interval,
    is_number,
    number,
    scale_range,
    share,
    time_span,
)
from predilect.tasks.report_common import MOST_ROWS, all_numbers, common, files, options_line

TEMPLATE = "report_ratings.html.j2"
STRIP = ("mae_rounded", "rmse", "log_predictive_density", "coverage_90", "ndcg_10")
PANELS = ("mae_rounded", "mae", "rmse", "log_predictive_density")
QUANTILES = ("q05", "q25", "q50", "q75", "q95")
SPLIT_PARTS = (("Trained on", "train_rows"), ("Tested on", "test_rows"))


def page(results: dict[str, Any]) -> dict[str, Any]:
    """The template's variables."""
    return {
        **common(results, STRIP, PANELS, "ratings", "users"),
        "calibration": results.get("calibration") or {},
        "cold_start": results.get("cold_start") or {},
        "data_facts": _data_facts(results),
        "search_line": _search_line(results),
        "fit_facts": _fit_facts(results.get("fit") or {}),
        "figures": {name: Markup(svg) for name, svg in _figures(results).items()},
        "coverage_says": _coverage_says(results.get("calibration") or {}),
        "tables": _tables(results),
        "chains": report_chains.chains(results.get("fit") or {}),
        "features": report_chains.features(results.get("fit") or {}),
    }


def _data_facts(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) of everything known about the data and its split."""
    data, split, contract = (results.get(part) or {} for part in ("dataset", "split", "contract"))
    rows, n_users, n_items = (data.get(key) for key in ("rows", "n_users", "n_items"))
    facts = [("Name", data.get("name")), ("Ratings", count(rows))]
    if n_users and n_items:
        filled = f" ({share(rows / (n_users * n_items), 2)} rated)" if rows else ""
        facts.append(("Users × items", f"{count(n_users)} × {count(n_items)}{filled}"))
    if scale := data.get("scale"):
        levels = f"{len(scale['levels'])} levels" if scale.get("levels") else "any value"
        origin = "inferred from the data" if scale.get("inferred") else "as given"
        facts.append(("Scale", f"{scale_range(scale)}, {levels}, {origin}"))
    facts += [("Time span", time_span(data.get("time_span"))), ("Test part", split.get("kind"))]
    facts += [(label, f"{count(split[key])} ratings") for label, key in SPLIT_PARTS if is_number(split.get(key))]
    if is_number(split.get("unseen_rows")):
        strangers = f"{count(split.get('unseen_users'))} users, {count(split.get('unseen_items'))} items"
        strangers += f", in {count(split['unseen_rows'])} ratings scored from the prior"
        facts.append(("New in the test part", strangers if split["unseen_rows"] else "no user and no item"))
    if duplicates := data.get("duplicates"):
        merged = f"{count(duplicates.get('merged'))} merged" if duplicates.get("merged") else "none"
        facts.append(("Duplicated pairs", f"{merged}, policy “{duplicates.get('policy')}”"))
    if left_out := data.get("left_out"):
        why = f": {left_out['reason']}" if left_out.get("reason") else ""
        facts.append(("Left out", f"{count(left_out.get('count'))} rows{why}"))
    if is_number(contract.get("quarantined")):
        reasons = (contract.get("quarantine") or {}).get("reasons") or {}
        why = ": " + ", ".join(f"{reason} ({count(n)})" for reason, n in reasons.items()) if reasons else ""
        facts.append(("Quarantined", f"{count(contract['quarantined'])} rows{why}"))
    facts += [("Read by", data.get("reader")), ("Reader options", options_line(data.get("options") or {}))]
    facts += [
        ("Source", files(data.get("source"))),
        ("Digest", f"sha256 {data['digest']}" if data.get("digest") else ""),
    ]
    return [(label, text) for label, text in facts if text]


def _fit_facts(fit: Mapping[str, Any]) -> list[tuple[str, str]]:
    converged = "" if fit.get("converged") is None else "yes" if fit["converged"] else "no"
    facts = [("Sweeps", count(fit.get("n_sweeps"))), ("Converged", converged), ("Restarts", count(fit.get("restarts")))]
    facts += [
        ("Numbers learned", count(fit.get("n_parameters"))),
        ("Final bound", number((fit.get("bound") or [None])[-1])),
    ]
    facts.append(("Time", duration(fit.get("seconds"))))
    return [(label, text) for label, text in facts if text not in ("", formatting.NOTHING)]


def _search_line(results: Mapping[str, Any]) -> str:
    search, fit, given = (results.get(part) or {} for part in ("search", "fit", "parameters"))
    if search.get("kind") == "auto":
        kept, sds = fit.get("effective_dimensions"), fit.get("dimension_sd")
        found = f"; it kept {kept} of {len(sds)}" if is_number(kept) and sds else ""
        return f"Automatic: one empirical-Bayes fit in which unneeded dimensions die out{found}."
    if search.get("kind") == "none":
        return f"None: the structure {plots.structure(search.get('chosen') or given)} was given."
    said = (
        f"{str(search.get('kind') or 'search').capitalize()}: {count(len(search.get('candidates') or []))} candidates"
    )
    if is_number(search.get("n_fits")):
        said += f", {count(search['n_fits'])} fits"
        said += f" of at most {count(search['budget'])}" if is_number(search.get("budget")) else ""
    if search.get("chosen"):
        said += f"; chosen {plots.structure(search['chosen'])}"
    return said + (f"; stopped by {search['stopped_by']}." if search.get("stopped_by") else ".")


def _figures(results: Mapping[str, Any]) -> dict[str, str]:
    """Every plot the results have numbers for, by name."""
    fit, calibration = results.get("fit") or {}, results.get("calibration") or {}
    search, cold_start = results.get("search") or {}, results.get("cold_start") or {}
    candidates = [candidate for candidate in search.get("candidates") or [] if is_number(candidate.get("mae"))]
    drawn = {}
    if all_numbers(fit.get("bound"), at_least=2):
        drawn["bound"] = plots.bound(fit["bound"], (results.get("split") or {}).get("train_rows"))
    if all_numbers(fit.get("noise_sd"), at_least=2):
        drawn["noise"] = plots.noise(fit["noise_sd"])
    if all_numbers(fit.get("dimension_sd")):
        drawn["dimensions"] = plots.dimensions(fit["dimension_sd"], fit.get("effective_dimensions"))
    if all_numbers(calibration.get("nominal")) and all_numbers(calibration.get("covered")):
        drawn["coverage"] = plots.coverage(calibration["nominal"], calibration["covered"])
    if all_numbers(calibration.get("pit")):
        drawn["pit"] = plots.pit(calibration["pit"])
    if groups := _residual_groups(results):
        drawn["residuals"] = plots.residuals(groups)
    if len(candidates) > 1:
        drawn["search"] = plots.search_path(candidates, search.get("chosen"))
    if all_numbers(cold_start.get("kappa")) and all_numbers(cold_start.get("mae")):
        whole = {key: part for key, part in cold_start.items() if not isinstance(part, list) or all_numbers(part)}
        drawn["cold_start"] = plots.cold_start(whole)
    return drawn


def _coverage_says(calibration: Mapping[str, Any]) -> str:
    held = dict(zip(calibration.get("nominal") or [], calibration.get("covered") or [], strict=False))
    return f"90 % intervals hold {share(held[0.9])} of the ratings" if 0.9 in held else "Promised and held"


def _tables(results: Mapping[str, Any]) -> dict[str, list[list[str]]]:
    """The numbers behind the plots, as rows of text."""
    fit, calibration, study = (results.get(part) or {} for part in ("fit", "calibration", "cold_start"))
    bound, noise = fit.get("bound") or [], fit.get("noise_sd") or []
    sds, precisions = fit.get("dimension_sd") or [], fit.get("user_precisions") or []
    groups = _residual_groups(results)
    return {
        "trace": [
            [str(sweep), number(height), number(noise[sweep - 1]) if sweep <= len(noise) else ""]
            for sweep, height in enumerate(bound, 1)
        ][:MOST_ROWS],
        "dimensions": [
            [str(k), number(sd), number(precisions[k - 1]) if k <= len(precisions) else ""]
            for k, sd in enumerate(sds, 1)
        ],
        "coverage": [
            [share(promised, 0), share(held)]
            for promised, held in zip(calibration.get("nominal") or [], calibration.get("covered") or [], strict=False)
        ],
        "pit": [
            [f"{k} of {len(calibration['pit'])}", share(part)] for k, part in enumerate(calibration.get("pit") or [], 1)
        ],
        "residuals": [
            [compact(group["rating"]), count(group.get("n")), number(group["mean"], 2)]
            + [number(group[quantile], 2) for quantile in QUANTILES]
            for group in groups
        ],
        "cold_start": [_cold_start_row(study, k) for k in range(len(study.get("kappa") or []))],
    }


def _cold_start_row(study: Mapping[str, Any], k: int) -> list[str]:
    mae, low, high, efficiency = (
        (study.get(key) or [None] * (k + 1))[k] for key in ("mae", "low", "high", "efficiency")
    )
    folded = (study.get("fold_in") or {}).get("mae") or []
    row = [f"{study['kappa'][k]:g}", interval({"value": mae, "low": low, "high": high}), share(efficiency)]
    if len(folded) > k:
        row.append(number(folded[k]))
    if gain := study.get("side_information"):
        change = {"value": gain["difference"][k], "low": gain["low"][k], "high": gain["high"][k]}
        row += [number(gain["mae_of_other"][k]), interval(change, signed=True)]
    return row


def _residual_groups(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    keys = ("rating", "mean", *QUANTILES)
    return [group for group in results.get("residuals") or [] if all(is_number(group.get(key)) for key in keys)]
