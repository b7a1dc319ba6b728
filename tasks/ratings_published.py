"""What Langseth and Nielsen published (2015): the MAE of Tables 2 and 3, and which sets each experiment is on."""

LEARNED = "MF-learned"
NEIGHBOURS = tuple(f"{name}({k})" for name in ("Pearson", "Euclidean") for k in (10, 25, 50, "all"))
METHODS = (*NEIGHBOURS, "SVD(0)", "SVD(0.01)", "EM", "MF", "GMF", LEARNED)
"""The rows of the tables, and Predilect's default, precisions learned, which the paper does not have."""

SETS = {
    "table2": ("ml-100k", "ml-1m", "ml-10m"),
    "table3": ("lastfm", "jester", "bookcrossing"),
    "figure2": ("ml-100k",),
    "figure3": ("ml-100k",),
}
OF_EXPERIMENT = {
    "table2": METHODS,
    "table3": tuple(method for method in METHODS if method != "EM"),
    "figure2": ("MF", "EM"),
    "figure3": ("SVD(0.01)", "MF", LEARNED),
}

_COLUMNS: dict[str, tuple[float | None, ...]] = {
    "ml-100k": (.7295, .7080, .7110, .7122, .7446, .7244, .7328, .7220, .6916, .6869, .6848, .6745, .6736),
    "ml-1m": (.7433, .7161, .7046, .7081, .7809, .7532, .7389, .7229, .6829, .6563, None, .6412, .6412),
    "ml-10m": (None, None, None, None, None, None, None, None, .6223, .6099, None, .5953, .5953),
    "lastfm": (.8915, .8664, .8601, .8547, .9485, .9291, .9209, .9131, .8405, .8460, None, .8077, .8077),
    "jester": (None, None, None, None, None, None, None, None, 3.3669, 3.2545, None, 3.1335, 3.1191),
    "bookcrossing": (None, None, None, None, None, None, None, None, 1.8362, 1.7813, None, 1.1576, 1.1576),
}  # fmt: skip
PUBLISHED = {
    (name, method): value
    for name, column in _COLUMNS.items()
    for method, value in zip(METHODS, column, strict=False)
    if value is not None
}
EFFICIENCY_AT_ONE = 0.8
"""Figure 3's curve has no numbers in the text but this: MF stays above it at κ = 1."""
TOLERANCE = 0.005
"""A figure counts as reproduced when it is no further from the published one, or better."""


def methods_of(experiment: str, dataset: str) -> tuple[str, ...]:
    """The methods that the paper has a figure of on a set, and Predilect's default."""
    if experiment.startswith("figure"):
        return OF_EXPERIMENT[experiment]
    return tuple(m for m in OF_EXPERIMENT[experiment] if (dataset, m) in PUBLISHED or m == LEARNED)
