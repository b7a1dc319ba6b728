"""Clicks: the contextual beta-binomial of Takahashi & Zhang (2017), its posterior, scores and measures."""

from predilect.models.clicks.clusters import UserClusters, spherical_kmeans
from predilect.models.clicks.config import ClicksConfig
from predilect.models.clicks.design import Design, check_counts
from predilect.models.clicks.encoder import ContextEncoder
from predilect.models.clicks.features import FeatureColumns, FeatureEncoder, TextOptions
from predilect.models.clicks.fit import FitReport
from predilect.models.clicks.model import ClicksModel
from predilect.models.clicks.prediction import Prediction
from predilect.models.clicks.predictive import count_intervals, log_predictive
from predilect.models.clicks.ranking import SCORES, Ranking, rank, score, score_block
from predilect.models.clicks.simulator import Simulation, SimulationConfig, simulate

__all__ = [
    "SCORES",
    "ClicksConfig",
    "ClicksModel",
    "ContextEncoder",
    "Design",
    "FeatureColumns",
    "FeatureEncoder",
    "FitReport",
    "Prediction",
    "Ranking",
    "Simulation",
    "SimulationConfig",
    "TextOptions",
    "UserClusters",
    "check_counts",
    "count_intervals",
    "log_predictive",
    "rank",
    "score",
    "score_block",
    "simulate",
    "spherical_kmeans",
]
