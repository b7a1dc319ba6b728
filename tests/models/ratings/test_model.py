"""The public estimator: recovery of planted structure, restarts, warm starts, and errors that say what to mend."""

import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.ids import IdMap
from predilect.models.ratings import RatingScale, RatingsModel, VBConfig

from .build import SCALE, fit, planted
from .reference import Ratings

CONFIG = VBConfig(n_user_latents=2, n_item_latents=2, restarts=1)


def test_planted_structure_is_recovered() -> None:
    """Two of six offered dimensions, their sizes, the offsets, the noise, and honest intervals."""
    n_users, n_items, noise = 400, 300, 0.7
    data, truth = planted(n_users, n_items, 2, 0.25, noise, seed=31)
    test = np.random.default_rng(1).random(len(data.value)) < 0.2
    train = Ratings(data.user[~test], data.item[~test], data.value[~test])
    model = fit(train, n_users, n_items, VBConfig(n_user_latents=3, n_item_latents=3, restarts=2))

    assert model.converged
    assert model.effective_dimensions == 2
    np.testing.assert_allclose(np.sort(model.dimension_sd)[-2:], 1, atol=0.15)
    assert model.noise_precision**-0.5 == pytest.approx(noise, rel=0.02)
    assert model.noise_sd_trace[-1] == pytest.approx(model.noise_precision**-0.5)
    kept = np.argsort(model.dimension_sd)[-2:]
    np.testing.assert_allclose((model.user_precisions * model.item_precisions)[kept], 1, rtol=0.3)
    for side, true in ((model.posterior.users, truth.users), (model.posterior.items, truth.items)):
        assert np.corrcoef(side.offsets, true.mean[:, -1])[0, 1] > 0.97
    # The planted space of factors, whatever its rotation.
    own, true_factors = model.posterior.items.means[:, kept], truth.items.mean[:, :-1]
    fitted = own @ np.linalg.lstsq(own, true_factors, rcond=None)[0]
    assert np.var(true_factors - fitted) < 0.05

    mean, variance = model.predict(data.user[test], data.item[test])
    error = data.value[test] - mean
    # Three coordinates learned from some 60 and 80 ratings each add about 9 % to the squared error.
    assert np.sqrt(np.mean(error**2)) < 1.08 * noise
    for z, nominal in ((0.6745, 0.5), (1.6449, 0.9)):
        assert np.mean(np.abs(error) < z * np.sqrt(variance)) == pytest.approx(nominal, abs=0.025)


def test_pure_noise_has_no_dimension() -> None:
    data, _ = planted(100, 80, 0, 0.5, 1.0, seed=32)
    assert fit(data, 100, 80, CONFIG).effective_dimensions == 0


def test_the_restart_with_the_highest_bound_is_kept() -> None:
    data, _ = planted(40, 30, 3, 0.3, 0.5, seed=33)
    finals: list[float] = []
    last: list[float] = []
    for restarts in (1, 2, 5):
        calls: list[tuple[int, float, float]] = []
        model = fit(data, 40, 30, replace(CONFIG, restarts=restarts), on_sweep=lambda *call: calls.append(call))  # noqa: B023
        assert [sweep for sweep, _, _ in calls] == list(range(1, len(calls) + 1))
        assert model.bound_trace[-1] in [bound for _, bound, _ in calls]
        assert model.n_sweeps == len(model.bound_trace) == len(model.noise_sd_trace) <= len(calls)
        finals.append(model.bound_trace[-1])
        last.append(calls[-1][1])
    assert finals == sorted(finals)
    assert finals[-1] > finals[0]
    assert finals[-1] > last[-1]


def test_sweeps_are_limited() -> None:
    data, _ = planted(40, 30, 1, 0.3, 0.5, seed=34)
    model = fit(data, 40, 30, replace(CONFIG, max_sweeps=3))
    assert model.n_sweeps == 3
    assert not model.converged


def test_on_sweep_may_stop_the_fit() -> None:
    data, _ = planted(40, 30, 1, 0.3, 0.5, seed=34)

    def stop(sweep: int, _bound: float, _noise_sd: float) -> None:
        if sweep == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, 40, 30, CONFIG, on_sweep=stop)


