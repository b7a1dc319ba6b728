"""Predilect: probabilistic preference models that a team can retrain every night."""

__version__ = "0.1.0"
