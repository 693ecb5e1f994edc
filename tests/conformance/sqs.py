"""The SQS protocol, over boto3: standard queues and FIFO queues."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from botocore.exceptions import ClientError

from tests.conformance.surface import Capability, Counts, DeadLetter, Received

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_sqs import SQSClient

    from tests.conformance.clock import Clock
    from tests.conformance.surface import QueueOptions

_BOTH: Mapping[Capability, str] = {
    Capability.PRIORITY: "SQS has no priorities",
    Capability.BACKOFF: "SQS has no such attribute: consumers choose the visibility timeout",
    Capability.DEAD_LETTER_AT_ONCE: "SQS moves messages only by their receive count",
    Capability.DEAD_LETTER_REASON: "SQS has no reasons",
    Capability.RELEASE: "SQS counts every receive",
}


class Sqs:
    """Standard queues. A nack is a visibility timeout of zero, or of the delay."""

    lacks: ClassVar[Mapping[Capability, str]] = {
        **_BOTH,
        Capability.ORDERED_GROUPS: "standard queues have shared groups only",
        Capability.DEDUP: "standard queues have no deduplication",
        Capability.EXCLUSIVE_TOKENS: "an old handle of a standard queue still deletes, as on AWS",
    }
    suffix: ClassVar[str] = ""
    kind: ClassVar[Mapping[str, str]] = {}

    def __init__(self, queue: str, client: SQSClient, clock: Clock) -> None:
        self.queue = queue + self.suffix
        self._dead = f"{queue}-dead{self.suffix}"
        self._client = client
        self._clock = clock
        self._url = self._dead_url = ""

    async def create_queue(self, options: QueueOptions) -> None:
        self._dead_url = self._create(self._dead, {})
        policy = {
            "deadLetterTargetArn": self._arn(self._dead_url),
            "maxReceiveCount": options.max_attempts,
        }
        attributes = {
            "VisibilityTimeout": str(int(options.lease.total_seconds())),
            "RedrivePolicy": json.dumps(policy),
        }
        if options.delay is not None:
            attributes["DelaySeconds"] = str(int(options.delay.total_seconds()))
        self._url = self._create(self.queue, attributes)

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
        fields = self._address(partition, dedup_key)
        if delay is not None:
            fields["DelaySeconds"] = int(delay.total_seconds())
        return self._client.send_message(QueueUrl=self._url, MessageBody=body, **fields)[
            "MessageId"
        ]

    async def claim(self, n: int = 10) -> list[Received]:
        return self._receive(self._url, n)

    async def ack(self, message: Received) -> bool:
        try:
            self._client.delete_message(QueueUrl=self._url, ReceiptHandle=message.receipt)
        except ClientError as error:
            return _refuse(error)
        return True

    async def nack(
        self,
        message: Received,
        *,
        reason: str = "broken",  # noqa: ARG002 - SQS has no reasons
        delay: timedelta | None = None,
        dead: bool = False,
    ) -> bool:
        assert not dead
        done = self._change_visibility(message, delay or timedelta(0))
        await self._clock.advance(self.queue)
        return done

    async def release(self, message: Received) -> bool:
        raise NotImplementedError

    async def extend(self, message: Received, lease: timedelta) -> bool:
        return self._change_visibility(message, lease)

    async def dead_letters(self) -> list[DeadLetter]:
        # A message is moved when it would be received once too often.
        assert self._receive(self._url, 10) == []
        found = self._receive(self._dead_url, 10)
        for each in found:
            self._client.change_message_visibility(
                QueueUrl=self._dead_url, ReceiptHandle=each.receipt, VisibilityTimeout=0
            )
        await self._clock.advance(self._dead)
        return [DeadLetter(body=each.body, reason=None) for each in found]

    async def redrive(self) -> None:
        arn = self._arn(self._dead_url)
        self._client.start_message_move_task(SourceArn=arn)
        async with asyncio.timeout(60):
            while self._client.list_message_move_tasks(SourceArn=arn)["Results"][0]["Status"] != (
                "COMPLETED"
            ):
                await asyncio.sleep(0.02)

    async def purge(self) -> None:
        self._client.purge_queue(QueueUrl=self._url)

    async def counts(self) -> Counts:
        shown = self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=["All"])
        attributes = shown["Attributes"]
        return Counts(
            ready=int(attributes["ApproximateNumberOfMessages"]),
            in_flight=int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        )

    def _address(self, _partition: str, dedup_key: str | None) -> dict[str, Any]:
        assert dedup_key is None
        return {}

    def _receive(self, url: str, n: int) -> list[Received]:
        answer = self._client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=n,
            WaitTimeSeconds=0,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        )
        return [
            Received(
                id=each["MessageId"],
                body=each["Body"],
                attempt=int(each["Attributes"]["ApproximateReceiveCount"]),
                receipt=each["ReceiptHandle"],
            )
            for each in answer.get("Messages", [])
        ]

    def _change_visibility(self, message: Received, timeout: timedelta) -> bool:
        try:
            self._client.change_message_visibility(
                QueueUrl=self._url,
                ReceiptHandle=message.receipt,
                VisibilityTimeout=int(timeout.total_seconds()),
            )
        except ClientError as error:
            return _refuse(error)
        return True

    def _create(self, name: str, attributes: dict[str, str]) -> str:
        wanted: Any = {**self.kind, **attributes}
        return self._client.create_queue(QueueName=name, Attributes=wanted)["QueueUrl"]

    def _arn(self, url: str) -> str:
        shown = self._client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return shown["Attributes"]["QueueArn"]


class SqsFifo(Sqs):
    """FIFO queues: a partition is a message group."""

    lacks: ClassVar[Mapping[Capability, str]] = {
        **_BOTH,
        Capability.MESSAGE_DELAY: "FIFO queues delay all messages alike",
        Capability.EXCLUSIVE_TOKENS: "an old handle changes nothing, but the answer is 200, as on AWS",
    }
    suffix: ClassVar[str] = ".fifo"
    kind: ClassVar[Mapping[str, str]] = {"FifoQueue": "true"}

    def _address(self, partition: str, dedup_key: str | None) -> dict[str, Any]:
        return {
            "MessageGroupId": partition,
            "MessageDeduplicationId": dedup_key or uuid4().hex,
        }


def _refuse(error: ClientError) -> bool:
    assert error.response["Error"]["Code"] == "InvalidParameterValue", error
    return False
