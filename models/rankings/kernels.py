"""Compiled loops over ballots: expectation and counts in one pass, and the copies and checks of the container.

A ballot in kernel layout (see `layout.py`) is `stages` chosen items, best first, followed by its tail: the other
items that were on offer at every stage. Menus therefore are suffixes, and one running sum serves them all.
"""

import numpy as np
from numpy.typing import NDArray

from predilect.models.compiled import exact_kernel, kernel

# Below this a running product of choice probabilities is moved into a logarithm before it underflows.
SMALL = 1e-200


@kernel
def em_pass(  # noqa: PLR0912, PLR0915
    first: int,
    last: int,
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stages: NDArray[np.int32],
    tail_stored: NDArray[np.bool_],
    observed: NDArray[np.float64],
    worths: NDArray[np.float64],
    shares: NDArray[np.float64],
    sums: NDArray[np.float64],
    responsibilities: NDArray[np.float64],
    log_likelihoods: NDArray[np.float64],
) -> float:
    """One pass over ballots `first`..`last`: their weighted log-likelihood, and the counts for an M-step.

    worths: λ (n, K), largest 1, spread at most e^`LINEAR_RANGE`. shares: α (K,). observed: ballot weights (m,).
    sums (n + 1, 2K) receives in row i and column k the denominators D_i = Σ_l q_l Σ_{t: i ∈ A_t} 1 / Σ_{a ∈ A_t} λ_a,
    and in column K + k the wins W_i = Σ_l q_l 1[i chosen]; row n holds, in column k, what all items share of D because
    their tail was not stored and, in column K + k, Σ_l q_l. responsibilities (m, K) and log_likelihoods (m,) are
    filled unless they have no rows.
    """
    n_items, n_components = worths.shape
    longest = 0
    for ballot in range(first, last):
        longest = max(longest, stages[ballot])
    inverse = np.empty((longest, n_components))
    product = np.empty(n_components)
    scale = np.empty(n_components)
    running = np.empty(n_components)
    everything = np.zeros(n_components)
    for item in range(n_items):
        for k in range(n_components):
            everything[k] += worths[item, k]
    marks = np.full(n_items, -1, np.int64)
    total = 0.0
    for ballot in range(first, last):
        begin, end = offsets[ballot], offsets[ballot + 1]
        chosen = begin + stages[ballot]
        for k in range(n_components):
            running[k] = 0.0
            product[k] = 1.0
            scale[k] = 0.0
        if tail_stored[ballot]:
            for place in range(chosen, end):
                item = items[place]
                for k in range(n_components):
                    running[k] += worths[item, k]
        else:
            for place in range(begin, end):
                item = items[place]
                marks[item] = ballot
                for k in range(n_components):
                    running[k] += worths[item, k]
            cancels = False
            for k in range(n_components):
                running[k] = everything[k] - running[k]
                cancels |= running[k] < 1e-5 * everything[k]
            if cancels:  # the difference has lost too many digits: add up the tail itself
                for k in range(n_components):
                    running[k] = 0.0
                for item in range(n_items):
                    if marks[item] != ballot:
                        for k in range(n_components):
                            running[k] += worths[item, k]
        underflows = False
        for place in range(chosen - 1, begin - 1, -1):
            item = items[place]
            least = 1.0
            for k in range(n_components):
                running[k] += worths[item, k]
                share = 1.0 / running[k]
                inverse[place - begin, k] = share
                product[k] *= worths[item, k] * share
                least = min(least, product[k])
            if least < SMALL:
                underflows = True
                for k in range(n_components):
                    scale[k] += np.log(product[k])
                    product[k] = 1.0
        evidence = 0.0
        peak = 0.0
        if underflows:
            peak = -np.inf
            for k in range(n_components):
                scale[k] += np.log(product[k]) + np.log(shares[k])
                peak = max(peak, scale[k])
            for k in range(n_components):
                product[k] = np.exp(scale[k] - peak)
                evidence += product[k]
        else:
            for k in range(n_components):
                product[k] *= shares[k]
                evidence += product[k]
        log_likelihood = peak + np.log(evidence)
        weight = observed[ballot]
        if weight > 0.0:
            total += weight * log_likelihood
        if log_likelihoods.shape[0]:
            log_likelihoods[ballot] = log_likelihood
        if responsibilities.shape[0]:
            for k in range(n_components):
                responsibilities[ballot, k] = product[k] / evidence
        for k in range(n_components):
            product[k] *= weight / evidence
            sums[n_items, n_components + k] += product[k]
            running[k] = 0.0
        for place in range(begin, chosen):
            item = items[place]
            for k in range(n_components):
                running[k] += product[k] * inverse[place - begin, k]
                sums[item, k] += running[k]
                sums[item, n_components + k] += product[k]
        if tail_stored[ballot]:
            for place in range(chosen, end):
                item = items[place]
                for k in range(n_components):
                    sums[item, k] += running[k]
        else:
            for k in range(n_components):
                sums[n_items, k] += running[k]
            for place in range(begin, chosen):
                item = items[place]
                for k in range(n_components):
                    sums[item, k] -= running[k]
    return total


