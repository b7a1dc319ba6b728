"""One parameter model: TOML, name=value texts and keyword values, refused with the name, the value and the range."""

from pathlib import Path
from typing import Any

import pytest

from predilect.models.errors import ParameterError
from predilect.tasks.parameters import RatingsParameters


def test_later_sources_win(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text('data = "a.csv"\nseed = 1\ntau = 5\ncolumns = {user = "uid"}\n')
    found = RatingsParameters.parse(config, ["seed=2", "search=greedy"], seed=3, threads=None)
    assert (found.data, found.seed, found.tau, found.search) == ("a.csv", 3, 5.0, "greedy")
    assert found.columns == {"user": "uid"}


def test_texts_become_values() -> None:
    texts = ["data=x", "columns=user:a b,rating:stars", "cold_start_kappas=5,1,5", "quarantine=true", "scale_low=-10"]
    found = RatingsParameters.parse(None, [*texts, "scale_high=10"])
    assert found.columns == {"user": "a b", "rating": "stars"}
    assert found.cold_start_kappas == [1, 5]
    assert found.quarantine is True
    assert (found.scale_low, found.scale_high) == (-10.0, 10.0)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["tua=3"], "tua: no such parameter; did you mean tau?"),
        (["zzzz=3"], "zzzz: no such parameter; known are data,"),
        (["tau=-1"], "tau = '-1': input should be greater than 0 (Above 0"),
        (["tau=much"], "tau = 'much': input should be a valid number"),
        (["split=half"], "split = 'half':"),
        (["split=random:2"], "split = 'random:2':"),
        (["seed=-1"], "(0 to 4294967295"),
        (["threads=0"], "threads = '0':"),
        (["search=all"], "'auto', 'greedy' or 'none'"),
        (["columns=user"], "user: is not one of user:COLUMN"),
        (["cold_start_kappas=-1"], "every value is 0 or more"),
        (["scale_low=1"], "scale_low and scale_high together"),
        (["scale_low=5", "scale_high=1"], "must be below"),
        (["n_user_latents=0", "n_item_latents=0"], "must be 1 or more"),
        (["name=a/b"], "name = 'a/b'"),
        (["name=.."], "name = '..'"),
        (["name=" + "x" * 101], "Up to 100 letters"),
        (["seed"], "--set seed: write it as name=value"),
    ],
)
def test_refused_with_name_value_and_range(texts: list[str], said: str) -> None:
    with pytest.raises(ParameterError) as refused:
        RatingsParameters.parse(None, ["data=x", *texts])
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ParameterError, match=r"seed.*tau.*nonsense|nonsense.*seed.*tau"):
        RatingsParameters.parse(None, ["data=x", "seed=-1", "tau=0", "nonsense=1"])


def test_data_must_be_given() -> None:
    with pytest.raises(ParameterError, match="data: must be given"):
        RatingsParameters.parse(None, [])


@pytest.mark.parametrize("content", ["seed = = 1", None])
def test_bad_config_file(tmp_path: Path, content: str | None) -> None:
    config = tmp_path / "run.toml"
    if content is not None:
        config.write_text(content)
    with pytest.raises(ParameterError, match=r"--config .*run\.toml"):
        RatingsParameters.parse(config, [])


def test_every_parameter_explains_itself() -> None:
    for name, field in RatingsParameters.model_fields.items():
        assert field.title, name
        assert field.description, name
    with_numbers = RatingsParameters.model_json_schema()["properties"]
    assert with_numbers["search"]["$ref"].endswith("Search")  # a drop-down in the run form


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"compute": "dask", "inference": "gibbs"}, "compute = dask fits by inference mf or gmf, not gibbs"),
        ({"scheduler": "tcp://a:1"}, "scheduler = tcp://a:1 goes with compute = dask, not threads"),
        ({"compute": "dask", "scheduler": "tcp://a:1", "workers": 2}, "leave it out with a scheduler"),
    ],
)
def test_where_to_compute_fits_together(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        RatingsParameters.parse(None, [], data="ml-100k", **given)
