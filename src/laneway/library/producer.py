"""Producer: enqueue messages to one queue."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from laneway.domain.errors import InvalidRequest, LanewayError
from laneway.domain.messages import PRIORITY_LEVELS, OutgoingMessage
from laneway.domain.queues import DEFAULT_GROUP
from laneway.library.arguments import (
    check_lock,
    check_many,
    check_optional_text,
    check_optional_time,
    check_priority_level,
    check_text,
    check_time,
    find_delay,
    read_id,
)
from laneway.library.messages import Message
from laneway.library.presence import Client
from laneway.library.rate_limit import TokenBucket
from laneway.library.transactions import Push, push_in
from laneway.library.validation import PayloadRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from laneway.domain.backend import Backend
    from laneway.domain.ids import MessageId
    from laneway.library.presence import Presence
    from laneway.library.rate_limit import RateLimit, RateLimitStatus


class Producer:
    """Enqueues messages to `queue`. rules: limits of payloads. rate_limit: None for no limit.

    priority_levels: priorities go from 0 to one below it.
    """

    def __init__(
        self,
        backend: Backend,
        queue: str,
        *,
        rules: PayloadRules | None = None,
        rate_limit: RateLimit | None = None,
        priority_levels: int = PRIORITY_LEVELS,
        presence: Presence | None = None,
    ) -> None:
        self.queue = check_text(queue, "queue name")
        self._backend = backend
        self._rules = rules or PayloadRules()
        self._levels = priority_levels
        self._bucket = None if rate_limit is None else TokenBucket(rate_limit)
        self._presence = presence
        self._client = Client("producer", f"producer-{uuid4().hex[:8]}", self.queue)

    async def enqueue(
        self,
        payload: object,
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        at: datetime | None = None,
        dedup_key: str | None = None,
        dedup_window: timedelta | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> MessageId:
        """Enqueue a message, and return its id once it is committed.

        delay, at: how long, or until when, the message stays delayed. dedup_key: if a message was
        enqueued with this key less than its dedup_window ago, nothing is added and the id of that
        message is returned. dedup_window: None: the queue's.
        """
        message = self._make(
            payload,
            priority=priority,
            delay=find_delay(delay, at),
            dedup_key=dedup_key,
            partition=partition,
            headers=headers,
        )
        if dedup_window is not None:
            message = message._replace(dedup_window=_check_window(dedup_window, dedup_key))
        return (await self._push([message]))[0]

    async def batch_enqueue(
        self,
        payloads: Iterable[object],
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        at: datetime | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> list[MessageId]:
        """Enqueue all payloads or none; InvalidPayload names the index of the first invalid one."""
        later = find_delay(delay, at)
        messages = self._make_all(
            payloads, priority=priority, delay=later, partition=partition, headers=headers
        )
        return await self._push(messages)

    async def enqueue_delayed(self, payload: object, delay: timedelta) -> MessageId:
        """Enqueue a message that is not delivered before `delay` has passed."""
        return await self.enqueue(payload, delay=delay)

    async def enqueue_in(
        self,
        connection: Any,
        payload: object,
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        at: datetime | None = None,
        dedup_key: str | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> int:
        """Enqueue a message in the caller's own transaction: it exists if and only if that commits.

        connection: of psycopg, asyncpg or SQLAlchemy (or a SQLAlchemy session), on the same database;
        not a pool or engine, which have no transaction. The transaction blocks no other producer: the
        message is stored in the outbox, and moved to its queue moments after the commit. Returns its
        outbox id.
        """
        message = self._make(
            payload,
            priority=priority,
            delay=find_delay(delay, at),
            dedup_key=dedup_key,
            partition=partition,
            headers=headers,
        )
        return (await self._push_in(connection, [message]))[0]

    async def batch_enqueue_in(
        self,
        connection: Any,
        payloads: Iterable[object],
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        at: datetime | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Enqueue many messages in the caller's own transaction, as `enqueue_in` does."""
        later = find_delay(delay, at)
        messages = self._make_all(
            payloads, priority=priority, delay=later, partition=partition, headers=headers
        )
        return await self._push_in(connection, messages)

    async def extend_visibility(
        self,
        message: MessageId | Message | str,
        duration: timedelta,
        *,
        group: str | None = None,
    ) -> datetime | None:
        """Extend the lease of any consumer of the group on a message to `duration` from now.

        group: None for the group that the message was delivered to, or for an id the default group.
        Returns the lease's new end; None if the message is not leased.
        """
        lease = check_lock(duration, "duration")
        if group is None and isinstance(message, Message):
            group = message.group
        group = DEFAULT_GROUP if group is None else check_text(group, "group name")
        return await self._backend.extend_any(
            self.queue, read_id(message), lease=lease, group=group
        )

    def rate_limit_status(self) -> RateLimitStatus | None:
        """Return how many messages the rate limit allows now; None without a limit."""
        return None if self._bucket is None else self._bucket.status

    def _make(
        self,
        payload: object,
        *,
        priority: int,
        delay: timedelta | None,
        dedup_key: str | None,
        partition: str,
        headers: Mapping[str, Any] | None,
    ) -> OutgoingMessage:
        options = self._read_options(priority, delay, dedup_key, partition, headers)
        return OutgoingMessage._make((self._rules.write(payload), *options))

    def _make_all(
        self,
        payloads: Iterable[object],
        *,
        priority: int,
        delay: timedelta | None,
        partition: str,
        headers: Mapping[str, Any] | None,
    ) -> list[OutgoingMessage]:
        options = self._read_options(priority, delay, None, partition, headers)
        return [
            OutgoingMessage._make((self._rules.write(payload, index=index), *options))
            for index, payload in enumerate(check_many(payloads, "payloads"))
        ]

    def _read_options(
        self,
        priority: int,
        delay: timedelta | None,
        dedup_key: str | None,
        partition: str,
        headers: Mapping[str, Any] | None,
    ) -> tuple[object, ...]:
        """Return the fields of an OutgoingMessage after the body."""
        return (
            check_text(partition, "partition"),
            check_priority_level(priority, self._levels),
            check_optional_time(delay, "delay"),
            check_optional_text(dedup_key, "dedup_key"),
            self._rules.write_headers(headers),
            None,
            None,
            None,
        )

    async def _push(self, messages: Sequence[OutgoingMessage]) -> list[MessageId]:
        self._take_tokens(len(messages))
        try:
            pushed = await self._backend.push(self.queue, messages)
        except LanewayError:
            self._refund(len(messages))
            raise
        if self._presence is not None:
            self._presence.use(self._client, len(messages))
        return [each.id for each in pushed]

    async def _push_in(self, connection: Any, messages: Sequence[OutgoingMessage]) -> list[int]:
        self._take_tokens(len(messages))
        try:
            return await push_in(connection, Push(self.queue, messages))
        except Exception:
            self._refund(len(messages))
            raise

    def _take_tokens(self, n: int) -> None:
        if self._bucket is not None:
            self._bucket.take(n)

    def _refund(self, n: int) -> None:
        if self._bucket is not None:
            self._bucket.refund(n)


def _check_window(window: object, key: str | None) -> timedelta:
    if not key:
        raise InvalidRequest("dedup_window is given without a dedup_key: give both, or neither")
    length = check_time(window, "dedup_window")
    if length <= timedelta(0):
        raise InvalidRequest(f"dedup_window is {length}: set more than zero")
    return length
