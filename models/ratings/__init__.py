"""Variational-Bayes latent-factor models of ratings."""
