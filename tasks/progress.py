"""How long work tells how far it is: tasks report, whoever wants to know listens."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, float, str], None]
_listeners: list[Listener] = []


def report(stage: str, share: float, note: str = "") -> None:
    """Say that `share` (0..1) of `stage` is done; `note` is one short phrase, such as "sweep 12"."""
    for listener in _listeners:
        listener(stage, share, note)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Call `listener(stage, share, note)` at every report inside the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
