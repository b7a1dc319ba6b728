"""What the report page of a clicks run shows: tables, plots and captions, from plain results."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from predilect.tasks import formatting, plots_clicks
from predilect.tasks.formatting import count, duration, interval, is_number, metric_of, number, share
from predilect.tasks.report_common import common, files, options_line
from predilect.tasks.words_clicks import MODELS, precision_text

Json = Mapping[str, Any]
TEMPLATE = "report_clicks.html.j2"
STRIP = ("log_likelihood_row", "auc", "sauc", "coverage_90")
PANELS = ("log_likelihood_row", "log_likelihood_impression", "auc", "coverage_90")
SCORE_MEANINGS = {
    "mean": "what is expected",
    "ucbe": "mean and so many standard deviations of it",
    "ucqe": "upper quantile of the mean",
    "euq": "mean of the upper quantiles of the click probability",
    "ucquq": "upper quantile of those upper quantiles",
    "uqp": "upper quantile of the predictive distribution",
    "thompson": "one draw from the posterior of the mean",
}


def page(results: dict[str, Any]) -> dict[str, Any]:
    """The template's variables."""
    units = (results.get("bootstrap") or {}).get("units") or "rows"
    found = results.get("words") or {}
    return {
        **common(results, STRIP, PANELS, "rows", units),
        "calibration": results.get("calibration") or {},
        "words": found,
        "drift": results.get("drift"),
        "scatter": results.get("scatter") or {},
        "apart": [_apart_row(name, part) for name, part in (results.get("parts") or {}).items()],
        "apart_head": ["Part", "Rows", "Impressions", *(metric_of(name).label for name in PANELS)],
        "explored": _explored(results.get("exploration")),
        "exploration": results.get("exploration"),
        "data_facts": _data_facts(results),
        "fit_facts": _fit_facts(results.get("fit") or {}),
        "figures": {name: Markup(svg) for name, svg in _figures(results).items()},
        "tables": _tables(results),
        "meanings": SCORE_MEANINGS,
    }


def _apart_row(name: str, part: Json) -> list[str]:
    cells = [interval(part["metrics"].get(metric), metric_of(metric).is_share) for metric in PANELS]
    return [name, count(part["rows"]), count(part["impressions"]), *cells]


def _explored(found: Json | None) -> list[dict[str, Any]]:
    """A list a score: what it would show that the mean would not."""
    if not found:
        return []
    made = []
    for name, rows in found["lists"].items():
        agreement = found["agreement"][name]
        made.append(
            {
                "name": name.upper() if name != "thompson" else "Thompson",
                "meaning": SCORE_MEANINGS[name],
                "agreement": share(agreement["shared_top"], 0),
                "correlation": number(agreement["rank_correlation"]),
                "rows": [
                    [
                        formatting.plain_value(row["label"], 110),
                        count(row["place"]),
                        share(row["mean"], 2),
                        share(row["score"], 2),
                        share(row["variability"], 2),
                        share(row["error"], 2),
                    ]
                    for row in rows
                ],
            }
        )
    return made


def _data_facts(results: Json) -> list[tuple[str, Any]]:
    data, split = (results.get(part) or {} for part in ("dataset", "split"))
    facts = [("Name", data.get("name")), ("Rows", count(data.get("rows")))]
    facts += [("Impressions", count(data.get("n_impressions"))), ("Clicks", count(data.get("n_clicks")))]
    if data.get("n_impressions"):
        facts.append(("Click share", share((data.get("n_clicks") or 0) / data["n_impressions"], 2)))
    facts += [(label, count(data[name])) for name, label in
              (("n_users", "Users"), ("n_items", "Items"), ("n_groups", "Groups")) if data.get(name)]  # fmt: skip
    context = ", ".join(f"{own} ({kind})" for kind, own in data.get("context") or [])
    facts += [("Context", context or "none"), ("Test part", split.get("kind"))]
    facts += [
        ("Fitted on", f"{count(split.get('train_rows'))} rows, {count(split.get('train_impressions'))} impressions")
    ]
    facts += [
        ("Tested on", f"{count(split.get('test_rows'))} rows, {count(split.get('test_impressions'))} impressions")
    ]
    if split.get("history_rows"):
        facts.append(("History", f"{count(split['history_rows'])} earliest rows"))
    if data.get("merged"):
        facts.append(("Merged", f"{count(data['merged'])} repeated impressions of one user, item and context"))
    facts += [
        ("Read by", data.get("reader")),
        ("Reader options", options_line({k: v for k, v in (data.get("options") or {}).items() if v != []})),
    ]
    facts += [("Source", files(data.get("source")))]
    facts.append(("Digest", f"sha256 {data['digest']}" if data.get("digest") else ""))
    return [(label, text) for label, text in facts if text]


