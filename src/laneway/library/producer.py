"""Puts messages into one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.domain.errors import LanewayError
from laneway.domain.messages import OutgoingMessage
from laneway.domain.queues import DEFAULT_GROUP
from laneway.library.arguments import (
    check_lock,
    check_many,
    check_optional_text,
    check_optional_time,
    check_priority,
    check_text,
    read_id,
)
from laneway.library.messages import Message
from laneway.library.rate_limit import TokenBucket
from laneway.library.transactions import Push, push_in
from laneway.library.validation import PayloadRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from laneway.domain.backend import Backend
    from laneway.domain.ids import MessageId
    from laneway.library.rate_limit import RateLimit, RateLimitStatus


class Producer:
    """Pushes to `queue`. rules: what payloads keep to. rate_limit: None for none."""

    def __init__(
        self,
        backend: Backend,
        queue: str,
        *,
        rules: PayloadRules | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        self.queue = check_text(queue, "the queue's name")
        self._backend = backend
        self._rules = rules or PayloadRules()
        self._bucket = None if rate_limit is None else TokenBucket(rate_limit)

    async def enqueue(
        self,
        payload: object,
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        dedup_key: str | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> MessageId:
        """Return the message's id, once it is committed.

        A key seen within the queue's window makes it a duplicate: the first one's id is returned.
        """
        message = self._make(
            payload,
            priority=priority,
            delay=delay,
            dedup_key=dedup_key,
            partition=partition,
            headers=headers,
        )
        return (await self._push([message]))[0]

    async def batch_enqueue(
        self,
        payloads: Iterable[object],
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> list[MessageId]:
        """Push all or none; InvalidPayload names the index of the first that breaks a rule."""
        messages = self._make_all(
            payloads, priority=priority, delay=delay, partition=partition, headers=headers
        )
        return await self._push(messages)

    async def enqueue_delayed(self, payload: object, delay: timedelta) -> MessageId:
        """Push a message that is handed out no earlier than in `delay`."""
        return await self.enqueue(payload, delay=delay)

    async def enqueue_in(
        self,
        connection: Any,
        payload: object,
        *,
        priority: int = 0,
        delay: timedelta | None = None,
        dedup_key: str | None = None,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> int:
        """Push inside the caller's own transaction: the message exists exactly when that commits.

        connection: psycopg's, asyncpg's or SQLAlchemy's (or its session), on the same database, and
        no pool or engine, which have no transaction. It holds nobody else up, however long it
        lasts: the message waits in the outbox until the commit, and is moved to its queue within
        moments after. Returns its place there.
        """
        message = self._make(
            payload,
            priority=priority,
            delay=delay,
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
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Push many inside the caller's own transaction, as enqueue_in does; all or none."""
        messages = self._make_all(
            payloads, priority=priority, delay=delay, partition=partition, headers=headers
        )
        return await self._push_in(connection, messages)

    async def extend_visibility(
        self,
        message: MessageId | Message | str,
        duration: timedelta,
        *,
        group: str | None = None,
    ) -> datetime | None:
        """Have the lock on a message last for `duration` from now, whoever of the group holds it.

        group None: the one that a message was handed to, of an id the queue's own. Returns the new
        deadline, None where nobody holds the message.
        """
        lease = check_lock(duration, "duration")
        if group is None and isinstance(message, Message):
            group = message.group
        group = DEFAULT_GROUP if group is None else check_text(group, "the group's name")
        return await self._backend.extend_any(
            self.queue, read_id(message), lease=lease, group=group
        )

    def rate_limit_status(self) -> RateLimitStatus | None:
        """Return how much may go now; None without a limit."""
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
            for index, payload in enumerate(check_many(payloads, "the payloads"))
        ]

    def _read_options(
        self,
        priority: int,
        delay: timedelta | None,
        dedup_key: str | None,
        partition: str,
        headers: Mapping[str, Any] | None,
    ) -> tuple[object, ...]:
        """Return what follows the body in an OutgoingMessage."""
        return (
            check_text(partition, "partition"),
            check_priority(priority),
            check_optional_time(delay, "delay"),
            check_optional_text(dedup_key, "dedup_key"),
            self._rules.write_headers(headers),
            None,
            None,
        )

    async def _push(self, messages: Sequence[OutgoingMessage]) -> list[MessageId]:
        self._take(len(messages))
        try:
            return [pushed.id for pushed in await self._backend.push(self.queue, messages)]
        except LanewayError:
            self._give_back(len(messages))
            raise

    async def _push_in(self, connection: Any, messages: Sequence[OutgoingMessage]) -> list[int]:
        self._take(len(messages))
        try:
            return await push_in(connection, Push(self.queue, messages))
        except Exception:
            self._give_back(len(messages))
            raise

    def _take(self, n: int) -> None:
        if self._bucket is not None:
            self._bucket.take(n)

    def _give_back(self, n: int) -> None:
        if self._bucket is not None:
            self._bucket.give_back(n)
