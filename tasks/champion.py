"""The model being served: the champion, exchanged whole when the alias moves, never in the middle of a request."""

import logging
import threading
from dataclasses import dataclass

from predilect.models.ratings.model import RatingsModel
from predilect.tasks import registry
from predilect.tasks.addresses import first_line
from predilect.tasks.settings import Settings

NONE_YET = (
    "predilect-ratings has no champion yet; it is served as soon as `predilect retrain ratings` or `predilect promote` "
    "makes one."
)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Served:
    """One version in memory; a request takes it once and keeps it to its end."""

    version: registry.Version
    model: RatingsModel


class Champion:
    """Follows the alias `champion` of the ratings family in a thread of its own."""

    def __init__(self, settings: Settings, seconds: float) -> None:
        """Load the champion now, where there is one. seconds: between looks at the alias."""
        self._settings, self._seconds = settings, seconds
        self.served: Served | None = None
        self.absent = NONE_YET
        """Why nothing is served, in a sentence, while nothing is."""
        self.swaps = 0
        self.failures = 0
        """Looks at the registry, or loads of a new champion, that failed; the one before is served on."""
        self._look()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="champion", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stop.wait(self._seconds):
            self._look()

    def _look(self) -> None:
        now = self.served
        try:
            found = registry.by_alias(self._settings, "ratings")
            if found is None:
                self.absent = NONE_YET
            elif now is None or found.number != now.version.number:
                self.served = self._load(found)
                self.swaps += now is not None
                logger.warning("Now serving %s.", found.name)
        except Exception as error:  # the store may be away: serve on, try again
            self.failures += 1
            self.absent = f"The champion cannot be loaded ({first_line(error)}); the service goes on trying."
            logger.warning("%s", f"{now.version.name} is served on: {error}" if now else self.absent)

    def _load(self, version: registry.Version) -> Served:
        model = RatingsModel.load(registry.model_folder(self._settings, version))
        model.recommend(0, 1)  # what is compiled or paged in on first use is so before the exchange
        return Served(version, model)
