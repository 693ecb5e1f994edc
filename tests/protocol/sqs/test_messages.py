"""Messages on a standard queue: send, receive, delete, change visibility."""

from __future__ import annotations

import threading
from base64 import b64decode, b64encode
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import RFC_4122, UUID
from zlib import crc32

import httpx
import pytest

from tests.protocol.sqs.clients import Refusal, bodies, drain

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.conftest import Shared


def test_message_is_sent_received_and_deleted(sqs: SQSClient, url: str) -> None:
    sent = sqs.send_message(QueueUrl=url, MessageBody="hello")
    message = drain(sqs, url, 1)[0]
    assert message["Body"] == "hello"
    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert "Attributes" not in message
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_message_id_is_a_version_4_uuid_that_streams_understand(
    shared: Shared, sqs: SQSClient, name: str, url: str
) -> None:
    sent = sqs.send_message(QueueUrl=url, MessageBody="findable")["MessageId"]
    assert (UUID(sent).version, UUID(sent).variant) == (4, RFC_4122)
    batch = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "next"}])
    assert UUID(batch["Successful"][0]["MessageId"]).version == 4
    message = drain(sqs, url, 1, VisibilityTimeout=0)[0]
    assert message["MessageId"] == sent
    listed = httpx.get(f"{shared.server.url}/api/v1/messages", params={"queue": name}).json()
    lane = listed["messages"][0]["partitionId"]
    found = httpx.get(f"{shared.server.url}/api/v1/messages/{lane}/{sent}").json()
    assert found["data"] == "findable"


@pytest.mark.parametrize(
    "body",
    [
        "plain",
        '{"a": [1, 2]}',
        "line\nbreak\ttab\rreturn",
        'quo"te\\back',
        "snö ☃ 🚀",
        "\u007f",
        "<&>",
    ],
)
def test_body_is_returned_unchanged(sqs: SQSClient, url: str, body: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody=body)
    assert bodies(drain(sqs, url, 1)) == [body]


def test_attributes_are_returned_with_their_digest(sqs: SQSClient, url: str) -> None:
    attributes = {
        "text": {"DataType": "String", "StringValue": "snö"},
        "count": {"DataType": "Number.int", "StringValue": "42"},
        "blob": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"},
    }
    # boto3 itself compares the digests and refuses what does not fit.
    sqs.send_message(
        QueueUrl=url,
        MessageBody="x",
        MessageAttributes=attributes,  # type: ignore[arg-type]
        MessageSystemAttributes={
            "AWSTraceHeader": {
                "DataType": "String",
                "StringValue": "Root=1-5759e988-bd862e3fe1be46a9",
            }
        },
    )
    message = drain(
        sqs, url, 1, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )[0]
    assert message["MessageAttributes"] == attributes
    assert message["Attributes"]["AWSTraceHeader"].startswith("Root=1-")
    assert set(message["Attributes"]) >= {
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
    }


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["All"], {"Help.Me", "Hello", "General"}),
        (["*"], {"Help.Me", "Hello", "General"}),
        ([".*"], {"Help.Me", "Hello", "General"}),
        (["Hello", "none"], {"Hello"}),
        (["Hel.*"], {"Help.Me", "Hello"}),
        (["Help.*", "General"], {"Help.Me", "General"}),
        (["Foo", "Help"], set()),
        (["AWS.", "..foo"], set()),
        ([], set()),
    ],
)
def test_only_requested_attributes_are_returned(
    sqs: SQSClient, url: str, wanted: list[str], expected: set[str]
) -> None:
    attributes: Any = {
        name: {"DataType": "String", "StringValue": name}
        for name in ("Help.Me", "Hello", "General")
    }
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=attributes)
    message = drain(
        sqs, url, 1, MessageAttributeNames=wanted, AttributeNames=["ApproximateReceiveCount"]
    )[0]
    assert set(message.get("MessageAttributes", {})) == expected
    assert set(message["Attributes"]) == {"ApproximateReceiveCount"}


