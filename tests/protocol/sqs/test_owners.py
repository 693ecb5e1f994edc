"""Queues belong to a region and an account, as on AWS."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from tests.protocol.servers import run_laneway
from tests.protocol.sqs.clients import ACCOUNT, REGION, Refusal, bodies, connect, drain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.conftest import Shared

    Connect = Callable[..., SQSClient]

NONE = "AWS.SimpleQueueService.NonExistentQueue"
FAR = "eu-west-1"
OTHER = "123456789012"


@pytest.fixture(scope="module", params=["json", "query"])
def connect_as(
    request: pytest.FixtureRequest, shared: Shared, query_models: Path
) -> Iterator[Connect]:
    """Return what makes a client of a region and account, of each wire protocol in turn."""
    models = query_models if request.param == "query" else None
    clients = []

    def make(region: str = REGION, account: str = ACCOUNT) -> SQSClient:
        client = connect(shared.server.url, key=account, region=region, models=models)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


def arn_of(sqs: SQSClient, url: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return answer["Attributes"]["QueueArn"]


def list_names(sqs: SQSClient, prefix: str) -> list[str]:
    urls = sqs.list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])
    return [url.rpartition("/")[2] for url in urls]


def is_missing(sqs: SQSClient, **named: str) -> bool:
    with Refusal() as refusal:
        sqs.get_queue_url(**named)
    return refusal.code == NONE


def test_each_region_and_account_sees_its_own_queues(connect_as: Connect, name: str) -> None:
    owners = [(REGION, ACCOUNT), (FAR, ACCOUNT), (REGION, OTHER), (FAR, OTHER)]
    clients = [connect_as(*owner) for owner in owners]
    absent = f"{name}-absent"
    clients[0].create_queue(QueueName=f"{name}-default")
    for n, (sqs, (region, account)) in enumerate(zip(clients, owners, strict=True)):
        assert is_missing(sqs, QueueName=name)
        url = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "0"})["QueueUrl"]
        assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
        path = f"/{account}/{name}"
        assert urlsplit(url).path == (path if region == REGION else f"/queue/{region}{path}")
        assert arn_of(sqs, url) == f"arn:aws:sqs:{region}:{account}:{name}"
        sqs.send_message(QueueUrl=url, MessageBody=f"of {n}")
    for n, sqs in enumerate(clients):
        assert list_names(sqs, name) == ([name, f"{name}-default"] if n == 0 else [name])
        assert list_names(sqs, absent) == []
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
        [message] = drain(sqs, url, 1, AttributeNames=["SenderId"])
        assert (message["Body"], message["Attributes"]["SenderId"]) == (f"of {n}", owners[n][1])
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        assert "Messages" not in sqs.receive_message(QueueUrl=url)


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-east-2", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")],
)
def test_arns_name_the_partition_of_the_region(
    connect_as: Connect, name: str, region: str, partition: str
) -> None:
    sqs = connect_as(region)
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = f"arn:{partition}:sqs:{region}:{ACCOUNT}:{name}"
    assert arn_of(sqs, url) == arn
    sqs.add_permission(QueueUrl=url, Label="all", AWSAccountIds=[OTHER], Actions=["*"])
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]
    allowed = json.loads(shown["Policy"])
    assert allowed["Id"] == f"{arn}/SQSDefaultPolicy"
    assert allowed["Statement"][0]["Principal"] == {"AWS": f"arn:{partition}:iam::{OTHER}:root"}
    source = sqs.create_queue(QueueName=f"{name}-source", Attributes=policy(arn))["QueueUrl"]
    assert sqs.list_dead_letter_source_queues(QueueUrl=url)["queueUrls"] == [source]


def test_deleted_name_is_reserved_for_its_owner_alone(connect_as: Connect, name: str) -> None:
    near, far = connect_as(), connect_as(FAR)
    near.purge_queue(QueueUrl=near.create_queue(QueueName=name)["QueueUrl"])
    url = far.create_queue(QueueName=name)["QueueUrl"]
    far.purge_queue(QueueUrl=url)
    far.delete_queue(QueueUrl=url)
    assert list_names(near, name) == [name]
    with Refusal() as refusal:
        far.create_queue(QueueName=name)
    assert refusal.code == "AWS.SimpleQueueService.QueueDeletedRecently"
    connect_as(FAR, OTHER).create_queue(QueueName=name)
    near.create_queue(QueueName=name)
    with Refusal() as refusal:
        near.purge_queue(QueueUrl=near.get_queue_url(QueueName=name)["QueueUrl"])
    assert (
        refusal.message == f"Only one PurgeQueue operation on {name} is allowed every 60 seconds."
    )


def test_queue_of_another_account_is_found_by_its_owner(connect_as: Connect, name: str) -> None:
    mine, theirs = connect_as(FAR), connect_as(FAR, OTHER)
    url = theirs.create_queue(QueueName=name)["QueueUrl"]
    assert is_missing(mine, QueueName=name)
    found = mine.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=OTHER)["QueueUrl"]
    assert found == url
    mine.send_message(QueueUrl=found, MessageBody="for you")
    assert bodies(drain(theirs, url, 1)) == ["for you"]
    for account in (ACCOUNT, "999999999999", "none"):
        assert is_missing(mine, QueueName=name, QueueOwnerAWSAccountId=account)
    # Of the same region only.
    assert is_missing(connect_as(), QueueName=name, QueueOwnerAWSAccountId=OTHER)


@pytest.mark.parametrize(
    "form",
    [
        "http://localhost/queue/{region}/{account}/{name}",
        "http://sqs.{region}.localhost.localstack.cloud:4566/{account}/{name}",
        "https://sqs.{region}.amazonaws.com/{account}/{name}",
        "https://{region}.queue.localhost/{account}/{name}",
    ],
)
def test_url_names_the_region_and_account(shared: Shared, name: str, form: str) -> None:
    near, far = connect(shared.server.url), connect(shared.server.url, key=OTHER, region=FAR)
    for sqs in (near, far):
        sqs.create_queue(QueueName=name)
    ours = form.format(region=REGION, account=ACCOUNT, name=name)
    theirs = form.format(region=FAR, account=OTHER, name=name)
    for sqs in (near, far):
        sqs.send_message(QueueUrl=ours, MessageBody="ours")
        sqs.send_message(QueueUrl=theirs, MessageBody="theirs")
        assert arn_of(sqs, theirs) == f"arn:aws:sqs:{FAR}:{OTHER}:{name}"
    assert bodies(drain(far, ours, 2)) == ["ours", "ours"]
    assert bodies(drain(near, theirs, 2)) == ["theirs", "theirs"]


@pytest.mark.parametrize("style", ["path", "region", "host", "domain"])
async def test_returned_url_has_the_chosen_style(database: str, style: str) -> None:
    async with run_laneway(database, "--sqs-url-style", style) as running:
        place = f"localhost:{urlsplit(running.url).port}"
        server = f"http://{place}"
        far = connect(server, key=OTHER, region=FAR)
        near = connect(server)
        default = near.create_queue(QueueName="one")["QueueUrl"]
        assert (
            default
            == {
                "path": f"http://{place}/{ACCOUNT}/one",
                "region": f"http://{place}/queue/{REGION}/{ACCOUNT}/one",
                "host": f"http://sqs.{REGION}.{place}/{ACCOUNT}/one",
                "domain": f"http://queue.{place}/{ACCOUNT}/one",
            }[style]
        )
        url = far.create_queue(QueueName="one")["QueueUrl"]
        assert (
            url
            == {
                "path": f"http://{place}/queue/{FAR}/{OTHER}/one",
                "region": f"http://{place}/queue/{FAR}/{OTHER}/one",
                "host": f"http://sqs.{FAR}.{place}/{OTHER}/one",
                "domain": f"http://{FAR}.queue.{place}/{OTHER}/one",
            }[style]
        )
        assert far.list_queues()["QueueUrls"] == [url]
        assert far.get_queue_url(QueueName="one")["QueueUrl"] == url
        # Whoever is told the URL reaches the queue.
        near.send_message(QueueUrl=url, MessageBody="told")
        assert bodies(drain(far, url, 1)) == ["told"]
        if style != "path":
            far.send_message(QueueUrl=default, MessageBody="told, too")
            assert bodies(drain(near, default, 1)) == ["told, too"]
        # A request that is sent to the URL, without a QueueUrl in its body and without a signature.
        parts = urlsplit(url)
        sent = httpx.post(
            f"{running.url}{parts.path}",
            headers={"host": parts.netloc},
            data={"Action": "SendMessage", "MessageBody": "by path"},
        )
        assert sent.status_code == 200
        assert bodies(drain(far, url, 1)) == ["by path"]


def push(shared: Shared, queue: str, payload: str) -> None:
    items = [{"queue": queue, "payload": payload}]
    httpx.post(f"{shared.server.url}/api/v1/push", json={"items": items}).raise_for_status()


def test_queues_of_other_surfaces_belong_to_the_default_owner(
    connect_as: Connect, shared: Shared, name: str
) -> None:
    near, far = connect_as(), connect_as(FAR, OTHER)
    push(shared, name, "plain")
    assert list_names(near, name) == [name]
    assert bodies(drain(near, near.get_queue_url(QueueName=name)["QueueUrl"], 1)) == ["plain"]
    assert is_missing(far, QueueName=name)
    assert list_names(far, name) == []
    # And the queue of another owner has a name of its own there.
    url = far.create_queue(QueueName=name)["QueueUrl"]
    far.send_message(QueueUrl=url, MessageBody="far")
    long = f"{FAR}:{OTHER}:{name}"
    api = f"{shared.server.url}/api"
    shown = httpx.get(f"{api}/queues").json()["queues"]
    assert {name, long} <= {each["name"] for each in shown}
    popped = httpx.get(f"{api}/v1/pop/queue/{quote(long)}").json()
    assert [each["data"] for each in popped["messages"]] == ["far"]
    push(shared, long, "by its name")
    assert bodies(drain(far, url, 1)) == ["by its name"]


def test_long_name_does_not_lead_to_the_queue_of_another_owner(
    connect_as: Connect, name: str
) -> None:
    near, far = connect_as(), connect_as(FAR, OTHER)
    far.create_queue(QueueName=name)
    long = f"{FAR}:{OTHER}:{name}"
    assert is_missing(near, QueueName=long)
    assert is_missing(far, QueueName=long)
    with Refusal() as refusal:
        near.send_message(
            QueueUrl=f"http://localhost/{ACCOUNT}/{quote(long)}", MessageBody="smuggled"
        )
    assert refusal.code == NONE
    assert list_names(near, long) == list_names(near, name) == []


def policy(arn: str) -> Any:
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})}


def fail(sqs: SQSClient, url: str) -> None:
    """Use up the only receive of the message that is there."""
    [message] = drain(sqs, url, 1)
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_dead_letters_stay_with_their_owner(connect_as: Connect, name: str) -> None:
    owners = [(REGION, ACCOUNT), (FAR, OTHER)]
    made = []
    for owner in owners:
        sqs = connect_as(*owner)
        dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
        created = sqs.create_queue(QueueName=name, Attributes=policy(arn_of(sqs, dead)))
        made.append((sqs, created["QueueUrl"], dead))
    for sqs, source, dead in made:
        assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [source]
        sent = sqs.send_message(QueueUrl=source, MessageBody="poison")["MessageId"]
        fail(sqs, source)
        [message] = drain(sqs, dead, 1, AttributeNames=["All"], VisibilityTimeout=0)
        assert (message["MessageId"], message["Body"]) == (sent, "poison")
        assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn_of(sqs, source)
        arn = arn_of(sqs, dead)
        sqs.start_message_move_task(SourceArn=arn)
        assert bodies(drain(sqs, source, 1)) == ["poison"]
        [task] = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
        assert (task["SourceArn"], task.get("FailureReason")) == (arn, None)


def test_dead_letter_of_a_deleted_queue_goes_to_no_namesake(connect_as: Connect, name: str) -> None:
    near, far = connect_as(), connect_as(FAR)
    plain = near.create_queue(QueueName=name)["QueueUrl"]
    dead = far.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = arn_of(far, dead)
    source = far.create_queue(QueueName=name, Attributes=policy(arn))["QueueUrl"]
    keeper = far.create_queue(QueueName=f"{name}-2", Attributes=policy(arn))["QueueUrl"]
    far.send_message(QueueUrl=source, MessageBody="poison")
    fail(far, source)
    far.delete_queue(QueueUrl=source)
    far.start_message_move_task(SourceArn=arn)
    while (task := far.list_message_move_tasks(SourceArn=arn)["Results"][0])["Status"] == "RUNNING":
        time.sleep(0.05)
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    for sqs, url in ((near, plain), (far, keeper)):
        assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_redrive_policy_names_a_queue_of_the_same_owner(connect_as: Connect, name: str) -> None:
    near, far = connect_as(), connect_as(FAR, OTHER)
    arn = arn_of(near, near.create_queue(QueueName=f"{name}-dead")["QueueUrl"])
    url = far.create_queue(QueueName=name)["QueueUrl"]
    refused: list[tuple[Any, dict[str, str]]] = [
        (far.create_queue, {"QueueName": f"{name}-new"}),
        (far.set_queue_attributes, {"QueueUrl": url}),
    ]
    for call, fields in refused:
        with Refusal() as refusal:
            call(**fields, Attributes=policy(arn))
        assert refusal.code == "InvalidParameterValue"
        assert refusal.message.endswith("Dead-letter target owner should be same as the source.")
        with Refusal() as refusal:
            call(**fields, Attributes=policy(arn.replace(REGION, "Nowhere")))
        assert refusal.message.endswith("Dead letter target does not exist.")
    assert list_names(far, name) == [name]


async def test_shared_queues_are_seen_by_every_region_and_account(database: str) -> None:
    async with run_laneway(database, "--sqs-shared-queues") as running:
        near, far = connect(running.url), connect(running.url, key=OTHER, region=FAR)
        dead = far.create_queue(QueueName="dead")["QueueUrl"]
        assert dead == f"{running.url}/{OTHER}/dead"
        assert near.get_queue_url(QueueName="dead")["QueueUrl"] == f"{running.url}/{ACCOUNT}/dead"
        near.send_message(QueueUrl=dead, MessageBody="x")
        assert bodies(drain(far, dead, 1)) == ["x"]
        assert arn_of(near, dead) == f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
        jobs = near.create_queue(QueueName="jobs", Attributes=policy(arn_of(far, dead)))["QueueUrl"]
        assert len(far.list_queues()["QueueUrls"]) == len(near.list_queues()["QueueUrls"])
        near.send_message(QueueUrl=jobs, MessageBody="poison")
        fail(far, jobs)
        assert bodies(drain(near, dead, 1, VisibilityTimeout=0)) == ["poison"]
        far.start_message_move_task(SourceArn=arn_of(far, dead))
        assert bodies(drain(near, jobs, 1)) == ["poison"]


async def test_default_region_and_account_are_settings(database: str) -> None:
    async with run_laneway(database) as running:
        connect(running.url).create_queue(QueueName="plain")
        connect(running.url, key=OTHER, region=FAR).create_queue(QueueName="long")
    flags = ("--sqs-region", FAR, "--sqs-account", OTHER)
    async with run_laneway(database, *flags) as running:
        # An access key that is no account, and a region of its own.
        sqs = connect(running.url, key="any", region=FAR)
        assert arn_of(sqs, "plain") == f"arn:aws:sqs:{FAR}:{OTHER}:plain"
        assert is_missing(connect(running.url), QueueName="plain")
        # What it had under its long name keeps that, until it is renamed.
        long = f"{FAR}:{OTHER}:long"
        url = sqs.get_queue_url(QueueName=long)["QueueUrl"]
        assert url in sqs.list_queues()["QueueUrls"]
        assert is_missing(sqs, QueueName="long")
        renamed = httpx.post(
            f"{running.url}/api/queues/{quote(long)}/rename", json={"newName": "long"}
        )
        assert renamed.is_success, renamed.text
        assert sqs.get_queue_url(QueueName="long")["QueueUrl"].endswith(f"/{OTHER}/long")


async def test_queues_that_were_shared_belong_to_the_default_owner(database: str) -> None:
    """Where all queues were shared, as in earlier versions, none names its owner."""
    async with run_laneway(database, "--sqs-shared-queues") as running:
        far = connect(running.url, key=OTHER, region=FAR)
        dead_arn = arn_of(far, far.create_queue(QueueName="dead")["QueueUrl"])
        far.create_queue(QueueName="jobs", Attributes=policy(dead_arn))
        far.send_message(QueueUrl="jobs", MessageBody="poison")
        fail(far, "jobs")
        held = far.send_message(QueueUrl="jobs", MessageBody="held")["MessageId"]
        [message] = drain(far, "jobs", 1)
    async with run_laneway(database) as running:
        near = connect(running.url)
        assert "QueueUrls" not in connect(running.url, key=OTHER, region=FAR).list_queues()
        assert {"dead", "jobs"} <= set(list_names(near, ""))
        # A message in flight keeps its id, and its receipt handle.
        assert message["MessageId"] == held
        near.delete_message(QueueUrl="jobs", ReceiptHandle=message["ReceiptHandle"])
        assert near.list_dead_letter_source_queues(QueueUrl="dead")["queueUrls"] == [
            f"{running.url}/{ACCOUNT}/jobs"
        ]
        near.start_message_move_task(SourceArn=arn_of(near, "dead"))
        assert bodies(drain(near, "jobs", 1)) == ["poison"]
    async with run_laneway(database, "--sqs-region", FAR, "--sqs-account", OTHER) as running:
        far = connect(running.url, key=OTHER, region=FAR)
        assert arn_of(far, "dead") == dead_arn
        assert far.create_queue(QueueName="jobs", Attributes=policy(dead_arn))["QueueUrl"]


def test_region_that_cannot_be_is_refused(shared: Shared) -> None:
    scope = "Credential=any/20300101/a:b/sqs/aws4_request, SignedHeaders=host, Signature=0"
    answer = httpx.post(
        shared.server.url,
        data={"Action": "ListQueues"},
        headers={"authorization": f"AWS4-HMAC-SHA256 {scope}"},
    )
    assert answer.status_code == 403
    assert "<Code>SignatureDoesNotMatch</Code>" in answer.text
    assert "Credential should be scoped to a valid region." in answer.text
