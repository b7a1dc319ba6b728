"""The estimator: a mixture of Plackett-Luce models of rankings."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from predilect.models import artifact
from predilect.models.compiled import Threads, default_threads, threads
from predilect.models.errors import ArtifactError, DataError, ParameterError
from predilect.models.fan_out import FanOut
from predilect.models.ids import UNKNOWN, IdMap
from predilect.models.rankings import prediction
from predilect.models.rankings.ballots import Ballots, Menu
from predilect.models.rankings.config import RankingsConfig
from predilect.models.rankings.connectivity import require_finite
from predilect.models.rankings.diagnosis import warnings_of
from predilect.models.rankings.em import climb_from
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Mixture, Objective, Point, prior_level
from predilect.models.rankings.resampling import Bootstrap, bootstrap
from predilect.models.rankings.starts import StartRecord, search
from predilect.models.rankings.uncertainty import Uncertainty, uncertainty

KIND, SCHEMA_VERSION = "rankings", 1

OnPass = Callable[[int, float, float], None]


@dataclass(frozen=True)
class Segment:
    """To which component a ballot belongs.

    probabilities (K,): of the components. known: how many of its items the model knows; unknown ones were left out, and
    a ballot without known ones has the shares as probabilities.
    """

    probabilities: NDArray[np.float64]
    known: int


@dataclass(frozen=True)
class RankingsModel:
    """A fitted mixture; components by share, the largest first.

    log_worths: θ (n, K), Σ_i θ_i^k = 0 (their common level under a prior is dropped: no probability depends on it).
    shares: α (K,). log_likelihood: of all the ballots fitted on, without the prior. trace: the climbed objective after
    every accepted move. certificate: see `objective.Point`. starts: what became of every start.
    """

    log_worths: NDArray[np.float64]
    shares: NDArray[np.float64]
    item_ids: IdMap
    menu: Menu
    config: RankingsConfig
    log_likelihood: float
    n_ballots: int
    certificate: float
    converged: bool
    n_passes: int
    trace: NDArray[np.float64]
    starts: list[StartRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def fit(
        cls,
        ballots: Ballots,
        config: RankingsConfig,
        *,
        item_ids: IdMap | None = None,
        seed: int,
        n_threads: int | None = None,
        start: Mixture | None = None,
        on_pass: OnPass | None = None,
        layout_of: Callable[[Ballots], Layout] = Layout,
    ) -> Self:
        """Fit a mixture to ballots, collapsed or not.

        item_ids: ids of the item codes (None: the codes themselves). start: a mixture to begin from instead of
        searching, such as last night's. on_pass(passes, objective, certificate) is called after every accepted pass
        of the final climb. layout_of: what does the passes over ballots. The result is the same for any number of
        threads.

        Raises ParameterError when K is above the number of distinct ballots; DataError, naming the items, when no
        finite worths exist and ν = 0.
        """
        collapsed, _ = ballots.collapse()
        ids = IdMap(np.arange(ballots.n_items)) if item_ids is None else item_ids
        n_components = config.n_components
        if len(ids) != ballots.n_items:
            raise ParameterError(f"There are {len(ids)} item ids for {ballots.n_items} items; give one an item.")
        if n_components > len(collapsed):
            raise ParameterError(
                f"n_components is {n_components}, but there are only {len(collapsed)} distinct ballots; give at most "
                "that many."
            )
        if start is not None and start.log_worths.shape != (ballots.n_items, n_components):
            raise ParameterError(
                f"The start has {start.log_worths.shape[0]} items in {start.n_components} components, but "
                f"{ballots.n_items} in {n_components} are to be fitted; start from a model of the same kind."
            )
        layout = layout_of(collapsed)
        if not config.nu:
            require_finite(layout, ids.ids.tolist())

        def passed(n_passes: int, point: Point) -> None:
            if on_pass is not None:
                on_pass(n_passes, point.value, point.certificate)

        with threads(default_threads() if n_threads is None else n_threads) as pool:
            begin, starts = _start(layout, pool, config, seed, start)
            objective = Objective(layout, pool, config.nu)
            climb = climb_from(objective, begin, config.solver, config.tolerance, config.max_passes, passed)
        mixture = climb.point.mixture.ordered()
        return cls(
            log_worths=mixture.log_worths,
            shares=mixture.shares,
            item_ids=ids,
            menu=ballots.menu,
            config=config,
            log_likelihood=climb.point.counts.log_likelihood,
            n_ballots=int(collapsed.counts.sum()),
            certificate=climb.point.certificate,
            converged=climb.converged,
            n_passes=objective.n_passes,
            trace=np.array(climb.trace),
            starts=starts,
            warnings=warnings_of(layout, collapsed, mixture, climb, config, starts, ids),
        )

    @property
    def mixture(self) -> Mixture:
        """θ and α."""
        return Mixture(self.log_worths, self.shares)

    @property
    def n_components(self) -> int:
        return len(self.shares)

    @property
    def n_parameters(self) -> int:
        """K(n − 1) worths and K − 1 shares."""
        return self.n_components * len(self.log_worths) - 1

    @property
    def bic(self) -> float:
        """−2 log-likelihood + parameters · log(ballots), with no prior in it; lower is better."""
        return -2 * self.log_likelihood + self.n_parameters * float(np.log(self.n_ballots))

    @property
    def worths(self) -> NDArray[np.float64]:
        """P(i first | component k) = λ_i^k / Σ λ^k (n, K)."""
        worths = np.exp(self.log_worths - self.log_worths.max(axis=0))
        normalised: NDArray[np.float64] = worths / worths.sum(axis=0)
        return normalised

    def win_matrix(self) -> NDArray[np.float64]:
        """P(i before j) under the mixture (n, n), by item code."""
        return prediction.win_matrix(self.mixture)

    def win_probability(self, better: ArrayLike, worse: ArrayLike) -> NDArray[np.float64]:
        """P(better before worse) for item ids; NaN where either is unknown."""
        first, second = self.item_ids.encode(better), self.item_ids.encode(worse)
        known = (first != UNKNOWN) & (second != UNKNOWN)
        gap = self.log_worths[first] - self.log_worths[second]
        return np.where(known, (1 / (1 + np.exp(-gap))) @ self.shares, np.nan)

    def first_probability(self, menu: ArrayLike) -> NDArray[np.float64]:
        """P(item is first of the menu) for the item ids of a menu; unknown items have NaN and are not on offer."""
        codes = self.item_ids.encode(menu)
        known = codes != UNKNOWN
        chance = np.full(codes.shape, np.nan)
        if known.any():
            chance[known] = prediction.first_probabilities(self.mixture, codes[known].astype(np.int64))
        return chance

    def log_likelihoods(self, ballots: Ballots, n_threads: int = 1) -> NDArray[np.float64]:
        """log Σ_k α_k P(π_l | θ^k) of each ballot (m,), in the ballots' own item codes and menu kind."""
        return self._run(ballots, n_threads)[1]

    def responsibilities(self, ballots: Ballots, n_threads: int = 1) -> NDArray[np.float64]:
        """P(component k | π_l) of each ballot (m, K)."""
        return self._run(ballots, n_threads)[0]

    def segment(self, ranking: ArrayLike) -> Segment:
        """The segment of one new ballot: item ids, best first. Raises DataError when an item is there twice."""
        ids = np.asarray(ranking)
        codes = self.item_ids.encode(ids) if ids.size else np.empty(0, np.int32)
        known = codes[codes != UNKNOWN]
        twice = np.flatnonzero(np.bincount(known, minlength=1) > 1)
        if len(twice):
            name = self.item_ids.ids[twice[0]]
            raise DataError(f"The ranking has item {name} twice; name every item at most once.")
        if not len(known):
            return Segment(self.shares.copy(), 0)
        ballots = Ballots.from_rows([known.tolist()], len(self.item_ids), self.menu)
        return Segment(self.responsibilities(ballots)[0], len(known))

    def uncertainty(self, ballots: Ballots, n_threads: int = 1) -> Uncertainty:
        """Standard errors from the observed information on the ballots that were fitted."""
        with threads(n_threads) as pool:
            return uncertainty(Objective(Layout(ballots.collapse()[0]), pool, self.config.nu), self._at_prior())

    def bootstrap(
        self, ballots: Ballots, *, n_resamples: int, seed: int, n_threads: int = 1, elsewhere: FanOut | None = None
    ) -> Bootstrap:
        """Bootstrap of worths, shares and ranks on the ballots that were fitted. elsewhere: see `resampling`."""
        collapsed = ballots.collapse()[0]
        return bootstrap(
            collapsed, self._at_prior(), n_resamples=n_resamples, seed=seed, nu=self.config.nu, n_threads=n_threads,
            elsewhere=elsewhere,
        )  # fmt: skip

    def save(self, folder: Path) -> None:
        """Write the model folder: arrays and a JSON manifest."""
        arrays = {
            "log_worths": self.log_worths,
            "shares": self.shares,
            "trace": self.trace,
            **self.item_ids.to_arrays("item_ids"),
        }
        facts: dict[str, Any] = {
            "menu": self.menu,
            "config": asdict(self.config),
            "log_likelihood": self.log_likelihood,
            "n_ballots": self.n_ballots,
            "certificate": self.certificate,
            "converged": self.converged,
            "n_passes": self.n_passes,
            "starts": [asdict(start) for start in self.starts],
            "warnings": self.warnings,
        }
        artifact.save(folder, KIND, SCHEMA_VERSION, arrays, facts)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a model folder. Raises ArtifactError when it is missing, damaged or of another kind."""
        arrays, facts = artifact.load(folder, KIND, SCHEMA_VERSION)
        try:
            facts["config"] = RankingsConfig(**facts["config"])
            facts["starts"] = [StartRecord(**start) for start in facts["starts"]]
            return cls(
                log_worths=arrays["log_worths"],
                shares=arrays["shares"],
                trace=arrays["trace"],
                item_ids=IdMap.from_arrays(arrays, "item_ids"),
                **facts,
            )
        except (KeyError, TypeError, ParameterError) as error:
            raise ArtifactError(f"{folder} lacks a part of a rankings model ({error}); retrain it.") from error

    def _run(self, ballots: Ballots, n_threads: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if ballots.n_items != len(self.log_worths):
            raise DataError(
                f"The ballots are over {ballots.n_items} items, but the model knows {len(self.log_worths)}; encode "
                "them with the model's item ids."
            )
        posterior = np.empty((len(ballots), self.n_components))
        each = np.empty(len(ballots))
        with threads(n_threads) as pool:
            Layout(ballots).run(pool, self.log_worths, self.shares, responsibilities=posterior, log_likelihoods=each)
        return posterior, each

    def _at_prior(self) -> Mixture:
        """The mixture at the level where the prior, if any, has its maximum (`log_worths` are centred)."""
        if not self.config.nu:
            return self.mixture
        return Mixture(prior_level(self.log_worths), self.shares)


def _start(
    layout: Layout, pool: Threads, config: RankingsConfig, seed: int, start: Mixture | None
) -> tuple[Mixture, list[StartRecord]]:
    if start is not None:
        return start, []
    if config.n_components == 1:
        return Mixture(np.zeros((layout.n_items, 1)), np.ones(1)), []
    return search(
        layout,
        pool,
        config.n_components,
        config.n_starts,
        seed,
        nu=config.nu,
        link=config.link,
        use_spectral=config.spectral,
    )
