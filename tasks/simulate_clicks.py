"""A simulated table of headlines, how often each was shown and clicked, with known truth."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from predilect.models.errors import ParameterError
from predilect.models.random import stream
from predilect.tasks.output import new_folder

TABLE, PARQUET, TRUTH = "headlines.csv", "headlines.parquet", "truth.json"
WORDS = (
    "amazing", "animal", "budget", "cities", "climate", "coffee", "doctor", "election", "family", "film", "forest",
    "garden", "guide", "health", "history", "holiday", "house", "island", "kitchen", "letter", "market", "moment",
    "morning", "mountain", "music", "night", "ocean", "people", "photo", "price", "question", "recipe", "river",
    "school", "secret", "simple", "story", "summer", "teacher", "travel", "truth", "village", "weather", "winter",
)  # fmt: skip
PLACES = {"front": 0.4, "side": -0.4}
"""What a place on the page adds to the logit of a click."""
BASE, RISK = -3.0, 3.5
"""Intercepts of ζ and η: some 5 clicks in 100, and how alike two headlines of the same words are."""
TEST_SD, WORDS_A_HEADLINE, HEADLINES_A_TEST = 0.3, 6, 4


def simulate_clicks(folder: Path, *, n_headlines: int, seed: int) -> Path:
    """Write `headlines.csv`, `headlines.parquet` and `truth.json` (the effects of words). Returns the CSV.

    Headlines are shown in tests of four that share a shift of the mean; each is a row: title, place, test, week,
    impressions, clicks. The same numbers give the same table. Raises ParameterError below 8 headlines.
    """
    if n_headlines < 2 * HEADLINES_A_TEST:
        raise ParameterError(f"The number of headlines is {n_headlines}; give {2 * HEADLINES_A_TEST} or more.")
    rng = stream(seed, "headlines")
    mean_effects = rng.normal(0, 0.35, len(WORDS))
    risk_effects = rng.normal(0, 0.35, len(WORDS))
    titles = np.argsort(rng.random((n_headlines, len(WORDS))), axis=1)[:, :WORDS_A_HEADLINE]
    places = rng.integers(len(PLACES), size=n_headlines)
    tests = np.arange(n_headlines) // HEADLINES_A_TEST
    shift = rng.normal(0, TEST_SD, tests[-1] + 1)[tests]
    zeta = BASE + mean_effects[titles].sum(axis=1) + np.array(list(PLACES.values()))[places] + shift
    eta = RISK + risk_effects[titles].sum(axis=1)
    shown = rng.poisson(rng.lognormal(6.0, 0.8, n_headlines)) + 1
    clicks = rng.binomial(shown, rng.beta(np.exp(zeta + eta), np.exp(eta)))
    table = pa.table(
        {
            "title": [" ".join(WORDS[word] for word in row) for row in titles],
            "place": np.array(list(PLACES))[places],
            "test": [f"test-{number:04d}" for number in tests],
            "week": tests * 52 // (tests[-1] + 1),
            "impressions": shown,
            "clicks": clicks,
        }
    )
    truth = {
        "mean_effects": dict(zip(WORDS, mean_effects.tolist(), strict=True)),
        "risk_effects": dict(zip(WORDS, risk_effects.tolist(), strict=True)),
        "places": PLACES,
    }
    with new_folder(folder, replace=True) as draft:
        csv.write_csv(table, draft / TABLE)
        pq.write_table(table, draft / PARQUET)
        (draft / TRUTH).write_text(json.dumps(truth, indent=2), encoding="utf-8")
    return folder / TABLE
