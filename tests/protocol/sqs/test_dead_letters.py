"""Dead-letter queues and move tasks."""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.protocol.sqs.clients import Refusal, bodies, drain

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import ListMessageMoveTasksResultEntryTypeDef


class Pair(NamedTuple):
    source: str
    dead: str
    source_arn: str
    dead_arn: str


def arn_of(sqs: SQSClient, url: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return answer["Attributes"]["QueueArn"]


def policy(arn: str, most: int | str) -> str:
    return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": most})


@pytest.fixture(params=[False, True], ids=["standard", "fifo"])
def pair(request: pytest.FixtureRequest, sqs: SQSClient, make: Callable[..., str]) -> Pair:
    """Return a queue and the one for its dead letters, of each kind in turn."""
    more = {"ContentBasedDeduplication": "true"} if request.param else {}
    dead = make(fifo=request.param, **more)
    dead_arn = arn_of(sqs, dead)
    source = make(fifo=request.param, RedrivePolicy=policy(dead_arn, "2"), **more)
    return Pair(source, dead, arn_of(sqs, source), dead_arn)


def send(sqs: SQSClient, url: str, body: str) -> str:
    more: Any = {"MessageGroupId": "g"} if url.endswith(".fifo") else {}
    attributes: Any = {"kind": {"DataType": "String", "StringValue": body}}
    sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes, **more)
    return sent["MessageId"]


def fail(sqs: SQSClient, url: str, times: int = 2) -> set[str]:
    """Receive the messages and release them at once, several times; return when they were sent."""
    sent = set()
    for _ in range(times):
        for message in drain(sqs, url, 1, AttributeNames=["SentTimestamp"]):
            sent.add(message["Attributes"]["SentTimestamp"])
            sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )
    return sent


def exhaust(sqs: SQSClient, url: str) -> None:
    """Fail twice, and ask once more: that moves the message."""
    fail(sqs, url)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def count(sqs: SQSClient, url: str) -> int:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return int(answer["Attributes"]["ApproximateNumberOfMessages"])


def watch(
    sqs: SQSClient, arn: str, until: Callable[[Any], bool]
) -> ListMessageMoveTasksResultEntryTypeDef:
    """Return the newest task once it is as wanted; the test's time limit ends the wait."""
    while True:
        task = sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]
        if until(task):
            return task
        time.sleep(0.05)


def test_message_received_too_often_goes_to_its_dead_letter_queue(
    sqs: SQSClient, pair: Pair
) -> None:
    sent = send(sqs, pair.source, "poison")
    moments = fail(sqs, pair.source)
    # It goes when it would be received once more, and not before.
    while not count(sqs, pair.source):
        time.sleep(0.05)
    assert count(sqs, pair.dead) == 0
    assert "Messages" not in sqs.receive_message(QueueUrl=pair.source)
    assert (count(sqs, pair.source), count(sqs, pair.dead)) == (0, 1)
    message = drain(sqs, pair.dead, 1, AttributeNames=["All"], MessageAttributeNames=["All"])[0]
    assert message["MessageId"] == sent
    assert message["Body"] == "poison"
    assert message["MessageAttributes"]["kind"]["StringValue"] == "poison"
    attributes = message["Attributes"]
    assert attributes["DeadLetterQueueSourceArn"] == pair.source_arn
    assert attributes["ApproximateReceiveCount"] == "3"
    assert {attributes["SentTimestamp"]} == moments
    if pair.dead.endswith(".fifo"):
        assert attributes["MessageGroupId"] == "g"
        assert len(attributes["MessageDeduplicationId"]) == 64
    assert sqs.list_dead_letter_source_queues(QueueUrl=pair.dead)["queueUrls"] == [pair.source]


def test_message_that_expired_too_often_goes_to_its_dead_letter_queue(
    sqs: SQSClient, pair: Pair
) -> None:
    sent = send(sqs, pair.source, "slow")
    for _ in range(2):
        drain(sqs, pair.source, 1, VisibilityTimeout=1)
    # Who waits for something else to come moves it too.
    assert "Messages" not in sqs.receive_message(QueueUrl=pair.source, WaitTimeSeconds=2)
    assert drain(sqs, pair.dead, 1)[0]["MessageId"] == sent


