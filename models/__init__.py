"""Numerics only: arrays in, arrays out. Knows nothing of orchestration, tracking or files other than model artifacts."""
