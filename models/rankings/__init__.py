"""Mixtures of Plackett-Luce models of rankings."""

from predilect.models.rankings.ballots import Ballots, Menu, check_menu
from predilect.models.rankings.config import RankingsConfig
from predilect.models.rankings.model import RankingsModel, Segment
from predilect.models.rankings.objective import Mixture

__all__ = ["Ballots", "Menu", "Mixture", "RankingsConfig", "RankingsModel", "Segment", "check_menu"]
