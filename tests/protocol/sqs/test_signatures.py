"""Signatures are required once keys exist, in headers and in URLs."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import asyncpg
import httpx
import pytest
import pytest_asyncio
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from laneway.domain.keys import make_key
from tests.postgres import execute, name_database
from tests.protocol.servers import run_laneway
from tests.protocol.sqs.clients import ACCOUNT, REGION, Refusal, bodies, connect, drain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mypy_boto3_sqs import SQSClient

SECRET = "correct horse battery staple"  # noqa: S105 - what is tested


FAR = "eu-west-1"


class Key(NamedTuple):
    id: str
    secret: str


class Locked(NamedTuple):
    """A server that wants keys, and one of each kind.

    keeper: an admin of some queues. tenant: one of the queues of a region and account.
    """

    url: str
    owner: Key
    writer: Key
    reader: Key
    keeper: Key
    tenant: Key

    def connect(self, key: Key, region: str = REGION) -> SQSClient:
        return connect(self.url, key=key.id, secret=key.secret, region=region)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def locked(server: str) -> AsyncIterator[Locked]:
    await execute(server, "create database signed template laneway_template strategy file_copy")
    dsn = name_database(server, "signed")
    connection = await asyncpg.connect(dsn)
    made = []
    for name, role, pattern in (
        ("writer", "write", "mine-*"),
        ("reader", "read", None),
        ("keeper", "admin", "kept-*"),
        ("tenant", "admin", f"{FAR}:{ACCOUNT}:*"),
    ):
        key = make_key()
        await connection.execute(
            "select laneway.create_api_key($1, $2, $3, $4, $5)",
            key.key_id,
            name,
            role,
            pattern,
            key.digest,
        )
        made.append(Key(f"lw_{key.key_id}", sha256(key.text.encode()).hexdigest()))
    await connection.close()
    async with run_laneway(dsn, SECRET_KEY=SECRET) as running:
        owner = Key("SECRET_KEY", sha256(SECRET.encode()).hexdigest())
        yield Locked(running.url, owner, *made)
    await execute(server, "drop database signed with (force)")


@pytest.fixture
def url(locked: Locked) -> str:
    return locked.connect(locked.owner).create_queue(QueueName="mine-own")["QueueUrl"]


def test_signed_request_is_let_in(locked: Locked, url: str) -> None:
    sqs = locked.connect(locked.writer)
    sqs.send_message(QueueUrl=url, MessageBody="signed")
    assert bodies(drain(sqs, url, 1)) == ["signed"]


def test_signed_path_may_be_escaped(locked: Locked) -> None:
    item = {"queue": "ü/%2F ?", "payload": "signed"}
    key = {"X-API-KEY": SECRET}
    pushed = httpx.post(f"{locked.url}/api/v1/push", json={"items": [item]}, headers=key)
    assert pushed.status_code == 201
    url = locked.connect(locked.owner).get_queue_url(QueueName="ü/%2F ?")["QueueUrl"]
    request = AWSRequest("POST", url, data=b"Action=ReceiveMessage")
    SigV4Auth(Credentials(*locked.owner), "sqs", REGION).add_auth(request)
    got = httpx.post(url, content=b"Action=ReceiveMessage", headers=dict(request.headers.items()))
    assert "<Body>signed</Body>" in got.text


def test_wrong_signature_is_refused(locked: Locked) -> None:
    for key, code in (
        (Key(locked.owner.id, "wrong"), "SignatureDoesNotMatch"),
        (Key(locked.owner.id, SECRET), "SignatureDoesNotMatch"),
        (Key("lw_00000000", "x"), "InvalidClientTokenId"),
    ):
        with Refusal() as refusal:
            locked.connect(key).list_queues()
        assert (refusal.code, refusal.status) == (code, 403)


def test_unsigned_request_is_refused(locked: Locked) -> None:
    answer = httpx.post(locked.url, data={"Action": "ListQueues"})
    assert answer.status_code == 403
    assert "<Code>MissingAuthenticationToken</Code>" in answer.text


def test_changed_body_is_refused(locked: Locked, url: str) -> None:
    request = AWSRequest("POST", locked.url + "/", data=b"Action=ListQueues")
    credentials = Credentials(*locked.owner)
    SigV4Auth(credentials, "sqs", REGION).add_auth(request)
    headers = dict(request.headers.items())
    good = httpx.post(locked.url, content=b"Action=ListQueues", headers=headers)
    assert url in good.text
    changed = httpx.post(locked.url, content=b"Action=ListQueues&x=1", headers=headers)
    assert "<Code>SignatureDoesNotMatch</Code>" in changed.text


def test_key_is_limited_to_its_role_and_queues(locked: Locked, url: str) -> None:
    owner = locked.connect(locked.owner)
    other = owner.create_queue(QueueName="others")["QueueUrl"]
    writer, reader = locked.connect(locked.writer), locked.connect(locked.reader)
    with Refusal() as refusal:
        writer.send_message(QueueUrl=other, MessageBody="x")
    assert (refusal.code, refusal.status) == ("AccessDenied", 403)
    mine = writer.create_queue(QueueName="mine-new")["QueueUrl"]
    short = {"MessageRetentionPeriod": "60"}
    refused: list[tuple[Any, dict[str, Any]]] = [
        (writer.create_queue, {"QueueName": "new"}),
        (writer.set_queue_attributes, {"QueueUrl": mine, "Attributes": short}),
        (writer.purge_queue, {"QueueUrl": mine}),
        (writer.delete_queue, {"QueueUrl": mine}),
    ]
    for call, fields in refused:
        with Refusal() as refusal:
            call(**fields)
        assert refusal.code == "AccessDenied"
    with Refusal() as refusal:
        reader.send_message(QueueUrl=url, MessageBody="x")
    assert refusal.code == "AccessDenied"
    assert writer.list_queues()["QueueUrls"] == [mine, url]
    assert other in reader.list_queues()["QueueUrls"]


def test_limits_of_a_key_cover_the_region_and_account(locked: Locked) -> None:
    owner = locked.connect(locked.owner)
    there = locked.connect(locked.tenant, FAR)
    url = there.create_queue(QueueName="mine-far")["QueueUrl"]
    there.send_message(QueueUrl=url, MessageBody="x")
    locked.connect(locked.owner, FAR).create_queue(QueueName="beside")
    assert there.list_queues()["QueueUrls"] == [url.replace("mine-far", "beside"), url]
    plain = owner.create_queue(QueueName="mine-far")["QueueUrl"]
    # Another region of the same key, and another key in the same region.
    for sqs in (locked.connect(locked.tenant), locked.connect(locked.writer, FAR)):
        assert "QueueUrls" not in sqs.list_queues()
        refused: list[tuple[Any, dict[str, Any]]] = [
            (sqs.create_queue, {"QueueName": "mine-new"}),
            (sqs.get_queue_url, {"QueueName": "mine-far"}),
            (sqs.send_message, {"QueueUrl": plain, "MessageBody": "x"}),
        ]
        for call, fields in refused:
            with Refusal() as refusal:
                call(**fields)
            assert refusal.code == "AccessDenied"
    for path in (f"queue/{REGION}/{ACCOUNT}/mine-far", f"{'1' * 12}/mine-far"):
        with Refusal() as refusal:
            there.receive_message(QueueUrl=f"http://localhost/{path}")
        assert refusal.code == "AccessDenied"
    with Refusal() as refusal:
        there.get_queue_url(QueueName="mine-far", QueueOwnerAWSAccountId="1" * 12)
    assert refusal.code == "AccessDenied"
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:mine-far"
    dead = {"deadLetterTargetArn": arn, "maxReceiveCount": 1}
    with Refusal() as refusal:
        there.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(dead)})
    assert refusal.code == "InvalidParameterValue"
    with Refusal() as refusal:
        there.start_message_move_task(SourceArn=arn)
    assert refusal.code == "AccessDenied"


def test_limited_key_cannot_redirect_dead_letters_to_other_queues(
    locked: Locked,
) -> None:
    owner, keeper = locked.connect(locked.owner), locked.connect(locked.keeper)
    for name in ("foreign", "kept-dead"):
        owner.create_queue(QueueName=name)

    def redrive(target: str) -> Any:
        arn = f"arn:aws:sqs:{REGION}:000000000000:{target}"
        return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})}

    good = redrive("kept-dead")
    url = keeper.create_queue(QueueName="kept-source", Attributes=good)["QueueUrl"]
    # It is not told either which of them there are.
    for target in ("foreign", "there-is-none"):
        with Refusal() as refusal:
            keeper.create_queue(QueueName="kept-other", Attributes=redrive(target))
        assert refusal.code == "AccessDenied"
        with Refusal() as refusal:
            keeper.set_queue_attributes(QueueUrl=url, Attributes=redrive(target))
        assert refusal.code == "AccessDenied"
    # Where a message came from may be a queue of others.
    source = f"arn:aws:sqs:{REGION}:000000000000:kept-dead"
    with Refusal() as refusal:
        keeper.start_message_move_task(SourceArn=source)
    assert refusal.code == "AccessDenied"
    assert "DestinationArn" in refusal.message
    target = source.replace("kept-dead", "kept-source")
    keeper.start_message_move_task(SourceArn=source, DestinationArn=target)
    tasks = keeper.list_message_move_tasks(SourceArn=source)["Results"]
    assert tasks[0]["DestinationArn"].endswith(":kept-source")


def presign(url: str, key: Key, *, lasts: int = 60, **parameters: str) -> str:
    request = AWSRequest("GET", f"{url}?{urlencode(parameters)}")
    SigV4QueryAuth(Credentials(*key), "sqs", REGION, expires=lasts).add_auth(request)
    assert request.url is not None
    return request.url


def test_presigned_url_is_let_in_until_it_expires(locked: Locked, url: str) -> None:
    send: Any = {"Action": "SendMessage", "QueueUrl": url}
    root = f"{locked.url}/"
    good = presign(root, locked.writer, **send, MessageBody="by URL")
    assert httpx.get(good).status_code == 200
    assert bodies(drain(locked.connect(locked.writer), url, 1)) == ["by URL"]
    changed = httpx.get(good.replace("by+URL", "else").replace("by%20URL", "else"))
    assert "<Code>SignatureDoesNotMatch</Code>" in changed.text
    late = httpx.get(good.replace("X-Amz-Expires=60", "X-Amz-Expires=61"))
    assert "<Code>SignatureDoesNotMatch</Code>" in late.text
    past = httpx.get(presign(root, locked.writer, **send, MessageBody="x", lasts=0))
    assert past.status_code == 403


def test_action_that_was_not_signed_is_refused(locked: Locked, url: str) -> None:
    presigned = presign(url, locked.owner, Action="GetQueueAttributes")
    changed = httpx.get(presigned, headers={"X-Amz-Target": "AmazonSQS.DeleteQueue"})
    assert changed.status_code == 403
    assert changed.headers["x-amzn-query-error"] == "SignatureDoesNotMatch;Sender"
    assert url in locked.connect(locked.owner).list_queues()["QueueUrls"]
    # What others put on a request on its way is not the caller's to sign.
    assert httpx.get(presigned, headers={"X-Amz-Cf-Id": "x"}).status_code == 200


def test_key_is_accepted_in_a_header(locked: Locked) -> None:
    answer = httpx.post(locked.url, data={"Action": "ListQueues"}, headers={"X-API-KEY": SECRET})
    assert answer.status_code == 200
