"""What is said of a run in two sentences, in Markdown and in the terminal."""

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
import report_examples as examples
from report_examples import said
from rich.console import Console

from predilect.tasks.report import markdown_summary, terminal_summary
from predilect.tasks.summaries import sentences


def test_the_two_sentences() -> None:
    assert sentences(examples.full()) == [
        "Predilect learned how 1,043 users rate 1,911 items from 83,850 of the 104,812 ratings in film-club "
        "(1 to 5, 20 September 1997 to 22 April 1998).",
        "On the 20,962 ratings it did not see, its guesses, rounded to a legal rating, miss by 0.669 "
        "[0.661, 0.677] on average, clearly less than the “bias only” baseline (0.703); "
        "its 90\u00a0% intervals hold 89.6\u00a0% of them.",
    ]


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(-0.04, -0.03, "clearly less than"), (-0.01, 0.02, "not clearly unlike"), (0.01, 0.02, "clearly more than")],
)
def test_the_comparison_is_no_bolder_than_its_interval(low: float, high: float, words: str) -> None:
    results = examples.full()
    results["differences"]["bias only"]["mae_rounded"] = {"value": (low + high) / 2, "low": low, "high": high}
    assert f", {words} the “bias only” baseline (0.703);" in sentences(results)[1]


def test_markdown_says_the_same() -> None:
    text = markdown_summary(examples.full()).replace("\u00a0", " ")
    assert text.startswith("# film-club-nightly\n")
    assert "| metric | model | bias only | model \u2212 bias only | global mean | model \u2212 global mean |" in text
    row = (
        f"| RMSE | 0.905 [0.895, 0.914] | 0.942 [0.932, 0.952] | {said(-0.0374)} [{said(-0.0407)}, {said(-0.0341)}] ✓ |"
    )
    assert row in text
    assert "**Command**: predilect train ratings --data film-club" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {7}


def test_markdown_from_the_data_is_text() -> None:
    text = markdown_summary(examples.hostile())
    assert "<" not in text
    assert re.search(r"(?<!\\)\[b", text) is None
    assert re.search(r"(?<!\\)`", text) is None
    assert len(re.findall(r"^#", text, re.MULTILINE)) == 1
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {5}
    assert markdown_summary(examples.bare()).endswith(
        "**Contract**: No contract was checked.  \n**Fit**: not recorded.\n"
    )


@pytest.mark.parametrize("make", examples.ALL.values(), ids=examples.ALL)
def test_terminal_summary_fits_80_columns(make: Callable[[], dict[str, Any]]) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal_summary(make()))
    assert max(len(line) for line in console.export_text().splitlines()) <= 80


def test_terminal_summary_says_the_same() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(terminal_summary(examples.full()))
    text = console.export_text()
    assert re.search(
        rf"RMSE\s+0\.905 \[0\.895, 0\.914\]\s+{said(-0.0374)} \[{said(-0.0407)}, {said(-0.0341)}\] ✓",
        text,
    )
    assert "! The rating scale 1 to 5 was inferred" in text
    console.print(terminal_summary(examples.hostile()))
    assert "[bold]c[/bold]" in console.export_text()
