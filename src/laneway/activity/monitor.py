"""The monitor of a broker: runs the recorder and the feed while its context is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from laneway.activity.builtin import make_registry
from laneway.activity.feed import Feed
from laneway.activity.recorder import Recorder
from laneway.engine.tasks import Tasks

if TYPE_CHECKING:
    from types import TracebackType

    from laneway.activity.detectors import Registry
    from laneway.activity.settings import ActivitySettings
    from laneway.engine import Broker


class Monitor:
    """Records anomalies and sends live updates of a broker.

    feed: the live updates. registry: the detectors that run in this process; more can be registered
    at any time.
    """

    def __init__(
        self, broker: Broker, settings: ActivitySettings, registry: Registry | None = None
    ) -> None:
        self.registry = registry or make_registry(settings.detectors)
        self.feed = Feed(broker, settings)
        self._recorder = Recorder(broker, settings, self.registry)
        self._enabled = settings.enabled
        self._tasks = Tasks()

    async def __aenter__(self) -> Self:
        if self._enabled:
            self._tasks.start(self._recorder.run(), name="activity recorder")
            self._tasks.start(self.feed.run(), name="activity feed")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._tasks.close()
