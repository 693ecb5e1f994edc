"""Live updates of queues, from the events of all processes, for subscribed clients."""

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
    from collections.abc import AsyncIterator, Callable, Sequence
    from datetime import timedelta

    from laneway.activity.settings import ActivitySettings
    from laneway.activity.updates import Update
    from laneway.domain.activity import Snapshot
    from laneway.domain.ids import MessageId
    from laneway.engine import Broker

logger = logging.getLogger(__name__)

# Updates about at most this many new messages include the messages, with bodies up to LARGEST_BODY.
SMALL_BATCH = 10
LARGEST_BODY = 16 * 1024


class Subscription:
    """The updates that one client has not read yet. Beyond the limits, one refresh replaces them.

    limit: updates. limit_bytes: of the messages in them. show: returns what the client may see of an
    update, None for nothing.
    """

    def __init__(
        self, limit: int, limit_bytes: int, show: Callable[[Update], Update | None]
    ) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._show = show
        self._updates: deque[Update] = deque()
        self._bytes = 0
        self._woken = asyncio.Event()
        self.ended = False

    def put(self, update: Update) -> None:
        shown = self._show(update)
        if shown is None:
            return
        self._bytes += _measure(shown)
        if len(self._updates) >= self._limit or self._bytes > self._limit_bytes:
            self._updates.clear()
            self._bytes = 0
            shown = refresh(shown.change, None, shown.at)
        self._updates.append(shown)
        self._woken.set()

    def end(self) -> None:
        """End the subscription; `take` returns None from now on."""
        self.ended = True
        self._woken.set()

    async def take(self, timeout: timedelta) -> Update | None:
        """Return the next update; None if none arrived in time, or if the subscription ended."""
        if not self._updates and not self.ended:
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout.total_seconds()):
                    await self._woken.wait()
        if self.ended or not self._updates:
            return None
        update = self._updates.popleft()
        self._bytes -= _measure(update)
        return update


def _measure(update: Update) -> int:
    return sum(facts.size for facts in update.messages if facts.body is not None)


def show_all(update: Update) -> Update:
    return update


class Feed:
    """Reads new events and sends updates to subscriptions; idle without subscriptions."""

    def __init__(self, broker: Broker, settings: ActivitySettings) -> None:
        self._broker = broker
        self._settings = settings
        self._subscriptions: set[Subscription] = set()
        self._occupied = asyncio.Event()
        self._seen: Snapshot | None = None

    @asynccontextmanager
    async def subscribe(
        self, show: Callable[[Update], Update | None] = show_all
    ) -> AsyncIterator[Subscription]:
        """Subscribe to the updates from now on that `show` lets pass, while the context is open."""
        settings = self._settings
        subscription = Subscription(settings.buffer, settings.buffer_bytes, show)
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
                    logger.debug("cannot read live updates, retrying: %s", error)
                except LanewayError:
                    logger.exception("cannot read live updates")
                await pulse.rest(busy=busy)

    async def _begin(self) -> None:
        place = await self._broker.activity.read_snapshot()
        # The first subscriber sets the position: an earlier one includes every later one.
        if self._seen is None:
            self._seen = place

    async def _look(self) -> bool:
        seen = self._seen
        if seen is None:
            return False
        settings = self._settings
        look = await self._broker.activity.follow(
            seen, limit=settings.look_events, large=settings.large_payload
        )
        if not look.events:
            return False
        place = look.seen
        if look.more:
            # Too many events to show one by one: skip to the newest.
            place = await self._broker.activity.read_snapshot()
            updates = [refresh(Change.ENQUEUE, None, datetime.now(UTC))]
        else:
            updates = await self._add_messages(summarize(look.events))
        if self._seen is seen:
            self._seen = place
        for subscription in self._subscriptions:
            for update in updates:
                subscription.put(update)
        return True

    async def _add_messages(self, updates: Sequence[Update]) -> list[Update]:
        """Add the messages to updates about few new messages."""
        small = [
            update
            for update in updates
            if update.change is Change.ENQUEUE and 0 < len(update.ids) <= SMALL_BATCH
        ]
        ids: list[MessageId] = [message for update in small for message in update.ids]
        if not ids:
            return list(updates)
        known = {
            facts.id: facts
            for facts in await self._broker.activity.find_facts(ids, largest=LARGEST_BODY)
        }
        return [
            update._replace(messages=[known[each] for each in update.ids if each in known])
            if update in small
            else update
            for update in updates
        ]
