"""What a fitted mixture cannot say for certain, in words."""

from collections.abc import Sequence

import numpy as np

from predilect.models.compiled import Threads
from predilect.models.ids import IdMap
from predilect.models.rankings.ascent import Ascent
from predilect.models.rankings.ballots import Ballots
from predilect.models.rankings.config import RankingsConfig
from predilect.models.rankings.connectivity import diagnose
from predilect.models.rankings.layout import Layout
from predilect.models.rankings.objective import Mixture
from predilect.models.rankings.starts import StartRecord, emptied

# Wins in a component that add up to less than this share of a mean ballot's weight count as none.
FAINT = 1e-6


def warnings_of(
    layout: Layout,
    ballots: Ballots,
    mixture: Mixture,
    climb: Ascent,
    config: RankingsConfig,
    starts: Sequence[StartRecord],
    ids: IdMap,
) -> list[str]:
    """Doubts about identifiability, convergence, empty components, silent ballots and worths that run off."""
    found = []
    n_items, n_components = mixture.log_worths.shape
    if n_components > 1 and n_items <= 2 * n_components - 1:
        found.append(
            f"{n_components} components over {n_items} items cannot be told apart for certain (that takes at least "
            f"{2 * n_components} items): other mixtures may fit as well."
        )
    if not climb.converged:
        found.append(
            f"The climb stopped before its tolerance {config.tolerance:g}: the largest derivative is "
            f"{climb.point.certificate:.1e} of the total weight."
        )
    restarted = sum(start.emptied for start in starts)
    if restarted:
        found.append(f"In {restarted} starts a component ran empty; they were started again.")
    if n_components > 1 and emptied(mixture):
        found.append(f"A component is empty: {n_components} components are more than the ballots support.")
    silent = int(ballots.counts[ballots.stages == 0].sum())
    if silent:
        found.append(f"{silent} ballots name a single item, which says nothing when only ranked items were on offer.")
    if n_components > 1 and not config.nu:
        found += _faint(layout, mixture, ids)
    return found


def _faint(layout: Layout, mixture: Mixture, ids: IdMap) -> list[str]:
    """Components in which some items' worths run off, although those of all ballots together are finite."""
    posterior = np.empty((len(layout), mixture.n_components))
    layout.run(Threads(1), mixture.log_worths, mixture.shares, responsibilities=posterior)
    threshold = FAINT * float(layout.weights.mean())
    found = []
    for k in range(mixture.n_components):
        part = diagnose(layout.reweighted(layout.weights * posterior[:, k]), threshold)
        if not part.connected:
            found.append(
                f"In component {k + 1} {part.describe(ids.ids.tolist())}, so some of its worths have no finite "
                "estimate; set nu above 0 to keep them finite."
            )
    return found
