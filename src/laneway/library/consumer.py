"""Consumer: dequeue messages of one queue, and settle them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from laneway.domain.backend import LeasedMessage
from laneway.domain.errors import InvalidRequest, LeaseLost
from laneway.domain.messages import Nack, Outcome
from laneway.domain.queues import DEFAULT_GROUP
from laneway.library.arguments import (
    check_count,
    check_duration,
    check_lock,
    check_moment,
    check_optional_text,
    check_optional_time,
    check_priority,
    check_text,
    read_id,
)
from laneway.library.messages import Message
from laneway.library.presence import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from laneway.domain.backend import Backend
    from laneway.domain.ids import MessageId
    from laneway.domain.messages import Delivery, Receipt
    from laneway.library.presence import Presence

# A leased message, its id, or the id's text.
Leased: TypeAlias = "Message | MessageId | str"

NO_WAIT = timedelta(0)

# How long one dequeue of an iteration waits.
_ROUND = timedelta(seconds=30)

# From this many leases on, expired ones are dropped. The grace period covers differences of clocks.
_MANY = 1000
_GRACE = timedelta(minutes=10)


class Consumer:
    """Competes with other consumers of its group for the queue's messages.

    A message stays leased to the consumer until it is settled or the lease expires. Methods that take
    a message's id work only on messages that this consumer dequeued. name: shown in activity.
    """

    def __init__(
        self,
        backend: Backend,
        queue: str,
        *,
        group: str = DEFAULT_GROUP,
        name: str | None = None,
        partition: str | None = None,
        priority: int | None = None,
        presence: Presence | None = None,
    ) -> None:
        self.queue = check_text(queue, "queue name")
        self.group = check_text(group, "group name")
        self.name = check_optional_text(name, "name") or f"consumer-{uuid4().hex[:8]}"
        self._backend = backend
        self._partition = check_optional_text(partition, "partition")
        self._priority = None if priority is None else check_priority(priority)
        self._leased: dict[MessageId, Delivery] = {}
        self._most = _MANY
        self._presence = presence
        self._client = Client("consumer", self.name, self.queue)

    @property
    def in_flight(self) -> list[MessageId]:
        """The messages dequeued and not settled; some of their leases may have expired."""
        return list(self._leased)

    @property
    def holding(self) -> list[MessageId]:
        """Former name of `in_flight`."""
        return self.in_flight

    async def dequeue(
        self, *, wait: timedelta = NO_WAIT, lock_time: timedelta | None = None
    ) -> Message | None:
        """Return the next message; None if none arrived within `wait`, or if the connection closed.

        lock_time: lease duration; None: the message's own, else the queue's.
        """
        messages = await self.dequeue_many(1, lock_time, wait=wait)
        return messages[0] if messages else None

    async def dequeue_many(
        self, n: int, lock_time: timedelta | None = None, *, wait: timedelta = NO_WAIT
    ) -> list[Message]:
        """Return up to n messages, in order of priority, then age."""
        if self._presence is not None:
            self._presence.use(self._client, 0)
        deliveries = await self._backend.claim(
            self.queue,
            check_count(n, "n"),
            group=self.group,
            wait=max(check_duration(wait, "wait"), NO_WAIT),
            lease=None if lock_time is None else check_lock(lock_time, "lock_time"),
            consumer=self.name,
            partition=self._partition,
            priority=self._priority,
        )
        self._client.handled += len(deliveries)
        self._remember(deliveries)
        return [Message(self.queue, delivery, self.group) for delivery in deliveries]

    async def dequeue_many_with_delay(self, n: int, lock_time: timedelta) -> list[Message]:
        """Return up to n messages, leased for `lock_time`."""
        return await self.dequeue_many(n, lock_time)

    async def dequeue_at(
        self, moment: datetime, n: int = 1, lock_time: timedelta | None = None
    ) -> list[Message]:
        """Return up to n messages as if it were `moment`, which may lie in the future.

        Messages that are delayed until then, or wait for a retry until then, become ready at once for
        every consumer of the group. Not in ordered groups, where a delayed message keeps its time.
        """
        until = check_moment(moment, "moment")
        found = await self.dequeue_many(n, lock_time)
        if len(found) >= n:
            return found
        # The claim has looked at every message, so all delayed ones are known by their times.
        await self._backend.messages.hasten(self.queue, until, group=self.group)
        return found + await self.dequeue_many(n - len(found), lock_time)

    async def ack(self, message: Leased) -> bool:
        """Ack a message. Return False if this consumer has no lease on it."""
        return (await self.ack_many([message]))[0]

    async def ack_many(self, messages: Iterable[Leased]) -> list[bool]:
        """Ack messages; return for each, in order, whether this consumer had a lease on it."""
        deliveries = self._find(messages)
        mine = _receipts(deliveries)
        lost = {mine[position] for position in await self._backend.ack(mine)}
        return self._forget(deliveries, [receipt for receipt in mine if receipt not in lost])

    async def delete(self, message: Leased) -> bool:
        """Another name of `ack`."""
        return await self.ack(message)

    async def delete_many(self, messages: Iterable[Leased]) -> list[bool]:
        """Another name of `ack_many`."""
        return await self.ack_many(messages)

    async def archive(self, message: Leased) -> bool:
        """Ack a message and keep a copy beyond the log's retention. Return False without a lease."""
        return (await self.archive_many([message]))[0]

    async def archive_many(self, messages: Iterable[Leased]) -> list[bool]:
        """Ack and archive messages; return for each, in order, whether there was a lease on it."""
        deliveries = self._find(messages)
        mine = list(dict.fromkeys(item for item in deliveries if item is not None))
        holdings = [LeasedMessage(item.token, item.segment, item.lane, item.seq) for item in mine]
        kept = await self._backend.messages.archive_leased(self.queue, holdings, group=self.group)
        return self._forget(deliveries, [mine[position].receipt for position in kept])

    async def release(self, message: Leased, *, delay: timedelta | None = None) -> bool:
        """Release a message without counting the attempt. Return False without a lease on it."""
        return (await self.release_many([message], delay=delay))[0]

    async def release_many(
        self, messages: Iterable[Leased], *, delay: timedelta | None = None
    ) -> list[bool]:
        """Release messages; return for each, in order, whether this consumer had a lease on it.

        delay: how long they stay delayed; None: they are ready at once.
        """
        deliveries = self._find(messages)
        mine = _receipts(deliveries)
        later = check_optional_time(delay, "delay")
        lost = {mine[position] for position in await self._backend.release(mine, delay=later)}
        return self._forget(deliveries, [receipt for receipt in mine if receipt not in lost])

    async def nack(
        self,
        message: Leased,
        reason: str | None = None,
        *,
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> Outcome:
        """Nack a message; return the outcome.

        delay: until the next attempt; None: the queue's backoff. dead: dead-letter it at once.
        """
        return (await self.nack_many([message], reason, delay=delay, dead=dead))[0]

    async def nack_many(
        self,
        messages: Iterable[Leased],
        reason: str | None = None,
        *,
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> list[Outcome]:
        """Nack messages, all with the same reason; return the outcome of each, in order."""
        deliveries = self._find(messages)
        why, later = check_optional_text(reason, "reason"), check_optional_time(delay, "delay")
        mine = _receipts(deliveries)
        nacks = [Nack(*receipt, why, later, True if dead else None) for receipt in mine]
        outcomes = dict(zip(mine, await self._backend.nack(nacks), strict=True))
        self._forget(deliveries, [item for item in mine if outcomes[item] is not Outcome.LOST])
        return [
            Outcome.LOST if delivery is None else outcomes[delivery.receipt]
            for delivery in deliveries
        ]

    async def fail(
        self,
        message: Leased,
        reason: str | None = None,
        *,
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> Outcome:
        """Another name of `nack`."""
        return await self.nack(message, reason, delay=delay, dead=dead)

    async def extend(self, message: Leased, duration: timedelta) -> datetime:
        """Extend the lease to `duration` from now, and return its end; raise LeaseLost without one."""
        receipts = _receipts(self._find([message]))
        untils = await self._backend.extend(receipts, lease=check_lock(duration, "duration"))
        message_id = read_id(message)
        if not untils or untils[0] is None:
            raise LeaseLost(
                f"lease of message {message_id} by {self.name} not found or expired: stop processing"
                " it, it is delivered again"
            )
        if leased := self._leased.get(message_id):
            self._leased[leased.id] = leased._replace(until=untils[0])
        return untils[0]

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield messages as they arrive, without end. Settle each before its lease expires."""
        while True:
            for message in await self.dequeue_many(1, wait=_ROUND):
                yield message

    def _remember(self, deliveries: Iterable[Delivery]) -> None:
        """Keep the leases of dequeued messages; drop expired ones now and then."""
        self._leased.update((delivery.id, delivery) for delivery in deliveries)
        if len(self._leased) > self._most:
            past = datetime.now(UTC) - _GRACE
            self._leased = {id_: item for id_, item in self._leased.items() if item.until > past}
            self._most = max(_MANY, 2 * len(self._leased))

    def _find(self, messages: Iterable[Leased]) -> list[Delivery | None]:
        if isinstance(messages, str | Message):
            raise InvalidRequest(f"{messages!r} is one message: use a list of messages")
        return [
            self._check(message).delivery
            if isinstance(message, Message)
            else self._leased.get(read_id(message))
            for message in messages
        ]

    def _check(self, message: Message) -> Message:
        """Refuse a message of another queue or group, which some calls would settle nonetheless."""
        if message.queue != self.queue or message.group not in {None, self.group}:
            of_group = "" if message.group is None else f', group "{message.group}"'
            raise InvalidRequest(
                f'message {message.id} belongs to queue "{message.queue}"{of_group}, and this consumer '
                f'to queue "{self.queue}", group "{self.group}": settle it with a consumer of its queue'
                " and group"
            )
        return message

    def _forget(
        self, deliveries: Sequence[Delivery | None], settled: Iterable[Receipt]
    ) -> list[bool]:
        done = set(settled)
        for delivery in deliveries:
            leased = None if delivery is None else self._leased.get(delivery.id)
            # Not if this consumer has dequeued the message again meanwhile.
            if leased is not None and delivery is not None and leased.token == delivery.token:
                del self._leased[leased.id]
        return [delivery is not None and delivery.receipt in done for delivery in deliveries]


def _receipts(deliveries: Iterable[Delivery | None]) -> list[Receipt]:
    """Return the receipts without duplicates: a message named twice is settled once."""
    return list(dict.fromkeys(item.receipt for item in deliveries if item is not None))
