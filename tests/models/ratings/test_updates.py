"""The compiled updates against the math page, one coordinate at a time, in float64."""

import numpy as np
import pytest

from predilect.models.compiled import threads
from predilect.models.ratings.bound import Noise, SideSums, best_prior, bound
from predilect.models.ratings.kernels import TILE
from predilect.models.ratings.posterior import Prior, Side
from predilect.models.ratings.sweep import HalfSweep

from . import reference
from .build import halves, planted, random_state, rounded, to_plain, to_side, to_state
from .reference import Ratings, State

N_USERS, N_ITEMS = 7, 9


def small() -> Ratings:
    """Seven users and nine items; user 3 and item 4 without ratings."""
    data, _ = planted(N_USERS, N_ITEMS, 2, 0.5, 0.5, seed=1)
    keep = (data.user != 3) & (data.item != 4)
    return rounded(Ratings(data.user[keep], data.item[keep], data.value[keep]))


def run(half: HalfSweep, side: Side, other: Side, theta: float, passes: int = 1) -> SideSums:
    with threads(1) as pool:
        return half.run(side, other, theta, pool, passes)


@pytest.mark.parametrize("n_factors", [0, 1, 3, 7])
@pytest.mark.parametrize("of_items", [False, True])
def test_a_half_sweep_is_the_coordinate_updates_in_turn_and_none_lowers_the_bound(
    n_factors: int, of_items: bool
) -> None:
    data, state = small(), random_state(N_USERS, N_ITEMS, n_factors, seed=2)
    users, items = to_side(state.users), to_side(state.items)
    by_user, by_item = halves(data, N_USERS, N_ITEMS)
    if of_items:
        sums, side = run(by_item, items, users, state.theta), items
        state, data = reference.swapped(state, data)
    else:
        sums, side = run(by_user, users, items, state.theta), users

    rated = np.unique(data.user)
    before = reference.bound(state, data)
    for p in rated:
        for k in [n_factors, *range(n_factors)]:  # the offset first
            reference.update_user_coordinate(state, data, p, k)
            after = reference.bound(state, data)
            assert after >= before - 1e-10 * abs(before)
            before = after

    np.testing.assert_allclose(to_plain(side).mean, state.users.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(to_plain(side).variance, state.users.variance, rtol=1e-10)
    assert sums.n_rows == len(rated)
    assert sums.residual == pytest.approx(reference.expected_squares(state, data), rel=1e-10)
    mean, variance = state.users.mean[rated], state.users.variance[rated]
    np.testing.assert_allclose(sums.moments, [mean.sum(0), (mean**2).sum(0), variance.sum(0)], rtol=1e-10)
    assert sums.log_variance == pytest.approx(np.log(variance).sum(), rel=1e-10)


@pytest.mark.parametrize("n_factors", [3, 60])  # of 60, a tile holds fewer
def test_rows_longer_than_a_tile(n_factors: int) -> None:
    n_items = 2 * TILE + 3
    rng = np.random.default_rng(5)
    item = np.arange(n_items, dtype=np.int32)
    data = rounded(Ratings(np.zeros(n_items, np.int32), item, rng.normal(0, 1, n_items)))
    state = random_state(1, n_items, n_factors, seed=6)
    users, items = to_side(state.users), to_side(state.items)
    run(halves(data, 1, n_items)[0], users, items, state.theta)
    for k in [n_factors, *range(n_factors)]:
        reference.update_user_coordinate(state, data, 0, k)
    np.testing.assert_allclose(to_plain(users).mean, state.users.mean, rtol=1e-9)
    np.testing.assert_allclose(to_plain(users).variance, state.users.variance, rtol=1e-9)


def test_many_factors_whose_precisions_leave_a_doubles_range_when_multiplied() -> None:
    data, state = small(), random_state(N_USERS, N_ITEMS, 40, seed=3)
    state.users.prior_precision[:] = 1e12
    users, items = to_side(state.users), to_side(state.items)
    sums = run(halves(data, N_USERS, N_ITEMS)[0], users, items, state.theta)
    rated = np.unique(data.user)
    assert sums.log_variance == pytest.approx(np.log(to_plain(users).variance[rated]).sum(), rel=1e-12)


def test_further_passes_end_at_the_rows_own_optimum() -> None:
    data, state = small(), random_state(N_USERS, N_ITEMS, 3, seed=4)
    users, items = to_side(state.users), to_side(state.items)
    run(halves(data, N_USERS, N_ITEMS)[0], users, items, state.theta, passes=10_000)
    for _ in range(300):
        for k in range(4):
            reference.update_user_coordinate(state, data, 0, k)
    tolerance = 2e-3 * np.sqrt(state.users.variance[0])  # passes end below 1e-4 standard deviations a step
    assert np.all(np.abs(to_plain(users).mean[0] - state.users.mean[0]) < tolerance)


def test_the_bound_of_the_sums_is_the_bound_and_no_shared_update_lowers_it() -> None:
    data, state = small(), random_state(N_USERS, N_ITEMS, 2, seed=7)
    state.users.prior_mean[-1] = 0.0  # where `best_prior` is told to leave it
    users, items = to_side(state.users), to_side(state.items)
    by_user, by_item = halves(data, N_USERS, N_ITEMS)
    noise = Noise(state.shape, state.rate)
    value = -np.inf

    def rose(now: float) -> bool:
        nonlocal value
        before, value = value, now
        return now >= before - 1e-10 * abs(before)

    def exact() -> float:
        for side, unrated in ((users, 3), (items, 4)):
            side.reset(np.array([unrated]))  # at the prior, where they add nothing
        return reference.bound(to_state(users, items, noise), data)

    for _ in range(30):
        user_sums = run(by_user, users, items, noise.precision, passes=2)
        assert rose(exact())
        item_sums = run(by_item, items, users, noise.precision, passes=2)
        assert rose(exact())
        noise = Noise.given(len(data.value), item_sums.residual)
        assert rose(exact())
        users.prior = best_prior(user_sums, offset_mean=0.0)
        assert rose(exact())
        items.prior = best_prior(item_sums)
        assert rose(exact())
        sides = ((user_sums, users.prior), (item_sums, items.prior))
        assert bound(len(data.value), item_sums.residual, noise, sides) == pytest.approx(value, rel=1e-10)


def test_learned_priors_are_the_optimum() -> None:
    rng = np.random.default_rng(8)
    mean, variance = rng.normal(1, 2, (50, 3)), rng.uniform(0.1, 1, (50, 3))
    moments = np.array([mean.sum(0), (mean**2).sum(0), variance.sum(0)])
    sums = SideSums(50, moments, float(np.log(variance).sum()), 10.0)
    best = best_prior(sums)
    np.testing.assert_allclose(best.means, mean.mean(0))
    np.testing.assert_allclose(1 / best.precisions, mean.var(0) + variance.mean(0))

    def value(prior: Prior) -> float:
        return bound(10, 10.0, Noise.given(10, 10.0), [(sums, prior)])

    for k in range(3):
        for change in (0.99, 1.01):
            for other in (
                Prior(best.precisions * np.where(np.arange(3) == k, change, 1), best.means),
                Prior(best.precisions, best.means * np.where(np.arange(3) == k, change, 1)),
            ):
                assert value(other) < value(best)


def test_the_noise_is_at_its_optimum() -> None:
    data, state = small(), random_state(N_USERS, N_ITEMS, 2, seed=9)
    noise = Noise.given(len(data.value), reference.expected_squares(state, data))
    best = State(state.users, state.items, noise.shape, noise.rate)
    for shape, rate in ((0.99, 1.0), (1.01, 1.0), (1.0, 0.99), (1.0, 1.01)):
        other = State(state.users, state.items, noise.shape * shape, noise.rate * rate)
        assert reference.bound(other, data) < reference.bound(best, data)
