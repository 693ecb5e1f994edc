"""The streams protocol, over httpx: ordered groups, the queue's own one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tests.conformance.surface import Capability, Counts, DeadLetter, Received

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    import httpx

    from tests.conformance.surface import QueueOptions


class Streams:
    lacks: ClassVar[Mapping[Capability, str]] = {
        Capability.PRIORITY: "a push has no such field: partitions keep the order of their pushes",
        Capability.MESSAGE_DELAY: "a push has no such field: delays are an option of the queue",
        Capability.NACK_DELAY: "an acknowledgement has no such field: retryDelay is the queue's",
        Capability.RELEASE: "no status for it",
    }

    def __init__(self, queue: str, client: httpx.AsyncClient) -> None:
        self.queue = queue
        self._client = client

    async def create_queue(self, options: QueueOptions) -> None:
        wanted: dict[str, Any] = {
            "leaseTime": options.lease.total_seconds(),
            "retryLimit": options.max_attempts - 1,
            "retryDelay": options.backoff.total_seconds() * 1000,
        }
        if options.delay is not None:
            wanted["delayedProcessing"] = options.delay.total_seconds()
        await self._call("POST", "/configure", json={"queue": self.queue, "options": wanted})

    async def enqueue(
        self,
        body: str,
        *,
        partition: str = "p",
        priority: int = 0,
        delay: timedelta | None = None,
        dedup_key: str | None = None,
    ) -> str:
        assert not priority
        assert not delay
        item = {"queue": self.queue, "partition": partition, "payload": body}
        if dedup_key is not None:
            item["transactionId"] = dedup_key
        [pushed] = await self._call("POST", "/push", json={"items": [item]})
        assert pushed["status"] in {"queued", "duplicate"}, pushed
        return str(pushed["message_id"])

    async def claim(self, n: int = 10) -> list[Received]:
        parameters = {"batch": n, "partitions": n}
        answer = await self._call("GET", f"/pop/queue/{self.queue}", params=parameters)
        return [
            Received(
                id=each["id"],
                body=each["data"],
                attempt=each["retryCount"] + 1,
                receipt={key: each[key] for key in ("transactionId", "partitionId", "leaseId")},
            )
            for each in (answer or {"messages": []})["messages"]
        ]

    async def ack(self, message: Received) -> bool:
        return await self._settle(message, status="completed")

    async def nack(
        self,
        message: Received,
        *,
        reason: str = "broken",
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> bool:
        assert not delay
        return await self._settle(message, status="dlq" if dead else "failed", error=reason)

    async def release(self, message: Received) -> bool:
        raise NotImplementedError

    async def extend(self, message: Received, lease: timedelta) -> bool:
        path = f"/lease/{message.receipt['leaseId']}/extend"
        [extended] = await self._call("POST", path, json={"seconds": lease.total_seconds()})
        return bool(extended["success"])

    async def dead_letters(self) -> list[DeadLetter]:
        answer = await self._call("GET", "/dlq", params={"queue": self.queue})
        return [
            DeadLetter(body=each["data"], reason=each["errorMessage"])
            for each in answer["messages"]
        ]

    async def redrive(self) -> None:
        await self._call("POST", "/dlq/retry", params={"queue": self.queue})

    async def purge(self) -> None:
        await self._call("DELETE", f"/queues/{self.queue}/clear")

    async def counts(self) -> Counts:
        answer = await self._call("GET", f"/resources/queues/{self.queue}")
        messages = answer["messages"]
        return Counts(ready=messages["pending"], in_flight=messages["processing"])

    async def _settle(self, message: Received, **fields: str) -> bool:
        [verdict] = await self._call("POST", "/ack", json={**message.receipt, **fields})
        # noop: the group had passed the message already, so nothing changed.
        return bool(verdict["success"] and not verdict.get("noop"))

    async def _call(self, method: str, path: str, **options: Any) -> Any:
        answer = await self._client.request(method, path, **options)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None
