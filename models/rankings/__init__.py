"""Mixtures of Plackett-Luce models of rankings."""
