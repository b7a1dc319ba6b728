"""Sums over all rows of a fit, from those of its pieces: here one in this process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.contexts import Contexts
from predilect.models.clicks.piece import Observed, Piece
from predilect.models.clicks.sums import Adjoint, added
from predilect.models.compiled import Threads

Array = NDArray[np.float64]


class Call(NamedTuple):
    """A method of `Piece` and its arguments."""

    method: str
    arguments: tuple[Any, ...]

    def on(self, piece: Piece) -> Any:
        """The answer of a piece in this process."""
        return getattr(piece, self.method)(*self.arguments)


@dataclass(frozen=True)
class RowHessians:
    """Second derivatives in the logits of every row at one point, which the pieces keep."""

    number: int
    calls: tuple[Call, ...]
    """What makes them on a piece."""
    by_group: Array
    """(1 or 3, n_groups) added up by group: ζζ, ζη, ηη; without effects of groups (·, 0)."""


class Rows:
    """All rows of a fit."""

    def __init__(self, contexts: Contexts, layout: Layout, pool: Threads) -> None:
        self.contexts, self.layout, self.pool = contexts, layout, pool
        self._numbers = count()

    @cached_property
    def _piece(self) -> Piece:
        return Piece(self.contexts, self.layout, self.pool)

    def ask(self, calls: Sequence[Call]) -> list[Any]:
        """The answers of all pieces to the last call, in order of their chunks.

        A piece that does not keep what that call needs is asked the calls before it, too.
        """
        return [answered(lambda call: call.on(self._piece), calls)]

    def observe(self, x: Array) -> tuple[float, Array, RowHessians]:
        """-log likelihood at the coefficients x (size,), its gradient (size,), and the rows' Hessians."""
        number = next(self._numbers)
        call = Call("observe", (number, x))
        found: list[Observed] = self.ask([call])
        by_group = self._by_group([answer.by_group for answer in found])
        n = len(self.layout.group_sides)
        gradient = self._coefficients(self.layout, [answer.slope for answer in found])
        value = float(np.concatenate([answer.values for answer in found]).sum())
        return (
            value,
            np.concatenate([gradient, by_group[:n].ravel()]),
            RowHessians(number, (call,), by_group[n:]),
        )

    def expect(self, x: Array) -> RowHessians:
        """Fisher information at the coefficients x."""
        number = next(self._numbers)
        call = Call("expect", (number, x))
        return RowHessians(number, (call,), self._by_group(self.ask([call])))

    def mend(self, hessians: RowHessians, bad: NDArray[np.bool_]) -> RowHessians:
        """Without negative and coupling parts in the rows of bad groups (n_groups,)."""
        call = Call("mend", (hessians.number, bad))
        calls = (*hessians.calls, call)
        return replace(hessians, calls=calls, by_group=self._by_group(self.ask(calls)))

    def row_hessian(self, hessians: RowHessians, side: int) -> Array:
        """(n_contexts,) of one side."""
        return np.concatenate(self.ask([*hessians.calls, Call("row_hessian", (hessians.number, side))]))

    def product(
        self, hessians: RowHessians, side: int | None, vector: Array, respond: Callable[[Array], Array] | None
    ) -> Array:
        """Xᵀ H X times linear coefficients (n_linear,), of one side or of all.

        respond: the effects of groups (n_group_sides, n_groups) that make up for Zᵀ H X times them; their part is
        taken off.
        """
        asked = hessians.number, side, vector
        if respond is None:
            return self._adjoint(hessians, side, Call("product", asked))
        product = next(self._numbers)
        weigh = Call("weigh", (*asked, product))
        response = respond(self._by_group(self.ask([*hessians.calls, weigh])))
        less = Call("less", (hessians.number, side, response, product))
        return self._adjoint(hessians, side, weigh, less)

    def across(self, hessians: RowHessians, side: int | None, effects: Array) -> Array:
        """Xᵀ H Z times group effects (n_group_sides, n_groups) → (n_linear,)."""
        return self._adjoint(hessians, side, Call("across", (hessians.number, side, effects)))

    def across_adjoint(self, hessians: RowHessians, side: int | None, vector: Array) -> Array:
        """Zᵀ H X times (n_linear,) → (n_group_sides, n_groups)."""
        return self._by_group(self.ask([*hessians.calls, Call("weigh", (hessians.number, side, vector))]))

    def diagonal(self, hessians: RowHessians, side: int | None) -> Array:
        """(n_linear,) the diagonal of Xᵀ |H| X."""
        return self._adjoint(hessians, side, Call("diagonal", (hessians.number, side)))

    def _adjoint(self, hessians: RowHessians, side: int | None, *calls: Call) -> Array:
        layout = self.layout if side is None else self.layout.one_side(side)
        return self._coefficients(layout, self.ask([*hessians.calls, *calls]))

    def _coefficients(self, layout: Layout, found: Sequence[Adjoint]) -> Array:
        """(n_linear,)"""
        out = np.empty(layout.n_linear)
        intercepts = np.concatenate([answer.intercepts for answer in found]).sum(axis=0)
        for s, where in enumerate(layout.linear):
            out[where.start] = intercepts[s]
        if layout.feature_sides:
            first, *others = added(chain.from_iterable(answer.features for answer in found))
            for other in others:
                np.add(first.sum, other.sum, out=first.sum)
            for place, s in enumerate(layout.feature_sides):
                out[layout.linear[s]][1:] = first.sum[:, :, place].ravel()
        return out

    def _by_group(self, found: Sequence[Array]) -> Array:
        """(k, n_groups) from each piece's sums by group and chunk."""
        sums = np.concatenate(found, axis=1)
        if not self.layout.group_sides:
            return sums
        out, start = np.zeros((len(sums), self.layout.n_groups)), 0
        for groups in self.contexts.groups:
            out[:, groups] += sums[:, start : start + len(groups)]
            start += len(groups)
        return out


def answered(ask: Callable[[Call], Any], calls: Sequence[Call]) -> Any:
    """A piece's answer to the last call; if that is None, once more after all calls before it."""
    answer = ask(calls[-1])
    if answer is None:
        for call in calls[:-1]:
            ask(call)
        answer = ask(calls[-1])
    return answer