def test_last_receive_counts_until_the_next_one(sqs: SQSClient, make: Callable[..., str]) -> None:
    dead = make()
    source = make(RedrivePolicy=policy(arn_of(sqs, dead), 1))
    sent = send(sqs, source, "late")
    late = drain(sqs, source, 1, VisibilityTimeout=1)[0]
    while not count(sqs, source):
        time.sleep(0.05)
    sqs.delete_message(QueueUrl=source, ReceiptHandle=late["ReceiptHandle"])
    assert (count(sqs, source), count(sqs, dead)) == (0, 0)
    # A policy that allows for more is in time as well.
    sent = send(sqs, source, "more")
    fail(sqs, source, times=1)
    attributes: Any = {"RedrivePolicy": policy(arn_of(sqs, dead), 2)}
    sqs.set_queue_attributes(QueueUrl=source, Attributes=attributes)
    assert drain(sqs, source, 1)[0]["MessageId"] == sent


def test_messages_behind_a_failing_message_are_received(sqs: SQSClient, pair: Pair) -> None:
    send(sqs, pair.source, "poison")
    fail(sqs, pair.source)
    for body in ("one", "two"):
        send(sqs, pair.source, body)
    messages = drain(sqs, pair.source, 2, AttributeNames=["All"])
    assert bodies(messages) == ["one", "two"]
    assert {each["Attributes"]["ApproximateReceiveCount"] for each in messages} == {"1"}
    assert bodies(drain(sqs, pair.dead, 1)) == ["poison"]