def test_fixed_precisions_stay_as_given() -> None:
    data, _ = planted(40, 30, 1, 0.3, 0.5, seed=34)
    config = VBConfig(n_user_latents=1, n_item_latents=2, tau=9, precisions="fixed", restarts=1)
    model = fit(data, 40, 30, config)
    np.testing.assert_array_equal(model.user_precisions, [9, 9, 1])
    np.testing.assert_array_equal(model.item_precisions, [1, 1, 9])


def test_without_factors_only_offsets_are_learned() -> None:
    data, truth = planted(80, 60, 0, 0.4, 0.5, seed=35)
    model = fit(data, 80, 60, replace(CONFIG, n_user_latents=0, n_item_latents=0))
    assert model.dimension_sd.shape == (0,)
    assert np.corrcoef(model.posterior.users.offsets, truth.users.mean[:, -1])[0, 1] > 0.98


def test_a_warm_start_saves_sweeps_and_maps_ids() -> None:
    data, _ = planted(120, 80, 2, 0.3, 0.6, seed=36)
    old = fit(data, 120, 80, CONFIG)
    rng = np.random.default_rng(0)
    # The next night: some ratings more, users 0–9 gone, items renumbered, new ones of both.
    user_ids, item_ids = IdMap(np.arange(10, 130)), IdMap(np.arange(-5, 80))
    users = np.concatenate([data.user, np.repeat(np.arange(120, 130), 10)])
    items = np.append(data.item, rng.integers(-5, 80, 100))
    values = np.append(data.value, rng.normal(0, 1, 100)).astype(np.float32)
    keep = users >= 10
    arguments = (user_ids.encode(users[keep]), item_ids.encode(items[keep]), values[keep], SCALE, CONFIG)
    cold = RatingsModel.fit(*arguments, user_ids=user_ids, item_ids=item_ids, seed=1)
    warm = RatingsModel.fit(*arguments, user_ids=user_ids, item_ids=item_ids, seed=1, warm_start=old)
    assert float(warm.bound_trace[0]) > float(cold.bound_trace[0]) + 100
    assert warm.n_sweeps < 0.6 * cold.n_sweeps
    assert warm.bound_trace[-1] > 1.001 * cold.bound_trace[-1]  # both are negative
    assert np.all(np.diff(warm.bound_trace) > -1e-6 * np.abs(warm.bound_trace[:-1]))
    # A start from strangers' model is a start all the same.
    strangers = RatingsModel.fit(
        *arguments, user_ids=IdMap(user_ids.ids + 1000), item_ids=IdMap(item_ids.ids + 1000), seed=1, warm_start=old
    )
    assert strangers.effective_dimensions == 2


def test_a_warm_start_with_other_dimensions_is_refused() -> None:
    data, _ = planted(20, 20, 1, 0.5, 0.5, seed=37)
    old = fit(data, 20, 20, CONFIG)
    with pytest.raises(ParameterError, match="4 factors and the new one 3"):
        fit(data, 20, 20, replace(CONFIG, n_item_latents=1), warm_start=old)


def test_a_single_user_or_item_or_rating_is_no_accident() -> None:
    for n_users, n_items in ((1, 30), (30, 1), (1, 1)):
        data, _ = planted(n_users, n_items, 1, 1.0, 0.5, seed=38)
        model = fit(data, n_users, n_items, CONFIG)
        prediction = model.predict(data.user, data.item)
        assert np.isfinite(prediction.mean).all()
        assert (prediction.variance > 0).all()


def test_equal_ratings_are_no_accident() -> None:
    data, _ = planted(30, 20, 1, 0.5, 0.5, seed=39)
    model = fit(Ratings(data.user, data.item, np.full(len(data.value), 4.0)), 30, 20, CONFIG)
    prediction = model.predict(data.user, data.item)
    np.testing.assert_allclose(prediction.mean, 4, atol=0.05)
    assert np.isfinite(prediction.variance).all()


