"""Every refusal in the table of texts: the request that raises it gets its code and its text."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import uuid4
from xml.etree import ElementTree as ET
from zlib import crc32

import httpx
import pytest
from botocore.exceptions import ClientError

from laneway.server.sqs.errors import CODES
from laneway.server.sqs.texts import Refusal
from tests.protocol.sqs.clients import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.conftest import Shared

SPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
TEXT = {"DataType": "String", "StringValue": "x"}
ENTRY = {"Id": "a", "MessageBody": "x"}
# Raised only at a low limit of messages in flight, which test_worker sets, or by a server with keys,
# as in test_signatures.
ELSEWHERE = {
    Refusal.IN_FLIGHT,
    Refusal.UNSIGNED,
    Refusal.UNKNOWN_KEY,
    Refusal.UNSIGNED_HEADER,
    Refusal.SIGNED_BODY,
    Refusal.ROLE,
    Refusal.OTHER_QUEUE,
    Refusal.NO_DESTINATION,
    *(refusal for refusal in Refusal if refusal.name.startswith(("SIGNATURE", "URL_"))),
}


class World:
    """A client, and the queues that requests need, made when a request first names them.

    values: what else is in the expected text.
    """

    def __init__(self, sqs: SQSClient, make: Callable[..., str], server: str) -> None:
        self.sqs: Any = sqs
        self.make = make
        self.server = server
        self.values: dict[str, object] = {}

    @cached_property
    def queue(self) -> str:
        return self.make()

    @cached_property
    def fifo(self) -> str:
        return self.make(fifo=True, ContentBasedDeduplication="true")

    @cached_property
    def dead(self) -> str:
        """Return the ARN of a dead-letter queue."""
        arn = self.arn(self.make())
        self.make(RedrivePolicy=redrive(arn))
        return arn

    @property
    def name(self) -> str:
        return self.queue.rpartition("/")[2]

    def arn(self, url: str) -> str:
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def send(self, **parameters: Any) -> Any:
        return self.sqs.send_message(**{"QueueUrl": self.queue, "MessageBody": "x"} | parameters)

    def send_attribute(self, name: str = "a", **value: Any) -> Any:
        self.values["name"] = name
        return self.send(MessageAttributes={name: TEXT | value})

    def send_batch(self, *entries: Any, url: str | None = None) -> Any:
        return self.sqs.send_message_batch(QueueUrl=url or self.queue, Entries=list(entries))

    def receive(self, url: str | None = None, **parameters: Any) -> str:
        """Return the handle of a message that is sent for it."""
        url = url or self.queue
        self.send(QueueUrl=url, **({"MessageGroupId": "g"} if url.endswith(".fifo") else {}))
        messages = self.sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, **parameters)
        handle = str(messages["Messages"][0]["ReceiptHandle"])
        self.values["handle"] = handle
        return handle

    def set(self, *, fifo: bool = False, **attributes: str) -> Any:
        url = self.fifo if fifo else self.queue
        return self.sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)

    def set_policy(self, name: str, policy: Any) -> Any:
        self.values["value"] = json.dumps(policy)
        return self.set(fifo=False, **{name: json.dumps(policy)})

    def change(self, handle: str, seconds: int) -> Any:
        self.values["value"] = seconds
        return self.sqs.change_message_visibility(
            QueueUrl=self.queue, ReceiptHandle=handle, VisibilityTimeout=seconds
        )

    def allow(
        self, *actions: str, label: str = "label", accounts: tuple[str, ...] = (ACCOUNT,)
    ) -> Any:
        return self.sqs.add_permission(
            QueueUrl=self.queue, Label=label, AWSAccountIds=list(accounts), Actions=list(actions)
        )

    def post(self, action: str, **body: Any) -> Any:
        """Send JSON that boto3 would refuse; return the error as an entry that failed."""
        return self.post_text(action, json.dumps(body).encode())

    def post_text(self, action: str, content: bytes) -> Any:
        """Send what is not JSON, or not quite."""
        headers = {"X-Amz-Target": f"AmazonSQS.{action}"}
        answer = httpx.post(self.server, content=content, headers=headers)
        code = answer.headers["x-amzn-query-error"].partition(";")[0]
        return {"Failed": [{"Code": code, "Message": answer.json()["message"]}]}

    def post_form(self, url: str, /, **form: str) -> Any:
        return self.post_fields(url, urlencode(form).encode())

    def post_fields(self, url: str, content: bytes) -> Any:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        answer = httpx.post(url, content=content, headers=kind)
        error = ET.fromstring(answer.text).find(f"{SPACE}Error")  # noqa: S314 - our own
        assert error is not None
        found = {name: error.findtext(f"{SPACE}{name}") for name in ("Code", "Message")}
        return {"Failed": [found]}


def redrive(arn: str, most: object = 3, **more: object) -> str:
    return json.dumps({"maxReceiveCount": most, "deadLetterTargetArn": arn} | more)


def create_differently(w: World) -> Any:
    return w.sqs.create_queue(QueueName=w.name, Attributes={"DelaySeconds": "9"})


def create_deleted(w: World) -> Any:
    w.sqs.delete_queue(QueueUrl=w.queue)
    return w.sqs.create_queue(QueueName=w.name)


def purge_twice(w: World) -> Any:
    w.values["queue"] = w.name
    w.sqs.purge_queue(QueueUrl=w.queue)
    return w.sqs.purge_queue(QueueUrl=w.queue)


def redrive_to(w: World, arn: str, **more: object) -> Any:
    return w.set_policy("RedrivePolicy", json.loads(redrive(arn, **more)))


def redrive_to_closed(w: World) -> Any:
    return redrive_to(w, w.arn(w.make(RedriveAllowPolicy='{"redrivePermission": "denyAll"}')))


def allow_sources(w: World, permission: str, *sources: str) -> Any:
    more = {"sourceQueueArns": list(sources)} if sources else {}
    return w.set_policy("RedriveAllowPolicy", {"redrivePermission": permission} | more)


def tag(w: World, **tags: str) -> Any:
    w.values["queue"] = w.name
    return w.sqs.tag_queue(QueueUrl=w.queue, Tags=tags)


def allow_twice(w: World) -> Any:
    w.allow("SendMessage")
    return w.allow("SendMessage")


def receive_then(w: World, **parameters: Any) -> Any:
    return w.sqs.receive_message(QueueUrl=w.queue, **parameters)


def delete_late(w: World) -> Any:
    handle = w.receive(w.fifo, VisibilityTimeout=0)
    return w.sqs.delete_message(QueueUrl=w.fifo, ReceiptHandle=handle)


def change_deleted(w: World) -> Any:
    handle = w.receive()
    w.sqs.delete_message(QueueUrl=w.queue, ReceiptHandle=handle)
    return w.change(handle, 5)


def change_beyond(w: World) -> Any:
    # The same message, had it been received ten seconds earlier.
    data = b64decode(w.receive())[:-4]
    data = data[:-8] + (int.from_bytes(data[-8:], "big") - 10_000).to_bytes(8, "big")
    return w.change(b64encode(data + crc32(data).to_bytes(4, "big")).decode(), 43_199)


def start(w: World, **parameters: Any) -> Any:
    return w.sqs.start_message_move_task(**{"SourceArn": w.dead} | parameters)


def start_twice(w: World) -> Any:
    url = w.sqs.get_queue_url(QueueName=w.dead.rpartition(":")[2])["QueueUrl"]
    for body in "ab":
        w.send(QueueUrl=url, MessageBody=body)
    target = w.arn(w.queue)
    start(w, DestinationArn=target, MaxNumberOfMessagesPerSecond=1)
    return start(w, DestinationArn=target, MaxNumberOfMessagesPerSecond=1)


def cancel(w: World, handle: object) -> Any:
    text = b64encode(json.dumps(handle).encode()).decode()
    return w.sqs.cancel_message_move_task(TaskHandle=text)


BAD_ALLOW_POLICIES: list[Any] = [
    [],
    {},
    {"redrivePermission": "some"},
    {"redrivePermission": "allowAll", "other": 1},
    {"redrivePermission": "byQueue", "sourceQueueArns": "arn"},
    {"redrivePermission": "byQueue", "sourceQueueArns": [1]},
]
R = Refusal
# The refusal, the request that raises it, and the values in its text that the request does not note.
CASES: list[tuple[Refusal, Callable[..., Any], Mapping[str, object]]] = [
    (R.MISSING, lambda w: w.send(QueueUrl=w.fifo), {"parameter": "MessageGroupId"}),
    (R.MISSING, lambda w: w.send(MessageBody=""), {"parameter": "MessageBody"}),
    (R.MISSING, tag, {"parameter": "Tags"}),
    (R.MISSING, lambda w: w.set(), {"parameter": "Attribute.Name"}),
    (
        R.MISSING,
        lambda w: w.post("SendMessageBatch", QueueUrl=w.queue, Entries=[ENTRY, {}]),
        {"parameter": "SendMessageBatchRequestEntry.2.Id"},
    ),
    (
        R.NOT_AN_INTEGER,
        lambda w: w.post("SendMessage", QueueUrl=w.queue, MessageBody="x", DelaySeconds="soon"),
        {"kind": "STRING"},
    ),
    (
        R.NOT_A_STRING,
        lambda w: w.post("SendMessage", QueueUrl=w.queue, MessageBody=5),
        {"kind": "NUMBER"},
    ),
    (R.NOT_A_STRING, lambda w: w.post("DeleteQueue", QueueUrl=5), {"kind": "NUMBER"}),
    (R.MAP_UNEXPECTED, lambda w: w.post("SendMessage", QueueUrl=w.queue, MessageBody={}), {}),
    (
        R.LIST_UNEXPECTED,
        lambda w: w.post("SendMessage", QueueUrl=w.queue, MessageBody="x", DelaySeconds=[]),
        {},
    ),
    # Requests that cannot be read.
    (R.OPERATION, lambda w: w.post("Nonsense"), {"name": "AmazonSQS.Nonsense"}),
    (R.NOT_JSON, lambda w: w.post_text("ListQueues", b"{"), {}),
    (
        R.STRUCTURE,
        lambda w: w.post("TagQueue", QueueUrl=w.queue, Tags=5),
        {"reason": "Expected `object`, got `int` - at `$.Tags`"},
    ),
    (
        R.NOT_UTF8,
        lambda w: w.post_text(
            "SendMessage", b'{"QueueUrl":"%b","MessageBody":"\xff"}' % w.queue.encode()
        ),
        {},
    ),
    (R.FORM, lambda w: w.post_fields(w.server, b"Action=ListQueues&a=\xff"), {}),
    (
        R.FORM_DEPTH,
        lambda w: w.post_form(w.server, Action="ListQueues", **{".".join("abcdefghijk"): "1"}),
        {"field": "a", "count": 11},
    ),
    (
        R.FORM_TWICE,
        lambda w: w.post_form(w.queue, Action="ReceiveMessage", **{"a": "1", "a.1": "1"}),
        {"field": "a.1"},
    ),
    (
        R.FORM_KEY,
        lambda w: w.post_form(w.queue, Action="TagQueue", **{"Tag.1.Value": "1"}),
        {"member": "Tags", "key": "Key"},
    ),
    (
        R.FORM_NUMBER,
        lambda w: w.post_form(w.queue, Action="UntagQueue", **{"TagKey.x": "1"}),
        {"number": "x"},
    ),
    (R.ACTION, lambda w: w.post_form(w.server, Action="FooBar"), {"action": "FooBar"}),
    (R.ACTION, lambda w: w.post_form(w.queue, Action="ListQueues"), {"action": "ListQueues"}),
    (
        R.ACTION,
        lambda w: w.post_form(w.queue, Action="CreateQueue", QueueName="other"),
        {"action": "CreateQueue"},
    ),
    *(
        (R.QUEUE, lambda w, url=url: w.post("GetQueueAttributes", QueueUrl=url), {})
        for url in (
            f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/none",
            "http://example.org/",
            "http://[::1",
            "x" * 5000,
        )
    ),
    (
        R.WSDL_QUEUE,
        lambda w: w.post_form(f"{w.server}/{ACCOUNT}/none", Action="ReceiveMessage"),
        {},
    ),
    (R.RESULTS, lambda w: w.sqs.list_queues(MaxResults=1001), {}),
    (R.RESULTS, lambda w: w.sqs.list_dead_letter_source_queues(QueueUrl=w.queue, MaxResults=0), {}),
    (R.NEXT_TOKEN, lambda w: w.sqs.list_queues(NextToken="abc"), {}),
    # Queues.
    (R.NO_NAME, lambda w: w.sqs.get_queue_url(QueueName=""), {}),
    (R.EMPTY_NAME, lambda w: w.sqs.create_queue(QueueName=""), {}),
    (R.NAME, lambda w: w.sqs.create_queue(QueueName="a b"), {}),
    (R.NAME, lambda w: w.sqs.create_queue(QueueName="plain.fifo"), {}),
    (
        R.FIFO_NAME,
        lambda w: w.sqs.create_queue(QueueName="plain", Attributes={"FifoQueue": "true"}),
        {},
    ),
    (R.EXISTS, create_differently, {"name": "DelaySeconds"}),
    (R.DELETED_RECENTLY, create_deleted, {"seconds": 60}),
    (R.PURGED_RECENTLY, purge_twice, {"seconds": 60}),
    # Queue attributes.
    (R.ATTRIBUTE, lambda w: w.set(Nonsense="1"), {"name": "Nonsense"}),
    (R.ATTRIBUTE, lambda w: w.set(FifoQueue="true"), {"name": "FifoQueue"}),
    (
        R.ATTRIBUTE,
        lambda w: w.set(ContentBasedDeduplication="false"),
        {"name": "ContentBasedDeduplication"},
    ),
    (
        R.ATTRIBUTE,
        lambda w: w.sqs.create_queue(QueueName="plain", Attributes={"FifoQueue": "False"}),
        {"name": "FifoQueue"},
    ),
    (
        R.ATTRIBUTE,
        lambda w: w.sqs.get_queue_attributes(QueueUrl=w.queue, AttributeNames=["Foobar"]),
        {"name": "Foobar"},
    ),
    (R.ATTRIBUTE, lambda w: receive_then(w, AttributeNames=["Foobar"]), {"name": "Foobar"}),
    (R.VALUE, lambda w: w.set(DelaySeconds="901"), {"name": "DelaySeconds"}),
    (R.VALUE, lambda w: w.set(SqsManagedSseEnabled="yes"), {"name": "SqsManagedSseEnabled"}),
    (R.VALUE, lambda w: w.set(fifo=True, FifoQueue="yes"), {"name": "FifoQueue"}),
    (R.VALUE, lambda w: w.set(Policy="no json"), {"name": "Policy"}),
    (
        R.FIFO_ATTRIBUTE,
        lambda w: w.set(DeduplicationScope="queue"),
        {"name": "DeduplicationScope"},
    ),
    (R.QUEUE_TYPE, lambda w: w.set(fifo=True, FifoQueue="FALSE"), {}),
    (R.THROUGHPUT, lambda w: w.set(fifo=True, FifoThroughputLimit="perMessageGroupId"), {}),
    (R.ENCRYPTION, lambda w: w.set(KmsMasterKeyId="a", SqsManagedSseEnabled="True"), {}),
    (R.STATEMENTS, lambda w: w.set(Policy=json.dumps({"Statement": [{}] * 21})), {"count": 21}),
    (R.REDRIVE_JSON, lambda w: w.set(RedrivePolicy="[]"), {}),
    (R.REDRIVE_MEMBER, lambda w: w.set_policy("RedrivePolicy", {}), {"member": "maxReceiveCount"}),
    (
        R.REDRIVE_MEMBER,
        lambda w: w.set_policy("RedrivePolicy", {"maxReceiveCount": 5}),
        {"member": "deadLetterTargetArn"},
    ),
    (R.REDRIVE_UNKNOWN, lambda w: redrive_to(w, w.dead, other=1), {}),
    (R.REDRIVE_COUNT, lambda w: redrive_to(w, w.dead, most=4023), {"count": 4023}),
    (R.REDRIVE_ARN, lambda w: redrive_to(w, "dummy"), {}),
    (R.REDRIVE_SERVICE, lambda w: redrive_to(w, f"arn:aws:sns:eu-west-1:{ACCOUNT}:topic"), {}),
    (R.REDRIVE_TARGET, lambda w: redrive_to(w, f"{w.dead}-none"), {}),
    (R.REDRIVE_OWNER, lambda w: redrive_to(w, w.dead.replace(ACCOUNT, "1" * 12)), {}),
    (R.REDRIVE_TYPE, lambda w: redrive_to(w, w.arn(w.fifo)), {}),
    (R.REDRIVE_REFUSED, redrive_to_closed, {}),
    *(
        (R.ALLOW_FORMAT, lambda w, policy=policy: w.set_policy("RedriveAllowPolicy", policy), {})
        for policy in BAD_ALLOW_POLICIES
    ),
    (R.ALLOW_NO_SOURCE, lambda w: allow_sources(w, "byQueue"), {}),
    (R.ALLOW_SOURCES, lambda w: allow_sources(w, "denyAll", w.dead), {}),
    (R.ALLOW_MANY_SOURCES, lambda w: allow_sources(w, "byQueue", *[w.dead] * 11), {}),
    # Tags.
    (R.TAG_KEY, lambda w: tag(w, **{"": "x"}), {}),
    (R.TAG_KEY, lambda w: w.sqs.untag_queue(QueueUrl=w.queue, TagKeys=[]), {}),
    (R.TAG_VALUE, lambda w: tag(w, a="x" * 257), {}),
    (R.TAG_RESERVED, lambda w: tag(w, **{"aws:a": "x"}), {}),
    (R.TAG_RESERVED, lambda w: w.sqs.create_queue(QueueName="a", tags={"AWS:a": "x"}), {}),
    (R.TAG_CHARACTER, lambda w: tag(w, a="\0"), {}),
    (R.TAGS, lambda w: tag(w, **{f"t{n}": "" for n in range(51)}), {}),
    # Permissions.
    (R.LABEL, lambda w: w.allow("SendMessage", label="a b"), {"value": "a b"}),
    (R.LABEL_EXISTS, allow_twice, {"value": "label"}),
    (
        R.LABEL_UNKNOWN,
        lambda w: w.sqs.remove_permission(QueueUrl=w.queue, Label="none"),
        {"value": "none"},
    ),
    (R.ACTIONS, lambda w: w.allow(*["SendMessage"] * 8), {"count": 8}),
    (R.ACTION_NAME, lambda w: w.allow("SendMessageBatch"), {"action": "SendMessageBatch"}),
    (R.OWNERS_ACTION, lambda w: w.allow("CreateQueue"), {"action": "CreateQueue"}),
    (R.PRINCIPAL, lambda w: w.allow("SendMessage", accounts=()), {"value": ""}),
    (R.PRINCIPAL, lambda w: w.allow("SendMessage", accounts=("a", "b")), {"value": "a, b"}),
    # Messages.
    (R.BODY_CHARACTER, lambda w: w.send(MessageBody="a\x0b"), {"code": 0xB}),
    (R.BODY_CHARACTER, lambda w: w.send_batch(ENTRY | {"MessageBody": "\uffff"}), {"code": 0xFFFF}),
    (R.EMPTY_BODY, lambda w: w.send_batch(ENTRY, {"Id": "b", "MessageBody": ""}), {"number": 2}),
    (
        R.MESSAGE_LENGTH,
        lambda w: w.send(QueueUrl=w.make(MaximumMessageSize="1024"), MessageBody="x" * 1025),
        {"limit": 1024},
    ),
    (
        R.ENTRY_LENGTH,
        lambda w: w.send_batch(
            ENTRY | {"MessageBody": "x" * 1025}, url=w.make(MaximumMessageSize="1024")
        ),
        {"limit": 1024},
    ),
    (R.DELAY, lambda w: w.send(DelaySeconds=-1), {"value": -1}),
    (R.DELAY, lambda w: w.send_batch(ENTRY | {"DelaySeconds": 901}), {"value": 901}),
    (
        R.OTHER_TYPE,
        lambda w: w.send(QueueUrl=w.fifo, MessageGroupId="g", DelaySeconds=2),
        {"value": 2, "parameter": "DelaySeconds"},
    ),
    (
        R.OTHER_TYPE,
        lambda w: w.send(MessageDeduplicationId="d"),
        {"value": "d", "parameter": "MessageDeduplicationId"},
    ),
    (R.ENTRY_OTHER_TYPE, lambda w: w.send_batch(ENTRY | {"MessageDeduplicationId": "d"}), {}),
    *(
        (
            R.ID,
            lambda w, group=group: w.send(MessageGroupId=group),
            {"value": group, "parameter": "MessageGroupId"},
        )
        for group in ("", "a" * 129, "group 123")
    ),
    *(
        (
            R.ID,
            lambda w, key=key: w.send(
                QueueUrl=w.fifo, MessageGroupId="g", MessageDeduplicationId=key
            ),
            {"value": key, "parameter": "MessageDeduplicationId"},
        )
        for key in ("", "a" * 129, "group 123")
    ),
    (
        R.ID,
        lambda w: w.sqs.receive_message(QueueUrl=w.fifo, ReceiveRequestAttemptId="a b"),
        {"value": "a b", "parameter": "ReceiveRequestAttemptId"},
    ),
    (
        R.NO_DEDUPLICATION_ID,
        lambda w: w.send(QueueUrl=w.make(fifo=True), MessageGroupId="g"),
        {},
    ),
    (
        R.NO_DEDUPLICATION_ID,
        lambda w: w.send_batch(ENTRY | {"MessageGroupId": "g"}, url=w.make(fifo=True)),
        {},
    ),
    (R.NO_GROUP, lambda w: w.send_batch(ENTRY, url=w.fifo), {}),
    # Message attributes.
    (
        R.ATTRIBUTES,
        lambda w: w.send(MessageAttributes={f"a{n}": TEXT for n in range(11)}),
        {"count": 11},
    ),
    (R.NO_ATTRIBUTE_NAME, lambda w: w.send_attribute(""), {}),
    (R.ATTRIBUTE_NAME_LENGTH, lambda w: w.send_attribute("L" * 256), {}),
    (R.ATTRIBUTE_NAME_CHARACTER, lambda w: w.send_attribute("Invalid-§-attr"), {}),
    (R.ATTRIBUTE_NAME_RESERVED, lambda w: w.send_attribute("aWs.-Invalid"), {}),
    (R.ATTRIBUTE_NAME_RESERVED, lambda w: w.send_attribute("AMAZON.-Invalid"), {}),
    (R.ATTRIBUTE_NAME_END, lambda w: w.send_attribute("Invalid."), {}),
    (R.ATTRIBUTE_NAME_PERIODS, lambda w: w.send_attribute("a..b"), {}),
    (R.NO_ATTRIBUTE, lambda w: w.send(MessageAttributes={"a": {"DataType": ""}}), {"name": "a"}),
    (R.NO_ATTRIBUTE_TYPE, lambda w: w.send_attribute(DataType=""), {}),
    (R.ATTRIBUTE_TYPE_LENGTH, lambda w: w.send_attribute(DataType="Number." + "L" * 249), {}),
    (R.ATTRIBUTE_TYPE, lambda w: w.send_attribute(DataType="Invalid"), {}),
    (
        R.ATTRIBUTE_LIST,
        lambda w: w.post(
            "SendMessage",
            QueueUrl=w.queue,
            MessageBody="x",
            MessageAttributes={"a": {"DataType": "StringList", "StringListValues": ["b"]}},
        ),
        {},
    ),
    (R.NO_ATTRIBUTE_VALUE, lambda w: w.send_attribute(StringValue=""), {"kind": "String"}),
    (R.NO_ATTRIBUTE_VALUE, lambda w: w.send_attribute(DataType="Binary.png"), {"kind": "Binary"}),
    (R.ATTRIBUTE_VALUES, lambda w: w.send_attribute(BinaryValue=b"x"), {}),
    (R.ATTRIBUTE_CHARACTER, lambda w: w.send_attribute(StringValue="Invalid-\x08,"), {"code": 8}),
    (R.ATTRIBUTE_NUMBER, lambda w: w.send_attribute(DataType="Number"), {}),
    (
        R.ATTRIBUTE_BASE64,
        lambda w: w.post(
            "SendMessage",
            QueueUrl=w.queue,
            MessageBody="x",
            MessageAttributes={"a": {"DataType": "Binary", "BinaryValue": "!!"}},
        ),
        {},
    ),
    (
        R.SYSTEM_ATTRIBUTE,
        lambda w: w.send(MessageSystemAttributes={"Hello": TEXT}),
        {"name": "Hello"},
    ),
    (
        R.SYSTEM_ATTRIBUTE_TYPE,
        lambda w: w.send(
            MessageSystemAttributes={"AWSTraceHeader": TEXT | {"DataType": "String.x"}}
        ),
        {"name": "AWSTraceHeader"},
    ),
    # Batches.
    (R.NO_ENTRIES, lambda w: w.send_batch(), {"action": "SendMessageBatch"}),
    (
        R.NO_ENTRIES,
        lambda w: w.sqs.delete_message_batch(QueueUrl=w.queue, Entries=[]),
        {"action": "DeleteMessageBatch"},
    ),
    (
        R.NO_ENTRIES,
        lambda w: w.sqs.change_message_visibility_batch(QueueUrl=w.queue, Entries=[]),
        {"action": "ChangeMessageVisibilityBatch"},
    ),
    (R.ENTRIES, lambda w: w.send_batch(*[ENTRY] * 20), {"count": 20}),
    (
        R.ENTRIES,
        lambda w: w.sqs.delete_message_batch(
            QueueUrl=w.queue, Entries=[{"Id": "a", "ReceiptHandle": "x"}] * 11
        ),
        {"count": 11},
    ),
    *(
        (
            R.ENTRY_ID,
            lambda w, entry=entry: w.sqs.delete_message_batch(
                QueueUrl=w.queue, Entries=[{"Id": entry, "ReceiptHandle": "x"}]
            ),
            {},
        )
        for entry in ("", "testLongId" * 10, "invalid:id")
    ),
    (
        R.REPEATED_ID,
        # The first that repeats another.
        lambda w: w.send_batch(*({"Id": key, "MessageBody": "x"} for key in "abba")),
        {"id": "b"},
    ),
    (
        R.BATCH_LENGTH,
        lambda w: w.send_batch(ENTRY | {"MessageBody": "x" * 1_048_577}),
        {"limit": 1_048_576, "size": 1_048_577},
    ),
    # Receiving.
    *(
        (
            R.COUNT,
            lambda w, value=value: receive_then(w, MaxNumberOfMessages=value),
            {"value": value},
        )
        for value in (0, 11)
    ),
    *(
        (R.WAIT, lambda w, value=value: receive_then(w, WaitTimeSeconds=value), {"value": value})
        for value in (-1, 21)
    ),
    (R.VISIBILITY, lambda w: receive_then(w, VisibilityTimeout=43_201), {"value": 43_201}),
    # Receipt handles.
    (
        R.HANDLE,
        lambda w: w.sqs.delete_message(QueueUrl=w.queue, ReceiptHandle="garbage"),
        {"handle": "garbage"},
    ),
    (
        R.HANDLE,
        lambda w: w.sqs.delete_message_batch(
            QueueUrl=w.queue, Entries=[{"Id": "a", "ReceiptHandle": "garbage"}]
        ),
        {"handle": "garbage"},
    ),
    (R.HANDLE, lambda w: w.change("INVALID", 60), {"handle": "INVALID"}),
    (R.EXPIRED_HANDLE, delete_late, {}),
    (R.GONE, change_deleted, {}),
    (R.CHANGED_VISIBILITY, lambda w: w.change("x", 43_201), {}),
    (R.TOTAL_VISIBILITY, change_beyond, {}),
    # Message move tasks.
    (R.ARN, lambda w: start(w, SourceArn="invalid"), {"parameter": "SourceArn"}),
    (R.ARN, lambda w: start(w, DestinationArn="invalid"), {"parameter": "DestinationArn"}),
    (R.RESOURCE, lambda w: start(w, SourceArn=f"{w.dead}-none"), {"parameter": "SourceArn"}),
    (
        R.RESOURCE,
        lambda w: start(w, DestinationArn=f"{w.dead}-none"),
        {"parameter": "DestinationArn"},
    ),
    (
        R.RESOURCE,
        lambda w: cancel(w, {"taskId": str(uuid4()), "sourceArn": f"{w.dead}-none"}),
        {"parameter": "SourceArn"},
    ),
    (R.SOURCE, lambda w: start(w, SourceArn=w.arn(w.queue)), {}),
    (R.SAME_QUEUE, lambda w: start(w, DestinationArn=w.dead), {}),
    (R.OTHER_QUEUE_TYPE, lambda w: start(w, DestinationArn=w.arn(w.fifo)), {}),
    (R.RATE, lambda w: start(w, MaxNumberOfMessagesPerSecond=501), {}),
    (R.RUNNING, start_twice, {}),
    (R.TASK_HANDLE, lambda w: w.sqs.cancel_message_move_task(TaskHandle="foobared"), {}),
    (R.TASK, lambda w: cancel(w, {"taskId": str(uuid4()), "sourceArn": w.dead}), {}),
    (
        R.TASK_RESULTS,
        lambda w: w.sqs.list_message_move_tasks(SourceArn=w.dead, MaxResults=11),
        {},
    ),
]


@pytest.fixture
def world(shared: Shared, sqs: SQSClient, make: Callable[..., str]) -> World:
    return World(sqs, make, shared.server.url)


@pytest.mark.parametrize(
    ("refusal", "request_it", "values"),
    CASES,
    ids=[f"{refusal.name}-{number}" for number, (refusal, *_) in enumerate(CASES)],
)
def test_refusal_has_its_code_and_text(
    world: World,
    refusal: Refusal,
    request_it: Callable[[World], Any],
    values: Mapping[str, object],
) -> None:
    try:
        found = request_it(world)["Failed"][0]
    except ClientError as error:
        found = error.response["Error"]
    assert found["Code"] == CODES[refusal.value.code].query
    assert found["Message"] == refusal.value.text.format(**{**world.values, **values})


def test_every_refusal_is_raised() -> None:
    assert {refusal for refusal, *_ in CASES} | ELSEWHERE == set(Refusal)
