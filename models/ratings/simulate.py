"""Ratings with known truth, in blocks of bounded size.

Activity of users and popularity of items follow a shifted power law: with x = (rank + ½)/n the weight is
∝ (x + c)^−a, which has a few very busy users, a long tail, and a closed inverse. Each user draws distinct items
by popularity. A rating is the model's r_pi = μ + φ_p + ψ_i + A_p·B_i + ε (math of `models.ratings`), rounded to stars.

Blocks depend on the seed and their number only, so any of them may be made alone, in any order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predilect.models.errors import ParameterError
from predilect.models.random import stream

BLOCK_ROWS = 1 << 20
"""About how many ratings a block has: whole users, and at least one."""
SHIFT = 0.02
"""c: the larger, the less the first ranks stand out."""
EXACT_SHARE = 0.1
"""Users who rate more than this share of the items draw them all at once; repeated draws would hit too often."""
_KEYS_AT_ONCE = 1 << 22
_EPOCH, _DAY = 1_577_836_800, 86_400  # 2020-01-01, in unix seconds.

Floats = NDArray[np.float32]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class SimulationConfig:
    """What is simulated. Raises ParameterError when it cannot be.

    n_users, n_items, n_ratings: sizes; every user rates one item or more, and half of the items at most.
    n_latents: K, the dimensions of the factors; each explains four fifths of the standard deviation of the one before.
    mean, user_offset_sd, item_offset_sd: μ and the standard deviations of φ and ψ.
    factor_sd, noise_sd: the standard deviations of A_p·B_i and of ε, all in units of the rating scale.
    low, high, step: the scale; step 0 leaves ratings unrounded.
    user_exponent, item_exponent: a of activity and popularity, above 1.
    days: the span of the timestamps.
    """

    n_users: int
    n_items: int
    n_ratings: int
    n_latents: int = 4
    mean: float = 3.6
    user_offset_sd: float = 0.4
    item_offset_sd: float = 0.5
    factor_sd: float = 0.5
    noise_sd: float = 0.8
    low: float = 1.0
    high: float = 5.0
    step: float = 1.0
    user_exponent: float = 1.2
    item_exponent: float = 1.5
    days: int = 730

    def __post_init__(self) -> None:
        for name, least in (("n_users", 2), ("n_items", 2), ("n_latents", 0), ("days", 1)):
            if getattr(self, name) < least:
                raise ParameterError(f"{name} = {getattr(self, name)} is too few; give {least} or more.")
        for name in ("user_offset_sd", "item_offset_sd", "factor_sd", "noise_sd", "step"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ParameterError(f"{name} = {getattr(self, name)} must be 0 or more.")
        for name in ("user_exponent", "item_exponent"):
            if not 1 < getattr(self, name) <= 10:
                raise ParameterError(f"{name} = {getattr(self, name)} must be above 1 and at most 10.")
        if not self.low < self.high:
            raise ParameterError(f"low = {self.low} must be below high = {self.high}.")
        if not self.n_users <= self.n_ratings <= self.n_users * self.most:
            raise ParameterError(
                f"n_ratings = {self.n_ratings} is impossible: {self.n_users} users rate 1 to {self.most} of "
                f"{self.n_items} items; give {self.n_users} to {self.n_users * self.most}."
            )

    @property
    def most(self) -> int:
        """The most ratings a user has."""
        return max(1, self.n_items // 2)


@dataclass(frozen=True)
class Truth:
    """What the ratings are made of; P users, I items, K dimensions.

    user_offsets: (P,); item_offsets: (I,); user_factors: (P, K); item_factors: (I, K). user_counts: (P,) ratings of
    each user. item_ranks: (I,) items from the most to the least popular.
    """

    mean: float
    noise_sd: float
    user_offsets: Floats
    item_offsets: Floats
    user_factors: Floats
    item_factors: Floats
    user_counts: Codes
    item_ranks: Codes

    def expected(self, users: NDArray[np.integer[Any]], items: NDArray[np.integer[Any]]) -> Floats:
        """The rating before noise and rounding of each (user, item) of codes, shape (M,)."""
        latent = np.einsum("mk,mk->m", self.user_factors[users], self.item_factors[items])
        rating: Floats = np.float32(self.mean) + self.user_offsets[users] + self.item_offsets[items] + latent
        return rating


@dataclass(frozen=True)
class RatingsBlock:
    """Some ratings, by user: codes, ratings and unix seconds, all (M,)."""

    users: Codes
    items: Codes
    ratings: NDArray[np.float64]
    timestamps: NDArray[np.int64]


def draw_truth(config: SimulationConfig, seed: int) -> Truth:
    """Draw users and items."""
    sd = 0.8 ** np.arange(config.n_latents)
    sd *= config.factor_sd / max(float(np.linalg.norm(sd)), 1e-300)
    users, items, order = stream(seed, "users"), stream(seed, "items"), stream(seed, "ranks")
    shape_users, shape_items = (config.n_users, config.n_latents), (config.n_items, config.n_latents)
    return Truth(
        mean=config.mean,
        noise_sd=config.noise_sd,
        user_offsets=users.standard_normal(config.n_users, np.float32) * np.float32(config.user_offset_sd),
        item_offsets=items.standard_normal(config.n_items, np.float32) * np.float32(config.item_offset_sd),
        user_factors=users.standard_normal(shape_users, np.float32),
        item_factors=items.standard_normal(shape_items, np.float32) * sd.astype(np.float32),
        user_counts=order.permutation(_counts(config)).astype(np.int32),
        item_ranks=order.permutation(config.n_items).astype(np.int32),
    )


def draw_blocks(config: SimulationConfig, truth: Truth, seed: int) -> Iterator[RatingsBlock]:
    """All ratings, each (user, item) pair at most once, in blocks of about BLOCK_ROWS."""
    ends = np.cumsum(truth.user_counts, dtype=np.int64)
    block_of_user = (ends - truth.user_counts) // BLOCK_ROWS
    firsts = np.flatnonzero(np.diff(block_of_user, prepend=-1))
    for number, (first, end) in enumerate(zip(firsts, np.append(firsts[1:], config.n_users), strict=True)):
        yield _block(config, truth, int(first), int(end), stream(seed, "block", number))


def _block(config: SimulationConfig, truth: Truth, first: int, end: int, random: np.random.Generator) -> RatingsBlock:
    """The ratings of users first..end-1."""
    counts = truth.user_counts[first:end]
    n_rows = int(counts.sum())
    rows, ranks = _distinct_ranks(config, counts, random)
    users, items = (rows + first).astype(np.int32), truth.item_ranks[ranks]
    ratings = truth.expected(users, items) + truth.noise_sd * random.standard_normal(n_rows)
    if config.step:
        ratings = config.low + config.step * np.rint((ratings - config.low) / config.step)
    # Each user comes at some time and rates for some weeks.
    start, span = random.random(len(counts)), random.exponential(30 / config.days, len(counts))
    moment = np.minimum(start[rows] + span[rows] * random.random(n_rows), 1.0)
    timestamps = _EPOCH + (moment * (config.days * _DAY)).astype(np.int64)
    return RatingsBlock(users, items, np.clip(ratings, config.low, config.high), timestamps)


def _counts(config: SimulationConfig) -> NDArray[np.int64]:
    """How many ratings the users have, busiest first: the power law held between 1 and `most`, summing to n_ratings."""
    x = (np.arange(config.n_users) + 0.5) / config.n_users
    weights = (x + SHIFT) ** -config.user_exponent
    low, high = 0.0, config.most / float(weights[-1])
    for _ in range(200):
        middle = (low + high) / 2
        if np.clip(weights * middle, 1, config.most).sum() > config.n_ratings:
            high = middle
        else:
            low = middle
    counts = np.clip(weights * low, 1, config.most).astype(np.int64)
    # Rounding down lost less than one rating a user: give them back to those with room, busiest first.
    short = config.n_ratings - int(counts.sum())
    while short > 0:
        room = np.flatnonzero(counts < config.most)[:short]
        counts[room] += 1
        short -= len(room)
    return counts


def _distinct_ranks(
    config: SimulationConfig, counts: Codes, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """counts[k] different popularity ranks for each user k, drawn by popularity; users 0,0,…,1,1,… and their ranks."""
    n_items = config.n_items
    busy = np.flatnonzero(counts > EXACT_SHARE * n_items)
    need = counts.astype(np.int64)
    need[busy] = 0
    done, kept = [_busy_pairs(config, busy, counts, random)], np.empty(0, np.int64)
    while need.any():
        users = np.repeat(np.arange(len(need)), need)
        drawn = users * n_items + popularity_ranks(random.random(len(users)), config)
        kept = np.sort(np.concatenate([kept, drawn]))  # np.unique hashes, at thirty times the cost.
        kept = kept[np.diff(kept, prepend=-1) > 0]
        owner = kept // n_items
        need = np.where(need > 0, counts - np.bincount(owner, minlength=len(counts)), 0)
        full = need[owner] == 0
        done.append(kept[full])
        kept = kept[~full]
    pairs = np.sort(np.concatenate(done))
    return pairs // n_items, pairs % n_items


def _busy_pairs(
    config: SimulationConfig, busy: NDArray[np.intp], counts: Codes, random: np.random.Generator
) -> NDArray[np.int64]:
    """user * n_items + rank for users who rate many items: the smallest of exponential times, rate = popularity."""
    n_items = config.n_items
    edges = _share(np.arange(n_items + 1) / n_items, config.item_exponent)
    popularity = np.diff(edges)
    pairs = [np.empty(0, np.int64)]
    for some in np.array_split(busy, -(-len(busy) * n_items // _KEYS_AT_ONCE) or 1):
        times = random.standard_exponential((len(some), n_items)) / popularity
        first = np.argsort(times, axis=1)
        chosen = np.arange(n_items) < counts[some][:, None]
        pairs.append((some[:, None] * n_items + first)[chosen])
    return np.concatenate(pairs)


def _share(x: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """The share of all weight (x + c)^−a that lies below x in [0, 1]."""
    power = 1 - exponent
    share: NDArray[np.float64] = ((x + SHIFT) ** power - SHIFT**power) / ((1 + SHIFT) ** power - SHIFT**power)
    return share


def popularity_ranks(share: NDArray[np.float64], config: SimulationConfig) -> NDArray[np.int64]:
    """The popularity rank at which this share of all weight lies: the inverse of `_share`."""
    power = 1 - config.item_exponent
    start, end = SHIFT**power, (1 + SHIFT) ** power
    x = (start + share * (end - start)) ** (1 / power) - SHIFT
    rank: NDArray[np.int64] = np.minimum((x * config.n_items).astype(np.int64), config.n_items - 1)
    return rank
