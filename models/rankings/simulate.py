"""Ballots from a known mixture, and the mixtures of the paper's synthetic study."""

import numpy as np
from numpy.typing import NDArray

from predilect.models.errors import ParameterError
from predilect.models.random import stream
from predilect.models.rankings.ballots import Ballots, Menu
from predilect.models.rankings.objective import Mixture

BLOCK_CELLS = 4_000_000


def draw_mixture(
    n_items: int, n_components: int, *, seed: int, n_informative: int | None = None, spread: float = 1.0
) -> Mixture:
    """K equal shares, and normal log-worths of standard deviation `spread` in the first `n_informative` items.

    n_informative None: all. The other items have log-worth 0 in every component, as in the paper's generative model.
    """
    informative = n_items if n_informative is None else n_informative
    if not 1 <= informative <= n_items:
        raise ParameterError(f"n_informative is {informative}; give 1 to {n_items}, the number of items.")
    log_worths = np.zeros((n_items, n_components))
    noise = stream(seed, "worths").standard_normal((informative, n_components))
    log_worths[:informative] = spread * noise
    return Mixture(log_worths - log_worths.mean(axis=0), np.full(n_components, 1 / n_components))


def simulate(
    mixture: Mixture, n_ballots: int, *, seed: int, length: int | None = None, menu: Menu = "all"
) -> tuple[Ballots, NDArray[np.int64]]:
    """Ballots (not collapsed) and the component of each (m,).

    menu "all": each names its best `length` items. menu "ranked": each ranks `length` items drawn anew. length None:
    all items. Utilities are θ + Gumbel noise. Raises ParameterError unless 1 <= length <= n.
    """
    n_items = len(mixture.log_worths)
    named = n_items if length is None else length
    if n_ballots < 1 or not 1 <= named <= n_items:
        raise ParameterError(
            f"{n_ballots} ballots of {named} of {n_items} items cannot be drawn; give at least one ballot and a length "
            f"of 1 to {n_items}."
        )
    labels = stream(seed, "labels").choice(mixture.n_components, n_ballots, p=mixture.shares)
    generator = stream(seed, "ballots")
    items = np.empty((n_ballots, named), np.int32)
    block = max(1, BLOCK_CELLS // n_items)
    for first in range(0, n_ballots, block):
        part = labels[first : first + block]
        utility = mixture.log_worths.T[part] + generator.gumbel(size=(len(part), n_items))
        if menu == "ranked" and named < n_items:
            lottery = generator.random(utility.shape)
            away = np.argpartition(lottery, named - 1, axis=1)[:, named:]
            np.put_along_axis(utility, away, -np.inf, axis=1)
        items[first : first + block] = np.argsort(-utility, axis=1)[:, :named]
    offsets = np.arange(n_ballots + 1, dtype=np.int64) * named
    return Ballots.of(items.ravel(), offsets, n_items, menu), labels
