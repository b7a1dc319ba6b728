"""Training out of core, from parameters to report: what comes out is what training in memory gives."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.evaluation.splits import by_key, key_of, mixed
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.scale import RatingScale
from predilect.tasks import order_build, parts
from predilect.tasks.ingest import ingest_ratings
from predilect.tasks.large_fit import config_of_large, fit_large, split_large_ratings
from predilect.tasks.large_split import held_out
from predilect.tasks.parameters_large import LargeRatingsParameters
from predilect.tasks.ratings_source import ingest_large_source
from predilect.tasks.ratings_table import RatingsTable, read_table
from predilect.tasks.recommend import data_of, recommend
from predilect.tasks.settings import Settings
from predilect.tasks.simulate import simulate_ratings
from predilect.tasks.validate_large import validate_large


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 5000)
    monkeypatch.setattr(order_build, "BLOCK_RATINGS", 4000)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated")
    return simulate_ratings(folder / "a", n_users=400, n_items=150, n_ratings=20_000, seed=5)


def asked(source: Path, **values: Any) -> LargeRatingsParameters:
    given = {"test_share": 0.1, "n_user_latents": 2, "n_item_latents": 1, "max_sweeps": 12, "resamples": 100}
    return LargeRatingsParameters(data=str(source), **given | values)


def in_memory(
    source: Path, tmp_path: Path, parameters: LargeRatingsParameters
) -> tuple[RatingsModel, RatingsTable, Any]:
    """The same fit of the same training part by the other way."""
    table = read_table(ingest_ratings(str(source), None, tmp_path).folder)
    user, item = (key_of(map(str, ids.ids.tolist()), parameters.seed) for ids in (table.user_ids, table.item_ids))
    test = by_key(mixed(user[table.users], item[table.items]), parameters.test_share)
    scale = RatingScale.from_facts(table.manifest["scale"])
    model = RatingsModel.fit(
        table.users[~test], table.items[~test], table.ratings[~test], scale, config_of_large(parameters),
        user_ids=table.user_ids, item_ids=table.item_ids, seed=parameters.seed,
    )  # fmt: skip
    return model, table, test


def arrays(model_folder: Path) -> bytes:
    return (model_folder / "arrays.npz").read_bytes()


@pytest.mark.parametrize(("compute", "evaluated"), [("threads", 100), ("processes", 10_000)])
def test_same_bits_as_in_memory(
    home: Settings, prefect: None, source: Path, tmp_path: Path, compute: str, evaluated: int
) -> None:
    from predilect.flows.train_large import train_ratings_large

    parameters = asked(
        source,
        compute=compute,
        evaluated_users=evaluated,
        inference="gmf" if compute == "threads" else "mf",
    )
    found = train_ratings_large(parameters)
    model, table, test = in_memory(source, tmp_path, parameters)
    model.save(tmp_path / "model")
    assert arrays(tmp_path / "model") == arrays(Path(found["model_path"]))
    assert found["split"] == {
        "kind": "stable:0.1", "train_rows": int((~test).sum()), "test_rows": int(test.sum()),
        "unseen_users": 0, "unseen_items": 0, "unseen_rows": 0,
    }  # fmt: skip
    predicted = pq.read_table(Path(found["model_path"]).parent / "predictions.parquet")
    mean = model.predict(table.users[test], table.items[test]).mean
    pairs = zip(table.user_ids.ids[table.users[test]], table.item_ids.ids[table.items[test]], strict=True)
    expected = dict(zip(pairs, mean, strict=True))
    for user, item, value in zip(*(predicted[name].to_pylist() for name in ("user", "item", "mean")), strict=True):
        assert expected[user, item] == value
    results = json.loads(Path(found["results_path"]).read_text())
    people = results["evaluated"]
    assert people["users"] == min(evaluated, people["of_users"]) == len(set(predicted["user"].to_pylist()))
    if predicted.num_rows == test.sum():
        error = np.abs(table.scale.clip(mean) - table.ratings[test]).mean()
        assert found["metrics"]["mae"]["value"] == pytest.approx(error)
    assert found["differences"]["bias only"]["rmse"]["high"] < 0
    assert found["differences"]["global mean"]["rmse"]["high"] < 0
    assert results["contract"]["success"]
    run = Path(found["model_path"]).parent
    recommend(run, tmp_path / "top.parquet", n=3)
    best = pq.read_table(tmp_path / "top.parquet")
    rated = set(zip(table.user_ids.ids[table.users].tolist(), table.item_ids.ids[table.items].tolist(), strict=True))
    assert best.num_rows == 3 * 400
    assert not rated & set(zip(best["user"].to_pylist(), best["item"].to_pylist(), strict=True))
    with pytest.raises(DataError, match="kept in files"):
        data_of(run, home)
    assert results["run"]["command"].startswith(f"predilect train ratings-large --data {source} ")


def test_contract_counts_every_row(home: Settings, tmp_path: Path) -> None:
    lines = [f"{user},{item},{1 + (user + item) % 5},{-5 if user == 3 else 1_600_000_000}"
             for user in range(200) for item in range(60)]  # fmt: skip
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating,timestamp", *lines, ""]))
    parameters = asked(path)
    folder = ingest_large_source(parameters)
    with pytest.raises(
        DataError, match=r"timestamp in seconds.* fails for 60 of 12,000 rows, such as row 180 \(user 3"
    ):
        validate_large(folder, tmp_path / "run", parameters)
    found = json.loads((tmp_path / "run" / "contract.json").read_text())
    results = {rule["rule"]: rule for rule in found["rules"]}
    assert results["rating within the scale"]["observed"] == "0 of 12000"
    assert results["enough ratings"]["observed"] == 12000
    assert results["ratings differ"]["observed"] == 5
    assert (tmp_path / "run" / "data_docs" / "index.html").is_file()


def test_policy_for_repeats_reaches_ingestion_and_contract(home: Settings, source: Path, tmp_path: Path) -> None:
    table = pq.read_table(source)
    twice = tmp_path / "ratings.parquet"
    pq.write_table(pa.concat_tables([table, table.slice(0, 7000), table.slice(100, 50)]), twice)
    parameters = asked(twice, duplicates="last")
    folder = ingest_large_source(parameters)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["rows"], manifest["duplicates"]) == (20_000, {"policy": "last", "merged": 7050})
    found = validate_large(folder, tmp_path / "run", parameters)
    assert found["rows"] == 20_000
    assert found["success"]


def test_rows_held_out_by_seed_and_share(home: Settings, source: Path) -> None:
    folder = ingest_large_source(asked(source))
    one, sizes = split_large_ratings(folder, asked(source))
    other, _ = split_large_ratings(folder, asked(source, seed=1))
    assert one != other
    users, items, ratings = held_out(one)
    assert len(users) == len(items) == len(ratings) == sizes["test_rows"]
    assert abs(sizes["test_rows"] / 20_000 - 0.1) < 0.01
    with pytest.raises(DataError, match="test_share"):
        split_large_ratings(folder, asked(source, test_share=1e-12))


FIT = """
import os, signal, sys
from pathlib import Path
from predilect.tasks import fit_checkpoints
from predilect.tasks.large_fit import fit_large
from predilect.tasks.parameters_large import LargeRatingsParameters
left = int(sys.argv[5])
fit_checkpoints.LARGEST_SHARE = 1e9  # a checkpoint after every sweep
save = fit_checkpoints.save_state
def counted(folder, state):
    global left
    left -= 1
    if left == 0 and sys.argv[6] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    save(folder, state)
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
fit_checkpoints.save_state = counted
Path(sys.argv[3]).mkdir(exist_ok=True)
folders = map(Path, sys.argv[1:4])
fit_large(*folders, LargeRatingsParameters.model_validate_json(sys.argv[4]))
"""


def test_killed_fit_goes_on_to_the_same_bits(home: Settings, source: Path, tmp_path: Path) -> None:
    parameters = asked(source, checkpoint_minutes=0, tolerance=1e-9, restarts=2)
    folder = ingest_large_source(parameters)
    split, _ = split_large_ratings(folder, parameters)
    (tmp_path / "whole").mkdir()
    fit_large(folder, split, tmp_path / "whole", parameters.model_copy(update={"checkpoint_minutes": 1e3}))

    def attempt(at: int, when: str) -> int:
        words = [str(folder), str(split), str(tmp_path / "resumed"), parameters.model_dump_json(), str(at), when]
        return subprocess.run([sys.executable, "-c", FIT, *words], check=False, env=os.environ).returncode

    for at, when in ((5, "after"), (4, "before"), (9, "after")):
        assert attempt(at, when) == -signal.SIGKILL
    assert attempt(1000, "after") == 0
    fit = json.loads((tmp_path / "resumed" / "fit.json").read_text())
    assert fit["resumed_at"] is not None
    assert arrays(tmp_path / "resumed" / "model") == arrays(tmp_path / "whole" / "model")
    assert not list((home.state / "fits").glob("*"))


def test_what_needs_memory_is_refused() -> None:
    with pytest.raises(ParameterError, match="choose mf or gmf"):
        LargeRatingsParameters.parse(None, ["inference=gibbs"], data="x")
    with pytest.raises(ParameterError, match="no such parameter"):
        LargeRatingsParameters.parse(None, ["rated_set=true"], data="x")
