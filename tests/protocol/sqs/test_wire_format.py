"""The wire format: requests built by hand, and every shape compared with AWS's service model."""

from __future__ import annotations

import hashlib
from hashlib import md5
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import httpx
import msgspec
import pytest
from botocore.loaders import Loader

from laneway.domain import errors as domain
from laneway.server import errors as server
from laneway.server.sqs.actions import ACTIONS
from laneway.server.sqs.digests import digest_attributes
from laneway.server.sqs.errors import CODES, NAMES, to_fault
from laneway.server.sqs.wire import AttributeValue, Result
from tests.protocol.sqs.clients import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.protocol.conftest import Shared

SPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
# Faults of a service that keeps its keys elsewhere; nothing here is encrypted with such keys.
ELSEWHERE = ("Kms", "InvalidIdFormat")


@pytest.fixture
def http(shared: Shared) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared.server.url, timeout=30) as client:
        yield client


@pytest.fixture
def place(http: httpx.Client, name: str) -> str:
    """Return the path of a queue."""
    answer = http.post("/", data={"Action": "CreateQueue", "QueueName": name})
    assert answer.status_code == 200, answer.text
    return f"/000000000000/{name}"


def call(http: httpx.Client, path: str = "/", **fields: str) -> ET.Element:
    answer = http.post(path, data={key.replace("_", "."): value for key, value in fields.items()})
    assert answer.headers["content-type"] == "text/xml"
    return ET.fromstring(answer.text)  # noqa: S314 - our own


def test_query_protocol_answers_in_xml(http: httpx.Client, place: str, name: str) -> None:
    answer = call(http, Action="GetQueueUrl", QueueName=name)
    assert answer.tag == f"{SPACE}GetQueueUrlResponse"
    url = answer.findtext(f"{SPACE}GetQueueUrlResult/{SPACE}QueueUrl")
    assert url == f"{http.base_url}{place}".replace("//0", "/0")
    assert answer.findtext(f"{SPACE}ResponseMetadata/{SPACE}RequestId")
    call(http, place, Action="SendMessage", MessageBody='a "b"\r\n<c>')
    raw = http.post(place, data={"Action": "ReceiveMessage"}).text
    assert "<Body>a &quot;b&quot;&#xD;\n&lt;c&gt;</Body>" in raw


def test_digest_is_of_the_body_as_xml_can_contain_it(
    http: httpx.Client, place: str, name: str
) -> None:
    pushed = {"type": "", "payload": "\u0001x", "queue": name}
    assert http.post("/api/queue/message", json=pushed).status_code == 201
    message = call(http, place, Action="ReceiveMessage")[0][0]
    assert message.findtext(f"{SPACE}Body") == "\ufffdx"
    assert message.findtext(f"{SPACE}MD5OfBody") == md5("\ufffdx".encode()).hexdigest()  # noqa: S324


def test_both_names_of_lists_and_maps_are_read(http: httpx.Client, place: str) -> None:
    for tag, key in (("Tag", "a"), ("Tags", "b"), ("Tags.entry", "c"), ("Tag.member", "d")):
        fields = {"Action": "TagQueue", f"{tag}.1.Key": key, f"{tag}.1.Value": "1"}
        assert http.post(place, data=fields).status_code == 200
    tags = call(http, place, Action="ListQueueTags").iter(f"{SPACE}Key")
    assert sorted(str(tag.text) for tag in tags) == ["a", "b", "c", "d"]
    for name in ("MessageAttribute", "MessageAttributes"):
        fields = {
            "Action": "SendMessage",
            "MessageBody": "x",
            f"{name}.1.Name": "kind",
            f"{name}.1.Value.DataType": "String",
            f"{name}.1.Value.StringValue": name,
        }
        assert http.post(place, data=fields).status_code == 200
        answer = call(http, place, Action="ReceiveMessage", MessageAttributeName_1="All")
        assert [value.text for value in answer.iter(f"{SPACE}StringValue")] == [name]


def test_query_string_is_accepted_without_a_body(http: httpx.Client, place: str) -> None:
    parameters = {"Action": "SendMessage", "MessageBody": "x", "Version": "2012-11-05"}
    assert http.get(place, params=parameters).status_code == 200
    found = http.get("/", params={"Action": "ReceiveMessage", "QueueUrl": place})
    assert "<Body>x</Body>" in found.text


def test_form_is_utf8_escaped_or_not(http: httpx.Client, place: str) -> None:
    body = "Action=SendMessage&MessageBody=héllo+☃%20%C3%A9"
    assert http.post(place, content=body.encode()).status_code == 200
    assert "<Body>héllo ☃ é</Body>" in http.post(place, data={"Action": "ReceiveMessage"}).text
    for wrong in (b"h\xe9llo", b"h%E9llo"):
        answer = http.post(place, content=b"Action=SendMessage&MessageBody=" + wrong)
        assert (answer.status_code, "<Code>MalformedInput</Code>" in answer.text) == (400, True)


