"""The clicks model: six models of click probability in context behind one estimator."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from predilect.models import artifact
from predilect.models.clicks.blocks import SIDES, Layout
from predilect.models.clicks.config import ClicksConfig
from predilect.models.clicks.design import Design, check_counts
from predilect.models.clicks.encoder import ContextEncoder
from predilect.models.clicks.fit import Fit, FitReport, OnRound, RowsOf
from predilect.models.clicks.kernels import ETA_HIGH
from predilect.models.clicks.posterior import SidePosterior
from predilect.models.clicks.prediction import Prediction
from predilect.models.clicks.rows import Rows
from predilect.models.compiled import default_threads, threads
from predilect.models.errors import ArtifactError, DataError, ParameterError

Array = NDArray[np.float64]

KIND, SCHEMA_VERSION = "clicks", 1

_BLOCK_ROWS = 20_000


class ClicksModel:
    """Takahashi & Zhang's contextual beta-binomial and its simpler relatives; make one with `fit` or `load`."""

    def __init__(
        self,
        config: ClicksConfig,
        layout: Layout,
        coefficients: Array,
        precisions: dict[str, float],
        posteriors: tuple[SidePosterior, ...],
        shape: dict[str, Any],
        report: FitReport,
        encoder: ContextEncoder | None,
    ) -> None:
        self.config, self.layout, self.report = config, layout, report
        self.encoder = encoder
        """How its designs are made from ids and feature columns; saved with the model."""
        self.coefficients = coefficients
        """(layout.size,) the maximum a posteriori, in the order of `layout.blocks`."""
        self.precisions = precisions
        """Prior precision of every block."""
        self.posteriors = posteriors
        """One a side (mean, dispersion); empty for the m- models."""
        self.shape = shape
        """n_features, n_clusters, n_groups and parts of the designs it understands."""

    @classmethod
    def fit(
        cls,
        design: Design,
        impressions: ArrayLike,
        clicks: ArrayLike,
        config: ClicksConfig | None = None,
        *,
        encoder: ContextEncoder | None = None,
        seed: int = 0,
        n_threads: int | None = None,
        on_round: OnRound | None = None,
        rows_of: RowsOf = Rows,
    ) -> Self:
        """Maximum a posteriori under learned prior precisions, then Laplace's posterior for the l- models.

        impressions, clicks: (n_rows,) whole numbers, clicks ≤ impressions; rows without impressions change nothing.
        encoder: the one that made the design, to be saved with the model.
        on_round(round, precisions) is called before every round of empirical Bayes.
        rows_of: what adds up over the rows, if not this process.
        Bit-identical for any n_threads. Raises DataError, ParameterError, NotConvergedError.
        """
        config = config or ClicksConfig()
        n, v = check_counts(impressions, clicks)
        if len(n) != len(design):
            raise DataError(
                f"The design has {len(design)} rows but there are {len(n)} counts; give one of each for every row."
            )
        if n.sum(dtype=np.int64) == 0:
            raise DataError("No row has impressions, so there is nothing to learn from; give rows with impressions.")
        layout = Layout.of(config, design)
        with threads(n_threads or default_threads()) as pool:
            fit = Fit(design, n, v, layout, config, seed, pool, rows_of)
            precisions, trace, converged = fit.learn_precisions(on_round)
            optimum = fit.maximise(precisions)
            posteriors = fit.posteriors(optimum.point.x, precisions) if config.has_posterior else ()
        report = FitReport(
            optimum.point.value, optimum.gradient_norm, fit.n_iterations, fit.n_products, converged, trace
        )
        shape = {name: getattr(design, name) for name in ("n_features", "n_clusters", "n_groups", "parts")}
        return cls(config, layout, optimum.point.x, precisions, posteriors, shape, report, encoder)

    def predict(self, design: Design) -> Prediction:
        """The predictive normals of ζ and η for every row of a design over the same features, in blocks.

        A cold cluster uses the shared features with its own block's prior variance added; an unknown group adds the
        prior variance of a group effect. Raises DataError when the design has other features, clusters or groups.
        """
        for name in ("n_features", "n_clusters", "n_groups"):
            if getattr(design, name) != self.shape[name]:
                raise DataError(
                    f"The design has {name} = {getattr(design, name)} but the model was fitted on {self.shape[name]}; "
                    "encode the rows with the model's own encoder."
                )
        out = np.zeros((4, len(design)))
        out[2] = ETA_HIGH
        for rows in _row_blocks(len(design)):
            block = design.take(rows)
            for s in range(len(self.layout.sides)):
                out[2 * s, rows], out[2 * s + 1, rows] = self._predict_side(s, block)
        return Prediction(*out)

    def block(self, name: str) -> tuple[Array, Array]:
        """Posterior mean and standard deviation (0 for m- models) of the coefficients of a block; (size,) each.

        "mean.text" and "dispersion.text" are the words of a text column called text, in the order of the encoder's
        names. Raises ParameterError for a block that the model does not have.
        """
        for s in range(len(self.layout.sides)):
            side = self.layout.one_side(s)
            for block in side.blocks:
                if block.name == name:
                    where = slice(block.start, block.stop)
                    mean = self.layout.side_entries(s, self.coefficients)[where]
                    if not self.posteriors:
                        return mean, np.zeros(len(mean))
                    return mean, np.sqrt(np.maximum(self.posteriors[s].block_variances(block), 0.0))
        names = ", ".join(block.name for block in self.layout.blocks)
        raise ParameterError(f"The model has no block {name!r}; it has {names}.")

    def draw_zeta(self, design: Design, rng: np.random.Generator, row_rng: np.random.Generator | None = None) -> Array:
        """ζ of every row under one joint draw of the mean's coefficients, for Thompson sampling; (n_rows,).

        Unknown groups and cold clusters add their prior variance row by row, drawn from `row_rng` (default: `rng`), so
        that several blocks of rows can share the draw of the coefficients. Raises ParameterError for m- models.
        """
        if not self.posteriors:
            raise ParameterError(f"{self.config.model} has no posterior to draw from; fit l-{self.config.likelihood}.")
        posterior, layout = self.posteriors[0], self.layout
        deviation = posterior.draw(rng)
        coefficients = self.coefficients[layout.linear[0]] + deviation
        effects = np.zeros(layout.n_groups)
        if 0 in layout.group_sides:
            noise = np.sqrt(posterior.group_variance) * rng.standard_normal(layout.n_groups)
            effects = self.coefficients[layout.group_slice(0)] - posterior.group_lines @ deviation + noise
        out = np.empty(len(design))
        row_rng = row_rng or rng
        for rows in _row_blocks(len(design)):
            block = design.take(rows)
            zeta = self._rows_of(0, block) @ coefficients + np.append(effects, 0.0)[block.groups]
            out[rows] = zeta + np.sqrt(self._prior_variance(0, block)) * row_rng.standard_normal(len(block))
        return out

    def _rows_of(self, s: int, design: Design) -> Any:
        return design.expand(with_features=s in self.layout.feature_sides)

    def _predict_side(self, s: int, design: Design) -> tuple[Array, Array]:
        layout = self.layout
        rows = self._rows_of(s, design)
        mean = rows @ self.coefficients[layout.linear[s]]
        if s in layout.group_sides:
            mean += np.append(self.coefficients[layout.group_slice(s)], 0.0)[design.groups]
        if not self.posteriors:
            return mean, np.zeros(len(design))
        variance = self.posteriors[s].variances(rows, design.groups) + self._prior_variance(s, design)
        return mean, np.sqrt(variance)

    def _prior_variance(self, s: int, design: Design) -> Array:
        """What an unknown group and the missing block of a cold cluster add to the variance of each row."""
        layout, name = self.layout, self.layout.sides[s].name
        variance = np.zeros(len(design))
        if s in layout.group_sides:
            variance[design.groups < 0] = 1.0 / self.precisions[f"{name}.group"]
        if s in layout.feature_sides and design.n_clusters:
            cold = design.clusters < 0
            shared = design.features[design.lines[cold]].astype(np.float64)
            own = self.precisions[f"{name}.{'features' if self.config.single_block else 'clusters'}"]
            variance[cold] += shared.multiply(shared) @ np.ones(design.n_features) / own
        return variance

    def save(self, folder: Path) -> None:
        """Write the model folder (see `models.artifact`)."""
        arrays: dict[str, NDArray[Any]] = {"coefficients": self.coefficients}
        for name, posterior in zip(SIDES, self.posteriors, strict=False):
            arrays[f"{name}_scale"], arrays[f"{name}_factor"] = posterior.scale, posterior.factor
            if posterior.group_lines is not None:
                arrays[f"{name}_group_variance"] = posterior.group_variance
                for part in ("data", "indices", "indptr"):
                    arrays[f"{name}_group_{part}"] = getattr(posterior.group_lines, part)
        encoder_facts = None
        if self.encoder is not None:
            encoder_arrays, encoder_facts = self.encoder.to_arrays()
            arrays |= {f"encoder_{name}": array for name, array in encoder_arrays.items()}
        facts = {
            "config": {**asdict(self.config), "precisions": dict(self.config.precisions)},
            "precisions": self.precisions,
            "shape": self.shape,
            "report": asdict(self.report),
            "encoder": encoder_facts,
        }
        artifact.save(folder, KIND, SCHEMA_VERSION, arrays, facts)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The model in a folder. Raises ArtifactError when it is missing, damaged or of another kind."""
        arrays, facts = artifact.load(folder, KIND, SCHEMA_VERSION)
        try:
            return cls._restore(arrays, facts)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(
                f"{folder} is damaged ({type(error).__name__}: {error}); restore or retrain the model."
            ) from error

    @classmethod
    def _restore(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        config = ClicksConfig(**facts["config"])
        shape = {**facts["shape"], "parts": tuple((name, width) for name, width in facts["shape"]["parts"])}
        empty = Design.of(
            sparse.csr_matrix((0, shape["n_features"])),
            n_clusters=shape["n_clusters"],
            n_groups=shape["n_groups"],
            parts=shape["parts"],
        )
        layout = Layout.of(config, empty)
        posteriors = tuple(_load_side(arrays, name, layout.n_groups) for name in SIDES if f"{name}_scale" in arrays)
        encoder = None
        if facts["encoder"] is not None:
            own = {
                name.removeprefix("encoder_"): array for name, array in arrays.items() if name.startswith("encoder_")
            }
            encoder = ContextEncoder.from_arrays(own, facts["encoder"])
        report = FitReport(**facts["report"])
        return cls(config, layout, arrays["coefficients"], facts["precisions"], posteriors, shape, report, encoder)


def _row_blocks(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, _BLOCK_ROWS):
        yield slice(start, min(start + _BLOCK_ROWS, n_rows))


def _load_side(arrays: Mapping[str, NDArray[Any]], name: str, n_groups: int) -> SidePosterior:
    scale, factor = arrays[f"{name}_scale"], arrays[f"{name}_factor"]
    if f"{name}_group_data" not in arrays:
        return SidePosterior(scale, factor, None, np.zeros(0))
    parts = tuple(arrays[f"{name}_group_{part}"] for part in ("data", "indices", "indptr"))
    lines = sparse.csr_matrix(parts, shape=(n_groups, len(scale)))
    return SidePosterior(scale, factor, lines, arrays[f"{name}_group_variance"])
