"""A fit that is interrupted goes on from its checkpoint, to the bits of one that is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from predilect.models.artifact import ARRAYS
from predilect.tasks import fit, progress
from predilect.tasks.fit_checkpoints import Checkpoints
from predilect.tasks.parameters import RatingsParameters
from predilect.tasks.ratings_source import ingest_source
from predilect.tasks.runs import read_json
from predilect.tasks.settings import Settings


def _rows(path: Path) -> Path:
    rng = np.random.default_rng(1)
    pairs = rng.permutation(40 * 30)[:600]
    stars = rng.integers(1, 6, len(pairs))
    lines = [f"u{pair // 30},{pair % 30},{star}" for pair, star in zip(pairs, stars, strict=True)]
    path.write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("inference", ["mf", "gmf"])
def test_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inference: str) -> None:
    monkeypatch.setenv("PREDILECT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(fit, "Checkpoints", lambda *words: Checkpoints(*words, minutes=0.0))
    asked: dict[str, Any] = {"data": str(_rows(tmp_path / "ratings.csv")), "inference": inference, "max_sweeps": 12}
    parameters = RatingsParameters(**asked, n_user_latents=2, n_item_latents=1, restarts=2, tolerance=1e-9)
    dataset = ingest_source(parameters)

    def fitted(name: str) -> dict[str, Any]:
        run = tmp_path / name
        run.mkdir(exist_ok=True)
        fit.split_ratings(dataset, run, parameters)
        return fit.fit_ratings(dataset, run, parameters, None)

    whole = fitted("whole")
    assert whole["resumed_at"] is None
    kept = Settings().state / "fits"
    assert list(kept.iterdir()) == []

    reports = 0

    def dies(*_: Any) -> None:
        nonlocal reports
        reports += 1
        if reports > 15:  # in the second restart
            raise KeyboardInterrupt

    with progress.listen(dies), pytest.raises(KeyboardInterrupt):
        fitted("again")
    assert not (tmp_path / "again" / "model").exists()
    assert len(list(kept.iterdir())) == 1

    again = fitted("again")
    assert again["resumed_at"] > 0
    arrays = [(tmp_path / name / "model" / ARRAYS).read_bytes() for name in ("whole", "again")]
    assert arrays[0] == arrays[1]
    assert read_json(tmp_path / "again" / "fit.json")["bound"] == whole["bound"]
    assert list(kept.iterdir()) == []

    other = parameters.model_copy(update={"seed": 1})
    fit.split_ratings(dataset, tmp_path / "again", other)
    assert fit.fit_ratings(dataset, tmp_path / "again", other, None)["resumed_at"] is None