def test_ratings_that_cannot_be_fitted_are_refused() -> None:
    scale, ids = RatingScale(1, 5), IdMap([1, 2])

    def refused(users: list[int], items: list[int], ratings: list[float]) -> str:
        with pytest.raises(DataError) as caught:
            RatingsModel.fit(
                np.array(users, np.int32),
                np.array(items, np.int32),
                np.array(ratings, np.float32),
                scale,
                CONFIG,
                user_ids=ids,
                item_ids=ids,
                seed=0,
            )
        return str(caught.value)

    assert "no ratings" in refused([], [], [])
    assert "2 users, 1 items and 1 ratings" in refused([0, 1], [0], [3])
    assert "Rating 1 is 6.0" in refused([0, 1], [0, 1], [3, 6])
    assert "Rating 1 is nan" in refused([0, 1], [0, 1], [3, np.nan])
    assert "user codes reach from 0 to 2" in refused([0, 2], [0, 1], [3, 3])
    assert "item codes reach from -1 to 1" in refused([0, 1], [-1, 1], [3, 3])


def test_a_fit_needs_24_bytes_a_rating_at_most() -> None:
    rng, n = np.random.default_rng(0), 400_000
    data = Ratings(
        rng.integers(0, 900, n, np.int32), rng.integers(0, 700, n, np.int32), rng.integers(1, 6, n).astype(np.float64)
    )
    config = replace(CONFIG, max_sweeps=2, restarts=2)
    fit(planted(5, 5, 1, 1.0, 1.0, seed=0)[0], 5, 5, config)  # compiled before it is measured
    values = data.value.astype(np.float32)
    ids = [IdMap(np.arange(900)), IdMap(np.arange(700))]
    tracemalloc.start()
    RatingsModel.fit(data.user, data.item, values, SCALE, config, user_ids=ids[0], item_ids=ids[1], seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    factors = 2 * 1600 * (2 * config.n_factors + 2) * 8
    assert (peak - factors) / n + 12 <= 24


PROBE = """
import importlib, pkgutil
import numpy as np
import predilect.models.ratings as family
from predilect.models.ids import IdMap
from predilect.models.ratings.compile import warm_up

names = [found.name for found in pkgutil.iter_modules(family.__path__)]
modules = [importlib.import_module(f"{family.__name__}.{name}") for name in names]
kernels = {name: value for module in modules for name, value in vars(module).items() if hasattr(value, "signatures")}

def specialisations():
    return {name: list(kernel.signatures) for name, kernel in kernels.items()}

assert warm_up() > 0
compiled = specialisations()
assert sum(map(bool, compiled.values())) >= 7, compiled  # those called from Python
users, items = (codes.astype(np.int32) for codes in np.nonzero(np.ones((30, 20))))
ids = [IdMap(np.arange(30)), IdMap(np.arange(20))]
scale = family.RatingScale(0, 1)
for levels in (5, 300):
    ratings = (np.arange(600) % levels / levels).astype(np.float32)
    config = family.VBConfig(max_sweeps=2)
    model = family.RatingsModel.fit(users, items, ratings, scale, config, user_ids=ids[0], item_ids=ids[1], seed=0)
    model.predict_ids([1, 99], [1, 99])
    model.recommend_codes(np.arange(30), 3, seen=(np.arange(31), np.zeros(30, np.int32)))
    model.fold_in([1, 2], [0.5, 1.0]).recommend(3)
assert specialisations() == compiled
"""


def test_warm_up_compiles_all_that_is_used() -> None:
    subprocess.run([sys.executable, "-c", PROBE], check=True)


def test_movielens_is_predicted_as_well_as_asked(data_dir: Path) -> None:
    """One of the five folds, with a margin for its own difficulty; `benchmarks/ratings_accuracy.py` has them all."""
    folder = data_dir / "ml-100k"
    train, test = (np.loadtxt(folder / f"u3.{part}", dtype=np.int64) for part in ("base", "test"))
    scale = RatingScale(1, 5, (1, 2, 3, 4, 5))
    user_ids, users = IdMap.of(train[:, 0])
    item_ids, items = IdMap.of(train[:, 1])
    model = RatingsModel.fit(
        users,
        items,
        train[:, 2].astype(np.float32),
        scale,
        VBConfig(restarts=1),
        user_ids=user_ids,
        item_ids=item_ids,
        seed=0,
    )
    mean, variance = model.predict_ids(test[:, 0], test[:, 1])
    assert np.mean(np.abs(scale.round(mean) - test[:, 2])) < 0.672
    assert np.sqrt(np.mean((scale.clip(mean) - test[:, 2]) ** 2)) < 0.906
    assert 0.88 < np.mean(np.abs(test[:, 2] - mean) < 1.6449 * np.sqrt(variance)) < 0.92
