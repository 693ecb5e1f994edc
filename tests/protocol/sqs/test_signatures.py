"""Signatures are required once keys exist, in headers and in URLs."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
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
from laneway.server.sqs.errors import CODES
from laneway.server.sqs.texts import Refusal as Texts
from tests.postgres import execute, name_database
from tests.protocol.servers import run_laneway
from tests.protocol.sqs.clients import ACCOUNT, REGION, Refusal, bodies, connect, drain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from mypy_boto3_sqs import SQSClient

SECRET = "correct horse battery staple"  # noqa: S105 - what is tested


FAR = "eu-west-1"


class Key(NamedTuple):
    id: str
    secret: str


OWNER = Key("SECRET_KEY", sha256(SECRET.encode()).hexdigest())


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


async def create_key(dsn: str, name: str, role: str, pattern: str | None) -> Key:
    key = make_key()
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "select laneway.create_api_key($1, $2, $3, $4, $5)",
        key.key_id,
        name,
        role,
        pattern,
        key.digest,
    )
    await connection.close()
    return Key(f"lw_{key.key_id}", sha256(key.text.encode()).hexdigest())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def locked(server: str) -> AsyncIterator[Locked]:
    await execute(server, "create database signed template laneway_template strategy file_copy")
    dsn = name_database(server, "signed")
    made = [
        await create_key(dsn, name, role, pattern)
        for name, role, pattern in (
            ("writer", "write", "mine-*"),
            ("reader", "read", None),
            ("keeper", "admin", "kept-*"),
            ("tenant", "admin", f"{FAR}:{ACCOUNT}:*"),
        )
    ]
    async with run_laneway(dsn, SECRET_KEY=SECRET) as running:
        yield Locked(running.url, OWNER, *made)
    await execute(server, "drop database signed with (force)")


@pytest.fixture
def url(locked: Locked) -> str:
    return locked.connect(locked.owner).create_queue(QueueName="mine-own")["QueueUrl"]


def test_signed_request_is_let_in(locked: Locked, url: str) -> None:
    sqs = locked.connect(locked.writer)
    sqs.send_message(QueueUrl=url, MessageBody="signed")
    assert bodies(drain(sqs, url, 1)) == ["signed"]


async def test_new_key_signs_at_once(database: str) -> None:
    async with run_laneway(database, SECRET_KEY=SECRET) as running:
        # This reads the keys that there are.
        connect(running.url, key=OWNER.id, secret=OWNER.secret).list_queues()
        key = await create_key(database, "new", "write", "new-*")
        sqs = connect(running.url, key=key.id, secret=key.secret)
        url = sqs.create_queue(QueueName="new-one")["QueueUrl"]
        assert sqs.list_queues()["QueueUrls"] == [url]


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
    assert {mine, url} <= set(listed := writer.list_queues()["QueueUrls"])
    assert all("/mine-" in each for each in listed)
    assert other in reader.list_queues()["QueueUrls"]


def test_limits_of_a_key_cover_the_region_and_account(locked: Locked) -> None:
    owner = locked.connect(locked.owner)
    there = locked.connect(locked.tenant, FAR)
    url = there.create_queue(QueueName="mine-far")["QueueUrl"]
    there.send_message(QueueUrl=url, MessageBody="x")
    locked.connect(locked.owner, FAR).create_queue(QueueName="beside")
    assert {url, url.replace("mine-far", "beside")} <= set(there.list_queues()["QueueUrls"])
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


TIME = "%Y%m%dT%H%M%SZ"
SIGNED = ("host", "x-amz-date", "x-amz-target")
HOUR = timedelta(hours=1)


def authorize(
    ago: timedelta = timedelta(0),
    *,
    key: str = OWNER.id,
    service: str = "sqs",
    signed: Sequence[str] = SIGNED,
) -> dict[str, str]:
    """Return headers with a wrong signature, which is what a server checks last."""
    at = datetime.now(UTC) - ago
    scope = f"{at:%Y%m%d}/{REGION}/{service}/aws4_request"
    parts = {"Credential": f"{key}/{scope}", "SignedHeaders": ";".join(signed), "Signature": "0"}
    text = ", ".join(f"{name}={value}" for name, value in parts.items())
    return {"Authorization": f"AWS4-HMAC-SHA256 {text}", "X-Amz-Date": f"{at:{TIME}}"}


def authorize_url(ago: timedelta, *, lasts: int) -> dict[str, str]:
    """Return the query of a presigned URL with a wrong signature."""
    at = datetime.now(UTC) - ago
    return {
        "X-Amz-Signature": "0",
        "X-Amz-Expires": str(lasts),
        "X-Amz-Date": f"{at:{TIME}}",
        "X-Amz-Credential": f"{OWNER.id}/{at:%Y%m%d}/{REGION}/sqs/aws4_request",
    }


R = Texts
# Patterns of times in texts.
TIMES = dict.fromkeys(("at", "limit", "now"), "[0-9]{8}T[0-9]{6}Z")
# The refusal, the request that raises it, and the values in its text, as patterns.
BEFORE_THE_BODY: list[tuple[Texts, Callable[[], dict[str, Any]], dict[str, str]]] = [
    (R.UNSIGNED, dict, {}),
    (R.SIGNATURE_PARTS, lambda: {"headers": {"Authorization": "AWS3 x"}}, {}),
    (R.UNKNOWN_KEY, lambda: {"headers": authorize(key="lw_none")}, {}),
    (R.SIGNATURE, lambda: {"headers": authorize()}, {}),
    (R.SIGNATURE_EXPIRED, lambda: {"headers": authorize(HOUR)}, TIMES),
    (R.SIGNATURE_EARLY, lambda: {"headers": authorize(-HOUR)}, TIMES),
    (
        R.UNSIGNED_HEADER,
        lambda: {"headers": authorize(signed=SIGNED[1:])},
        {"header": "Host"},
    ),
    (
        R.UNSIGNED_HEADER,
        lambda: {"headers": authorize(signed=SIGNED[:2])},
        {"header": "X-Amz-Target"},
    ),
    (R.SIGNATURE_DATE, lambda: {"headers": authorize() | {"X-Amz-Date": "today"}}, {}),
    (R.SIGNATURE_SCOPE, lambda: {"headers": authorize(service="sns")}, {"date": "[0-9]{8}"}),
    (
        R.SIGNED_BODY,
        lambda: {
            "headers": authorize(signed=(*SIGNED, "x-amz-content-sha256"))
            | {"X-Amz-Content-SHA256": "0"}
        },
        {},
    ),
    (R.URL_LIFETIME, lambda: {"params": authorize_url(HOUR, lasts=0)}, {}),
    (R.URL_EXPIRED, lambda: {"params": authorize_url(HOUR, lasts=60)}, {}),
]


@pytest.mark.parametrize(
    ("refusal", "make_request", "values"),
    BEFORE_THE_BODY,
    ids=[f"{refusal.name}-{number}" for number, (refusal, *_) in enumerate(BEFORE_THE_BODY)],
)
def test_refused_signature_has_its_code_and_text(
    locked: Locked,
    refusal: Texts,
    make_request: Callable[[], dict[str, Any]],
    values: dict[str, str],
) -> None:
    request = {"headers": {}, **make_request()}
    request["headers"]["X-Amz-Target"] = "AmazonSQS.ListQueues"
    answer = httpx.post(locked.url, json={}, **request)
    code = CODES[refusal.value.code]
    assert answer.status_code == code.status
    assert answer.headers["x-amzn-query-error"] == f"{code.query};Sender"
    expected = re.escape(refusal.value.text).replace(r"\{", "{").replace(r"\}", "}")
    assert re.fullmatch(expected.format(**values), answer.json()["message"])


def test_refusals_of_a_key_have_their_code_and_text(locked: Locked) -> None:
    locked.connect(locked.owner).create_queue(QueueName="kept-letters")
    keeper, reader = locked.connect(locked.keeper), locked.connect(locked.reader)
    dead = f"arn:aws:sqs:{REGION}:{ACCOUNT}:kept-letters"
    redrive: Any = {
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 1})
    }
    keeper.create_queue(QueueName="kept-first", Attributes=redrive)
    limits = {"key": "keeper", "pattern": "kept-*"}
    cases: list[tuple[Texts, Any, dict[str, str], dict[str, str]]] = [
        (
            R.ROLE,
            reader.create_queue,
            {"QueueName": "x"},
            {"key": "reader", "role": "read", "action": "CreateQueue", "required": "write"},
        ),
        (R.OTHER_QUEUE, keeper.create_queue, {"QueueName": "x"}, {"queue": "x", **limits}),
        (R.NO_DESTINATION, keeper.start_message_move_task, {"SourceArn": dead}, limits),
    ]
    for refused, call, fields, values in cases:
        with Refusal() as refusal:
            call(**fields)
        assert refusal.code == CODES[refused.value.code].query
        assert refusal.message == refused.value.text.format(**values)


def test_region_that_cannot_be_is_refused_in_words_of_aws(locked: Locked) -> None:
    request = AWSRequest("POST", f"{locked.url}/", data=b"Action=ListQueues")
    SigV4Auth(Credentials(*locked.owner), "sqs", "no.region").add_auth(request)
    headers = dict(request.headers.items())
    answer = httpx.post(locked.url, content=b"Action=ListQueues", headers=headers)
    assert f"<Message>{R.SIGNATURE_REGION.value.text}</Message>" in answer.text


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
