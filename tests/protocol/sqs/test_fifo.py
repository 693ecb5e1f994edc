"""FIFO queues: order by group, deduplication, and receive attempts."""

from __future__ import annotations

import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from tests.protocol.sqs.clients import Refusal, bodies, connect, drain

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.conftest import Shared


async def pass_time(shared: Shared, table: str, url: str, *, seconds: int) -> None:
    """Have what a table remembers of a queue be so much older."""
    connection = await asyncpg.connect(shared.dsn)
    await connection.execute(
        f"update laneway.{table} set expires_at = expires_at - $1::int * interval '1 second' "
        "where queue_id = (select queue_id from laneway.queue where name = $2)",
        seconds,
        url.rpartition("/")[2],
    )
    await connection.close()


@pytest.fixture
def url(make: Callable[..., str]) -> str:
    return make(fifo=True, ContentBasedDeduplication="true")


def send(sqs: SQSClient, url: str, group: str, *texts: str) -> list[str]:
    """Return the sequence numbers."""
    return [
        sqs.send_message(QueueUrl=url, MessageBody=text, MessageGroupId=group)["SequenceNumber"]
        for text in texts
    ]


def test_attributes_of_a_fifo_queue(sqs: SQSClient, make: Callable[..., str]) -> None:
    url = make(fifo=True)
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown["FifoQueue"] == "true"
    assert shown["ContentBasedDeduplication"] == "false"
    assert shown["DeduplicationScope"] == "queue"
    assert shown["FifoThroughputLimit"] == "perQueue"
    with Refusal() as refusal:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={})
    assert refusal.code == "MissingParameter"
    with Refusal() as refusal:
        sqs.set_queue_attributes(
            QueueUrl=url, Attributes={"FifoThroughputLimit": "perMessageGroupId"}
        )
    assert refusal.code == "InvalidAttributeValue"
    with Refusal() as refusal:
        make(fifo=True, FifoThroughputLimit="perMessageGroupId")
    assert refusal.code == "InvalidAttributeValue"
    wanted = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes=wanted)  # type: ignore[arg-type]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown.items() >= wanted.items()
    with Refusal() as refusal:
        sqs.create_queue(QueueName="plain", Attributes={"FifoQueue": "true"})
    assert refusal.code == "InvalidParameterValue"


def test_message_group_is_ordered_and_blocked_while_in_flight(sqs: SQSClient, url: str) -> None:
    numbers = send(sqs, url, "a", "a1", "a2", "a3")
    assert numbers == sorted(numbers)
    assert all(len(number) == 20 and number.startswith("1886") for number in numbers)
    send(sqs, url, "b", "b1")
    first = sqs.receive_message(QueueUrl=url, AttributeNames=["All"], VisibilityTimeout=30)
    message = first["Messages"][0]
    assert message["Body"] == "a1"
    assert message["Attributes"]["MessageGroupId"] == "a"
    assert message["Attributes"]["SequenceNumber"] == numbers[0]
    assert len(message["Attributes"]["MessageDeduplicationId"]) == 64
    # Of the group that is held nothing comes, of the other it does.
    assert bodies(drain(sqs, url, 1)) == ["b1"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert bodies(drain(sqs, url, 2)) == ["a2", "a3"]


def test_receive_fills_up_from_other_groups(sqs: SQSClient, url: str) -> None:
    for group in "abcd":
        send(sqs, url, group, f"{group}1", f"{group}2")
    got = bodies(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=7)["Messages"])
    assert len(got) == 7
    for group in {text[0] for text in got}:
        of_group = [text for text in got if text[0] == group]
        assert of_group == [f"{group}1", f"{group}2"][: len(of_group)]


def test_returned_message_is_received_before_those_behind_it(sqs: SQSClient, url: str) -> None:
    send(sqs, url, "a", "a1", "a2", "a3")
    one, two, three = drain(sqs, url, 3)
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=two["ReceiptHandle"], VisibilityTimeout=0
    )
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=three["ReceiptHandle"])
    again = drain(sqs, url, 1, AttributeNames=["ApproximateReceiveCount"])[0]
    assert again["Body"] == "a2"
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"


