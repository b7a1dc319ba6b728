"""Wiring and parameters only; the command line calls the same flow functions."""
