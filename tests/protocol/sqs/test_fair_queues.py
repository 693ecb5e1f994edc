"""Standard queues with message groups: a group with too many messages in flight yields to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.protocol.servers import run_laneway
from tests.protocol.sqs.clients import bodies, connect

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

    from tests.protocol.conftest import Shared

LONG = 600


def send(sqs: SQSClient, url: str, *texts: str) -> None:
    """Send each text to the message group that its first letter names; "-" names none."""
    for start in range(0, len(texts), 10):
        entries: list[Any] = []
        for text in texts[start : start + 10]:
            entry = {"Id": str(len(entries)), "MessageBody": text}
            entries.append(entry if text[0] == "-" else {**entry, "MessageGroupId": text[0]})
        assert "Failed" not in sqs.send_message_batch(QueueUrl=url, Entries=entries)


def receive(sqs: SQSClient, url: str, **options: Any) -> list[MessageTypeDef]:
    ask = {"QueueUrl": url, "MaxNumberOfMessages": 10, "AttributeNames": ["All"], **options}
    answer = sqs.receive_message(**ask)
    return answer.get("Messages", [])


def take(sqs: SQSClient, url: str, count: int) -> list[MessageTypeDef]:
    """Receive exactly so many messages, for a long time."""
    got: list[MessageTypeDef] = []
    while len(got) < count:
        most = min(10, count - len(got))
        got += receive(sqs, url, MaxNumberOfMessages=most, VisibilityTimeout=LONG)
    return got


def number(group: str, count: int, start: int = 0) -> list[str]:
    return [f"{group}{at:03}" for at in range(start, start + count)]


def delete(sqs: SQSClient, url: str, messages: list[MessageTypeDef]) -> None:
    for message in messages:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_group_with_many_messages_in_flight_yields_to_others(sqs: SQSClient, url: str) -> None:
    send(sqs, url, *number("a", 60))
    busy = take(sqs, url, 30)
    send(sqs, url, *number("b", 2), "-1", *number("c", 1))
    got = receive(sqs, url, VisibilityTimeout=LONG)
    assert sorted(bodies(got[:4])) == ["-1", "b000", "b001", "c000"]
    groups = {each["Body"]: each["Attributes"].get("MessageGroupId") for each in got[:4]}
    assert groups == {"-1": None, "b000": "b", "b001": "b", "c000": "c"}
    # Nothing starves: with no others left, its own messages fill the receive.
    assert sorted(bodies(got[4:])) == number("a", 6, start=30)
    delete(sqs, url, [*busy, *got])
    # It has none in flight now, and its messages are older.
    send(sqs, url, *number("b", 2))
    assert bodies(receive(sqs, url))[0] == "a036"


def test_group_with_29_messages_in_flight_does_not_yield(sqs: SQSClient, url: str) -> None:
    send(sqs, url, *number("a", 40))
    take(sqs, url, 29)
    send(sqs, url, "b")
    assert bodies(receive(sqs, url)) == number("a", 10, start=29)


def test_group_with_a_tenth_of_the_messages_in_flight_does_not_yield(
    sqs: SQSClient, url: str
) -> None:
    send(sqs, url, *number("-", 270), *number("a", 40))
    take(sqs, url, 300)
    send(sqs, url, "b")
    assert sorted(bodies(receive(sqs, url))) == number("a", 10, start=30)


def test_messages_that_are_visible_again_yield_too(sqs: SQSClient, url: str) -> None:
    send(sqs, url, *number("a", 45))
    busy = take(sqs, url, 40)
    for message in busy[:3]:
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )
    send(sqs, url, "b")
    got = receive(sqs, url)
    assert bodies(got) == ["b", *sorted(bodies(busy[:3])), *number("a", 5, start=40)]
    assert [each["Attributes"]["ApproximateReceiveCount"] for each in got[:2]] == ["1", "2"]


async def test_messages_in_flight_with_another_process_count(
    shared: Shared, sqs: SQSClient, name: str, url: str
) -> None:
    send(sqs, url, *number("a", 250))
    take(sqs, url, 40)
    send(sqs, url, *number("b", 1))
    async with run_laneway(shared.dsn) as running:
        other = connect(running.url)
        [address] = other.list_queues(QueueNamePrefix=name)["QueueUrls"]
        # It counts what the first process has in flight once it has met a message of a group.
        got: list[str] = []
        while "b000" not in got:
            got += bodies(receive(other, address, MaxNumberOfMessages=1, VisibilityTimeout=LONG))
        # Too few to be the reason.
        assert len(got) < 30
        other.close()


def test_long_poll_gets_messages_of_a_group_that_yields(sqs: SQSClient, url: str) -> None:
    send(sqs, url, *number("a", 30))
    take(sqs, url, 30)
    send(sqs, url, "a999")
    assert bodies(receive(sqs, url, WaitTimeSeconds=20)) == ["a999"]
