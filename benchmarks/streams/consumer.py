"""A minimal consumer of a stream: it shares the machine with the server, so it does as little as possible."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from benchmarks.http.connection import HttpConnection


class Payload(msgspec.Struct):
    """sent: nanoseconds of the monotonic clock, just before the push was sent."""

    sent: int
    fill: str = ""


class _Message(msgspec.Struct):
    transaction: str = msgspec.field(name="transactionId")
    partition: str = msgspec.field(name="partitionId")
    lease: str = msgspec.field(name="leaseId")
    data: Payload


class _Popped(msgspec.Struct):
    messages: list[_Message]


class _Ack(msgspec.Struct, rename={"transaction": "transactionId", "partition": "partitionId"}):
    transaction: str
    partition: str
    lease: str = msgspec.field(name="leaseId")


class _Acks(msgspec.Struct, rename="camel"):
    consumer_group: str
    acknowledgments: list[_Ack]


_decoder = msgspec.json.Decoder(_Popped)


class NotSettled(Exception):
    """The server refused an acknowledgement."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """Pops up to 100 messages at a time, in a long poll, and acknowledges them.

    delays: milliseconds from push to arrival, one per message. partitions: how many a pop may claim.
    """

    connection: HttpConnection
    queue: str
    group: str
    delays: list[float] = field(default_factory=list)
    partitions: int = 1

    async def run(self) -> None:
        """Pop and acknowledge until cancelled."""
        path = (
            f"/api/v1/pop/queue/{self.queue}?batch=100&wait=true&timeout=30000"
            f"&consumerGroup={self.group}&partitions={self.partitions}"
        )
        while True:
            answer = await self.connection.get(path)
            arrived = time.monotonic_ns()
            if answer.status != 200:
                continue
            messages = _decoder.decode(answer.body).messages
            self.delays.extend([(arrived - each.data.sent) / 1_000_000 for each in messages])
            acks = [_Ack(each.transaction, each.partition, each.lease) for each in messages]
            body = msgspec.json.encode(_Acks(self.group, acks))
            answer = await self.connection.post("/api/v1/ack/batch", body.decode())
            if answer.status != 200 or b'"success":false' in answer.body:
                raise NotSettled(answer.body.decode())
