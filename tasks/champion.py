"""The model being served: the champion, exchanged whole when the alias moves, never in the middle of a request."""

import logging
import threading
from dataclasses import dataclass

from predilect.models.ratings.model import RatingsModel
from predilect.tasks import registry
from predilect.tasks.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Served:
    """One version in memory; a request takes it once and keeps it to its end."""

    version: registry.Version
    model: RatingsModel


class Champion:
    """Follows the alias `champion` of the ratings family in a thread of its own."""

    def __init__(self, settings: Settings, seconds: float) -> None:
        """Load the champion now. seconds: between looks at the alias. Raises ParameterError when there is none."""
        self._settings, self._seconds = settings, seconds
        self.served = self._load(registry.find(settings, "ratings", registry.CHAMPION))
        self.swaps = 0
        self.failures = 0
        """Looks at the registry, or loads of a new champion, that failed; the one before is served on."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="champion", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                found = registry.by_alias(self._settings, "ratings")
                if found is not None and found.number != self.served.version.number:
                    self.served = self._load(found)
                    self.swaps += 1
                    logger.warning("Now serving %s.", found.name)
            except Exception as error:  # the store may be away: serve on, try again
                self.failures += 1
                logger.warning("%s is served on: %s", self.served.version.name, error)

    def _load(self, version: registry.Version) -> Served:
        model = RatingsModel.load(registry.model_folder(self._settings, version))
        model.recommend(0, 1)  # what is compiled or paged in on first use is so before the exchange
        return Served(version, model)