def test_expired_handle_deletes_nothing(sqs: SQSClient, url: str) -> None:
    send(sqs, url, "a", "a1")
    old = drain(sqs, url, 1, VisibilityTimeout=1)[0]
    new = drain(sqs, url, 1)[0]
    with Refusal() as refusal:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=old["ReceiptHandle"])
    assert refusal.code == "InvalidParameterValue"
    assert refusal.message == (
        f"Value {old['ReceiptHandle']} for parameter ReceiptHandle is invalid. Reason: The receipt "
        "handle has expired."
    )
    # A change of visibility by it succeeds, and changes nothing.
    for seconds in (5, 0):
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=old["ReceiptHandle"], VisibilityTimeout=seconds
        )
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=new["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=new["ReceiptHandle"])


def test_duplicate_returns_the_first_message_even_after_its_deletion(
    sqs: SQSClient, url: str
) -> None:
    sent = [
        sqs.send_message(
            QueueUrl=url, MessageBody=text, MessageGroupId=group, MessageDeduplicationId="same"
        )
        for text, group in (("one", "a"), ("two", "b"))
    ]
    assert sent[0]["MessageId"] == sent[1]["MessageId"]
    assert sent[0]["SequenceNumber"] == sent[1]["SequenceNumber"]
    message = drain(sqs, url, 1, AttributeNames=["All"])[0]
    assert message["Attributes"]["MessageDeduplicationId"] == "same"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.send_message(
        QueueUrl=url, MessageBody="three", MessageGroupId="a", MessageDeduplicationId="same"
    )
    send(sqs, url, "a", "by content", "by content")
    assert bodies(drain(sqs, url, 1)) == ["by content"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


async def test_duplicates_are_known_for_five_minutes(
    shared: Shared, sqs: SQSClient, url: str
) -> None:
    send(sqs, url, "a", "same")
    await pass_time(shared, "dedup_key", url, seconds=295)
    send(sqs, url, "b", "same")
    assert bodies(drain(sqs, url, 1)) == ["same"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    await pass_time(shared, "dedup_key", url, seconds=5)
    send(sqs, url, "b", "same")
    assert bodies(drain(sqs, url, 1)) == ["same"]


def test_purge_forgets_deduplication_ids(sqs: SQSClient, make: Callable[..., str]) -> None:
    url = make(fifo=True)
    ask: Any = {"QueueUrl": url, "MessageGroupId": "a", "MessageDeduplicationId": "same"}
    sqs.send_message(**ask, MessageBody="one")
    sqs.purge_queue(QueueUrl=url)
    sqs.send_message(**ask, MessageBody="two")
    sqs.send_message(**ask, MessageBody="three")
    assert bodies(drain(sqs, url, 1)) == ["two"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_purge_releases_message_groups_in_flight(sqs: SQSClient, make: Callable[..., str]) -> None:
    url = make(fifo=True, ContentBasedDeduplication="true")
    for body in ("flying", "behind"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="a")
    [flying] = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.purge_queue(QueueUrl=url)
    sqs.send_message(QueueUrl=url, MessageBody="new", MessageGroupId="a")
    assert bodies(drain(sqs, url, 1)) == ["new"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=flying["ReceiptHandle"])
    with Refusal() as refusal:
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=flying["ReceiptHandle"], VisibilityTimeout=0
        )
    assert "Message does not exist" in refusal.message


def test_delay_of_zero_leaves_the_delay_of_the_queue(
    sqs: SQSClient, make: Callable[..., str]
) -> None:
    url = make(fifo=True, ContentBasedDeduplication="true", DelaySeconds="900")
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="a", DelaySeconds=0)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    delayed = ["ApproximateNumberOfMessagesDelayed"]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=delayed)  # type: ignore[arg-type]
    assert shown["Attributes"] == {"ApproximateNumberOfMessagesDelayed": "1"}


def test_deduplication_scope_may_be_the_message_group(
    sqs: SQSClient, make: Callable[..., str]
) -> None:
    url = make(
        fifo=True,
        ContentBasedDeduplication="true",
        DeduplicationScope="messageGroup",
        FifoThroughputLimit="perMessageGroupId",
    )
    send(sqs, url, "a", "same", "same")
    send(sqs, url, "b", "same")
    assert bodies(drain(sqs, url, 2)) == ["same", "same"]


def test_parameters_that_fifo_queues_require(sqs: SQSClient, make: Callable[..., str]) -> None:
    url = make(fifo=True)
    with Refusal() as refusal:
        sqs.send_message(QueueUrl=url, MessageBody="x", MessageDeduplicationId="a")
    assert refusal.code == "MissingParameter"
    with Refusal() as refusal:
        sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="a")
    assert refusal.code == "InvalidParameterValue"
    with Refusal() as refusal:
        sqs.send_message(
            QueueUrl=url,
            MessageBody="x",
            MessageGroupId="a",
            MessageDeduplicationId="a",
            DelaySeconds=1,
        )
    assert refusal.code == "InvalidParameterValue"
    entries: list[Any] = [
        {"Id": "2", "MessageBody": "x", "MessageDeduplicationId": "b"},
        {"Id": "2", "MessageBody": "x", "MessageGroupId": "b"},
    ]
    for entry in entries:
        good: Any = {
            "Id": "1",
            "MessageBody": "x",
            "MessageGroupId": "a",
            "MessageDeduplicationId": "a",
        }
        with Refusal() as refusal:
            sqs.send_message_batch(
                QueueUrl=url,
                Entries=[good, entry],
            )
        assert refusal.code == "InvalidParameterValue"
    sqs.send_message(
        QueueUrl=url,
        MessageBody="x",
        MessageGroupId="a",
        MessageDeduplicationId="!#$%",
        DelaySeconds=0,
    )
    assert len(drain(sqs, url, 1)) == 1