def test_receive_accepts_the_names_of_queue_attributes(sqs: SQSClient, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    names: Any = ["SqsManagedSseEnabled", "Policy", "QueueArn", "ApproximateNumberOfMessages"]
    message: Any = drain(sqs, url, 1, AttributeNames=[*names, "SequenceNumber"])[0]
    assert "Attributes" not in message


def test_request_gives_its_trace_to_messages(sqs: SQSClient, url: str) -> None:
    trace = "Root=1-3152b799-8954dae64eda91bc9a23a7e8;Parent=7fa8c0f79203be72;Sampled=1"
    own: Any = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-own"}}

    def add_header(request: Any, **_: Any) -> None:
        request.headers["X-Amzn-Trace-Id"] = trace

    sqs.meta.events.register("before-send.sqs", add_header)
    try:
        sent: Any = sqs.send_message(QueueUrl=url, MessageBody="alone")
        sqs.send_message_batch(
            QueueUrl=url,
            Entries=[
                {"Id": "a", "MessageBody": "of a batch"},
                {"Id": "b", "MessageBody": "its own", "MessageSystemAttributes": own},
            ],
        )
    finally:
        sqs.meta.events.unregister("before-send.sqs", add_header)
    assert "MD5OfMessageSystemAttributes" not in sent
    sqs.send_message(QueueUrl=url, MessageBody="none")
    messages = drain(sqs, url, 4, AttributeNames=["AWSTraceHeader"])
    traces = {message["Body"]: message.get("Attributes") for message in messages}
    assert traces == {
        "alone": {"AWSTraceHeader": trace},
        "of a batch": {"AWSTraceHeader": trace},
        "its own": {"AWSTraceHeader": "Root=1-own"},
        "none": None,
    }


def test_attribute_may_have_a_name_of_any_letters(sqs: SQSClient, url: str) -> None:
    attributes: Any = {"attr.1øßä": {"DataType": "String", "StringValue": "x"}}
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageAttributes=attributes)
    message = drain(sqs, url, 1, MessageAttributeNames=["All"])[0]
    assert message["MessageAttributes"] == attributes


def test_batch_answer_has_only_lists_with_entries(sqs: SQSClient, url: str) -> None:
    good = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "x"}])
    bad = sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "a", "MessageBody": ""}])
    handle = drain(sqs, url, 1)[0]["ReceiptHandle"]
    changed = sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[{"Id": "a", "ReceiptHandle": handle, "VisibilityTimeout": 60}],
    )
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": "a", "ReceiptHandle": handle}])
    refused = sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": "a", "ReceiptHandle": "x"}])
    answer: Any
    for answer in (good, changed, deleted):
        assert "Failed" not in answer
        assert len(answer["Successful"]) == 1
    for answer in (bad, refused):
        assert "Successful" not in answer
        assert len(answer["Failed"]) == 1


def test_batch_reports_each_entry(sqs: SQSClient, url: str) -> None:
    answer = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "MessageBody": "fine"},
            {"Id": "delay", "MessageBody": "x", "DelaySeconds": 901},
            {"Id": "mark", "MessageBody": "\x02"},
            {"Id": "empty", "MessageBody": ""},
            {
                "Id": "kind",
                "MessageBody": "x",
                "MessageAttributes": {"a": {"DataType": "Odd", "StringValue": "b"}},
            },
        ],
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert {entry["Id"]: entry["Code"] for entry in answer["Failed"]} == {
        "delay": "InvalidParameterValue",
        "mark": "InvalidMessageContents",
        "empty": "EmptyValue",
        "kind": "InvalidParameterValue",
    }
    assert all(entry["SenderFault"] for entry in answer["Failed"])
    assert bodies(drain(sqs, url, 1)) == ["fine"]


