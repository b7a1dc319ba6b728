"""The report page: it shows the results' values, leaves out what is null, and nothing from the data becomes markup."""

import errno
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import report_examples as examples
from report_examples import said

from predilect.models.errors import DataError, ParameterError
from predilect.tasks import plots
from predilect.tasks.report import render, safe_link, write_report
from predilect.tasks.summaries import notices

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []  # every tag was closed, in order
        self.text = " ".join(" ".join(self.words).replace("\u00a0", " ").split())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(text)

    def values(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(attribute))]


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the second that drawing takes; for tests of the words."""
    monkeypatch.setattr(plots, "inline_svg", lambda name, description, draw, height=0: f"<p>plot {name}</p>")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: render(make()) for name, make in examples.ALL.items()}


def test_metrics_and_differences_are_shown_with_their_intervals(pages: dict[str, str]) -> None:
    page, results = Page(pages["full"]), examples.full()
    assert results["metrics"].keys() >= {"mae", "mae_rounded", "rmse", "log_predictive_density", "ndcg_10"}
    for table in (results["metrics"], *results["baselines"].values()):
        for name, estimate in table.items():
            value, low, high = (estimate[key] for key in ("value", "low", "high"))
            if name.startswith("coverage"):
                shown = f"{said(100 * value, 1)} % [{said(100 * low, 1)}, {said(100 * high, 1)}]"
            else:
                shown = f"{said(value)} [{said(low)}, {said(high)}]"
            assert shown in page.text, name
    assert f"{said(-0.0374)} [{said(-0.0407)}, {said(-0.0341)}] better" in page.text
    assert f"{said(-0.4, 1)} pp [{said(-0.6, 1)}, {said(-0.2, 1)}]" in page.text


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize("name", ["mae_rounded", "rmse", "coverage_90"])
def test_another_value_makes_another_page(name: str) -> None:
    results = examples.full()
    results["metrics"][name] = {"value": 0.4321, "low": 0.4101, "high": 0.4541}
    assert ("0.432 [0.410, 0.454]" if name != "coverage_90" else "43.2 % [41.0, 45.4]") in Page(render(results)).text


def test_facts_of_the_run_are_shown(pages: dict[str, str]) -> None:
    page, results = Page(pages["full"]), examples.full()
    run, data = results["run"], results["dataset"]
    for fact in ("name", "git_revision", "mlflow_run_id", "prefect_flow_run_id", "command", "predilect_version"):
        assert run[fact] in page.text
    for fact in (data["digest"], data["source"][0], *data["warnings"], *results["warnings"], *results["parameters"]):
        assert fact in page.text
    for fact in (
        "14 March 2025, 02:00 UTC",
        "1,043 × 1,911 (5.26 % rated)",
        "1 to 5, 5 levels, inferred from the data",
        "20 September 1997 to 22 April 1998",
        "37 merged, policy “last”",
        "Reader options columns user = member, item = film, rating = stars Source",
        "212 rows: rating 0 means implicit feedback",
        "3 users, 31 items, in 41 ratings scored from the prior",
        "6 of 6 rules hold on 104,812 rows; no row was set aside.",
        "It converged in 63 sweeps; 5 of 10 dimensions count; noise sd 0.890; 1.28 s.",
        "90 % of the gain was made by sweep 6",
        "Automatic: one empirical-Bayes fit in which unneeded dimensions die out; it kept 5 of 10.",
        "85.3 % of full accuracy from 1 rating",
        "cold start 14.2 s",
        'cold_start {"kappas": [1, 2, 3, 5, 10, 15, 20], "repeats": 5}',
    ):
        assert fact in page.text, fact
    assert "data_docs/index.html" in page.values("href")


def test_the_numbers_behind_each_plot_are_in_tables(pages: dict[str, str]) -> None:
    page, results = Page(pages["full"]), examples.full()
    for sweep in (1, 17, 63):
        bound, noise = results["fit"]["bound"][sweep - 1], results["fit"]["noise_sd"][sweep - 1]
        assert f"{sweep} {said(bound, 0)[:-3]},{said(bound, 0)[-3:]} {said(noise)}" in page.text
    for group in results["residuals"]:
        quantiles = " ".join(said(group[key], 2) for key in ("mean", "q05", "q25", "q50", "q75", "q95"))
        assert f"{group['rating']:g} {group['n']:,} {quantiles}" in page.text
    study = results["cold_start"]
    for k, kappa in enumerate(study["kappa"]):
        shown = f"{said(study['mae'][k])} [{said(study['low'][k])}, {said(study['high'][k])}]"
        assert f"{kappa} {shown} {said(100 * study['efficiency'][k], 1)} %" in page.text
    assert "95 % 94.3 %" in page.text
    assert "10 of 10 8.5 %" in page.text


def test_a_greedy_search_shows_its_path(pages: dict[str, str]) -> None:
    page, search = Page(pages["greedy"]), examples.greedy()["search"]
    chosen = search["chosen"]
    where = f"({chosen['n_user_latents']}, {chosen['n_item_latents']}), τ {chosen['tau']:g}"
    assert chosen["mae"] == min(candidate["mae"] for candidate in search["candidates"])
    assert (
        f"{len(search['candidates'])} candidates, {search['n_fits']} fits of at most 400; chosen {where}" in page.text
    )
    assert f"{where} ✓ {chosen['step']} {said(chosen['mae'], 4)} anew" in page.text
    assert f"{where}: {said(chosen['mae'], 4)}" in page.text  # beside its ring in the plot
    shared = next(candidate for candidate in search["candidates"] if candidate["shared_with"] is not None)
    assert f"{shared['step']} {said(shared['mae'], 4)} as step {shared['shared_with']}" in page.text
    rows = [attributes for tag, attributes in page.tags if tag == "tr" and attributes.get("class") == "chosen"]
    assert len(rows) == 1


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize(
    ("part", "section"),
    [
        ("metrics", "metrics"),
        ("fit", "fit"),
        ("calibration", "calibration"),
        ("residuals", "residuals"),
        ("search", "search"),
        ("cold_start", "cold-start"),
    ],
)
def test_a_part_that_is_null_has_no_section(part: str, section: str, pages: dict[str, str]) -> None:
    assert section in Page(pages["full"]).values("id")
    page = Page(render(examples.full(**{part: None})))
    assert section not in page.values("id")
    assert f"#{section}" not in page.values("href")


def test_links_on_the_page_have_their_target(pages: dict[str, str]) -> None:
    for html in pages.values():
        page = Page(html)
        ids = page.values("id")
        assert len(ids) == len(set(ids))
        targets = [href[1:] for href in page.values("href") if href.startswith("#")]
        targets += re.findall(r"url\(#([^)]+)\)", html)
        assert set(targets) <= set(ids)


def test_a_run_that_says_little_gives_a_page_that_says_so(pages: dict[str, str]) -> None:
    text = Page(pages["bare"]).text
    assert "from the 12 ratings in tiny." in text
    assert "No ratings were held out, so how well it predicts is not known." in text
    assert "No contract was checked." in text
    assert "None" not in text
    assert "nan" not in text


@pytest.mark.usefixtures("no_plots")
def test_no_baselines_is_said() -> None:
    page = Page(render(examples.full(baselines=None, differences=None)))
    assert "No baselines were fitted beside this model." in page.text
    assert "better" not in page.text.replace("is better", "")


@pytest.mark.usefixtures("no_plots")
def test_what_must_be_known_before_trusting_it() -> None:
    results = examples.full(warnings=None)
    results["fit"]["converged"] = False
    results["contract"]["rules"].append(examples.rule("rating finite", "rating", False, "3 of 9", 3, 1 / 3))
    results["contract"]["success"] = False
    broken, unconverged, inferred = notices(results)
    assert broken == "The data contract is broken: 6 of 7 rules hold on 104,812 rows; no row was set aside."
    assert unconverged == "The fit stopped after 63 sweeps before it converged; raise max_sweeps."
    assert inferred == results["dataset"]["warnings"][0]
    page = Page(render(results))
    assert "✗ Broken." in page.text
    assert "rating finite rating ✗ broken 3 of 9 3 (33.33 %)" in page.text
    assert "did not converge in 63 sweeps" in page.text


@pytest.mark.usefixtures("no_plots")
def test_rows_set_aside_are_told_with_their_reasons() -> None:
    results = examples.full()
    results["contract"] |= {"success": False, "quarantined": 1234, "quarantine": {"reasons": {"rating finite": 1234}}}
    assert "1,234 rows broke the data contract and were set aside." in notices(results)
    text = Page(render(results)).text
    assert "✗ Broken; rows set aside." in text
    assert "1,234 rows: rating finite (1,234)" in text


def test_text_from_the_data_is_text(pages: dict[str, str]) -> None:
    page = Page(pages["hostile"])
    assert examples.HOSTILE in page.text
    assert {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "embed", "form", "base"} == set()
    assert [name for _, attributes in page.tags for name in attributes if name.startswith("on")] == []
    assert [href for href in page.values("href") if not re.match(r"#|data:,$", href)] == []
    assert "$\\frac{1}{0}$" in page.text  # no formula either


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("https://mlflow.example/#/runs/1", True),
        ("http://127.0.0.1:5000/x", True),
        ("data_docs/index.html", True),
        ("javascript:alert(1)", False),
        (" javascript:alert(1)", False),
        ("java\nscript:alert(1)", False),
        ("data:text/html,x", False),
        ("//elsewhere.example/x", False),
        ("file:///etc/passwd", False),
        ("https:", False),
        ("http://[", False),
        (None, True),  # the word None: a path beside the page
    ],
)
def test_only_safe_addresses_become_links(text: str | None, safe: bool) -> None:
    assert safe_link(text) == (str(text) if safe else "")


def test_the_page_needs_nothing_from_outside(pages: dict[str, str]) -> None:
    for name in ("full", "greedy", "bare"):
        assert "http" not in re.sub(r'http-equiv="Content-Security-Policy"', "", pages[name])
        assert "url(" not in re.sub(r"url\(#", "", pages[name])
        assert "@import" not in pages[name]
        assert Page(pages[name]).values("src") == []


def test_every_plot_is_described_and_takes_its_colours_from_the_page(pages: dict[str, str]) -> None:
    page = Page(pages["full"])
    drawn = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(drawn) == 4 + 7  # baselines; bound, noise, dimensions, coverage, PIT, residuals, cold start
    assert all(plot["role"] == "img" and len(plot["aria-label"] or "") > 30 for plot in drawn)
    assert "90 % intervals hold 89.6 %" in " ".join(plot["aria-label"] or "" for plot in drawn).replace("\u00a0", " ")
    svgs = "".join(re.findall(r"<svg.*?</svg>", pages["full"], re.DOTALL))
    assert re.search(r"#[0-9a-f]{3,6}\b", re.sub(r"var\(--\w+, #[0-9a-f]{6}\)|url\(#\w+\)|\"#\w+\"", "", svgs)) is None
    assert "font-family" not in svgs
    variables = set(re.findall(r"var\(--(\w+)", svgs))
    assert variables == {"ink", "muted", "rule", "model", "accent", "paper"}


def test_text_is_readable_in_light_dark_and_print() -> None:
    style = (Path(__file__).parents[2] / "tasks" / "templates" / "style.css").read_text()
    schemes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    assert len(schemes) == 3
    for colors in schemes:
        for ink in ("ink", "muted", "model", "accent"):
            assert contrast(colors[ink], colors["paper"]) >= 4.5  # WCAG AA
        assert contrast(colors["ink"], colors["warm"]) >= 4.5


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(color: str) -> float:
        parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_equal_results_give_an_equal_file_in_any_thread_and_process(tmp_path: Path) -> None:
    results = examples.greedy() | dict.fromkeys(("metrics", "calibration", "cold_start"))
    (tmp_path / "results.json").write_text(json.dumps(results))
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(render, [results, results])
    assert one == other
    script = (
        "import json, sys\nfrom pathlib import Path\nfrom predilect.tasks.report import write_report\n"
        "assert 'matplotlib' not in sys.modules\n"
        "write_report(json.loads(Path('results.json').read_text()), Path('report.html'))\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    environment = os.environ | {"PYTHONHASHSEED": "5", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == one


def test_drawing_leaves_the_process_as_it_was() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    render(examples.full(metrics=None, fit=None, cold_start=None))
    assert dict(matplotlib.rcParams) == before


def test_numpy_and_numbers_that_are_none() -> None:
    results = examples.full()
    results["metrics"]["rmse"] = {"value": float("nan"), "low": np.float64("nan"), "high": float("inf")}
    results["fit"]["bound"] = np.asarray(results["fit"]["bound"])
    results["fit"]["noise_sd"] = [float("nan")] * 63
    results["cold_start"]["low"][0] = float("nan")
    results["split"]["test_rows"] = np.int64(20_962)
    text = Page(render(results)).text
    assert "RMSE root mean squared error –" in text
    assert "20,962 ratings" in text
    assert "nan" not in text
    assert "What stays unexplained" not in text


@pytest.mark.parametrize("scale", [{"low": -10.0, "high": 10.0, "levels": None, "inferred": False}, None])
def test_a_continuous_scale_and_none(scale: dict[str, Any] | None) -> None:
    results = examples.full(fit=None, calibration=None, cold_start=None)
    results["dataset"]["scale"] = scale
    results["residuals"] = [examples.residual(level, 100) for level in np.arange(-9, 10, 2)]
    text = Page(render(results)).text
    assert ("\u221210 to 10, any value, as given" in text) == (scale is not None)


def test_a_huge_run_has_a_page_of_bounded_size() -> None:
    results = examples.full(warnings=[f"warning {k} " * 50 for k in range(3000)])
    candidates = [
        examples.greedy()["search"]["candidates"][0] | {"step": k, "mae": 0.7 + 1 / (k + 9)} for k in range(4000)
    ]
    results["search"] = {"kind": "greedy", "candidates": candidates, "chosen": candidates[-1]}
    results["fit"] |= {"bound": np.log(np.arange(1, 20_001)), "noise_sd": 1 / np.arange(1, 20_001)}
    results["metrics"] = results["cold_start"] = None
    results["fit"] |= {"dimension_sd": [0.1] * 500, "user_precisions": [1.0] * 500, "effective_dimensions": 500}
    results["parameters"] = {"list": list(range(100_000))}
    page = render(results)
    assert len(page.encode()) < 600_000
    assert "3,800 more in search.jsonl" in page
    assert "2,981 more in results.json" in page


def test_usual_pages_are_small(pages: dict[str, str]) -> None:
    assert max(len(page.encode()) for page in pages.values()) < 200_000


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "runs" / "one" / "report.html"
    assert write_report(examples.bare(), out) == out
    assert out.read_text(encoding="utf-8") == render(examples.bare())
    before = out.read_bytes()

    def full_disk(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(DataError, match=r"report\.html cannot be written: No space left on device; free space"):
        write_report(examples.bare() | {"warnings": ["new"]}, out)
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    assert out.read_bytes() == before


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file/report\.html cannot be written"):
        write_report(examples.bare(), tmp_path / "file" / "report.html")


@pytest.mark.parametrize("run", [{"family": "dice"}, {}, None])
def test_a_family_without_a_page_is_refused(run: dict[str, str] | None) -> None:
    with pytest.raises(ParameterError, match="is one of ratings"):
        render({"run": run})


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("full", 375, "light"), ("full", 375, "dark"), ("full", 1280, "light"), ("full", 1280, "dark")]
    + [(name, 375, "light") for name in ("greedy", "bare", "hostile")],
)
def test_in_a_browser(
    name: str, width: int, scheme: Any, browser: "Browser", pages: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(pages[name], encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    page = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.goto(file.as_uri())
    assert asked == [file.as_uri()]
    assert wrong == []
    assert page.title() != "owned"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    shades = [int(shade) for shade in re.findall(r"\d+", background)]
    assert max(shades) < 64 if scheme == "dark" else min(shades) > 192
    for plot in page.query_selector_all("svg.plot"):
        box = plot.bounding_box()
        assert box is not None
        assert 0 < box["width"] <= width
        sizes = re.findall(r"font-size: ([\d.]+)px|font: \d+ ([\d.]+)px", plot.inner_html())
        assert min(float(a or b) for a, b in sizes) * box["width"] / 360 >= 10  # pixels on the screen
    context.close()
