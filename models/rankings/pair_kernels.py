"""Compiled loops over pairs of items on the same menu: wins, second derivatives, Luce spectral flows, reachability.

All cost O(menu²) a ballot, so they serve starts, Newton steps, diagnoses and standard errors, not the main loop.
"""

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import kernel


@kernel
def fill_menu(
    ballot: int,
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    tail_stored: NDArray[np.bool_],
    marks: NDArray[np.int64],
    menu: NDArray[np.int32],
) -> int:
    """Write the first menu of a ballot (chosen items best first, then its tail) and return its size."""
    size = 0
    for place in range(offsets[ballot], offsets[ballot + 1]):
        menu[size] = items[place]
        marks[items[place]] = ballot
        size += 1
    if not tail_stored[ballot]:
        for item in range(marks.shape[0]):
            if marks[item] != ballot:
                menu[size] = item
                size += 1
    return size


@kernel
def pair_wins(
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stages: NDArray[np.int32],
    tail_stored: NDArray[np.bool_],
    observed: NDArray[np.float64],
    wins: NDArray[np.float64],
) -> None:
    """Add to wins[i, j] the weight of the ballots that put i before j."""
    menu = np.empty(wins.shape[0], np.int32)
    marks = np.full(wins.shape[0], -1, np.int64)
    for ballot in range(stages.shape[0]):
        weight = observed[ballot]
        if weight == 0.0:
            continue
        size = fill_menu(ballot, items, offsets, tail_stored, marks, menu)
        for better in range(stages[ballot]):
            row = wins[menu[better]]
            for worse in range(better + 1, size):
                row[menu[worse]] += weight


@kernel
def successions(
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stages: NDArray[np.int32],
    tail_stored: NDArray[np.bool_],
    observed: NDArray[np.float64],
    weight_of: NDArray[np.float64],
) -> None:
    """Add to weight_of[i, j] the weight of the ballots on which j directly follows i, or is in the tail behind i.

    The wins of a ballot are the transitive closure of these, so the two graphs have the same strong components.
    """
    menu = np.empty(weight_of.shape[0], np.int32)
    marks = np.full(weight_of.shape[0], -1, np.int64)
    for ballot in range(stages.shape[0]):
        weight = observed[ballot]
        if weight == 0.0 or stages[ballot] == 0:
            continue
        size = fill_menu(ballot, items, offsets, tail_stored, marks, menu)
        for place in range(1, stages[ballot]):
            weight_of[menu[place - 1], menu[place]] += weight
        for place in range(stages[ballot], size):
            weight_of[menu[stages[ballot] - 1], menu[place]] += weight


@kernel
def local_worths(
    menu: NDArray[np.int32], size: int, log_worths: NDArray[np.float64], worths: NDArray[np.float64]
) -> None:
    """Worths of a menu, largest 1; those below e^-300 are held there, so that inverse squares are finite."""
    peak = -np.inf
    for place in range(size):
        peak = max(peak, log_worths[menu[place]])
    for place in range(size):
        worths[place] = np.exp(max(log_worths[menu[place]] - peak, -300.0))


@kernel
def curvature(
    first: int,
    last: int,
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stages: NDArray[np.int32],
    tail_stored: NDArray[np.bool_],
    observed: NDArray[np.float64],
    log_worths: NDArray[np.float64],
    pairs: NDArray[np.float64],
) -> None:
    """Add to pairs[i, j] (one of the two orders) Σ_l w_l Σ_t p_ti p_tj, p_t the choice probabilities of stage t.

    The Hessian of the log-likelihood is minus the Laplacian of `pairs` + `pairs`ᵀ.
    """
    n_items = log_worths.shape[0]
    menu = np.empty(n_items, np.int32)
    marks = np.full(n_items, -1, np.int64)
    worths = np.empty(n_items)
    inverse = np.empty(n_items)
    for ballot in range(first, last):
        weight = observed[ballot]
        if weight == 0.0 or stages[ballot] == 0:
            continue
        size = fill_menu(ballot, items, offsets, tail_stored, marks, menu)
        local_worths(menu, size, log_worths, worths)
        chosen = stages[ballot]
        running = 0.0
        for place in range(size - 1, -1, -1):
            running += worths[place]
            inverse[place] = 1.0 / running
        total = 0.0
        for place in range(chosen):
            total += weight * inverse[place] * inverse[place]
            scaled = total * worths[place]
            row = pairs[menu[place]]
            for other in range(place + 1, size):
                row[menu[other]] += scaled * worths[other]
        for place in range(chosen, size):
            scaled = total * worths[place]
            row = pairs[menu[place]]
            for other in range(place + 1, size):
                row[menu[other]] += scaled * worths[other]