@kernel
def single_pass(
    first: int,
    last: int,
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stages: NDArray[np.int32],
    observed: NDArray[np.float64],
    worths: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> float:
    """`em_pass` for one component and stored tails, twice as fast: worths (n,), sums (n + 1, 2)."""
    longest = 0
    for ballot in range(first, last):
        longest = max(longest, stages[ballot])
    inverse = np.empty(longest)
    total = 0.0
    for ballot in range(first, last):
        begin, end = offsets[ballot], offsets[ballot + 1]
        chosen = begin + stages[ballot]
        weight = observed[ballot]
        if weight == 0.0:
            continue
        running = 0.0
        for place in range(chosen, end):
            running += worths[items[place]]
        product = 1.0
        for place in range(chosen - 1, begin - 1, -1):
            worth = worths[items[place]]
            running += worth
            share = 1.0 / running
            inverse[place - begin] = share
            product *= worth * share
            if product < SMALL:
                total += weight * np.log(product)
                product = 1.0
        total += weight * np.log(product)
        sums[worths.shape[0], 1] += weight
        running = 0.0
        for place in range(begin, chosen):
            item = items[place]
            running += weight * inverse[place - begin]
            sums[item, 0] += running
            sums[item, 1] += weight
        for place in range(chosen, end):
            sums[items[place], 0] += running
    return total


@kernel
def log_em_pass(  # noqa: PLR0912
    first: int,
    last: int,
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stages: NDArray[np.int32],
    tail_stored: NDArray[np.bool_],
    observed: NDArray[np.float64],
    log_worths: NDArray[np.float64],
    shares: NDArray[np.float64],
    sums: NDArray[np.float64],
    responsibilities: NDArray[np.float64],
    log_likelihoods: NDArray[np.float64],
) -> float:
    """`em_pass` for worths of any spread: every sum is a running log-sum-exp; `sums` holds λ_i D_i in place of D_i.

    Some ten times slower. Nothing is shared between items here: row n holds Σ_l q_l only.
    """
    n_items, n_components = log_worths.shape
    longest = 0
    for ballot in range(first, last):
        longest = max(longest, stages[ballot])
    menu = np.empty((longest, n_components))
    score = np.empty(n_components)
    running = np.empty(n_components)
    tail = np.empty(n_items, np.int32)
    marks = np.full(n_items, -1, np.int64)
    total = 0.0
    for ballot in range(first, last):
        begin, end = offsets[ballot], offsets[ballot + 1]
        chosen = begin + stages[ballot]
        n_tail = 0
        if tail_stored[ballot]:
            for place in range(chosen, end):
                tail[n_tail] = items[place]
                n_tail += 1
        else:
            for place in range(begin, end):
                marks[items[place]] = ballot
            for item in range(n_items):
                if marks[item] != ballot:
                    tail[n_tail] = item
                    n_tail += 1
        peak = -np.inf
        for k in range(n_components):
            score[k] = np.log(shares[k])
            level = -np.inf
            for place in range(n_tail):
                level = log_add(level, log_worths[tail[place], k])
            for place in range(chosen - 1, begin - 1, -1):
                level = log_add(level, log_worths[items[place], k])
                menu[place - begin, k] = level
                score[k] += log_worths[items[place], k] - level
            peak = max(peak, score[k])
        evidence = 0.0
        for k in range(n_components):
            score[k] = np.exp(score[k] - peak)
            evidence += score[k]
        log_likelihood = peak + np.log(evidence)
        weight = observed[ballot]
        if weight > 0.0:
            total += weight * log_likelihood
        if log_likelihoods.shape[0]:
            log_likelihoods[ballot] = log_likelihood
        if responsibilities.shape[0]:
            for k in range(n_components):
                responsibilities[ballot, k] = score[k] / evidence
        for k in range(n_components):
            score[k] *= weight / evidence
            sums[n_items, n_components + k] += score[k]
            running[k] = -np.inf
            for place in range(begin, chosen):
                item = items[place]
                running[k] = log_add(running[k], -menu[place - begin, k])
                sums[item, k] += score[k] * np.exp(log_worths[item, k] + running[k])
                sums[item, n_components + k] += score[k]
            for place in range(n_tail):
                sums[tail[place], k] += score[k] * np.exp(log_worths[tail[place], k] + running[k])
    return total


@kernel
def log_add(a: float, b: float) -> float:
    """log(e^a + e^b), also when either is -inf."""
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@exact_kernel
def first_fault(items: NDArray[np.int32], offsets: NDArray[np.int64], n_items: int) -> tuple[int, int, int]:
    """The first faulty ballot as (ballot, fault, item); (-1, 0, -1) when there is none.

    Faults: 1 it is empty, 2 it names an item outside 0..n_items-1, 3 it names an item twice.
    """
    marks = np.full(n_items, -1, np.int64)
    for ballot in range(offsets.shape[0] - 1):
        if offsets[ballot] == offsets[ballot + 1]:
            return ballot, 1, -1
        for place in range(offsets[ballot], offsets[ballot + 1]):
            item = items[place]
            if item < 0 or item >= n_items:
                return ballot, 2, item
            if marks[item] == ballot:
                return ballot, 3, item
            marks[item] = ballot
    return -1, 0, -1


@exact_kernel
def ballot_hashes(items: NDArray[np.int32], offsets: NDArray[np.int64], salt: np.uint64) -> NDArray[np.uint64]:
    """A 64-bit hash of every ballot (FNV-1a over its items, then a finaliser)."""
    hashes = np.empty(offsets.shape[0] - 1, np.uint64)
    for ballot in range(hashes.shape[0]):
        value = np.uint64(14695981039346656037) ^ salt
        for place in range(offsets[ballot], offsets[ballot + 1]):
            value = (value ^ np.uint64(items[place] + 1)) * np.uint64(1099511628211)
            value ^= value >> np.uint64(29)
        hashes[ballot] = value
    return hashes


@exact_kernel
def all_equal(items: NDArray[np.int32], offsets: NDArray[np.int64], representative: NDArray[np.int64]) -> bool:
    """Whether every ballot is the same as the ballot `representative` names for it."""
    for ballot in range(representative.shape[0]):
        begin, other = offsets[ballot], offsets[representative[ballot]]
        length = offsets[ballot + 1] - begin
        if offsets[representative[ballot] + 1] - other != length:
            return False
        for place in range(length):
            if items[begin + place] != items[other + place]:
                return False
    return True


@exact_kernel
def take_ballots(
    items: NDArray[np.int32], offsets: NDArray[np.int64], rows: NDArray[np.int64], taken: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The items of ballots `rows`, one after the other; `taken` are their offsets in the result."""
    result = np.empty(taken[-1], np.int32)
    for row in range(rows.shape[0]):
        begin = offsets[rows[row]]
        for place in range(taken[row + 1] - taken[row]):
            result[taken[row] + place] = items[begin + place]
    return result


@exact_kernel
def lay_out(
    items: NDArray[np.int32],
    offsets: NDArray[np.int64],
    laid_offsets: NDArray[np.int64],
    n_items: int,
) -> NDArray[np.int32]:
    """The ballots followed by the items they leave out, where `laid_offsets` makes room for those."""
    result = np.empty(laid_offsets[-1], np.int32)
    marks = np.full(n_items, -1, np.int64)
    for ballot in range(offsets.shape[0] - 1):
        to = laid_offsets[ballot]
        for place in range(offsets[ballot], offsets[ballot + 1]):
            marks[items[place]] = ballot
            result[to] = items[place]
            to += 1
        if to < laid_offsets[ballot + 1]:
            for item in range(n_items):
                if marks[item] != ballot:
                    result[to] = item
                    to += 1
    return result
