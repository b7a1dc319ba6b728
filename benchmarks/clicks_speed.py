"""Speed of the clicks family beside scipy.special and scikit-learn, in one run, on a simulated user log.

    python benchmarks/clicks_speed.py [--rows 1_580_000] [--threads 2] [--repeats 3] [--no-peer]

The machine may be busy: only the ratios between figures of one run count. The default log has the size asked about:
1.58 M rows, (64 + 1)·1540 + 1 = 100,101 columns, some 58 M non-zeros when the columns are written out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from predilect.models.clicks import ClicksConfig, Design, Prediction, SimulationConfig, simulate
from predilect.models.clicks.blocks import Layout
from predilect.models.clicks.compile import warm_up
from predilect.models.clicks.config import ModelName
from predilect.models.clicks.contexts import Contexts
from predilect.models.clicks.fit import Fit
from predilect.models.clicks.kernels import negative_log_likelihood
from predilect.models.clicks.rows import RowHessians, Rows
from predilect.models.clicks.scores import normal_points, uqp
from predilect.models.compiled import Threads, threads
from predilect.tasks.compute import workers
from predilect.tasks.dask_passes import HeldRows

Array = NDArray[np.float64]
PRECISION = 4.0
CASES: tuple[tuple[ModelName, float], ...] = (("m-log", 0.6), ("m-prop", 1.0))


def fastest(works: list[Callable[[], Any]], repeats: int) -> list[float]:
    """The least wall-clock seconds of each, run in turn so that a busy spell hits all alike."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for times, work in zip(taken, works, strict=True):
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
    return [min(times) for times in taken]


def by_digamma(v: Array, n: Array, zeta: Array, eta: Array) -> tuple[float, Array, Array]:
    """f and g as the paper writes them, with scipy.special."""
    a_plus, a_minus = np.exp(zeta + eta), np.exp(eta)
    a = a_plus + a_minus
    lgamma, psi = special.gammaln, special.digamma
    f = lgamma(a + n) - lgamma(a) - lgamma(a_plus + v) + lgamma(a_plus) - lgamma(a_minus + n - v) + lgamma(a_minus)
    d_plus, d_minus = psi(a_plus + v) - psi(a_plus), psi(a_minus + n - v) - psi(a_minus)
    d = psi(a + n) - psi(a)
    return f.sum(), -a_plus * (d_plus - d), -a_plus * d_plus - a_minus * d_minus + a * d


def kernel(log: Any, n_threads: int, repeats: int) -> None:
    v, n = log.clicks, log.impressions
    logits = np.stack([log.zeta, log.eta])
    with threads(n_threads) as pool:
        ours = negative_log_likelihood(v, n, logits, pool, second=False)
        theirs = by_digamma(v, n, log.zeta, log.eta)
        apart = max(np.abs(ours[1][0] - theirs[1]).max(), np.abs(ours[1][1] - theirs[2]).max())
        mine, peer = fastest(
            [
                lambda: negative_log_likelihood(v, n, logits, pool, second=False),
                lambda: by_digamma(v, n, log.zeta, log.eta),
            ],
            repeats,
        )
    print(
        f"kernel f and g, {len(v):,} rows, {n_threads} threads: {mine:.3f} s, scipy.special {peer:.3f} s, "
        f"{peer / mine:.1f} times faster (asked: ≥ 6); gradients within {apart:.0e}"
    )