def test_repeated_receive_attempt_returns_the_same_messages(sqs: SQSClient, url: str) -> None:
    send(sqs, url, "a", "a1", "a2")
    ask: Any = {"QueueUrl": url, "MaxNumberOfMessages": 10, "ReceiveRequestAttemptId": "once"}
    first = sqs.receive_message(**ask)["Messages"]
    again = sqs.receive_message(**ask)["Messages"]
    assert bodies(again) == ["a1", "a2"]
    assert again == first
    other = sqs.receive_message(QueueUrl=url, ReceiveRequestAttemptId="other")
    assert not other.get("Messages")
    # What it got anew settles, and then nothing is left to repeat.
    for message in again:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(**ask)


@pytest.mark.parametrize("wait", [0, 20])
def test_concurrent_receive_attempts_return_the_same_messages(
    sqs: SQSClient, url: str, wait: int
) -> None:
    callers = 6
    for group in range(callers):
        send(sqs, url, f"g{group}", f"{group}")

    def receive(_: int) -> Any:
        got = sqs.receive_message(
            QueueUrl=url, ReceiveRequestAttemptId="once", WaitTimeSeconds=wait
        )
        return got["Messages"]

    with ThreadPoolExecutor(callers) as pool:
        got = list(pool.map(receive, range(callers)))
    assert [messages == got[0] for messages in got] == [True] * callers
    # The others are left for other attempts.
    assert len(drain(sqs, url, callers - 1)) == callers - 1


def test_repeated_receive_attempt_waits_only_as_long_as_it_asks(sqs: SQSClient, url: str) -> None:
    ask: Any = {"QueueUrl": url, "ReceiveRequestAttemptId": "once"}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(sqs.receive_message, **ask, WaitTimeSeconds=20)
        waited = 0.0
        # Until the first is there before.
        while waited < 1:
            began = time.monotonic()
            assert "Messages" not in sqs.receive_message(**ask, WaitTimeSeconds=0)
            waited = time.monotonic() - began
        assert not first.done()
        send(sqs, url, "a", "a1")
        assert bodies(first.result()["Messages"]) == ["a1"]


async def test_receive_attempt_is_remembered_for_five_minutes(
    shared: Shared, sqs: SQSClient, url: str
) -> None:
    send(sqs, url, "a", "a1")
    ask: Any = {"QueueUrl": url, "ReceiveRequestAttemptId": "once"}
    assert bodies(sqs.receive_message(**ask)["Messages"]) == ["a1"]
    await pass_time(shared, "receive_attempt", url, seconds=295)
    assert bodies(sqs.receive_message(**ask)["Messages"]) == ["a1"]
    await pass_time(shared, "receive_attempt", url, seconds=5)
    # It is still in flight, by another attempt.
    assert "Messages" not in sqs.receive_message(**ask)


def test_order_holds_under_many_consumers(shared: Shared, sqs: SQSClient, url: str) -> None:
    groups, each = 5, 8
    for n in range(each):
        sqs.send_message_batch(
            QueueUrl=url,
            Entries=[
                {"Id": str(g), "MessageBody": f"{g}:{n}", "MessageGroupId": f"g{g}"}
                for g in range(groups)
            ],
        )

    seen: dict[str, list[int]] = defaultdict(list)

    def consume() -> None:
        client = connect(shared.server.url)
        while sum(map(len, seen.values())) < groups * each:
            answer = client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=4, WaitTimeSeconds=1, VisibilityTimeout=30
            )
            # A group's next message cannot be with another consumer before this one is deleted.
            for message in answer.get("Messages", []):
                group, _, n = message["Body"].partition(":")
                seen[group].append(int(n))
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        client.close()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(consume) for _ in range(4)]:
            done.result()
    assert dict(seen) == {str(g): list(range(each)) for g in range(groups)}
