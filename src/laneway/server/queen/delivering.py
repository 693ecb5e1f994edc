"""Messages handed out, as clients see them, and the memory of what they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from laneway.server.answers import encode
from laneway.server.queen.leases import Lease, Run
from laneway.server.queen.pushing import Headers
from laneway.server.queen.wire import show_address, show_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import Delivery
    from laneway.server.queen.leases import Leases
    from laneway.server.queen.vault import Vault

read_headers = msgspec.json.Decoder(Headers).decode
NO_HEADERS = Headers()


class Delivering:
    def __init__(self, vault: Vault, leases: Leases) -> None:
        self._vault = vault
        self._leases = leases

    def show(
        self,
        queue: str,
        group: str,
        deliveries: Sequence[Delivery],
        *,
        lease: str | None,
        extra: bytes = b"",
    ) -> bytes:
        """Return the answer to a pop; lease None: nothing is to be acknowledged."""
        shown_group = encode(show_group(group))
        shown_queue = encode(queue)
        lease_id = b"null" if lease is None else b'"%b"' % lease.encode()
        messages: list[bytes] = []
        known = Lease(queue, group, {}, {})
        lane = -1
        tail = b""
        seqs: dict[str, int] = {}
        for delivery in deliveries:
            if delivery.lane != lane:
                lane = delivery.lane
                tail = (
                    b',"partitionId":"%d","partition":%b,"leaseId":%b,"consumerGroup":%b,"queue":%b}'
                    % (lane, encode(delivery.partition), lease_id, shown_group, shown_queue)
                )
                seqs = {}
                known.runs[str(lane)] = Run(delivery.token, seqs)
                known.partitions[str(lane)] = delivery.partition
            segment, seq, key = delivery.segment, delivery.seq, delivery.key
            address = show_address(segment, lane, seq)
            name = key or address
            seqs[name] = seq
            body = delivery.body
            trace = producer = b"null"
            if delivery.headers is not None:
                headers = read_headers(delivery.headers)
                if headers.sealed:
                    body = self._vault.open(body, queue=queue)
                trace, producer = encode(headers.trace_id), encode(headers.sub)
            messages.append(
                b'{"id":"%b","transactionId":%b,"traceId":%b,"data":%b,"producerSub":%b,'
                b'"createdAt":%b,"retryCount":%d%b'
                % (
                    address.encode(),
                    encode(name),
                    trace,
                    body.encode(),
                    producer,
                    encode(delivery.created_at),
                    delivery.attempt - 1,
                    tail,
                )
            )
        if lease is not None:
            self._leases.remember(lease, known)
        first = deliveries[0]
        return (
            b'{"success":true,"queue":%b,"partition":%b,"partitionId":"%d","leaseId":%b,'
            b'"consumerGroup":%b,"partitionsClaimed":%d%b,"messages":[%b]}'
            % (
                shown_queue,
                encode(first.partition),
                first.lane,
                lease_id,
                shown_group,
                len(known.runs),
                extra,
                b",".join(messages),
            )
        )
