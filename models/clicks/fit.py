"""One fit: the maximum a posteriori inside empirical Bayes, then the posterior of each side."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.config import ClicksConfig
from predilect.models.clicks.contexts import Contexts
from predilect.models.clicks.curvature import Curvature
from predilect.models.clicks.design import Design
from predilect.models.clicks.evidence import HIGHEST, LOWEST, Probes, fixed_point
from predilect.models.clicks.kernels import Counts
from predilect.models.clicks.posterior import Residual, SidePosterior, side_posterior
from predilect.models.clicks.rows import Rows
from predilect.models.clicks.trust_region import Optimum, Point, minimise
from predilect.models.compiled import Threads
from predilect.models.errors import ParameterError

Array = NDArray[np.float64]
OnRound = Callable[[int, dict[str, float]], None]
RowsOf = Callable[[Contexts, Layout, Threads], Rows]


@dataclass(frozen=True)
class FitReport:
    """How a fit went."""

    negative_log_posterior: float
    """The objective at the maximum, without binomial coefficients and normalising constants."""
    gradient_norm: float
    """Infinity norm of the gradient at the maximum."""
    n_iterations: int
    """Newton steps over all rounds of empirical Bayes."""
    n_products: int
    """Hessian-vector products over all rounds."""
    evidence_converged: bool
    precision_trace: list[dict[str, float]]
    """Prior precisions by block, round after round."""


class Fit:
    """The data of one fit, its objective, and the best point so far."""

    def __init__(
        self,
        design: Design,
        impressions: Counts,
        clicks: Counts,
        layout: Layout,
        config: ClicksConfig,
        seed: int,
        pool: Threads,
        rows_of: RowsOf = Rows,
    ) -> None:
        """rows_of: what adds up over the rows."""
        self.contexts = Contexts.of(design, impressions, clicks, len(layout.sides))
        self.layout, self.config, self.seed = layout, config, seed
        self.rows = rows_of(self.contexts, layout, pool)
        self.n_iterations, self.n_products = 0, 0
        total, picked = float(impressions.sum(dtype=np.int64)), float(clicks.sum(dtype=np.int64))
        self.x = np.zeros(layout.size)
        self.x[0] = np.log((picked + 0.5) / (total - picked + 0.5))
        if len(layout.sides) == 2:
            self.x[layout.linear[1].start] = 2.0

    def evaluate(self, x: Array, precision: Array) -> Point:
        """-log likelihood + Σ c·w²/2 with its derivatives."""
        value, gradient, hessians = self.rows.observe(x)
        penalised = value + 0.5 * float(precision @ (x * x))
        return Point(x, penalised, gradient + precision * x, lambda: Curvature(self.rows, hessians, precision))

    def maximise(self, precisions: dict[str, float], excess: float = 0.0) -> Optimum:
        """The maximum a posteriori, warm-started from the last one; `excess` as for `minimise`."""
        precision = self.layout.precision_vector(precisions)
        optimum = minimise(
            lambda x: self.evaluate(x, precision),
            self.x,
            tolerance=self.config.tolerance,
            max_iterations=self.config.max_iterations,
            excess=excess,
        )
        self.x = optimum.point.x
        self.n_iterations += optimum.n_iterations
        self.n_products += optimum.n_products
        return optimum

    def learn_precisions(self, on_round: OnRound | None) -> tuple[dict[str, float], list[dict[str, float]], bool]:
        """Empirical Bayes: the precisions, all rounds, and whether they settled."""
        config, layout = self.config, self.layout
        names = [block.name for block in layout.blocks]
        unknown = sorted(set(config.precisions) - set(names))
        if unknown:
            raise ParameterError(f"precisions names the block {unknown[0]}; this model has {', '.join(names)}.")
        all_precisions = {
            name: config.intercept_precision if name.endswith(".intercept") else config.start_precision
            for name in names
        } | dict(config.precisions)
        held = [name for name in names if name.endswith(".intercept") or name in config.precisions]
        if config.evidence == "fixed" or len(held) == len(names):
            return all_precisions, [all_precisions], True
        probes = [Probes(layout.one_side(s), config.n_probes, self.seed) for s in range(len(layout.sides))]
        round_number = 0

        def update(learned: dict[str, float]) -> tuple[dict[str, float], dict[str, float]]:
            nonlocal round_number
            precisions = all_precisions | learned
            if on_round is not None:
                on_round(round_number, precisions)
            round_number += 1
            x = self.maximise(precisions, excess=3e-3).point.x
            determined = self._degrees_of_freedom(x, precisions, probes)
            new = {}
            for block in layout.blocks:
                if block.name in learned:
                    size = float(np.square(x[block.start : block.stop]).sum())
                    estimate = max(determined[block.name], 1e-3) / max(size, 1e-300)
                    new[block.name] = float(np.clip(estimate, LOWEST, HIGHEST))
            return new, determined

        start = {name: all_precisions[name] for name in names if name not in held}
        learned, trace, converged = fixed_point(
            update, start, tolerance=config.evidence_tolerance, max_rounds=config.max_rounds
        )
        return all_precisions | learned, [all_precisions | step for step in trace], converged

    def posteriors(self, x: Array, precisions: dict[str, float]) -> tuple[SidePosterior, ...]:
        """Laplace's posterior of each side, by its Fisher information at x."""
        return self._low_rank(x, precisions, self.config.residual)

    def _degrees_of_freedom(self, x: Array, precisions: dict[str, float], probes: list[Probes]) -> dict[str, float]:
        determined: dict[str, float] = {}
        if self.config.evidence == "hutchinson":
            for side, curvature in zip(probes, self._curvatures(x, precisions), strict=True):
                determined |= side.degrees_of_freedom(curvature)
            return determined
        residual: Residual = "none" if self.config.evidence == "paper" else "spread"
        for s, posterior in enumerate(self._low_rank(x, precisions, residual)):
            for block in self.layout.one_side(s).blocks:
                determined[block.name] = posterior.degrees_of_freedom(block, precisions[block.name])
        return determined

    def _curvatures(self, x: Array, precisions: dict[str, float]) -> list[Curvature]:
        information = self.rows.expect(x)
        return [
            Curvature(self.rows, information, self.layout.one_side(s).precision_vector(precisions), s)
            for s in range(len(self.layout.sides))
        ]

    def _low_rank(self, x: Array, precisions: dict[str, float], residual: Residual) -> tuple[SidePosterior, ...]:
        return tuple(
            side_posterior(self.contexts.design, curvature, self.config.rank, residual, self.seed)
            for curvature in self._curvatures(x, precisions)
        )
