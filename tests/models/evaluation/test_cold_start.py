"""The cold-start protocol with a stand-in model whose error is known."""

import threading
import time
from typing import Any

import numpy as np
import pytest

from predilect.models.errors import DataError, ParameterError
from predilect.models.evaluation.cold_start import Job, Plan, Progress, cold_start, cold_start_errors
from predilect.models.ratings.scale import RatingScale

SCALE = RatingScale(0, 10)
RNG = np.random.default_rng(8)
N_USERS = 30
USERS = RNG.permutation(np.repeat(np.arange(N_USERS), RNG.integers(4, 40, N_USERS))).astype(np.int32)
RATINGS = RNG.uniform(2, 8, len(USERS))
TEST = RNG.random(len(USERS)) < 0.3


def plan(**changes: Any) -> Plan:
    return Plan(USERS, TEST, **({"kappas": (5, 1, 2), "repeats": 3, "groups": 4, "seed": 6} | changes))


def test_rows_follow_the_protocol() -> None:
    study = plan()
    trained = np.bincount(USERS[~TEST], minlength=N_USERS)
    tested = np.zeros((3, len(USERS)), int)
    for job in study.jobs[1:]:
        train, test = study.rows(job)
        assert not TEST[train].any()
        assert TEST[test].all()
        group = np.unique(USERS[test])
        in_group = np.isin(np.arange(N_USERS), group)
        kept = np.bincount(USERS[train], minlength=N_USERS)
        np.testing.assert_array_equal(kept[in_group], np.minimum(trained, job.kappa)[in_group])
        if job.kappa == 1:
            tested[job.repeat, test] += 1
    np.testing.assert_array_equal(tested, np.tile(TEST, (3, 1)))  # every test row once a repeat
    train, test = study.rows(Job(None))
    np.testing.assert_array_equal(train, np.flatnonzero(~TEST))
    np.testing.assert_array_equal(test, np.flatnonzero(TEST))


def test_kept_rows_are_nested_repeatable_and_drawn_anew_each_repeat() -> None:
    one, two = (set(plan().rows(Job(kappa, 0, 1))[0].tolist()) for kappa in (1, 2))
    assert one < two
    other = set(plan().rows(Job(1, 1, 1))[0].tolist())
    assert other != one
    assert set(plan().rows(Job(1, 0, 1))[0].tolist()) == one
    assert set(plan(seed=7).rows(Job(1, 0, 1))[0].tolist()) != one


def stand_in(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Wrong by 1 / (1 + number of training ratings of the user), so the error is known for every κ."""
    n = np.bincount(USERS[train], minlength=N_USERS)[USERS[test]]
    return RATINGS[test] + 1 / (1 + n)


def test_curve_of_a_known_error() -> None:
    found = cold_start(plan(), RATINGS, SCALE, stand_in)
    trained = np.bincount(USERS[~TEST], minlength=N_USERS)[USERS[TEST]]
    full = (1 / (1 + trained)).mean()
    assert found["kappa"] == [1, 2, 5]
    assert found["full_mae"] == pytest.approx(full)
    expected = [(1 / (1 + np.minimum(trained, kappa))).mean() for kappa in (1, 2, 5)]
    np.testing.assert_allclose(found["mae"], expected)
    np.testing.assert_allclose(found["efficiency"], full / np.array(expected))
    for low, value, high in zip(found["efficiency_low"], found["efficiency"], found["efficiency_high"], strict=True):
        assert low < value < high
    assert (found["repeats"], found["groups"]) == (3, 4)


def test_a_gain_is_paired_by_user() -> None:
    """The other's errors are twice as large everywhere: the gain is the curve, below 0 in every resample."""

    def twice(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        return RATINGS[test] + 2 * (stand_in(train, test) - RATINGS[test])

    studies = [cold_start_errors(plan(), RATINGS, SCALE, predict) for predict in (stand_in, twice)]
    curve, gain = plan().summarise(studies[0]), plan().compare(*studies)
    np.testing.assert_allclose(gain["difference"], -np.array(curve["mae"]))
    np.testing.assert_allclose(gain["mae_of_other"], 2 * np.array(curve["mae"]))
    np.testing.assert_allclose(gain["low"], -np.array(curve["high"]), atol=1e-12)
    np.testing.assert_allclose(gain["high"], -np.array(curve["low"]), atol=1e-12)


def test_threads_do_not_change_the_curve_and_progress_comes_to_the_caller() -> None:
    seen: list[Progress] = []

    def note(progress: Progress) -> None:
        assert threading.current_thread() is threading.main_thread()
        seen.append(progress)

    alone = cold_start(plan(), RATINGS, SCALE, stand_in)
    assert cold_start(plan(), RATINGS, SCALE, stand_in, n_threads=3, on_fit=note) == alone
    assert [progress.done for progress in seen] == list(range(1, 1 + 1 + 3 * 4 * 3))
    assert {progress.job for progress in seen} == set(plan().jobs)


def test_an_error_in_a_fit_reaches_the_caller() -> None:
    def broken(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        raise DataError("no")

    with pytest.raises(DataError):
        cold_start(plan(), RATINGS, SCALE, broken, n_threads=2)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_interrupt_between_two_fits_drops_the_rest(n_threads: int) -> None:
    fitted: list[int] = []

    def count(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        fitted.append(1)
        time.sleep(0.02)
        return stand_in(train, test)

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:  # its traceback keeps the frames alive
        cold_start(plan(), RATINGS, SCALE, count, n_threads=n_threads, on_fit=interrupt)
    n_fitted = len(fitted)
    time.sleep(0.05)
    assert len(fitted) == n_fitted < len(plan().jobs) / 2
    assert kept.type is KeyboardInterrupt


@pytest.mark.parametrize(
    "changes", [{"kappas": ()}, {"kappas": (-1,)}, {"kappas": (1, 1)}, {"repeats": 0}, {"groups": 1}]
)
def test_impossible_parameters(changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="cold"):
        plan(**changes)


def test_more_groups_than_users() -> None:
    with pytest.raises(DataError, match="30 users"):
        plan(groups=31)
