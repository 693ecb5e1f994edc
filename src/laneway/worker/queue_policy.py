"""The retry policy of a queue, for handlers that have none of their own."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError
from laneway.worker.policies import Retry

if TYPE_CHECKING:
    from laneway.domain.backend import Backend
    from laneway.domain.settings import QueueSettings

# How long the settings are used before they are read again, in seconds.
MOST_AGE = 1.0

DEFAULT = Retry(max_attempts=None)


class QueuePolicy:
    """Knows a queue's attempts and backoff. max_attempts None: no limit."""

    def __init__(self, queue: str, settings: QueueSettings, backend: Backend) -> None:
        self._queue = queue
        self._settings = settings
        self._backend = backend
        self._read_at = monotonic()

    @property
    def max_attempts(self) -> int | None:
        return self._settings.max_attempts

    @property
    def retry(self) -> Retry:
        """The queue's backoff; the default one if the queue has none."""
        settings = self._settings
        if not settings.backoff:
            return DEFAULT
        return Retry(
            max_attempts=None,
            backoff=settings.backoff,
            factor=settings.backoff_factor,
            limit=settings.backoff_limit,
            jitter=0 if settings.backoff_factor == 1 else DEFAULT.jitter,
        )

    async def refresh(self) -> None:
        """Read the settings again if they may have changed; keep them if they cannot be read."""
        if monotonic() - self._read_at < MOST_AGE:
            return
        self._read_at = monotonic()
        try:
            self._settings = (await self._backend.queues.get(self._queue)).settings
        except LanewayError:
            return
