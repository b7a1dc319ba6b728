"""Thin side-effecting adapters: a path and a configuration in, a path and a summary out."""
