"""Takes messages of one queue, and settles those it holds."""

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
    check_optional_text,
    check_optional_time,
    check_priority,
    check_text,
    read_id,
)
from laneway.library.messages import Message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from laneway.domain.backend import Backend
    from laneway.domain.ids import MessageId
    from laneway.domain.messages import Delivery, Receipt

# A message in hand, or its id, also as text.
Held: TypeAlias = "Message | MessageId | str"

NO_WAIT = timedelta(0)

# How long one round of an iteration waits.
_ROUND = timedelta(seconds=30)

# From so many on, those whose locks ended longer ago than clocks may differ are forgotten.
_MANY = 1000
_GRACE = timedelta(minutes=10)


class Consumer:
    """Competes with other consumers of the same group for the queue's messages.

    What it takes it holds until it settles it or the lock ends; ids of messages that it does not
    hold, or holds no more, settle nothing. name: who activity says took a message.
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
    ) -> None:
        self.queue = check_text(queue, "the queue's name")
        self.group = check_text(group, "the group's name")
        self.name = check_optional_text(name, "name") or f"consumer-{uuid4().hex[:8]}"
        self._backend = backend
        self._partition = check_optional_text(partition, "partition")
        self._priority = None if priority is None else check_priority(priority)
        self._held: dict[MessageId, Delivery] = {}
        self._most = _MANY

    @property
    def holding(self) -> list[MessageId]:
        """The messages taken and not settled; the locks of some may have ended."""
        return list(self._held)

    async def dequeue(
        self, *, wait: timedelta = NO_WAIT, lock_time: timedelta | None = None
    ) -> Message | None:
        """Return the next message, None if none came within `wait`, or before the connection closed.

        The lock lasts for `lock_time`, else as the message says, else as the queue does.
        """
        messages = await self.dequeue_many(1, lock_time, wait=wait)
        return messages[0] if messages else None

    async def dequeue_many(
        self, n: int, lock_time: timedelta | None = None, *, wait: timedelta = NO_WAIT
    ) -> list[Message]:
        """Return up to n messages, in order of priority, then age."""
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
        self._hold(deliveries)
        return [Message(self.queue, delivery, self.group) for delivery in deliveries]

    async def dequeue_many_with_delay(self, n: int, lock_time: timedelta) -> list[Message]:
        """Return up to n messages, not seen by others for `lock_time`."""
        return await self.dequeue_many(n, lock_time)

    async def delete(self, message: Held) -> bool:
        """Settle a message: it is done. Return False where it is not held, or no more."""
        return (await self.delete_many([message]))[0]

    async def delete_many(self, messages: Iterable[Held]) -> list[bool]:
        """Settle messages; return for each, in order, whether it was held."""
        deliveries = self._find(messages)
        mine = _receipts(deliveries)
        lost = {mine[position] for position in await self._backend.ack(mine)}
        return self._forget(deliveries, [receipt for receipt in mine if receipt not in lost])

    async def archive(self, message: Held) -> bool:
        """Settle a message and keep a copy beyond the log's retention; False where not held."""
        return (await self.archive_many([message]))[0]

    async def archive_many(self, messages: Iterable[Held]) -> list[bool]:
        """Settle and archive messages; return for each, in order, whether it was held."""
        deliveries = self._find(messages)
        mine = list(dict.fromkeys(item for item in deliveries if item is not None))
        holdings = [LeasedMessage(item.token, item.segment, item.lane, item.seq) for item in mine]
        kept = await self._backend.messages.archive_leased(self.queue, holdings, group=self.group)
        return self._forget(deliveries, [mine[position].receipt for position in kept])

    async def release(self, message: Held, *, delay: timedelta | None = None) -> bool:
        """Give a message back as if it had not been taken; return False where it is not held."""
        deliveries = self._find([message])
        mine = _receipts(deliveries)
        later = check_optional_time(delay, "delay")
        lost = await self._backend.release(mine, delay=later)
        return self._forget(deliveries, [] if lost else mine)[0]

    async def fail(
        self,
        message: Held,
        reason: str | None = None,
        *,
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> Outcome:
        """Give a message back after a failure, its attempt spent; return what became of it.

        delay None: the queue's backoff. dead: no more tries.
        """
        deliveries = self._find([message])
        why, later = check_optional_text(reason, "reason"), check_optional_time(delay, "delay")
        nacks = [
            Nack(*receipt, why, later, True if dead else None) for receipt in _receipts(deliveries)
        ]
        outcomes = await self._backend.nack(nacks)
        outcome = outcomes[0] if outcomes else Outcome.LOST
        self._forget(deliveries, [] if outcome is Outcome.LOST else _receipts(deliveries))
        return outcome

    async def extend(self, message: Held, duration: timedelta) -> datetime:
        """Have the lock last for `duration` from now; LeaseLost where it is not held."""
        receipts = _receipts(self._find([message]))
        untils = await self._backend.extend(receipts, lease=check_lock(duration, "duration"))
        message_id = read_id(message)
        if not untils or untils[0] is None:
            raise LeaseLost(
                f"message {message_id} is not held by {self.name}: leave it to who holds it"
            )
        if held := self._held.get(message_id):
            self._held[held.id] = held._replace(until=untils[0])
        return untils[0]

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield messages as they come, without end; settle each before its lock does."""
        while True:
            for message in await self.dequeue_many(1, wait=_ROUND):
                yield message

    def _hold(self, deliveries: Iterable[Delivery]) -> None:
        """Keep what was taken, and not for ever what nobody settles."""
        self._held.update((delivery.id, delivery) for delivery in deliveries)
        if len(self._held) > self._most:
            past = datetime.now(UTC) - _GRACE
            self._held = {key: item for key, item in self._held.items() if item.until > past}
            self._most = max(_MANY, 2 * len(self._held))

    def _find(self, messages: Iterable[Held]) -> list[Delivery | None]:
        if isinstance(messages, str | Message):
            raise InvalidRequest(f"{messages!r} is one message: give a list of them")
        return [
            self._check(message).delivery
            if isinstance(message, Message)
            else self._held.get(read_id(message))
            for message in messages
        ]

    def _check(self, message: Message) -> Message:
        """Refuse what was taken elsewhere: a mistake, which some calls would carry out nonetheless."""
        if message.queue != self.queue or message.group not in {None, self.group}:
            of_group = "" if message.group is None else f', group "{message.group}"'
            raise InvalidRequest(
                f'message {message.id} is of queue "{message.queue}"{of_group}, and this consumer of '
                f'"{self.queue}", group "{self.group}": settle it where it was taken'
            )
        return message

    def _forget(
        self, deliveries: Sequence[Delivery | None], settled: Iterable[Receipt]
    ) -> list[bool]:
        done = set(settled)
        for delivery in deliveries:
            held = None if delivery is None else self._held.get(delivery.id)
            # Not where it was taken again meanwhile.
            if held is not None and delivery is not None and held.token == delivery.token:
                del self._held[held.id]
        return [delivery is not None and delivery.receipt in done for delivery in deliveries]


def _receipts(deliveries: Iterable[Delivery | None]) -> list[Receipt]:
    """Return each once: one that is named twice is settled once."""
    return list(dict.fromkeys(item.receipt for item in deliveries if item is not None))
