"""Small click tables with known truth."""

import numpy as np
from scipy import sparse, special

from predilect.models.clicks.config import ClicksConfig
from predilect.models.clicks.design import Design


def words(n_lines, n_words, per_line, rng):
    """Unit-norm lines of random words."""
    columns = rng.integers(n_words, size=(n_lines, per_line))
    counts = sparse.csr_matrix(
        (np.ones(columns.size), (np.repeat(np.arange(n_lines), per_line), columns.ravel())), shape=(n_lines, n_words)
    )
    norms = np.sqrt(counts.multiply(counts).sum(axis=1))
    return sparse.csr_matrix(counts / norms)


def table(n_rows=1500, n_words=12, n_groups=0, n_clusters=0, impressions=40, group_sd=0.5, precision=2.0, seed=0):
    """A design with its counts: text, optionally clusters and group effects on the mean."""
    rng = np.random.default_rng(seed)
    n_lines = n_rows // 3
    features = words(n_lines, n_words, 5, rng)
    lines = rng.integers(n_lines, size=n_rows)
    clusters = rng.integers(-1, n_clusters, size=n_rows) if n_clusters else None
    groups = rng.integers(-1, n_groups, size=n_rows) if n_groups else None
    design = Design.of(
        features, lines=lines, clusters=clusters, n_clusters=n_clusters, groups=groups, n_groups=n_groups
    )
    matrix = design.expand()
    beta = rng.normal(0, 1 / np.sqrt(precision), matrix.shape[1])
    rho = rng.normal(0, 0.5, matrix.shape[1])
    beta[0], rho[0] = -1.5, 2.0
    zeta, eta = matrix @ beta, matrix @ rho
    if n_groups:
        zeta += np.append(rng.normal(0, group_sd, n_groups), 0.0)[groups]
    n = rng.integers(1, 2 * impressions, n_rows)
    v = rng.binomial(n, rng.beta(np.exp(zeta + eta), np.exp(eta)))
    return design, n, v


def fixed(model="l-prop", **changes):
    """A configuration without empirical Bayes."""
    return ClicksConfig(model=model, **{"evidence": "fixed", "start_precision": 2.0, "tolerance": 1e-7} | changes)


def dense(model, design, n, s, information):
    """The exact covariance of one side: explicit columns with group effects, and its precision matrix inverted."""
    layout = model.layout.one_side(s)
    matrix = design.expand(with_features=bool(layout.feature_sides)).toarray()
    if layout.group_sides:
        one_hot = np.zeros((len(design), design.n_groups))
        known = design.groups >= 0
        one_hot[np.flatnonzero(known), design.groups[known]] = 1.0
        matrix = np.hstack([matrix, one_hot])
    precision = matrix.T @ (information[:, None] * matrix) + np.diag(layout.precision_vector(model.precisions))
    return matrix, np.linalg.inv(precision)


def probability(zeta):
    return special.expit(zeta)
