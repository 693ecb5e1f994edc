"""Messages handed out, as clients see them, and the memory of what they are called."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from laneway.server.answers import encode
from laneway.server.queen.leases import Lease, Run
from laneway.server.queen.pushing import Headers
from laneway.server.queen.wire import quote_all, show_group, show_lane_address

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
        extra: str = "",
    ) -> bytes:
        """Return the answer to a pop; lease None: nothing is to be acknowledged."""
        shown_queue, shown_group = quote_all([queue, show_group(group)])
        lease_id = "null" if lease is None else f'"{lease}"'
        tail = f'"leaseId":{lease_id},"consumerGroup":{shown_group},"queue":{shown_queue}}}'
        known = Lease(queue, group, {}, {})
        messages: list[str] = []
        for _, run in groupby(deliveries, key=attrgetter("lane")):
            messages += self._show_run(known, list(run), tail)
        if lease is not None:
            self._leases.remember(lease, known)
        first = deliveries[0]
        return (
            f'{{"success":true,"queue":{shown_queue},"partition":{encode(first.partition).decode()},'
            f'"partitionId":"{first.lane}","leaseId":{lease_id},"consumerGroup":{shown_group},'
            f'"partitionsClaimed":{len(known.runs)}{extra},"messages":[{",".join(messages)}]}}'
        ).encode()

    def _show_run(self, known: Lease, run: Sequence[Delivery], tail: str) -> list[str]:
        """Return the messages of one claim, which are of one lane and segment."""
        lane, partition = run[0].lane, run[0].partition
        start = show_lane_address(run[0].segment, lane)
        addresses = [f"{start}{digits[:4]}-{digits[4:]}" for digits in map(_write_seq, run)]
        names = [delivery.key or address for delivery, address in zip(run, addresses, strict=True)]
        seqs = {name: delivery.seq for name, delivery in zip(names, run, strict=True)}
        known.runs[str(lane)] = Run(run[0].token, seqs)
        known.partitions[str(lane)] = partition
        tail = f'"partitionId":"{lane}","partition":{encode(partition).decode()},{tail}'
        times = encode([delivery.created_at for delivery in run]).decode()[1:-1].split(",")
        shown = []
        for delivery, address, name, time in zip(
            run, addresses, quote_all(names), times, strict=True
        ):
            body = delivery.body
            trace = producer = "null"
            if delivery.headers is not None:
                headers = read_headers(delivery.headers)
                if headers.sealed:
                    body = self._vault.open(body, queue=known.queue)
                trace = encode(headers.trace_id).decode()
                producer = encode(headers.sub).decode()
            shown.append(
                f'{{"id":"{address}","transactionId":{name},"traceId":{trace},"data":{body},'
                f'"producerSub":{producer},"createdAt":{time},"retryCount":{delivery.attempt - 1},'
                f"{tail}"
            )
        return shown


def _write_seq(delivery: Delivery) -> str:
    return f"{delivery.seq:016x}"