def test_dead_letters_of_a_group_keep_its_order(sqs: SQSClient, make: Callable[..., str]) -> None:
    dead = make(fifo=True, ContentBasedDeduplication="true")
    source = make(
        fifo=True, ContentBasedDeduplication="true", RedrivePolicy=policy(arn_of(sqs, dead), 2)
    )
    texts = ["one", "two", "three"]
    for text in texts:
        send(sqs, source, text)
    for _ in range(2):
        held = drain(sqs, source, 3)
        entries: list[Any] = [
            {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"], "VisibilityTimeout": 0}
            for n, each in enumerate(held)
        ]
        sqs.change_message_visibility_batch(QueueUrl=source, Entries=entries)
    while count(sqs, source) < 3:
        time.sleep(0.05)
    assert "Messages" not in sqs.receive_message(QueueUrl=source, MaxNumberOfMessages=10)
    assert bodies(drain(sqs, dead, 3)) == texts


def test_move_task_returns_messages_to_their_source(sqs: SQSClient, pair: Pair) -> None:
    sent = send(sqs, pair.source, "retry me")
    exhaust(sqs, pair.source)
    handle = drain(sqs, pair.dead, 1)[0]["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=pair.dead, ReceiptHandle=handle, VisibilityTimeout=0)
    # The server's own round may be about to give it back, a moment after the answer.
    while count(sqs, pair.dead) != 1:
        time.sleep(0.01)
    task = sqs.start_message_move_task(SourceArn=pair.dead_arn)
    assert json.loads(b64decode(task["TaskHandle"]))["sourceArn"] == pair.dead_arn
    message = drain(sqs, pair.source, 1, AttributeNames=["All"], MessageAttributeNames=["All"])[0]
    assert message["Body"] == "retry me"
    assert message["MessageAttributes"]["kind"]["StringValue"] == "retry me"
    # A message that is moved by a task starts anew.
    assert message["MessageId"] != sent
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in message["Attributes"]
    ended = watch(sqs, pair.dead_arn, lambda each: each["Status"] == "COMPLETED")
    assert ended["ApproximateNumberOfMessagesMoved"] == 1
    assert ended["ApproximateNumberOfMessagesToMove"] == 1
    assert "TaskHandle" not in ended
    with Refusal() as refusal:
        sqs.cancel_message_move_task(TaskHandle=task["TaskHandle"])
    assert (refusal.code, refusal.status) == ("ResourceNotFoundException", 404)


def test_messages_stay_while_their_dead_letter_queue_is_deleted(sqs: SQSClient, pair: Pair) -> None:
    sqs.delete_queue(QueueUrl=pair.dead)
    sent = send(sqs, pair.source, "poison")
    fail(sqs, pair.source, times=5)
    # Also one whose time runs out once too often.
    drain(sqs, pair.source, 1, VisibilityTimeout=1)
    sqs.set_queue_attributes(QueueUrl=pair.source, Attributes={"RedrivePolicy": ""})
    assert [message["MessageId"] for message in drain(sqs, pair.source, 1)] == [sent]


def test_move_task_sends_messages_to_its_destination(
    sqs: SQSClient, pair: Pair, make: Callable[..., str]
) -> None:
    other = make(fifo=pair.dead.endswith(".fifo"))
    send(sqs, pair.dead, "sent directly")
    sqs.start_message_move_task(SourceArn=pair.dead_arn, DestinationArn=arn_of(sqs, other))
    assert bodies(drain(sqs, other, 1)) == ["sent directly"]
    task = watch(sqs, pair.dead_arn, lambda each: each["Status"] == "COMPLETED")
    assert task["DestinationArn"] == arn_of(sqs, other)
    # Without a destination, one that has no source has nowhere to go.
    send(sqs, pair.dead, "sent directly again")
    sqs.start_message_move_task(SourceArn=pair.dead_arn)
    task = watch(sqs, pair.dead_arn, lambda each: each["Status"] == "FAILED")
    assert task["FailureReason"] == "CouldNotDetermineMessageSource"
    assert bodies(drain(sqs, pair.dead, 1)) == ["sent directly again"]


def test_move_task_fails_when_its_destination_is_deleted(
    sqs: SQSClient, make: Callable[..., str]
) -> None:
    dead, other = make(), make()
    make(RedrivePolicy=policy(arn_of(sqs, dead), 1))
    sent = [str(number) for number in range(30)]
    for start in range(0, 30, 10):
        entries: Any = [{"Id": body, "MessageBody": body} for body in sent[start : start + 10]]
        sqs.send_message_batch(QueueUrl=dead, Entries=entries)
    arn = arn_of(sqs, dead)
    handle = sqs.start_message_move_task(
        SourceArn=arn, DestinationArn=arn_of(sqs, other), MaxNumberOfMessagesPerSecond=1
    )["TaskHandle"]
    sqs.delete_queue(QueueUrl=other)
    task = watch(sqs, arn, lambda each: each["Status"] != "RUNNING")
    assert task["Status"] == "FAILED"
    assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert "TaskHandle" not in task
    with Refusal() as refusal:
        sqs.cancel_message_move_task(TaskHandle=handle)
    assert refusal.message == "Task does not exist."
    left = sent[task["ApproximateNumberOfMessagesMoved"] :]
    assert bodies(drain(sqs, dead, len(left))) == left


def test_dead_letter_goes_on_to_the_next_dead_letter_queue(
    sqs: SQSClient, make: Callable[..., str]
) -> None:
    last = make()
    middle = make(RedrivePolicy=policy(arn_of(sqs, last), 1))
    first = make(RedrivePolicy=policy(arn_of(sqs, middle), 1))
    sent = send(sqs, first, "poison")
    for url in (first, middle):
        fail(sqs, url, 1)
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
    [message] = drain(sqs, last, 1, AttributeNames=["All"])
    assert (message["MessageId"], message["Body"]) == (sent, "poison")
    assert message["Attributes"]["ApproximateReceiveCount"] == "3"
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn_of(sqs, middle)


def test_move_task_keeps_its_rate_and_can_be_cancelled(
    sqs: SQSClient, make: Callable[..., str]
) -> None:
    dead, other = make(), make()
    make(RedrivePolicy=policy(arn_of(sqs, dead), 1))
    for _ in range(3):
        sqs.send_message_batch(
            QueueUrl=dead, Entries=[{"Id": str(n), "MessageBody": "x"} for n in range(10)]
        )
    arn = arn_of(sqs, dead)
    task = sqs.start_message_move_task(
        SourceArn=arn, DestinationArn=arn_of(sqs, other), MaxNumberOfMessagesPerSecond=5
    )
    with Refusal() as refusal:
        sqs.start_message_move_task(SourceArn=arn)
    assert refusal.code == "InvalidParameterValue"
    running = watch(sqs, arn, lambda each: each["ApproximateNumberOfMessagesMoved"] > 0)
    assert running["Status"] == "RUNNING"
    assert running["MaxNumberOfMessagesPerSecond"] == 5
    assert running["TaskHandle"] == task["TaskHandle"]
    moved = sqs.cancel_message_move_task(TaskHandle=task["TaskHandle"])
    assert 0 < moved["ApproximateNumberOfMessagesMoved"] < 30
    ended = watch(sqs, arn, lambda each: each["Status"] == "CANCELLED")
    moved_in_all = ended["ApproximateNumberOfMessagesMoved"]
    assert len(drain(sqs, other, moved_in_all)) == moved_in_all
    assert len(drain(sqs, dead, 30 - moved_in_all)) == 30 - moved_in_all


def test_task_is_not_cancelled_by_the_name_of_another_queue(
    sqs: SQSClient, url: str, make: Callable[..., str]
) -> None:
    dead, other = make(), make()
    make(RedrivePolicy=policy(arn_of(sqs, dead), 1))
    for body in ("1", "2", "3"):
        sqs.send_message(QueueUrl=dead, MessageBody=body)
    arn = arn_of(sqs, dead)
    task = sqs.start_message_move_task(
        SourceArn=arn, DestinationArn=arn_of(sqs, other), MaxNumberOfMessagesPerSecond=1
    )
    handle = json.loads(b64decode(task["TaskHandle"])) | {"sourceArn": arn_of(sqs, url)}
    with Refusal() as refusal:
        sqs.cancel_message_move_task(TaskHandle=b64encode(json.dumps(handle).encode()).decode())
    assert refusal.code == "ResourceNotFoundException"
    assert len(drain(sqs, other, 3)) == 3


def test_invalid_move_tasks_are_refused(sqs: SQSClient, url: str) -> None:
    arn = arn_of(sqs, url)
    with Refusal() as refusal:
        sqs.start_message_move_task(SourceArn=arn)
    assert refusal.code == "InvalidParameterValue"
    for missing in (f"{arn}-none", "arn:aws:sqs:x:1:none"):
        with Refusal() as refusal:
            sqs.list_message_move_tasks(SourceArn=missing)
        assert (refusal.code, refusal.status) == ("ResourceNotFoundException", 404)
    for handle in ("nothing", b64encode(b"[" * 100_000).decode()):
        with Refusal() as refusal:
            sqs.cancel_message_move_task(TaskHandle=handle)
        assert refusal.code == "InvalidParameterValue"
    assert "Results" not in sqs.list_message_move_tasks(SourceArn=arn)


def test_queue_cannot_be_moved_to_itself(sqs: SQSClient, pair: Pair) -> None:
    send(sqs, pair.dead, "stays")
    with Refusal() as refusal:
        sqs.start_message_move_task(SourceArn=pair.dead_arn, DestinationArn=pair.dead_arn)
    assert refusal.code == "InvalidParameterValue"
    assert "Results" not in sqs.list_message_move_tasks(SourceArn=pair.dead_arn)
    assert bodies(drain(sqs, pair.dead, 1)) == ["stays"]


def test_redrive_policy_must_fit_its_target(
    sqs: SQSClient, url: str, make: Callable[..., str]
) -> None:
    arn = arn_of(sqs, url)
    closed = make(RedriveAllowPolicy='{"redrivePermission": "denyAll"}')
    fifo = make(fifo=True)
    for text in (
        policy(f"{arn}-none", 1),
        policy(arn_of(sqs, fifo), 1),
        policy(arn_of(sqs, closed), 1),
        policy(arn, 0),
        policy(arn, 1001),
        policy(arn, "many"),
    ):
        with Refusal() as refusal:
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": text})
        assert refusal.code == "InvalidParameterValue"
    only = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn]})
    chosen = make(RedriveAllowPolicy=only)
    wanted = policy(arn_of(sqs, chosen), 5)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": wanted})
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    assert shown["Attributes"] == {"RedrivePolicy": wanted}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    # In XML, an empty list is none.
    assert not sqs.list_dead_letter_source_queues(QueueUrl=chosen).get("queueUrls")
