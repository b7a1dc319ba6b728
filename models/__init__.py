"""Numerics only: arrays in, arrays out. Knows nothing of orchestration, tracking or files but model artifacts."""