@kernel
def spectral_flows(
    first: int,
    last: int,
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stages: NDArray[np.int32],
    tail_stored: NDArray[np.bool_],
    observed: NDArray[np.float64],
    log_worths: NDArray[np.float64],
    flows: NDArray[np.float64],
) -> None:
    """Add to flows[i, j] the weight Σ w_l λ_i / Σ_{a ∈ A_t} λ_a of the stages at which j was chosen and i was not.

    That is the weighted Luce spectral ranking chain in the coordinates x_i = π_i / λ_i, whose entries are bounded
    by Σ w_l whatever the spread of the worths.
    """
    n_items = log_worths.shape[0]
    menu = np.empty(n_items, np.int32)
    marks = np.full(n_items, -1, np.int64)
    worths = np.empty(n_items)
    inverse = np.empty(n_items)
    for ballot in range(first, last):
        weight = observed[ballot]
        if weight == 0.0 or stages[ballot] == 0:
            continue
        size = fill_menu(ballot, items, offsets, tail_stored, marks, menu)
        local_worths(menu, size, log_worths, worths)
        running = 0.0
        for place in range(size - 1, -1, -1):
            running += worths[place]
            inverse[place] = weight / running
        for other in range(1, size):
            row = flows[menu[other]]
            for place in range(min(other, stages[ballot])):
                row[menu[place]] += worths[other] * inverse[place]


@kernel
def stationary(flows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The stationary distribution of the chain with these transition rates (n, n), overwritten; diagonal ignored.

    Grassmann, Taksar and Heyman's elimination (1985): no subtraction, so every entry has full relative accuracy.
    """
    n = flows.shape[0]
    for state in range(n - 1, 0, -1):
        leaving = 0.0
        for other in range(state):
            leaving += flows[state, other]
        for other in range(state):
            flows[other, state] /= leaving
        for other in range(state):
            rate = flows[other, state]
            for to in range(state):
                flows[other, to] += rate * flows[state, to]
    share = np.empty(n)
    share[0] = 1.0
    total = 1.0
    for state in range(1, n):
        value = 0.0
        for other in range(state):
            value += share[other] * flows[other, state]
        share[state] = value
        total += value
    return share / total


@kernel
def embed(
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stages: NDArray[np.int32],
    tail_stored: NDArray[np.bool_],
    n_items: int,
    as_pairs: bool,
    rows: NDArray[np.float32],
) -> None:
    """Fill the row of every ballot with its pairwise vector, or with its centred positions.

    Pairwise: column d of the pair i < j (lexicographic) is +1/2 where i came before j, -1/2 where after, 0 where they
    were not compared. Positions: half of how many items an item came before, less half of how many it came after.
    """
    menu = np.empty(n_items, np.int32)
    marks = np.full(n_items, -1, np.int64)
    for ballot in range(stages.shape[0]):
        size = fill_menu(ballot, items, offsets, tail_stored, marks, menu)
        row = rows[ballot]
        if as_pairs:
            for better in range(stages[ballot]):
                i = menu[better]
                for worse in range(better + 1, size):
                    j = menu[worse]
                    low, high = min(i, j), max(i, j)
                    row[low * n_items - low * (low + 1) // 2 + high - low - 1] = 0.5 if i < j else -0.5
        else:
            for place in range(size):
                after = size - 1 - place if place < stages[ballot] else 0
                row[menu[place]] = 0.5 * (after - min(place, stages[ballot]))


@kernel
def score_rows(
    first: int,
    last: int,
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stages: NDArray[np.int32],
    tail_stored: NDArray[np.bool_],
    log_worths: NDArray[np.float64],
    rows: NDArray[np.float64],
) -> None:
    """Fill rows[l - first] (n) with the derivative of log P(π_l | θ) at θ (n,): 1[i chosen] − Σ_{t: i ∈ A_t} p_ti."""
    n_items = log_worths.shape[0]
    menu = np.empty(n_items, np.int32)
    marks = np.full(n_items, -1, np.int64)
    worths = np.empty(n_items)
    inverse = np.empty(n_items)
    for ballot in range(first, last):
        row = rows[ballot - first]
        row[:] = 0.0
        size = fill_menu(ballot, items, offsets, tail_stored, marks, menu)
        local_worths(menu, size, log_worths, worths)
        running = 0.0
        for place in range(size - 1, -1, -1):
            running += worths[place]
            inverse[place] = 1.0 / running
        total = 0.0
        for place in range(size):
            if place < stages[ballot]:
                total += inverse[place]
                row[menu[place]] = 1.0
            row[menu[place]] -= worths[place] * total
