"""What is made again, for how long, and what is raised in the end."""

import time

import pytest

from predilect.models.errors import DataError
from predilect.tasks.patience import patience, retried
from predilect.tasks.tracking import TrackingError


class _Away:
    """A store that is away for some seconds of a clock that only sleeping moves."""

    def __init__(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.back, self.calls = 0.0, seconds, 0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    @retried(TrackingError)
    def ask(self) -> str:
        self.calls += 1
        if self.now < self.back:
            raise TrackingError("The store is away.")
        return "here"


def test_a_store_that_is_back_within_a_minute_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    away = _Away(60, monkeypatch)
    with patience():
        assert away.ask() == "here"
    assert 60 <= away.now < 70
    assert away.calls < 15


def test_one_error_when_patience_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    away = _Away(1e9, monkeypatch)
    with patience(), pytest.raises(TrackingError, match="is away"):
        away.ask()
    assert away.now == 120
    with pytest.raises(TrackingError):
        away.ask()
    assert away.now == 121  # a person is not kept waiting


def test_other_errors_are_passed_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    away = _Away(0, monkeypatch)

    @retried(TrackingError)
    def wrong() -> None:
        away.calls += 1
        raise DataError("wrong")

    with patience(), pytest.raises(DataError):
        wrong()
    assert (away.calls, away.now) == (1, 0)
