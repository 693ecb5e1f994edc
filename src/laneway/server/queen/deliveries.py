"""Popped messages as JSON, and the record of which transaction id means which message."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import msgspec

from laneway.engine.deliveries import arrange, list_attempts
from laneway.server.queen.leases import Lease
from laneway.server.queen.pushes import Headers
from laneway.server.queen.wire import quote_all, show_group, show_lane_address
from laneway.server.responses import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laneway.domain.messages import ClaimedSpan, StoredMessage
    from laneway.server.queen.encryption import Vault
    from laneway.server.queen.leases import Leases

NO_HEADERS = Headers()
# No trace id, and no producer.
_NO_MARKS: Iterable[tuple[str, str]] = repeat(("null", "null"))

_decode_headers = msgspec.json.Decoder(Headers).decode


def read_headers(text: str) -> Headers:
    """Return the headers of this protocol; none if another protocol wrote other headers."""
    try:
        return _decode_headers(text)
    except msgspec.DecodeError:
        return NO_HEADERS


def read_stored_body(message: StoredMessage, vault: Vault) -> tuple[Headers, str | None]:
    """Return a message's headers and body; None for a body that the server has no key for."""
    if message.headers_text is None:
        return NO_HEADERS, message.body
    headers = read_headers(message.headers_text)
    if not headers.sealed:
        return headers, message.body
    return headers, vault.try_open(message.body, queue=message.queue)


class PopWriter:
    """Writes the answers to pops as JSON, and remembers which messages each lease covers."""

    def __init__(self, vault: Vault, leases: Leases) -> None:
        self._vault = vault
        self._leases = leases

    def show(
        self,
        queue: str,
        group: str,
        spans: Sequence[ClaimedSpan],
        *,
        lease: str | None,
        committing: bool | None,
        extra: str = "",
    ) -> bytes:
        """Return the answer to a pop; lease None: the messages are acked already.

        committing: see Lease; None if it is not known, so that acks ask the database.
        """
        shown_queue, shown_group = quote_all([queue, show_group(group)])
        lease_id = "null" if lease is None else f'"{lease}"'
        tail = f'"leaseId":{lease_id},"consumerGroup":{shown_group},"queue":{shown_queue}}}'
        known = Lease(queue, group, {}, {}, committing or False)
        messages = arrange(spans, [self._show(known, span, tail) for span in spans])
        if lease is not None and committing is not None:
            self._leases.remember(lease, known)
        first = spans[0]
        return (
            f'{{"success":true,"queue":{shown_queue},"partition":{encode(first.partition).decode()},'
            f'"partitionId":"{first.lane}","leaseId":{lease_id},"consumerGroup":{shown_group},'
            f'"partitionsClaimed":{len(known.partitions)}{extra},"messages":[{",".join(messages)}]}}'
        ).encode()

    def _show(self, known: Lease, span: ClaimedSpan, tail: str) -> list[str]:
        """Return the messages of one span, which are of one lane and segment."""
        lane, partition, first = span.lane, span.partition, span.first
        start = show_lane_address(span.segment, lane)
        count = len(span.bodies)
        digits = [f"{seq:016x}" for seq in range(first, first + count)]
        addresses = [f"{start}{each[:4]}-{each[4:]}" for each in digits]
        names = addresses
        if span.dedup_keys:
            names = [key or own for key, own in zip(span.dedup_keys, addresses, strict=True)]
        known.add(str(lane), span.token, names, first)
        known.partitions[str(lane)] = partition
        tail = f'"partitionId":"{lane}","partition":{encode(partition).decode()},{tail}'
        times = encode(span.created_at).decode()[1:-1].split(",")
        bodies, marks = span.bodies, _NO_MARKS
        if span.headers:
            bodies, marks = self._open(known.queue, bodies, span.headers)
        return [
            f'{{"id":"{address}","transactionId":{name},"traceId":{trace},"data":{body},'
            f'"producerSub":{producer},"createdAt":{time},"retryCount":{attempt - 1},{tail}'
            for address, name, body, time, attempt, (trace, producer) in zip(
                addresses,
                quote_all(names),
                bodies,
                times,
                list_attempts(span),
                marks,
                strict=False,  # some of them are infinite
            )
        ]

    def _open(
        self, queue: str, bodies: Sequence[str], headers: Sequence[str | None]
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the decrypted bodies, and each message's trace id and producer."""
        opened: list[str] = []
        marks: list[tuple[str, str]] = []
        for body, text in zip(bodies, headers, strict=True):
            found = NO_HEADERS if text is None else read_headers(text)
            opened.append(self._vault.open(body, queue=queue) if found.sealed else body)
            marks.append((encode(found.trace_id).decode(), encode(found.sub).decode()))
        return opened, marks
