"""From ratings to a posterior, by the chosen inference."""

from collections.abc import Callable

from predilect.models.compiled import threads
from predilect.models.errors import ParameterError
from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.em import maximise
from predilect.models.ratings.features import Features, design
from predilect.models.ratings.fit import Ascent, Fit, FitState, OnState, OnSweep, Start
from predilect.models.ratings.gibbs import Sampled, SideModel, sample
from predilect.models.ratings.orders import Order
from predilect.models.ratings.sweep import HalfSweep

MakeStart = Callable[[Ascent], Start]


def infer(
    by_user: Order,
    by_item: Order,
    midpoint: float,
    config: VBConfig,
    user_features: Features | None,
    item_features: Features | None,
    *,
    seed: int,
    n_threads: int,
    warm_start: MakeStart | None,
    on_sweep: OnSweep | None,
    on_state: OnState | None = None,
    resume: FitState | None = None,
    half_sweep: Callable[[Order], HalfSweep] = HalfSweep,
) -> tuple[Fit, Sampled | None]:
    """The variational posterior, and the draws of `gibbs`; the same bits for any `n_threads`.

    on_state, resume: for `mf` and `gmf` only; the others begin anew. half_sweep: where the sweeps are done.
    """
    featured = config.rated_set or user_features is not None or item_features is not None
    if featured and config.inference == "em":
        raise ParameterError("Exact EM takes no features and no rated set; use inference mf, gmf or gibbs with them.")
    designs = [
        design(order, other.n_rows, features, config.rated_set)
        for order, other, features in ((by_user, by_item, user_features), (by_item, by_user, item_features))
    ]
    # A side whose only feature is the constant has the paper's prior.
    ascent = Ascent(half_sweep(by_user), half_sweep(by_item), midpoint, config)
    sampled = None
    with threads(n_threads) as pool:
        if featured and config.inference != "gibbs":
            ascent.use_features(*designs)
        start = None if warm_start is None else warm_start(ascent)
        if config.inference == "gibbs":
            starts = ascent.all(config.chains, seed, pool, start, on_sweep)
            sides = [
                SideModel(name, order, features, config.n_factors, base)
                for name, order, features, base in (
                    ("users", by_user, designs[0], 0.0),
                    ("items", by_item, designs[1], midpoint),
                )
            ]
            sampled = sample(sides[0], sides[1], starts, config, seed, n_threads, on_sweep)
            return max(starts, key=lambda fit: fit.bound_trace[-1]), sampled
        if config.inference == "em":
            on_state = resume = None
        correlating = resume is not None and resume.restart == config.restarts
        if correlating:
            assert resume is not None
            assert resume.best is not None
            fit = resume.best
        else:
            fit = ascent.best(seed, pool, start, on_sweep, on_state, resume)
        if config.inference == "gmf":
            fit = ascent.correlated(fit, pool, on_sweep, on_state, resume if correlating else None)
        if config.inference == "em":
            fit = maximise(by_user, by_item, fit, config, pool, on_sweep)
    return fit, sampled
