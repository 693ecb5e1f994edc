"""The REST protocol, over httpx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tests.conformance.surface import Capability, Counts, DeadLetter, Received

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    import httpx

    from tests.conformance.surface import QueueOptions


class Rest:
    lacks: ClassVar[Mapping[Capability, str]] = {
        Capability.ORDERED_GROUPS: "queues created over REST have shared groups only",
        Capability.QUEUE_DELAY: "queues have no such field",
        Capability.BACKOFF: "queues have no such field",
        Capability.DEAD_LETTER_AT_ONCE: "a nack has no such field",
        Capability.RELEASE: "no operation for it",
    }

    def __init__(self, queue: str, client: httpx.AsyncClient) -> None:
        self.queue = queue
        self._client = client

    async def create_queue(self, options: QueueOptions) -> None:
        await self._call(
            "POST",
            "/queues",
            json={
                "name": self.queue,
                "ack_timeout_seconds": options.lease.total_seconds(),
                "max_attempts": options.max_attempts,
            },
        )

    async def enqueue(
        self,
        body: str,
        *,
        partition: str = "p",
        priority: int = 0,
        delay: timedelta | None = None,
        dedup_key: str | None = None,
    ) -> str:
        message: dict[str, Any] = {
            "queue": self.queue,
            "type": partition,
            "payload": body,
            "priority": priority,
        }
        if delay is not None:
            message["delay"] = delay.total_seconds()
        if dedup_key is not None:
            message["dedupKey"] = dedup_key
        answer = await self._call("POST", "/queue/message", json=message)
        return str(answer["id"])

    async def claim(self, n: int = 10) -> list[Received]:
        parameters = {"queue": self.queue, "count": n}
        answer = await self._call("GET", "/queue/messages/batch", params=parameters)
        return [
            Received(
                id=each["id"],
                body=each["payload"],
                attempt=each["attempt_count"],
                receipt=each["lock_token"],
            )
            for each in answer["messages"]
        ]

    async def ack(self, message: Received) -> bool:
        body = {"id": message.id, "lock_token": message.receipt}
        return await self._settle("POST", "/queue/ack", body)

    async def nack(
        self,
        message: Received,
        *,
        reason: str = "broken",
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> bool:
        assert not dead
        body: dict[str, Any] = {"errorReason": reason, "lock_token": message.receipt}
        if delay is not None:
            body["delay"] = delay.total_seconds()
        return await self._settle("POST", f"/queue/message/{message.id}/nack", body)

    async def release(self, message: Received) -> bool:
        raise NotImplementedError

    async def extend(self, message: Received, lease: timedelta) -> bool:
        body = {"extend_seconds": lease.total_seconds(), "lock_token": message.receipt}
        return await self._settle("PUT", f"/queue/message/{message.id}/touch", body)

    async def dead_letters(self) -> list[DeadLetter]:
        return [
            DeadLetter(body=each["payload"], reason=each["last_error"])
            for each in await self._list_dead()
        ]

    async def redrive(self) -> None:
        ids = [each["id"] for each in await self._list_dead()]
        move = {"messages": ids, "fromQueue": "dead", "toQueue": "main"}
        await self._call("POST", "/queue/move", json=move)

    async def purge(self) -> None:
        await self._call("POST", f"/queues/{self.queue}/purge")

    async def counts(self) -> Counts:
        answer = await self._call("GET", f"/queues/{self.queue}")
        return Counts(ready=answer["message_count"], in_flight=answer["processing_count"])

    async def _list_dead(self) -> list[dict[str, Any]]:
        answer = await self._call("GET", "/queue/dead/messages", params={"queueName": self.queue})
        messages: list[dict[str, Any]] = answer["messages"]
        return messages

    async def _settle(self, method: str, path: str, body: dict[str, Any]) -> bool:
        answer = await self._client.request(method, path, json=body)
        if answer.is_success:
            return True
        # 400 and 404: the message is not in flight, so nobody has a lease on it.
        assert answer.status_code in {400, 404, 409}, answer.text
        return False

    async def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = await self._client.request(method, path, **options)
        assert answer.is_success, answer.text
        body: dict[str, Any] = answer.json()
        return body
