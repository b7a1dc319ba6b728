"""Reference values, from SciPy's optimisers and choix: 0-based items, θ centred, natural logarithms."""

import numpy as np

from predilect.models.rankings import Ballots, Mixture

A = {
    "rankings": [[0, 1, 2, 3], [1, 0, 2, 3], [0, 2, 1, 3], [3, 0, 1, 2], [2, 3, 1, 0]],
    "weights": [1, 0.5, 2, 0.25, 0.75],
    "theta": np.array([1.035600685621, 0.160098567061, 0.320347213306, -1.516046465988]),
    "log_likelihood": -11.228771419362,
    "standard_errors": np.array([0.62219093, 0.5241638, 0.54887111, 0.8015574]),
    "flows_at_zero": np.array(
        [
            [0, 0.5, 0.1875, 0.3125],
            [0.8333333333, 0, 0.8541666667, 0.3125],
            [1, 0.5833333333, 0, 0.0625],
            [0.9166666667, 1.4583333333, 1.6041666667, 0],
        ]
    ),
    "lsr_step_from_zero": np.array([0.885429236249, 0.155237997015, 0.161472545494, -1.202139778758]),
}
B = {
    "rankings": [[0, 1], [1, 2], [2, 0], [3, 0], [0, 3], [1], [2, 3]],
    "weights": [2, 1, 1, 1, 1, 0.5, 1],
    "all": (np.array([0.5213031284, -0.0961596922, -0.171815201, -0.2533282352]), -17.426435818),
    "ranked": (np.array([0.2194153181, -0.3742074579, 0.5289995976, -0.3742074579]), -4.4865828354),
}
C = {
    "rankings": ["01234", "02134", "10243", "43210", "42301", "34120", "20413"],
    "counts": [8, 5, 4, 7, 5, 4, 3],
    "log_likelihood_at_start": -122.218701869441,
    "after_one_iteration": {
        "log_likelihood": -115.011328488311,
        "share": 0.55226537949,
        "theta": np.array([2.5544323703, 0.9616062123, 0.8428330836, -1.8674985029, -2.4913731632]),
    },
    "converged": {"log_likelihood": -114.9909575969, "share": 0.55537363},
    "least_squares": np.array([0.1306256674, -0.0870852992, 0.2677348024, -0.2677348024, -0.0435403682]),
    "composite_likelihood": np.array([0.13466669, -0.08974917, 0.2705624, -0.27061371, -0.04486621]),
    "moments": np.array([0.13571403, -0.09037126, 0.26827633, -0.26866838, -0.04495072]),
    "plackett_luce": np.array([0.01719326, 0.03673216, 0.4421001, -0.21007319, -0.28595231]),
}
D_LOG_LIKELIHOOD = -504.216498
# Menu "all". One component is exact; for more, the best known: a fit may be higher but should not be lower.
FULL_DATA = {
    "d_dublinwest": [-224071.813, -213812.908, -209074.909, -207993.463, -206805.974, -206132.749],
    "d_apa": [-51598.306, -50377.769, -50289.159, -50205.582, -50177.539],
}


def a_ballots() -> Ballots:
    return Ballots.from_rows(A["rankings"], 4, "all", weights=A["weights"])


def c_ballots() -> Ballots:
    return Ballots.from_rows([[int(item) for item in row] for row in C["rankings"]], 5, "all", counts=C["counts"])


def c_start() -> Mixture:
    return Mixture(np.array([[2.0, 1, 0, -1, -2], [-2, -1, 0, 1, 2]]).T.copy(), np.full(2, 0.5))
