"""The families that can be retrained, registered, promoted and scored: a new one joins by a line here.

Everything is named, not imported, so that `predilect --help` and the other families pay nothing for it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Family:
    """One family. train: its training flow, `module:name`. retraining: the module with what retraining asks of it,
    see `tasks.retrain_family`."""

    name: str
    train: str
    retraining: str

    def training_flow(self) -> Callable[[Any], dict[str, Any]]:
        """The training flow."""
        module, _, name = self.train.partition(":")
        flow: Callable[[Any], dict[str, Any]] = getattr(import_module(module), name)
        return flow

    def steps(self) -> Any:
        """The family's `tasks.retrain_family.Steps`."""
        return import_module(self.retraining).STEPS


FAMILIES = {
    family.name: family
    for family in (
        Family("ratings", "predilect.flows.train:train_ratings", "predilect.tasks.retrain_ratings"),
        Family("rankings", "predilect.flows.train_rankings:train_rankings", "predilect.tasks.retrain_rankings"),
        Family("clicks", "predilect.flows.train_clicks:train_clicks", "predilect.tasks.retrain_clicks"),
    )
}
