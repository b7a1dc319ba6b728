"""Compile every kernel of the family on a tiny table, so that the first fit does not seem to hang."""

import time

import numpy as np
from scipy import sparse

from predilect.models.clicks.config import ClicksConfig, ModelName
from predilect.models.clicks.design import Design
from predilect.models.clicks.model import ClicksModel
from predilect.models.clicks.predictive import count_intervals, log_predictive


def warm_up() -> float:
    """Compile, or load from numba's cache; the seconds it took."""
    started = time.perf_counter()
    n, v = np.array([2, 30], np.int32), np.array([1, 20], np.int32)
    design = Design.of(sparse.eye(2, format="csr"), clusters=[0, -1], n_clusters=1)
    names: tuple[ModelName, ...] = ("l-log", "l-prop")
    for name in names:
        model = ClicksModel.fit(design, n, v, ClicksConfig(model=name, evidence="fixed"), n_threads=1)
        prediction = model.predict(design)
        log_predictive(prediction, n, v, n_threads=1)
        count_intervals(prediction, n, n_threads=1)
    return time.perf_counter() - started