def test_body_url_wins_over_the_path(http: httpx.Client, place: str) -> None:
    answer = call(
        http, "/000000000000/other", Action="SendMessage", QueueUrl=place, MessageBody="x"
    )
    assert answer.tag == f"{SPACE}SendMessageResponse"


def test_errors_in_xml(http: httpx.Client) -> None:
    answer = http.post("/000000000000/none", data={"Action": "ReceiveMessage"})
    assert answer.status_code == 400
    error = ET.fromstring(answer.text)  # noqa: S314 - our own
    assert error.findtext(f"{SPACE}Error/{SPACE}Code") == (
        "AWS.SimpleQueueService.NonExistentQueue"
    )
    assert error.findtext(f"{SPACE}Error/{SPACE}Type") == "Sender"
    message = error.findtext(f"{SPACE}Error/{SPACE}Message")
    assert message == "The specified queue does not exist for this wsdl version."
    answer = http.post("/", data={"Action": "Nonsense"})
    assert (answer.status_code, "<Code>InvalidAction</Code>" in answer.text) == (400, True)
    answer = http.post("/", data={"Version": "2012-11-05"})
    assert answer.status_code == 404
    assert answer.text.strip() == "<UnknownOperationException/>"
    answer = http.get("/", params={"Foo": "1"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/xml")
    assert answer.text.strip() == "<UnknownOperationException/>"
    refusals = [
        (413, "RequestEntityTooLarge", {"MessageBody": "x" * (2 << 20)}),
        (400, "AWS.SimpleQueueService.NonExistentQueue", {"QueueUrl": "http://127.0.0.1/"}),
        (400, "AWS.SimpleQueueService.NonExistentQueue", {"QueueUrl": "http://[::1"}),
        (400, "MissingParameter", {"MessageBody": "x"}),
        (400, "MalformedInput", {"MessageAttribute.one.Name": "x"}),
        (400, "MalformedInput", {"MessageAttribute": "x", "MessageAttribute.1.Name": "x"}),
        (400, "MalformedInput", {"DelaySeconds": "soon"}),
        (400, "MalformedInput", {"MessageAttribute." + "9" * 5000: "x"}),
        (400, "MalformedInput", {"MessageAttribute.\u00b2.Name": "x"}),
        (400, "MalformedInput", {"QueueUrl" + ".a" * 3000: "x"}),
        (400, "MalformedInput", {"MessageAttribute" + ".1" * 3000: "x"}),
    ]
    for status, code, form in refusals:
        answer = http.post("/", data={"Action": "SendMessage", **form})
        assert (answer.status_code, f"<Code>{code}</Code>" in answer.text) == (status, True), code


def test_errors_in_json(http: httpx.Client, place: str) -> None:
    def ask(target: str, body: Any) -> httpx.Response:
        headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"}
        content = body if isinstance(body, str | bytes) else msgspec.json.encode(body)
        return http.post("/", content=content, headers=headers)

    answer = ask("AmazonSQS.GetQueueUrl", {"QueueName": "none"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/x-amz-json-1.0"
    query_error = "AWS.SimpleQueueService.NonExistentQueue;Sender"
    assert answer.headers["x-amzn-query-error"] == query_error
    assert answer.json() == {
        "__type": "com.amazonaws.sqs#QueueDoesNotExist",
        "message": "The specified queue does not exist.",
    }
    answer = ask("AmazonSQS.SendMessage", {"QueueUrl": place})
    kind = "com.amazon.coral.service#MissingRequiredParameterException"
    assert answer.json()["__type"] == kind
    assert ask("AmazonSQS.SendMessage", {"MessageBody": "x"}).json()["__type"] == kind
    for value in ("!!", "é"):
        attributes = {"a": {"DataType": "Binary", "BinaryValue": value}}
        parcel = {"QueueUrl": place, "MessageBody": "x", "MessageAttributes": attributes}
        answer = ask("AmazonSQS.SendMessage", parcel)
        assert answer.headers["x-amzn-query-error"] == "InvalidParameterValue;Sender"
    for body in ("{", {"QueueUrl": place, "MessageBody": 5}, {"QueueUrl": 5}):
        answer = ask("AmazonSQS.SendMessage", body)
        assert answer.json()["__type"] == "com.amazon.coral.service#SerializationException"
        assert answer.status_code == 400
    answer = ask("AmazonSQS.SendMessage", {"QueueUrl": "http://127.0.0.1/", "MessageBody": "x"})
    assert answer.headers["x-amzn-query-error"] == query_error
    assert ask("AmazonSQS.Nonsense", {}).status_code == 404
    assert ask("AmazonSQS.ListQueues", "").status_code == 200
    lone = f'{{"QueueUrl": "{place}", "MessageBody": "\\ud800"}}'
    assert ask("AmazonSQS.SendMessage", lone).status_code == 400
    for wrong in (b"\xff", b"\\n\xff"):
        unreadable = f'{{"QueueUrl": "{place}", "MessageBody": "'.encode() + wrong + b'"}'
        answer = ask("AmazonSQS.SendMessage", unreadable)
        assert answer.json()["__type"] == "com.amazon.coral.service#SerializationException"


def test_query_protocol_answers_in_json_if_asked(http: httpx.Client, place: str) -> None:
    def ask(path: str = "/", **fields: str) -> httpx.Response:
        headers = {"Accept": "application/json"}
        answer = http.get(path, params=fields, headers=headers)
        assert answer.headers["content-type"] == "application/json"
        return answer

    attributes = {"MessageAttribute.1.Name": "a", "MessageAttribute.1.Value.DataType": "String"}
    attributes["MessageAttribute.1.Value.StringValue"] = "b"
    sent = ask(place, Action="SendMessage", MessageBody="ba&quot;r\r", **attributes).json()
    assert set(sent["SendMessageResponse"]) == {"SendMessageResult", "ResponseMetadata"}
    result = sent["SendMessageResponse"]["SendMessageResult"]
    assert result["SequenceNumber"] is None
    received = ask(place, Action="ReceiveMessage", AttributeName="All", MessageAttributeName="All")
    message = received.json()["ReceiveMessageResponse"]["ReceiveMessageResult"]["messages"][0]
    assert (message["Body"], message["MessageId"]) == ("ba&quot;r\r", result["MessageId"])
    shown = ask(place, Action="GetQueueAttributes", **{"AttributeName.1": "All"}).json()
    found = shown["GetQueueAttributesResponse"]["GetQueueAttributesResult"]["Attributes"]
    assert {"Name": "VisibilityTimeout", "Value": "30"} in found
    listed = ask(Action="ListQueues", QueueNamePrefix="none").json()
    assert listed["ListQueuesResponse"]["ListQueuesResult"]["queueUrls"] is None
    refused = ask(place, Action="ListQueues")
    assert refused.status_code == 400
    assert refused.json()["Error"] == {
        "Code": "InvalidAction",
        "Message": "The action ListQueues is not valid for this endpoint.",
        "Type": "Sender",
    }
    # Without an action, it is XML all the same.
    answer = http.get(place, headers={"Accept": "application/json"})
    assert (answer.status_code, "<UnknownOperationException" in answer.text) == (404, True)


def test_result_without_members_is_an_empty_element(http: httpx.Client, place: str) -> None:
    for action in ("ReceiveMessage", "GetQueueAttributes", "ListQueueTags"):
        answer = http.post(place, data={"Action": action})
        assert f"<{action}Result/>" in answer.text


def test_other_paths_are_left_to_other_protocols(http: httpx.Client) -> None:
    for path in (f"/{ACCOUNT[:-1]}/queue", "/api/queue/none", "/x/y/z"):
        assert http.get(path).status_code == 404
        assert f"Not Found - {path}" in http.get(path).text


@pytest.fixture(scope="module")
def model() -> Any:
    return Loader().load_service_model("sqs", "service-2")


def test_there_is_an_action_for_every_operation(model: Any) -> None:
    assert set(ACTIONS) == set(model["operations"])


def test_requests_take_what_the_model_says(model: Any) -> None:
    for name, operation in model["operations"].items():
        shape = model["shapes"][operation["input"]["shape"]]
        assert _list_members(ACTIONS[name].request) == set(shape["members"]), name


def test_answers_have_what_the_model_says(model: Any) -> None:
    for name, operation in model["operations"].items():
        returned = ACTIONS[name].run.__annotations__["return"]
        if "output" not in operation:
            assert returned in (None, "None"), name
            continue
        module = __import__(ACTIONS[name].run.__module__, fromlist=["_"])
        kind = getattr(module, returned)
        assert issubclass(kind, Result)
        shape = model["shapes"][operation["output"]["shape"]]
        assert _list_members(kind) == set(shape["members"]), name


def test_every_fault_of_the_model_has_its_code(model: Any) -> None:
    declared = {
        error["shape"]
        for operation in model["operations"].values()
        for error in operation.get("errors", ())
        if not error["shape"].startswith(ELSEWHERE)
    }
    # Of those that no operation names, clients know the codes all the same.
    known = {name for name, code in CODES.items() if code.namespace == "com.amazonaws.sqs"}
    assert known == declared


def test_every_error_of_the_broker_has_a_code() -> None:
    for module in (domain, server):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, domain.LanewayError):
                assert any(ancestor in NAMES for ancestor in kind.__mro__)
    assert set(NAMES.values()) <= set(CODES)
    assert to_fault(domain.QueueNotFound(queue="x")).name == "QueueDoesNotExist"
    assert to_fault(domain.Unavailable("x")).code.status == 503


def test_digest_of_attributes_is_over_sorted_parts() -> None:
    attributes = {
        "b": AttributeValue(data_type="Binary", binary_value="AP8="),
        "a": AttributeValue(data_type="String.custom", string_value="ä"),
    }
    expected = (
        b"\0\0\0\x01a\0\0\0\x0dString.custom\x01\0\0\0\x02\xc3\xa4"
        b"\0\0\0\x01b\0\0\0\x06Binary\x02\0\0\0\x02\0\xff"
    )
    digest = hashlib.md5(expected, usedforsecurity=False).hexdigest()
    assert digest_attributes(attributes) == digest


def _list_members(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}
