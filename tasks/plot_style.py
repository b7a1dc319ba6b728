"""One look for all plots: small figures drawn by matplotlib, turned into inline SVG that follows the page's colours.

Every colour below becomes a CSS variable with itself as fallback, so one SVG serves light, dark and print. Text stays
text in the page's own font. Equal input gives an equal file: ids are salted by the plot's name, nothing is dated.
"""

import io
import re
import threading
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

# Okabe and Ito's blue and vermilion (darkened to stay readable as text) tell apart with any colour vision.
PAPER, INK, MUTED, RULE, MODEL, ACCENT = "#ffffff", "#1d2126", "#5f6670", "#dde1e6", "#0069a6", "#b84a00"
VARIABLES = {PAPER: "paper", INK: "ink", MUTED: "muted", RULE: "rule", MODEL: "model", ACCENT: "accent"}

# 360 units wide: about 1.3 times that in a desktop column, 0.95 times on a phone, so that text is readable on both.
WIDTH = 360
STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a "$" in a name is a dollar
    "axes.formatter.use_mathtext": False,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same layout on every machine
    "font.size": 11.5,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 11.5,
    "axes.linewidth": 1,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "xtick.major.size": 3,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "patch.linewidth": 0,
    "axes.unicode_minus": True,
}

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
# matplotlib's settings are one per process, and flows may draw in several threads.
_one_at_a_time = threading.Lock()


def inline_svg(name: str, description: str, draw: Callable[[Any], None], height: int = 220) -> str:
    """The plot that `draw(axes)` makes, as an `<svg>` element to put inside HTML.

    name: unique on the page (it salts the ids). description: what the plot shows, read out by screen readers.
    height: in the units of the 360 wide canvas.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    raw = io.BytesIO()
    # A user's matplotlibrc does not count. The backend is left out: to set it loads pyplot.
    usual = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
    with _one_at_a_time, matplotlib.rc_context({**usual, **STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72, layout="constrained", facecolor="none")
        axes = figure.add_subplot(facecolor="none")
        draw(axes)
        # Not savefig, which lays out and draws twice.
        FigureCanvasSVG(figure).print_svg(raw, metadata={"Date": None})
    return _for_page(raw.getvalue(), description)


def _for_page(raw: bytes, description: str) -> str:
    """matplotlib's file without its header, styles, fonts and idle ids; with CSS variables and a description."""
    root = ElementTree.fromstring(raw)
    used = set(re.findall(rb'(?:url\(#|href="#)([^)"]+)', raw))
    for element in list(root):
        if element.tag == f"{SVG}metadata" or (element.tag == f"{SVG}defs" and element.find(f"{SVG}style") is not None):
            root.remove(element)
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        if element.get("id", "").encode() not in used:
            element.attrib.pop("id", None)
        if HREF in element.attrib:
            element.set("href", element.attrib.pop(HREF))
        if "style" in element.attrib:
            element.set("style", _themed(element.attrib["style"]))
        if "d" in element.attrib:
            element.set("d", re.sub(r"-?\d+\.\d+", _shorter, " ".join(element.attrib["d"].split())))
        for attribute in ("x", "y", "transform"):
            if attribute in element.attrib:
                element.set(attribute, re.sub(r"-?\d+\.\d+", _shorter, element.attrib[attribute]))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        element.tail = None
        if element.tag != "text":
            element.text = None
    _unwrap(root)
    view_box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"class": "plot", "viewBox": view_box, "role": "img", "aria-label": description})
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _themed(style: str) -> str:
    style = re.sub(r"font-family:[^;]*(;\s*|$)", "", style)
    return re.sub(
        r"#[0-9a-f]{6}", lambda hit: f"var(--{VARIABLES[hit[0]]}, {hit[0]})" if hit[0] in VARIABLES else hit[0], style
    )


def _shorter(decimal: re.Match[str]) -> str:
    return f"{float(decimal[0]):.2f}".rstrip("0").rstrip(".")


def _unwrap(parent: ElementTree.Element) -> None:
    """Take out groups that carry nothing."""
    children: list[ElementTree.Element] = []
    for child in parent:
        _unwrap(child)
        if child.tag in ("g", "defs") and not child.attrib and (child.tag == "g" or not len(child)):
            children.extend(child)
        else:
            children.append(child)
    parent[:] = children
