"""Splits, metrics, bootstrap, calibration and cold start, shared by the model families."""
