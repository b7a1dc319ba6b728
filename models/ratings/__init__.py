"""Variational-Bayes latent-factor models of ratings."""

from predilect.models.ratings.config import VBConfig
from predilect.models.ratings.features import Features
from predilect.models.ratings.model import RatingsModel
from predilect.models.ratings.prediction import Prediction
from predilect.models.ratings.scale import RatingScale

__all__ = ["Features", "Prediction", "RatingScale", "RatingsModel", "VBConfig"]
