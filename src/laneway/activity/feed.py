"""Follows what happens, here and in other processes, for those who watch it live."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from laneway.activity.pulse import Pulse
from laneway.activity.updates import Change, refresh, summarize
from laneway.domain.errors import LanewayError, Retryable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import timedelta

    from laneway.activity.settings import ActivitySettings
    from laneway.activity.updates import Update
    from laneway.domain.activity import Snapshot
    from laneway.domain.ids import MessageId
    from laneway.engine import Broker

logger = logging.getLogger(__name__)

# Updates about at most so many new messages bring them along, as far as their bodies are small.
SMALL_BATCH = 10
LARGEST_BODY = 16 * 1024


class Subscription:
    """The updates that one client has not read yet; beyond `limit`, only that there were some."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._updates: deque[Update] = deque()
        self._stirred = asyncio.Event()

    def put(self, update: Update) -> None:
        if len(self._updates) >= self._limit:
            self._updates.clear()
            update = refresh(update.change, None, update.at)
        self._updates.append(update)
        self._stirred.set()

    async def take(self, timeout: timedelta) -> Update | None:
        """Return the next update, None if none came in time."""
        if not self._updates:
            self._stirred.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout.total_seconds()):
                    await self._stirred.wait()
        return self._updates.popleft() if self._updates else None


class Feed:
    """Reads the events only while somebody is subscribed."""

    def __init__(self, broker: Broker, settings: ActivitySettings) -> None:
        self._broker = broker
        self._settings = settings
        self._subscriptions: set[Subscription] = set()
        self._occupied = asyncio.Event()
        self._seen: Snapshot | None = None

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[Subscription]:
        """Bring all that happens from now on, as long as the context lasts."""
        subscription = Subscription(self._settings.buffer)
        self._subscriptions.add(subscription)
        try:
            if self._seen is None and self._settings.enabled:
                await self._begin()
            self._occupied.set()
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            if not self._subscriptions:
                self._occupied.clear()
                self._seen = None

    async def run(self) -> None:
        settings = self._settings
        with Pulse(self._broker, soon=settings.look, patience=settings.patience) as pulse:
            while True:
                await self._occupied.wait()
                busy = False
                try:
                    busy = await self._look()
                except Retryable as error:
                    logger.debug("no live updates until later: %s", error)
                except LanewayError:
                    logger.exception("live updates could not be read")
                await pulse.rest(busy=busy)

    async def _begin(self) -> None:
        place = await self._broker.read_snapshot()
        # Whoever was first decides: an earlier place shows no less.
        if self._seen is None:
            self._seen = place

    async def _look(self) -> bool:
        seen = self._seen
        if seen is None:
            return False
        settings = self._settings
        look = await self._broker.follow(
            seen, limit=settings.look_events, large=settings.large_payload
        )
        if not look.events:
            return False
        place = look.seen
        if look.more:
            # Too much for anybody to watch: skip to what happens now.
            place = await self._broker.read_snapshot()
            updates = [refresh(Change.ENQUEUE, None, datetime.now(UTC))]
        else:
            updates = await self._illustrate(summarize(look.events))
        if self._seen is seen:
            self._seen = place
        for subscription in self._subscriptions:
            for update in updates:
                subscription.put(update)
        return True

    async def _illustrate(self, updates: Sequence[Update]) -> list[Update]:
        """Add the messages themselves where few are new."""
        small = [
            update
            for update in updates
            if update.change is Change.ENQUEUE and 0 < len(update.ids) <= SMALL_BATCH
        ]
        ids: list[MessageId] = [message for update in small for message in update.ids]
        if not ids:
            return list(updates)
        known = {
            facts.id: facts for facts in await self._broker.find_facts(ids, largest=LARGEST_BODY)
        }
        return [
            update._replace(messages=[known[each] for each in update.ids if each in known])
            if update in small
            else update
            for update in updates
        ]