def test_ten_messages_are_received_and_deleted_together(sqs: SQSClient, url: str) -> None:
    sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": f"m{n}"} for n in range(10)]
    )
    received = drain(sqs, url, 10)
    assert sorted(bodies(received)) == [f"m{n}" for n in range(10)]
    entries = [
        {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
        for n, message in enumerate(received)
    ]
    answer = sqs.delete_message_batch(
        QueueUrl=url,
        Entries=[*entries[:9], {"Id": "odd", "ReceiptHandle": "nothing"}],  # type: ignore[list-item]
    )
    assert len(answer["Successful"]) == 9
    assert [entry["Code"] for entry in answer["Failed"]] == ["ReceiptHandleIsInvalid"]


def test_forged_handle_fails_alone_in_its_batch(sqs: SQSClient, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    good = drain(sqs, url, 1)[0]["ReceiptHandle"]
    data = b64decode(good)[:-4]
    forged = [
        # The segment, the lane and the seq, as far as the bits go.
        data[:start] + b"\xff" * (end - start) + data[end:]
        for start, end in ((20, 24), (24, 28), (28, 36))
    ]
    handles = [b64encode(each + crc32(each).to_bytes(4, "big")).decode() for each in forged]
    entries: list[Any] = [
        {"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate([*handles, good])
    ]
    answer = sqs.delete_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["3"]
    assert {entry["Code"] for entry in answer["Failed"]} == {"ReceiptHandleIsInvalid"}


def test_message_is_visible_again_after_its_visibility_timeout(sqs: SQSClient, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    first = drain(sqs, url, 1, VisibilityTimeout=1)[0]
    began = monotonic()
    again = drain(sqs, url, 1, AttributeNames=["All"])[0]
    assert monotonic() - began > 0.5
    assert again["ReceiptHandle"] != first["ReceiptHandle"]
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    first_at = int(again["Attributes"]["ApproximateFirstReceiveTimestamp"])
    assert int(again["Attributes"]["SentTimestamp"]) <= first_at
    # An old handle of a standard queue still deletes.
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    with Refusal() as refusal:
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=again["ReceiptHandle"], VisibilityTimeout=1
        )
    assert refusal.code == "InvalidParameterValue"


def test_visibility_is_changed(sqs: SQSClient, url: str) -> None:
    for body in ("a", "b"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    first, second = drain(sqs, url, 2, VisibilityTimeout=30)
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )
    assert bodies(drain(sqs, url, 1)) == [first["Body"]]
    answer = sqs.change_message_visibility_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "old", "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 5},
            {"Id": "soon", "ReceiptHandle": second["ReceiptHandle"], "VisibilityTimeout": 1},
            {"Id": "far", "ReceiptHandle": second["ReceiptHandle"], "VisibilityTimeout": 43_201},
        ],
    )
    assert {entry["Id"] for entry in answer["Successful"]} == {"old", "soon"}
    assert {entry["Id"]: entry["Code"] for entry in answer["Failed"]} == {
        "far": "InvalidParameterValue",
    }
    assert bodies(drain(sqs, url, 1)) == [second["Body"]]


def test_old_handle_changes_visibility_for_the_newest_receive(sqs: SQSClient, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    [first] = drain(sqs, url, 1, VisibilityTimeout=0)
    drain(sqs, url, 1, VisibilityTimeout=600)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    change = {"QueueUrl": url, "ReceiptHandle": first["ReceiptHandle"]}
    sqs.change_message_visibility(**change, VisibilityTimeout=900)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.change_message_visibility(**change, VisibilityTimeout=0)
    [third] = drain(sqs, url, 1, AttributeNames=["ApproximateReceiveCount"])
    assert third["Attributes"]["ApproximateReceiveCount"] == "3"


def test_visibility_of_a_visible_message_cannot_be_changed_but_no_error_says_so(
    sqs: SQSClient, url: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    [message] = drain(sqs, url, 1, VisibilityTimeout=0)
    for seconds in (600, 0):
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
        )
    [again] = drain(sqs, url, 1, AttributeNames=["ApproximateReceiveCount"])
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    with Refusal() as refusal:
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=again["ReceiptHandle"], VisibilityTimeout=0
        )
    assert refusal.code == "InvalidParameterValue"
    assert refusal.message == (
        f"Value {again['ReceiptHandle']} for parameter ReceiptHandle is invalid. Reason: Message "
        "does not exist or is not available for visibility timeout change."
    )


def test_visibility_cannot_go_beyond_twelve_hours_in_all(sqs: SQSClient, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    message = drain(sqs, url, 1, VisibilityTimeout=5)[0]
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=43_199
    )
    # The same message, had it been received ten seconds earlier.
    data = b64decode(message["ReceiptHandle"])[:-4]
    data = data[:-8] + (int.from_bytes(data[-8:], "big") - 10_000).to_bytes(8, "big")
    earlier = b64encode(data + crc32(data).to_bytes(4, "big")).decode()
    with Refusal() as refusal:
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=earlier, VisibilityTimeout=43_199)
    assert refusal.code == "InvalidParameterValue"
    assert "beyond the limit" in refusal.message
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=earlier, VisibilityTimeout=43_180)


def test_delayed_message_is_delivered_when_due(sqs: SQSClient, make: Callable[..., str]) -> None:
    url = make(DelaySeconds="900")
    sqs.send_message(QueueUrl=url, MessageBody="by the queue")
    sqs.send_message(QueueUrl=url, MessageBody="now", DelaySeconds=0)
    sqs.send_message(QueueUrl=url, MessageBody="soon", DelaySeconds=1)
    assert bodies(drain(sqs, url, 2)) == ["now", "soon"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["ApproximateNumberOfMessagesDelayed"] == "1"
    assert attributes["ApproximateNumberOfMessages"] == "0"
    assert attributes["ApproximateNumberOfMessagesNotVisible"] == "2"


def test_long_poll_wakes_when_a_message_comes(sqs: SQSClient, make: Callable[..., str]) -> None:
    url = make(ReceiveMessageWaitTimeSeconds="20")
    timer = threading.Timer(0.3, lambda: sqs.send_message(QueueUrl=url, MessageBody="x"))
    timer.start()
    began = monotonic()
    assert bodies(sqs.receive_message(QueueUrl=url)["Messages"]) == ["x"]
    assert monotonic() - began < 15  # not by the end of the poll
    timer.join()


async def test_messages_pass_between_sqs_and_rest(
    shared: Shared, sqs: SQSClient, name: str, url: str
) -> None:
    async with shared.server.client() as api:
        sqs.send_message(QueueUrl=url, MessageBody='say "hi"')
        taken = (await api.get("/queue/message", params={"queue": name})).json()
        assert taken["payload"] == 'say "hi"'
        await api.post("/queue/ack", json={"id": taken["id"], "lock_token": taken["lock_token"]})
        await api.post(
            "/queue/message", json={"type": "mail", "payload": {"to": "ada"}, "queue": name}
        )
    message = drain(sqs, url, 1, AttributeNames=["All"])[0]
    assert message["Body"] == '{"to":"ada"}'
    assert message["Attributes"]["MessageGroupId"] == "mail"
