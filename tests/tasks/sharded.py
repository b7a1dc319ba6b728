"""A data set in many chunks, and fits of it with and without workers."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from predilect.models.ids import IdMap
from predilect.models.ratings import Features, RatingScale, RatingsModel, VBConfig
from predilect.models.ratings.orders import Order, by_user_and_item
from predilect.tasks.dask_sweeps import ShardedSweeps
from predilect.tasks.order_files import open_orders, write_orders

SCALE = RatingScale(1, 5, tuple(np.arange(1.0, 6)))
N_USERS, N_ITEMS = 700, 300


def orders(
    folder: Path, n_ratings: int = 20_000, n_users: int = N_USERS, n_items: int = N_ITEMS
) -> tuple[Order, Order]:
    """Ratings with planted factors in two orders, as files; some users and items have none."""
    rng = np.random.default_rng(5)
    pairs = rng.choice((n_users - 5) * (n_items - 5), n_ratings, replace=False)
    users, items = (codes.astype(np.int32) for codes in np.divmod(pairs, n_items - 5))
    a, b = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    value = np.clip(np.round(3 + (a[users] * b[items]).sum(axis=1) + rng.normal(0, 0.5, n_ratings)), 1, 5)
    write_orders(folder, *by_user_and_item(users, items, value.astype(np.float32), n_users, n_items))
    return open_orders(folder)


def config(inference: str = "mf", max_sweeps: int = 9, **more: Any) -> VBConfig:
    return VBConfig(
        n_user_latents=3, n_item_latents=2, max_sweeps=max_sweeps, tolerance=1e-12, inference=inference, restarts=1,
        **more,
    )  # fmt: skip


def fit(
    both: tuple[Order, Order],
    config: VBConfig,
    sweeps: ShardedSweeps | None = None,
    features: Features | None = None,
    on_sweep: Callable[[int, float, float], None] | None = None,
) -> dict[str, bytes]:
    """The fitted model's arrays, as bytes."""
    model = RatingsModel.fit_orders(
        *both, SCALE, config, seed=3, n_threads=1, user_features=features, on_sweep=on_sweep,
        user_ids=IdMap(np.arange(both[0].n_rows)), item_ids=IdMap(np.arange(both[1].n_rows)),
        **({} if sweeps is None else {"half_sweep": sweeps.half_sweep}),
    )  # fmt: skip
    sides = model.posterior.users.to_arrays("users") | model.posterior.items.to_arrays("items")
    return {name: array.tobytes() for name, array in sides.items()} | {"bound": model.bound_trace.tobytes()}


class InProcess:
    """Workers that live in this process, and are lost or come at the calls told."""

    def __init__(self, *names: str, loses: Mapping[int, str] | None = None, comes: Mapping[int, str] | None = None):
        self.names, self.loses, self.comes, self.n_calls = list(names), loses or {}, comes or {}, 0

    def now(self) -> dict[str, int]:
        return dict.fromkeys(self.names, 1)

    wait = now

    def give_up(self, name: str) -> None:
        self.names.remove(name)

    def place(self, make: Callable[..., Any], calls: Mapping[str, tuple[Any, ...]]) -> tuple[dict[str, Any], set[str]]:
        return {name: make(*arguments) for name, arguments in calls.items()}, set()

    def gather(self, calls: Mapping[str, Any], kind: str) -> tuple[dict[str, Any], set[str]]:
        self.n_calls += 1
        if new := self.comes.get(self.n_calls):
            self.names.append(new)
        lost = {self.loses[self.n_calls]} & calls.keys() if self.n_calls in self.loses else set()
        for name in lost:
            self.give_up(name)
        return {name: answer for name, answer in calls.items() if name not in lost}, lost


def told(result: Mapping[str, bytes]) -> str:
    """A digest of a fit's result."""
    return hashlib.sha256(b"".join(result[name] for name in sorted(result))).hexdigest()
