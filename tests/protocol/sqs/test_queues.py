"""Queues: create, find, list, set attributes, tag, purge, delete."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.protocol.sqs.clients import ACCOUNT, REGION, Refusal, bodies, connect, drain

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.conftest import Shared

DEFAULTS = {
    "VisibilityTimeout": "30",
    "DelaySeconds": "0",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "MaximumMessageSize": "1048576",
    "SqsManagedSseEnabled": "true",
}


def look(sqs: SQSClient, url: str) -> dict[str, str]:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    return {str(name): value for name, value in answer["Attributes"].items()}


def test_queue_is_created_and_found(shared: Shared, sqs: SQSClient, name: str) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    assert url == f"{shared.server.url}/{ACCOUNT}/{name}"
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    shown = look(sqs, url)
    assert shown.items() >= DEFAULTS.items()
    assert shown["QueueArn"] == f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
    assert {"CreatedTimestamp", "LastModifiedTimestamp"} <= set(shown)
    assert "FifoQueue" not in shown
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url)
    some = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["DelaySeconds"])
    assert some["Attributes"] == {"DelaySeconds": "0"}


def test_creating_a_queue_again_returns_it_unless_attributes_differ(
    sqs: SQSClient, name: str
) -> None:
    url = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "5"})["QueueUrl"]
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == url
    policy = '{"Version":"2012-10-17","Statement":[]}'
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    # However it is written.
    same: Any = {"DelaySeconds": "005", "Policy": json.dumps(json.loads(policy), indent=1)}
    assert sqs.create_queue(QueueName=name, Attributes=same)["QueueUrl"] == url
    differing: Any = ({"DelaySeconds": "6"}, {"Policy": '{"Statement": []}'}, {"Policy": ""})
    for attributes in differing:
        with Refusal() as refusal:
            sqs.create_queue(QueueName=name, Attributes=attributes)
        assert refusal.code == "QueueAlreadyExists"


def test_attributes_are_set(sqs: SQSClient, url: str) -> None:
    policy = json.dumps({"Version": "2012-10-17", "Statement": []})
    wanted: dict[Any, str] = {
        "VisibilityTimeout": "0",
        "DelaySeconds": "7",
        "MessageRetentionPeriod": "60",
        "ReceiveMessageWaitTimeSeconds": "3",
        "MaximumMessageSize": "1024",
        "SqsManagedSseEnabled": "false",
        "KmsMasterKeyId": "alias/mine",
        "KmsDataKeyReusePeriodSeconds": "600",
        "Policy": policy,
        "RedriveAllowPolicy": '{"redrivePermission": "denyAll"}',
    }
    sqs.set_queue_attributes(QueueUrl=url, Attributes=wanted)
    assert look(sqs, url).items() >= wanted.items()
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": "", "VisibilityTimeout": "9"})
    shown = look(sqs, url)
    assert "Policy" not in shown
    assert shown["VisibilityTimeout"] == "9"
    assert shown["KmsMasterKeyId"] == "alias/mine"


def test_flags_are_read_in_any_case(sqs: SQSClient, name: str) -> None:
    fifo = f"{name}.fifo"
    wanted: Any = {
        "FifoQueue": "True",
        "ContentBasedDeduplication": "TRUE",
        "SqsManagedSseEnabled": "False",
    }
    url = sqs.create_queue(QueueName=fifo, Attributes=wanted)["QueueUrl"]
    shown = look(sqs, url)
    assert {name: shown[name] for name in wanted} == {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
        "SqsManagedSseEnabled": "false",
    }
    again: Any = {flag: value.lower() for flag, value in wanted.items()}
    assert sqs.create_queue(QueueName=fifo, Attributes=again)["QueueUrl"] == url
    sqs.set_queue_attributes(
        QueueUrl=url, Attributes={"FifoQueue": "TRUE", "ContentBasedDeduplication": "fAlse"}
    )
    assert look(sqs, url)["ContentBasedDeduplication"] == "false"


def test_queue_has_one_kind_of_encryption(sqs: SQSClient, url: str) -> None:
    names = ("KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled")

    def change(**attributes: str) -> list[str | None]:
        sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)  # type: ignore[arg-type]
        shown = look(sqs, url)
        return [shown.get(name) for name in names]

    assert change(KmsMasterKeyId="mine") == ["mine", "300", "false"]
    assert change(KmsDataKeyReusePeriodSeconds="6000") == ["mine", "6000", "false"]
    assert change(SqsManagedSseEnabled="true") == [None, None, "true"]
    both = {"KmsMasterKeyId": "mine", "KmsDataKeyReusePeriodSeconds": "6000"}
    assert change(**both) == ["mine", "6000", "false"]
    reset = {"KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": "300"}
    assert change(**reset) == [None, None, "false"]
    assert change(**both, SqsManagedSseEnabled="false") == ["mine", "6000", "false"]
    assert change(KmsMasterKeyId="") == [None, None, "false"]


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"VisibilityTimeout": "43201"}, "InvalidAttributeValue"),
        ({"VisibilityTimeout": "-1"}, "InvalidAttributeValue"),
        ({"DelaySeconds": "901"}, "InvalidAttributeValue"),
        ({"MessageRetentionPeriod": "59"}, "InvalidAttributeValue"),
        ({"MessageRetentionPeriod": "1209601"}, "InvalidAttributeValue"),
        ({"ReceiveMessageWaitTimeSeconds": "21"}, "InvalidAttributeValue"),
        ({"MaximumMessageSize": "1023"}, "InvalidAttributeValue"),
        ({"MaximumMessageSize": "1048577"}, "InvalidAttributeValue"),
        ({"SqsManagedSseEnabled": "yes"}, "InvalidAttributeValue"),
        ({"Policy": "no json"}, "InvalidAttributeValue"),
        ({"Nonsense": "1"}, "InvalidAttributeName"),
        ({"QueueArn": "x"}, "InvalidAttributeName"),
        ({"VisibilityTimeout": "9" * 5000}, "InvalidAttributeValue"),
        ({"VisibilityTimeout": "\u0661"}, "InvalidAttributeValue"),
        ({"FifoQueue": "false"}, "InvalidAttributeName"),
        ({"ContentBasedDeduplication": "true"}, "InvalidAttributeName"),
        ({"Policy": "[" * 100_000}, "InvalidAttributeValue"),
        ({"RedrivePolicy": "no json"}, "InvalidAttributeValue"),
        ({"RedrivePolicy": '{"maxReceiveCount": 1}'}, "InvalidParameterValue"),
        ({"RedriveAllowPolicy": '{"redrivePermission": "some"}'}, "InvalidAttributeValue"),
        ({"RedriveAllowPolicy": '{"redrivePermission": []}'}, "InvalidAttributeValue"),
        ({"RedriveAllowPolicy": '{"redrivePermission": "byQueue"}'}, "InvalidParameterValue"),
    ],
)
def test_invalid_attributes_are_refused(
    sqs: SQSClient, name: str, url: str, attributes: dict[Any, str], code: str
) -> None:
    with Refusal() as refusal:
        sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
    assert refusal.code == code
    assert refusal.status == 400
    with Refusal() as refusal:
        sqs.create_queue(QueueName=f"{name}-other", Attributes=attributes)
    assert refusal.code == code
    assert look(sqs, url).items() >= DEFAULTS.items()


@pytest.mark.parametrize("wrong", ["", "a b", "a.b", "a" * 81, "x.fifo", "ä"])
def test_invalid_name_is_refused(sqs: SQSClient, wrong: str) -> None:
    with Refusal() as refusal:
        sqs.create_queue(QueueName=wrong)
    assert refusal.code in {"InvalidParameterValue", "MissingParameter"}


def test_unknown_queue_is_named_so(sqs: SQSClient, name: str) -> None:
    with Refusal() as refusal:
        sqs.get_queue_url(QueueName=name)
    assert refusal.code == "AWS.SimpleQueueService.NonExistentQueue"
    assert refusal.name == "QueueDoesNotExist"
    assert refusal.message.startswith("The specified queue does not exist")
    with Refusal() as refusal:
        sqs.send_message(QueueUrl=f"http://localhost/{ACCOUNT}/{name}", MessageBody="x")
    assert refusal.code == "AWS.SimpleQueueService.NonExistentQueue"


def test_queues_are_listed_in_pages(sqs: SQSClient, name: str) -> None:
    urls = [sqs.create_queue(QueueName=f"{name}-{n}")["QueueUrl"] for n in range(3)]
    assert sqs.list_queues(QueueNamePrefix=f"{name}-")["QueueUrls"] == urls
    first = sqs.list_queues(QueueNamePrefix=f"{name}-", MaxResults=2)
    assert first["QueueUrls"] == urls[:2]
    rest = sqs.list_queues(QueueNamePrefix=f"{name}-", MaxResults=2, NextToken=first["NextToken"])
    assert rest["QueueUrls"] == urls[2:]
    assert "NextToken" not in rest
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=f"{name}-none")
    with Refusal() as refusal:
        sqs.list_queues(MaxResults=1001)
    assert refusal.code == "InvalidParameterValue"


def test_tags_are_kept(sqs: SQSClient, name: str) -> None:
    url = sqs.create_queue(QueueName=name, tags={"team": "a"})["QueueUrl"]
    sqs.tag_queue(QueueUrl=url, Tags={"cost": "low", "team": "b"})
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "b", "cost": "low"}
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "none"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"cost": "low"}
    with Refusal() as refusal:
        sqs.tag_queue(QueueUrl=url, Tags={f"t{n}": "" for n in range(50)})
    assert refusal.code == "InvalidParameterValue"


def test_permissions_are_statements_of_the_policy(sqs: SQSClient, url: str) -> None:
    arn = look(sqs, url)["QueueArn"]
    other = "210987654321"
    readers = {
        "Sid": "readers",
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
        "Action": "SQS:ReceiveMessage",
        "Resource": arn,
    }
    several = {
        "Sid": "several",
        "Effect": "Allow",
        "Principal": {"AWS": [f"arn:aws:iam::{ACCOUNT}:root", f"arn:aws:iam::{other}:root"]},
        "Action": ["SQS:SendMessage", "SQS:DeleteMessage"],
        "Resource": arn,
    }
    policy = {"Version": "2008-10-17", "Id": f"{arn}/SQSDefaultPolicy", "Statement": [readers]}
    sqs.add_permission(
        QueueUrl=url, Label="readers", AWSAccountIds=[ACCOUNT], Actions=["ReceiveMessage"]
    )
    assert json.loads(look(sqs, url)["Policy"]) == policy
    sqs.add_permission(
        QueueUrl=url,
        Label="several",
        AWSAccountIds=[ACCOUNT, other],
        Actions=["SendMessage", "DeleteMessage"],
    )
    assert json.loads(look(sqs, url)["Policy"]) == {**policy, "Statement": [readers, several]}
    sqs.remove_permission(QueueUrl=url, Label="several")
    with Refusal() as refusal:
        sqs.add_permission(
            QueueUrl=url, Label="readers", AWSAccountIds=[ACCOUNT], Actions=["SendMessage"]
        )
    assert refusal.code == "InvalidParameterValue"
    with Refusal() as refusal:
        sqs.add_permission(
            QueueUrl=url, Label="all", AWSAccountIds=[ACCOUNT], Actions=["SendMessage"] * 8
        )
    assert (refusal.code, refusal.status) == ("OverLimit", 403)
    sqs.remove_permission(QueueUrl=url, Label="readers")
    assert "Policy" not in look(sqs, url)
    for text in ("", '{"Statement": 5}'):
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": text})
        with Refusal() as refusal:
            sqs.remove_permission(QueueUrl=url, Label="readers")
        assert refusal.code == "InvalidParameterValue"


def test_concurrent_permissions_are_all_kept(sqs: SQSClient, url: str) -> None:
    labels = [f"label-{n}" for n in range(8)]

    def add(label: str) -> None:
        sqs.add_permission(
            QueueUrl=url, Label=label, AWSAccountIds=[ACCOUNT], Actions=["SendMessage"]
        )

    def remove(label: str) -> None:
        sqs.remove_permission(QueueUrl=url, Label=label)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, labels))
        kept = json.loads(look(sqs, url)["Policy"])["Statement"]
        assert sorted(statement["Sid"] for statement in kept) == labels
        list(pool.map(remove, labels))
    assert "Policy" not in look(sqs, url)


def test_purge_empties_a_queue_once_a_minute(sqs: SQSClient, url: str) -> None:
    for body in ("waiting", "flying"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    sqs.send_message(QueueUrl=url, MessageBody="late", DelaySeconds=900)
    flying = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.purge_queue(QueueUrl=url)
    shown = look(sqs, url)
    assert shown["ApproximateNumberOfMessages"] == "0"
    assert shown["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert shown["ApproximateNumberOfMessagesDelayed"] == "0"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=flying[0]["ReceiptHandle"])
    with Refusal() as refusal:
        sqs.purge_queue(QueueUrl=url)
    assert refusal.code == "AWS.SimpleQueueService.PurgeQueueInProgress"
    assert refusal.status == 403
    sqs.send_message(QueueUrl=url, MessageBody="new")
    assert bodies(drain(sqs, url, 1)) == ["new"]


def test_name_of_a_deleted_queue_is_reserved_for_a_minute(
    sqs: SQSClient, name: str, url: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.delete_queue(QueueUrl=url)
    with Refusal() as refusal:
        sqs.receive_message(QueueUrl=url)
    assert refusal.code == "AWS.SimpleQueueService.NonExistentQueue"
    with Refusal() as refusal:
        sqs.delete_queue(QueueUrl=url)
    assert refusal.code == "AWS.SimpleQueueService.NonExistentQueue"
    with Refusal() as refusal:
        sqs.create_queue(QueueName=name)
    assert refusal.code == "AWS.SimpleQueueService.QueueDeletedRecently"


@pytest.mark.parametrize("other", ["a/{}", "{}?a", "{}#a", "{}%2Fa", "{} a", "ü{}"])
def test_escaped_queue_url_is_understood(
    shared: Shared, sqs: SQSClient, name: str, url: str, other: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="mine")
    theirs = other.format(name)
    item = {"queue": theirs, "payload": "theirs"}
    httpx.post(f"{shared.server.url}/api/v1/push", json={"items": [item]}).raise_for_status()
    answered = sqs.get_queue_url(QueueName=theirs)["QueueUrl"]
    assert answered in sqs.list_queues(QueueNamePrefix=theirs)["QueueUrls"]
    assert look(sqs, answered)["QueueArn"].endswith(f":{theirs}")
    assert bodies(drain(sqs, answered, 1)) == ["theirs"]
    sqs.delete_queue(QueueUrl=answered)
    with Refusal() as refusal:
        sqs.get_queue_url(QueueName=theirs)
    assert refusal.code == "AWS.SimpleQueueService.NonExistentQueue"
    assert bodies(drain(sqs, url, 1)) == ["mine"]


@pytest.mark.parametrize(
    "form",
    [
        "http://localhost/{account}/{name}",
        "http://localhost/queue/us-east-1/{account}/{name}",
        "http://sqs.us-east-1.localhost.localstack.cloud:4566/{account}/{name}",
        "https://us-east-1.queue.localhost/{account}/{name}",
        "http://queue.localhost/{account}/{name}",
        "/{account}/{name}",
        "{name}",
    ],
)
def test_every_form_of_queue_url_is_understood(
    shared: Shared, make: Callable[..., str], sqs: SQSClient, form: str
) -> None:
    name = make().rpartition("/")[2]
    url = form.format(account=ACCOUNT, name=name)
    if not url.startswith("http"):
        # botocore's query protocol sends to the URL itself.
        sqs = connect(shared.server.url)
    assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
