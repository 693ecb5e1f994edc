"""Limits of requests: sizes, counts, ranges, and their error codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.sqs.clients import Refusal, bodies, connect, drain

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.conftest import Shared

PREFIX = "AWS.SimpleQueueService."
TEXT = {"DataType": "String", "StringValue": "x"}


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"MessageBody": ""}, "MissingParameter"),
        ({"MessageBody": "\x00"}, "InvalidMessageContents"),
        ({"MessageBody": "\x0b"}, "InvalidMessageContents"),
        ({"MessageBody": "\ufffe"}, "InvalidMessageContents"),
        ({"DelaySeconds": 901}, "InvalidParameterValue"),
        ({"DelaySeconds": -1}, "InvalidParameterValue"),
        ({"MessageGroupId": "a b"}, "InvalidParameterValue"),
        ({"MessageGroupId": "a" * 129}, "InvalidParameterValue"),
        ({"MessageDeduplicationId": "a"}, "InvalidParameterValue"),
        ({"MessageAttributes": {f"a{n}": TEXT for n in range(11)}}, "InvalidParameterValue"),
        ({"MessageAttributes": {"AWS.x": TEXT}}, "InvalidParameterValue"),
        ({"MessageAttributes": {"amazon.x": TEXT}}, "InvalidParameterValue"),
        ({"MessageAttributes": {"a..b": TEXT}}, "InvalidParameterValue"),
        ({"MessageAttributes": {".a": TEXT}}, "InvalidParameterValue"),
        ({"MessageAttributes": {"a b": TEXT}}, "InvalidParameterValue"),
        ({"MessageAttributes": {"a" * 257: TEXT}}, "InvalidParameterValue"),
        (
            {"MessageAttributes": {"a": {"DataType": "Text", "StringValue": "x"}}},
            "InvalidParameterValue",
        ),
        (
            {"MessageAttributes": {"a": {"DataType": "", "StringValue": "x"}}},
            "InvalidParameterValue",
        ),
        (
            {"MessageAttributes": {"a": {"DataType": "String", "StringValue": ""}}},
            "InvalidParameterValue",
        ),
        *(
            (
                {"MessageAttributes": {"a": {"DataType": "Number", "StringValue": text}}},
                "InvalidParameterValue",
            )
            for text in (
                "many",
                "nan",
                "1_0",
                "0x1",
                " 1",
                "1e127",
                "1e-129",
                "1" * 39,
                "1e" + "9" * 30,
            )
        ),
        (
            {"MessageAttributes": {"a": {"DataType": "String", "StringValue": "\x01"}}},
            "InvalidParameterValue",
        ),
        (
            {"MessageSystemAttributes": {"Other": TEXT}},
            "InvalidParameterValue",
        ),
    ],
)
def test_invalid_message_is_refused(
    sqs: SQSClient, url: str, parameters: dict[str, Any], code: str
) -> None:
    with Refusal() as refusal:
        sqs.send_message(**{"QueueUrl": url, "MessageBody": "x", **parameters})
    assert (refusal.code, refusal.status) == (code, 400)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_largest_message_counts_its_attributes(sqs: SQSClient, make: Callable[..., str]) -> None:
    url = make(MaximumMessageSize="1024")
    # Each quotation mark is one byte here, whatever it takes to keep it.
    body = '"' * (1024 - len("aStringx"))
    sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes={"a": TEXT})  # type: ignore[dict-item]
    assert bodies(drain(sqs, url, 1)) == [body]
    with Refusal() as refusal:
        sqs.send_message(QueueUrl=url, MessageBody=body + "!", MessageAttributes={"a": TEXT})  # type: ignore[dict-item]
    assert refusal.code == "InvalidParameterValue"
    assert "1024" in refusal.message


@pytest.mark.parametrize("letter", ["é", "\x7f", "\x85", "☃", "🚀", "\n"])
def test_size_counts_the_decoded_text(
    sqs: SQSClient, make: Callable[..., str], letter: str
) -> None:
    """boto3 writes all that is not ASCII, and more, as escapes of six letters or twelve."""
    url = make(MaximumMessageSize="1024")
    body = letter * (1024 // len(letter.encode()))
    sqs.send_message(QueueUrl=url, MessageBody=body)
    assert bodies(drain(sqs, url, 1)) == [body]
    with Refusal() as refusal:
        sqs.send_message(QueueUrl=url, MessageBody=body + letter)
    assert refusal.code == "InvalidParameterValue"


@pytest.mark.parametrize("letter", ["é", "\x7f"])
def test_largest_message_may_have_any_characters(shared: Shared, name: str, letter: str) -> None:
    sqs = connect(shared.server.url)
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    body = letter * (1_048_576 // len(letter.encode()))
    answer = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "a", "MessageBody": body}])
    assert [each["Id"] for each in answer["Successful"]] == ["a"]
    assert bodies(drain(sqs, url, 1)) == [body]
    sqs.close()


def test_largest_message_of_all_goes_through(sqs: SQSClient, url: str) -> None:
    body = "x" * 1_048_576
    sqs.send_message(QueueUrl=url, MessageBody=body)
    assert bodies(drain(sqs, url, 1)) == [body]
    with Refusal() as refusal:
        sqs.send_message(QueueUrl=url, MessageBody=body + "x")
    assert refusal.code == "InvalidParameterValue"


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([], "EmptyBatchRequest"),
        ([{"Id": str(n), "MessageBody": "x"} for n in range(11)], "TooManyEntriesInBatchRequest"),
        ([{"Id": "a", "MessageBody": "x"}] * 2, "BatchEntryIdsNotDistinct"),
        ([{"Id": "a b", "MessageBody": "x"}], "InvalidBatchEntryId"),
        ([{"Id": "a" * 81, "MessageBody": "x"}], "InvalidBatchEntryId"),
        (
            [{"Id": str(n), "MessageBody": "x" * 600_000} for n in range(2)],
            "BatchRequestTooLong",
        ),
    ],
)
def test_invalid_batch_is_refused_whole(
    sqs: SQSClient, url: str, entries: list[Any], code: str
) -> None:
    with Refusal() as refusal:
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert (refusal.code, refusal.status) == (PREFIX + code, 400)
    assert refusal.name == code
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"MaxNumberOfMessages": 0}, "InvalidParameterValue"),
        ({"MaxNumberOfMessages": 11}, "InvalidParameterValue"),
        ({"WaitTimeSeconds": 21}, "InvalidParameterValue"),
        ({"WaitTimeSeconds": -1}, "InvalidParameterValue"),
        ({"VisibilityTimeout": 43_201}, "InvalidParameterValue"),
        ({"AttributeNames": ["Nonsense"]}, "InvalidAttributeName"),
    ],
)
def test_invalid_receive_is_refused(
    sqs: SQSClient, url: str, parameters: dict[str, Any], code: str
) -> None:
    with Refusal() as refusal:
        sqs.receive_message(QueueUrl=url, **parameters)
    assert (refusal.code, refusal.status) == (code, 400)


def test_invalid_handle_is_refused(sqs: SQSClient, url: str, make: Callable[..., str]) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    handle = drain(sqs, url, 1)[0]["ReceiptHandle"]
    for queue, text in ((url, "x"), (url, handle[:-8] + "AAAAAAAA"), (make(), handle)):
        with Refusal() as refusal:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=text)
        assert refusal.code == "ReceiptHandleIsInvalid"
        assert refusal.message == (
            f'The input receipt handle "{text}" is not a valid receipt handle.'
        )
        with Refusal() as refusal:
            sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=text, VisibilityTimeout=1)
        assert refusal.code == "ReceiptHandleIsInvalid"
