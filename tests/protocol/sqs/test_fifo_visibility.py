"""FIFO queues: the visibility of each message is its own, and message groups take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.sqs.clients import bodies, drain

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef


@pytest.fixture
def url(make: Callable[..., str]) -> str:
    return make(fifo=True, ContentBasedDeduplication="true")


def send(sqs: SQSClient, url: str, *texts: str) -> None:
    """Send each text to the message group that its first letter names."""
    for text in texts:
        sqs.send_message(QueueUrl=url, MessageBody=text, MessageGroupId=text[0])


def receive(sqs: SQSClient, url: str, most: int = 10, **options: Any) -> list[MessageTypeDef]:
    answer = sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=most,
        AttributeNames=["ApproximateReceiveCount"],
        **options,
    )
    return answer.get("Messages", [])


def change(sqs: SQSClient, url: str, message: MessageTypeDef, seconds: int) -> None:
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
    )


def delete(sqs: SQSClient, url: str, message: MessageTypeDef) -> None:
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def counts(messages: list[MessageTypeDef]) -> list[tuple[str, int]]:
    return [
        (message["Body"], int(message["Attributes"]["ApproximateReceiveCount"]))
        for message in messages
    ]


def test_released_message_is_received_while_those_behind_it_are_in_flight(
    sqs: SQSClient, url: str
) -> None:
    send(sqs, url, "a1", "a2", "b1", "a3")
    one, two = receive(sqs, url, 2)
    change(sqs, url, one, 0)
    # a2 is still in flight, so a3 waits.
    got = receive(sqs, url)
    assert counts(got) == [("b1", 1), ("a1", 2)]
    delete(sqs, url, got[1])
    assert receive(sqs, url) == []
    delete(sqs, url, two)
    assert counts(receive(sqs, url)) == [("a3", 1)]


def test_expired_message_is_received_while_those_behind_it_are_in_flight(
    sqs: SQSClient, url: str
) -> None:
    send(sqs, url, "a1", "a2", "a3", "a4")
    one, two, three = receive(sqs, url, 3)
    entries = [
        {"Id": message["Body"], "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 1}
        for message in (one, two)
    ]
    sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)  # type: ignore[arg-type]
    # a1 and a2 come back together; a3 stays in flight, and a4 behind it.
    again = receive(sqs, url, WaitTimeSeconds=20)
    assert counts(again) == [("a1", 2), ("a2", 2)]
    for message in (*again, three):
        delete(sqs, url, message)
    assert counts(receive(sqs, url)) == [("a4", 1)]


def test_message_that_expires_waits_for_those_before_it(sqs: SQSClient, url: str) -> None:
    send(sqs, url, "a1", "a2", "a3", "a4")
    one, two, three = receive(sqs, url, 3)
    change(sqs, url, two, 0)
    change(sqs, url, three, 600)
    assert receive(sqs, url) == []
    delete(sqs, url, one)
    [again] = receive(sqs, url)
    assert counts([again]) == [("a2", 2)]
    delete(sqs, url, again)
    assert receive(sqs, url) == []
    change(sqs, url, three, 0)
    assert counts(receive(sqs, url)) == [("a3", 2), ("a4", 1)]


def test_extending_one_message_does_not_extend_the_others(sqs: SQSClient, url: str) -> None:
    send(sqs, url, "a1", "a2", "a3")
    _, two, three = receive(sqs, url, 3, VisibilityTimeout=2)
    change(sqs, url, two, 600)
    assert counts(receive(sqs, url, WaitTimeSeconds=20)) == [("a1", 2)]
    # a3 is visible too, but behind a2, which is in flight.
    assert receive(sqs, url) == []
    delete(sqs, url, two)
    with pytest.raises(sqs.exceptions.ClientError, match="The receipt handle has expired"):
        delete(sqs, url, three)


def test_deleting_one_message_leaves_the_others_in_flight(sqs: SQSClient, url: str) -> None:
    send(sqs, url, "a1", "a2", "a3", "a4")
    _, two, three = receive(sqs, url, 3)
    delete(sqs, url, two)
    assert receive(sqs, url) == []
    change(sqs, url, three, 0)
    assert receive(sqs, url) == []


def test_receive_with_visibility_timeout_zero_keeps_order_and_takes_groups_in_turn(
    sqs: SQSClient, url: str
) -> None:
    send(sqs, url, "a1", "b1", "b2", "c1", "a2")
    assert bodies(receive(sqs, url, 3, VisibilityTimeout=0)) == ["a1", "a2", "b1"]
    again = receive(sqs, url, VisibilityTimeout=0)
    assert counts(again) == [("c1", 1), ("a1", 2), ("a2", 2), ("b1", 2), ("b2", 1)]


def test_dead_lettered_message_does_not_wait_for_those_behind_it(
    sqs: SQSClient, make: Callable[..., str]
) -> None:
    dead = make(fifo=True)
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
    policy = f'{{"deadLetterTargetArn": "{arn["QueueArn"]}", "maxReceiveCount": 1}}'
    url = make(fifo=True, ContentBasedDeduplication="true", RedrivePolicy=policy)
    send(sqs, url, "a1", "a2", "a3")
    one, two = receive(sqs, url, 2)
    change(sqs, url, one, 0)
    assert receive(sqs, url) == []
    assert counts(receive(sqs, dead)) == [("a1", 2)]
    delete(sqs, url, two)
    assert counts(receive(sqs, url)) == [("a3", 1)]


def test_receives_take_message_groups_in_turn(sqs: SQSClient, url: str) -> None:
    send(sqs, url, "a1", "a2", "a3", "b1", "b2", "c1", "c2")
    order = []
    for _ in range(7):
        [message] = receive(sqs, url, 1)
        order.append(message["Body"])
        delete(sqs, url, message)
    assert order == ["a1", "b1", "c1", "a2", "b2", "c2", "a3"]


def test_group_with_new_messages_goes_behind_those_that_wait(sqs: SQSClient, url: str) -> None:
    send(sqs, url, "a1", "b1", "b2")
    delete(sqs, url, receive(sqs, url, 1)[0])
    send(sqs, url, "c1", "a2")
    order = []
    for _ in range(4):
        [message] = receive(sqs, url, 1)
        order.append(message["Body"])
        delete(sqs, url, message)
    assert order == ["b1", "c1", "a2", "b2"]


def test_all_messages_of_many_groups_are_received(sqs: SQSClient, url: str) -> None:
    groups = [chr(ord("A") + number) for number in range(26)] + list("abcdefghijklmn")
    send(sqs, url, *(f"{group}{number}" for number in (1, 2) for group in groups))
    got = []
    for _ in range(8):
        messages = drain(sqs, url, 10)
        got += bodies(messages)
        for message in messages:
            delete(sqs, url, message)
    assert {group: [text for text in got if text[0] == group] for group in groups} == {
        group: [f"{group}1", f"{group}2"] for group in groups
    }
