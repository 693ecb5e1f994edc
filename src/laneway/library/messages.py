"""Dequeued messages, and the JSON encoding of payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from laneway.domain.errors import InvalidPayload, InvalidRequest
from laneway.domain.escapes import replace_unstorable
from laneway.domain.messages import LONGEST_NOTE, Progress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from laneway.domain.ids import MessageId
    from laneway.domain.messages import Delivery, Receipt

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_UNREAD = object()


def encode_payload(payload: object, *, index: int | None = None) -> str:
    """Return JSON text. Dataclasses, dates, UUIDs and enums are encoded as well as JSON's types."""
    try:
        return _encode(payload).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(f"cannot be encoded as JSON: {error}", index=index) from error


def decode_payload(body: str) -> Any:
    return _decode(body)


class Message:
    """A message, leased until `locked_until` by the database's clock.

    attempt: number of deliveries, including this one. payload: decoded at first use. group: the
    consumer group that it was delivered to; None if unknown.
    """

    __slots__ = (
        "_headers",
        "_payload",
        "delivery",
        "group",
        "is_tracked",
        "lost",
        "queue",
        "reported",
    )

    def __init__(self, queue: str, delivery: Delivery, group: str | None = None) -> None:
        self.queue = queue
        self.delivery = delivery
        self.group = group
        self.lost = False
        # A worker sends what its handler reports with its heartbeats.
        self.is_tracked = False
        self.reported: Progress | None = None
        self._payload: Any = _UNREAD
        self._headers: Any = _UNREAD

    def __repr__(self) -> str:
        return f"<Message {self.id} of {self.queue!r}, attempt {self.attempt}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, (self.queue, self.delivery, self.group)

    @property
    def id(self) -> MessageId:
        return self.delivery.id

    @property
    def payload(self) -> Any:
        if self._payload is _UNREAD:
            self._payload = _decode(self.delivery.body)
        return self._payload

    @property
    def body(self) -> str:
        """The payload as JSON text, as it was enqueued."""
        return self.delivery.body

    @property
    def headers(self) -> Mapping[str, Any]:
        if self._headers is _UNREAD:
            text = self.delivery.headers
            self._headers = {} if text is None else _decode(text)
        headers: Mapping[str, Any] = self._headers
        return headers

    def progress(self, share: float, note: str = "") -> None:
        """Report how far the handler is, from 0 to 1, and what it does; sent with the next heartbeat.

        For handlers on the event loop or in a thread.
        """
        given: tuple[Any, Any] = share, note
        if not isinstance(given[0], int | float) or not 0 <= share <= 1:
            raise InvalidRequest(f"share is {share!r}: use a number from 0 to 1")
        if not isinstance(given[1], str) or len(note) > LONGEST_NOTE:
            raise InvalidRequest(
                f"note is not a text of at most {LONGEST_NOTE} characters: {note!r:.100}"
            )
        if not self.is_tracked:
            raise InvalidRequest(
                f"message {self.id} has no worker that sends its progress: report it in a handler that"
                ' runs on the event loop or in a thread, not with executor="process"'
            )
        self.reported = Progress(float(share), replace_unstorable(note))

    @property
    def partition(self) -> str:
        return self.delivery.partition

    @property
    def priority(self) -> int:
        return self.delivery.priority

    @property
    def attempt(self) -> int:
        return self.delivery.attempt

    @property
    def max_attempts(self) -> int | None:
        """The message's own limit of attempts; None: the queue's."""
        return self.delivery.max_attempts

    @property
    def dedup_key(self) -> str | None:
        return self.delivery.dedup_key

    @property
    def created_at(self) -> datetime:
        return self.delivery.created_at

    @property
    def locked_until(self) -> datetime:
        return self.delivery.until

    @property
    def lease(self) -> timedelta | None:
        """The message's own lease duration; None: the queue's."""
        return self.delivery.lease

    @property
    def receipt(self) -> Receipt:
        return self.delivery.receipt
