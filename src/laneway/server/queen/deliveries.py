"""Messages handed out, as clients see them, and the memory of what they are called."""

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
# Nobody's trace, and no producer known.
_NO_MARKS: Iterable[tuple[str, str]] = repeat(("null", "null"))

_decode_headers = msgspec.json.Decoder(Headers).decode


def read_headers(text: str) -> Headers:
    """Return what of the headers is ours; where other protocols wrote otherwise there, nothing is."""
    try:
        return _decode_headers(text)
    except msgspec.DecodeError:
        return NO_HEADERS


def read_stored_body(message: StoredMessage, vault: Vault) -> tuple[Headers, str | None]:
    """Return a message's headers and body, None where it is encrypted and the key is not here."""
    if message.headers is None:
        return NO_HEADERS, message.body
    headers = read_headers(message.headers)
    if not headers.sealed:
        return headers, message.body
    return headers, vault.try_open(message.body, queue=message.queue)


class Delivering:
    def __init__(self, vault: Vault, leases: Leases) -> None:
        self._vault = vault
        self._leases = leases

    def show(
        self,
        queue: str,
        group: str,
        handouts: Sequence[ClaimedSpan],
        *,
        lease: str | None,
        extra: str = "",
    ) -> bytes:
        """Return the answer to a pop; lease None: nothing is to be acknowledged."""
        shown_queue, shown_group = quote_all([queue, show_group(group)])
        lease_id = "null" if lease is None else f'"{lease}"'
        tail = f'"leaseId":{lease_id},"consumerGroup":{shown_group},"queue":{shown_queue}}}'
        known = Lease(queue, group, {}, {})
        messages = arrange(handouts, [self._show(known, handout, tail) for handout in handouts])
        if lease is not None:
            self._leases.remember(lease, known)
        first = handouts[0]
        return (
            f'{{"success":true,"queue":{shown_queue},"partition":{encode(first.partition).decode()},'
            f'"partitionId":"{first.lane}","leaseId":{lease_id},"consumerGroup":{shown_group},'
            f'"partitionsClaimed":{len(known.partitions)}{extra},"messages":[{",".join(messages)}]}}'
        ).encode()

    def _show(self, known: Lease, handout: ClaimedSpan, tail: str) -> list[str]:
        """Return the messages of one run, which are of one lane and segment."""
        lane, partition, first = handout.lane, handout.partition, handout.first
        start = show_lane_address(handout.segment, lane)
        count = len(handout.bodies)
        digits = [f"{seq:016x}" for seq in range(first, first + count)]
        addresses = [f"{start}{each[:4]}-{each[4:]}" for each in digits]
        names = addresses
        if handout.keys:
            names = [key or own for key, own in zip(handout.keys, addresses, strict=True)]
        known.hold(str(lane), handout.token, names, first)
        known.partitions[str(lane)] = partition
        tail = f'"partitionId":"{lane}","partition":{encode(partition).decode()},{tail}'
        times = encode(handout.created_at).decode()[1:-1].split(",")
        bodies, marks = handout.bodies, _NO_MARKS
        if handout.headers:
            bodies, marks = self._open(known.queue, bodies, handout.headers)
        return [
            f'{{"id":"{address}","transactionId":{name},"traceId":{trace},"data":{body},'
            f'"producerSub":{producer},"createdAt":{time},"retryCount":{attempt - 1},{tail}'
            for address, name, body, time, attempt, (trace, producer) in zip(
                addresses,
                quote_all(names),
                bodies,
                times,
                list_attempts(handout),
                marks,
                strict=False,  # some repeat without end
            )
        ]

    def _open(
        self, queue: str, bodies: Sequence[str], headers: Sequence[str | None]
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the bodies as they were sent, and each message's trace and producer."""
        opened: list[str] = []
        marks: list[tuple[str, str]] = []
        for body, text in zip(bodies, headers, strict=True):
            found = NO_HEADERS if text is None else read_headers(text)
            opened.append(self._vault.open(body, queue=queue) if found.sealed else body)
            marks.append((encode(found.trace_id).decode(), encode(found.sub).decode()))
        return opened, marks
