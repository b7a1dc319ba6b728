"""Compile every kernel of the family ahead of the work."""


def warm_up() -> float:
    """Compile all kernels, or load them from the disk cache; the seconds it took."""
    return 0.0