def _fit_facts(fit: Json) -> list[tuple[str, str]]:
    facts = [
        ("Model", f"{fit['model'].upper()}: {MODELS.get(fit['model'][2:], '')}" if fit.get("model") else ""),
        ("Coefficients", count(fit.get("n_coefficients"))),
        ("Largest slope left", f"{fit['gradient_norm']:.1e}" if is_number(fit.get("gradient_norm")) else ""),
        ("Newton steps", count(fit.get("n_iterations"))),
        ("Hessian products", count(fit.get("n_products"))),
        ("Precisions settled", "yes" if fit.get("converged") else "no"),
        ("Time", duration(fit.get("seconds"))),
    ]
    return [(label, text) for label, text in facts if text and text != formatting.NOTHING]


def _figures(results: Json) -> dict[str, str]:
    """Every plot the results have numbers for, by name."""
    drawn: dict[str, str] = {}
    if (results.get("calibration") or {}).get("expected"):
        drawn["calibration"] = plots_clicks.calibration(results["calibration"])
    if (results.get("drift") or {}).get("steps"):
        drawn["drift"] = plots_clicks.drift(results["drift"])
    for side, label in (("mean", "effect on the log-odds of a click"), ("dispersion", "effect on the variability")):
        found = (results.get("words") or {}).get(side)
        if found and (found["up"] or found["down"]):
            rows = [*found["up"], *reversed(found["down"])]
            drawn[f"words_{side}"] = plots_clicks.effects(f"words-{side}", f"Surest words, {side}", label, rows)
    scatter = results.get("scatter") or {}
    for what in ("variability", "error"):
        if len(scatter.get("mean") or []) > 1 and min(scatter[what]) > 0:
            drawn[what] = plots_clicks.risk(scatter, what)
    compared = results.get("by_score") or {}
    for metric in ("auc", "sauc"):
        if any(each[metric] is not None for found in compared.values() for each in found.values()):
            drawn[f"scores_{metric}"] = plots_clicks.by_score(compared, metric, metric.upper())
    folds = (results.get("bootstrap") or {}).get("folds") or {}
    if any(found.get("log_likelihood_impression") for found in folds.values()):
        drawn["folds"] = plots_clicks.folds(folds, "log_likelihood_impression", "log-likelihood an impression")
    return drawn


def _tables(results: Json) -> dict[str, list[list[str]]]:
    """The numbers behind the plots, as rows of text."""
    found = results.get("calibration") or {}
    compared = results.get("by_score") or {}
    folds = (results.get("bootstrap") or {}).get("folds") or {}
    scatter = results.get("scatter") or {}
    triples = zip(*(scatter.get(name) or [] for name in ("labels", "mean", "variability", "error")), strict=True)
    made = {
        "calibration": [
            [share(p, 2), share(o, 2), count(n)]
            for p, o, n in zip(*(found.get(name) or [] for name in ("expected", "seen", "impressions")), strict=True)
        ],
        "coverage": [
            [share(p, 0), share(o)] for p, o in zip(found.get("nominal") or [], found.get("covered") or [], strict=True)
        ],
        "scatter": [
            [formatting.plain_value(label, 70), share(mean, 2), share(risk, 2), share(error, 3)]
            for label, mean, risk, error in list(triples)[:50]
        ],
        "scores": [
            [model.upper(), name, number(each["auc"], 4), number(each["sauc"], 4)]
            for model, by_name in compared.items()
            for name, each in by_name.items()
        ],
        "folds": [
            [model.upper(), *(number(x, 5) for x in each.get("log_likelihood_impression") or [])]
            for model, each in folds.items()
        ],
        "drift": [
            [f"{step['from']:g}", f"{step['to']:g}", share(step["rate"], 2), count(step["impressions"])]
            for step in (results.get("drift") or {}).get("steps") or []
        ],
        "precisions": [
            [name, count(((results.get("fit") or {}).get("blocks") or {}).get(name)), precision_text(value)]
            for name, value in ((results.get("fit") or {}).get("precisions") or {}).items()
        ],
    }
    for side in ("mean", "dispersion"):
        words = (results.get("words") or {}).get(side) or {"up": [], "down": []}
        made[f"words_{side}"] = [[row["name"], interval(row, signed=True)] for row in [*words["up"], *words["down"]]]
    return made