class Objective:
    """The penalised likelihood for an outside optimiser."""

    def __init__(self, design: Design, log: Any, model: ModelName, pool: Threads) -> None:
        self.config = ClicksConfig(model=model, evidence="fixed", start_precision=PRECISION)
        self.layout = Layout.of(self.config, design)
        self.fit = Fit(design, log.impressions, log.clicks, self.layout, self.config, 0, pool)
        self.precisions = {
            block.name: 0.01 if block.name.endswith("intercept") else PRECISION for block in self.layout.blocks
        }
        self.precision = self.layout.precision_vector(self.precisions)
        self.start = self.fit.x.copy()
        self.values: list[float] = []

    def __call__(self, x: Array) -> tuple[float, Array]:
        point = self.fit.evaluate(x, self.precision)
        return point.value, point.gradient

    def lbfgs(self, n_iterations: int) -> Any:
        options = {"maxiter": n_iterations, "maxfun": 10 * n_iterations, "ftol": 0.0, "gtol": 0.0}
        return optimize.minimize(self, self.start, jac=True, method="L-BFGS-B", options=options)


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall-clock and CPU seconds, and the result."""
    began, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - began, time.process_time() - cpu, result


def fits(log: Any, wide: Any, design: Design, n_threads: int, with_peer: bool) -> None:
    peer = peer_cpu = float("nan")
    if with_peer:
        from sklearn.linear_model import LogisticRegression

        warnings.simplefilter("ignore")  # it says that it stopped after 30 iterations
        logistic = LogisticRegression(solver="lbfgs", C=1 / PRECISION, max_iter=30, tol=1e-30)
        labels, weights = (log.clicks > 0).astype(int), log.impressions.astype(float)
        peer, peer_cpu, _ = timed(lambda: logistic.fit(wide, labels, sample_weight=weights))
        print(f"scikit-learn lbfgs, 30 iterations: {peer:.1f} s, {peer_cpu:.1f} CPU s")
    with threads(n_threads) as pool:
        for model, asked in CASES:
            for name, rows in (("columns written out", Design.of(wide)), ("factored", design)):
                objective = Objective(rows, log, model, pool)
                took, cpu, found = timed(partial(objective.lbfgs, 30))
                print(
                    f"{model}, {name}: L-BFGS, {found.nit} iterations, {found.nfev} evaluations, {took:.1f} s, "
                    f"{cpu:.1f} CPU s; ratio {took / peer:.2f} (asked: ≤ {asked}), of CPU {cpu / peer_cpu:.2f}"
                )
                took, cpu, optimum = timed(partial(objective.fit.maximise, objective.precisions))
                print(
                    f"  Newton to the end: {took:.1f} s, {cpu:.1f} CPU s, gradient {optimum.gradient_norm:.0e}, "
                    f"{optimum.n_iterations} steps, objective {found.fun - optimum.point.value:.1f} below L-BFGS's"
                )


def products(log: Any, wide: Any, design: Design, n_threads: int, repeats: int) -> None:
    """A product with the Hessian of both sides, forward and back over the rows: what a fit spends its time on."""
    plain = Design.of(wide)
    rng = np.random.default_rng(0)
    config = ClicksConfig(model="m-prop")
    vector = rng.normal(size=Layout.of(config, plain).n_linear)
    with threads(n_threads) as pool:
        pair = []
        for rows in (plain, design):
            layout = Layout.of(config, rows)
            held = Rows(Contexts.of(rows, log.impressions, log.clicks, 2), layout, pool)
            pair.append((held, held.expect(np.zeros(layout.size))))

        def both(rows: Rows, hessians: RowHessians) -> None:
            rows.product(hessians, None, vector, None)

        ours, factored = fastest([lambda: both(*pair[0]), lambda: both(*pair[1])], repeats)
    coefficients, weights = rng.normal(size=plain.n_features), rng.normal(size=len(plain))
    scipy, *_ = fastest([lambda: (wide @ coefficients, wide.T @ weights)], repeats)
    print(
        f"products with {wide.nnz / 1e6:.0f} M non-zeros, both sides at once: written out {ours:.3f} s, factored "
        f"{factored:.3f} s, {ours / factored:.1f} times faster (asked: ≥ 3); scipy, one side: {scipy:.3f} s"
    )


def by_workers(log: Any, design: Design, n_workers: int, repeats: int) -> None:
    """The same product by threads and by as many worker processes, in turn."""
    layout = Layout.of(ClicksConfig(model="m-prop"), design)
    vector = np.random.default_rng(0).normal(size=layout.n_linear)
    contexts = Contexts.of(design, log.impressions, log.clicks, 2)
    with threads(n_workers) as pool, workers(None, n_workers) as found:
        pair = [Rows(contexts, layout, pool), HeldRows(contexts, layout, pool, found)]
        both = [(rows, rows.expect(np.zeros(layout.size))) for rows in pair]
        images = [rows.product(hessians, None, vector, None) for rows, hessians in both]
        here, there = fastest([partial(rows.product, at, None, vector, None) for rows, at in both], repeats)
    print(
        f"the same product by {n_workers} worker processes: {there:.3f} s, {there / here:.2f} times that of threads, "
        f"{'the same' if images[0].tobytes() == images[1].tobytes() else 'OTHER'} bits"
    )


def predictive_quantiles() -> None:
    rng = np.random.default_rng(0)
    size = 10_000
    prediction = Prediction(
        rng.normal(-4, 1, size), rng.uniform(0.1, 0.8, size), rng.normal(5, 1, size), rng.uniform(0.1, 0.6, size)
    )
    began = time.process_time()
    uqp(prediction, normal_points(64))
    print(f"UQP, 10,000 items, 64 points: {time.process_time() - began:.2f} CPU s (asked: ≤ 2)")


def first_compilation() -> None:
    """In a process with an empty cache."""
    with tempfile.TemporaryDirectory() as empty:
        code = "from predilect.models.clicks.compile import warm_up; print(f'{warm_up():.1f}')"
        environment = {**os.environ, "NUMBA_CACHE_DIR": empty}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    print(f"first compilation of all kernels: {done.stdout.strip()} s (asked: ≤ 20)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_580_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="leave scikit-learn out")
    options = parser.parse_args()
    first_compilation()
    warm_up()
    predictive_quantiles()
    # Pairs drawn twice are one row: draw some more.
    log = simulate(SimulationConfig(n_words=1540, n_rows=int(1.057 * options.rows)), seed=0)
    design = log.design(log.clusters, 64)
    wide = design.expand()[:, 1:].astype(np.float32)
    print(f"{len(log.users):,} rows, {wide.shape[1] + 1:,} columns, {wide.nnz / 1e6:.1f} M non-zeros")
    kernel(log, options.threads, options.repeats)
    products(log, wide, design, options.threads, options.repeats)
    by_workers(log, design, options.threads, 10 * options.repeats)
    fits(log, wide, design, options.threads, not options.no_peer)


if __name__ == "__main__":
    main()
