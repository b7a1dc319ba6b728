"""Objects that workers keep for the driver, and what their methods raise, which comes back as it was raised."""

import pickle
import platform
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from predilect.models.errors import PredilectError
from predilect.tasks.shard_host import checked

R = TypeVar("R")


class Raised(Exception):
    """What a call raised, packed: an error of the work is told from one of the connection, and cannot break it."""

    def __init__(self, packed: bytes) -> None:
        super().__init__(packed)
        self.packed = packed

    def error(self) -> Exception:
        """The error itself; other than one of Predilect it says in a note where it came from."""
        found: Exception = pickle.loads(self.packed)  # of a worker, which runs what it is sent anyway
        return found


class Kept:
    """An object on a worker."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def call(self, method: str, *arguments: Any) -> Any:
        """The result of this method. Raises nothing but Raised."""
        return _shielded(_called, self._kept, method, *arguments)


class Handle:
    """The driver's hold of an object on a worker: its methods run there, and return what can be waited for.

    A method raises RuntimeError when the worker is known to be lost.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return partial(self._actor.call, method)


def keep(wanted: dict[str, str], make: Callable[..., Any], *arguments: Any) -> Kept:
    """`make(*arguments)`, where the software is of the versions wanted. Raises nothing but Raised."""
    return Kept(_shielded(checked, wanted, make, *arguments))


def _called(kept: Any, method: str, *arguments: Any) -> Any:
    result = getattr(kept, method)(*arguments)
    # Dask breaks the connection over a result that it cannot send. Arrays are not copied here.
    _dumps(result, buffer_callback=lambda _: None)
    return result


def _shielded(function: Callable[..., R], *arguments: Any) -> R:
    try:
        return function(*arguments)
    except BaseException as error:
        raise Raised(_packed(error)) from None


def _packed(error: BaseException) -> bytes:
    said = f"On {platform.node()}:\n{traceback.format_exc()}"
    try:
        if not isinstance(error, PredilectError):
            error.add_note(said)
        packed = _dumps(error)
        if isinstance(error, Exception) and type(pickle.loads(packed)) is type(error):
            return packed
    except Exception:  # what an error's own methods may raise
        pass
    told = RuntimeError(f"{type(error).__name__} in the work of a worker; see the traceback below.")
    told.add_note(said)
    return pickle.dumps(told)


def _dumps(value: Any, **how: Any) -> bytes:
    """As Dask does it."""
    try:
        return pickle.dumps(value, protocol=5, **how)
    except Exception:
        import cloudpickle  # type: ignore[import-untyped]

        packed: bytes = cloudpickle.dumps(value, protocol=5, **how)
        return packed
