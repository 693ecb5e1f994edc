"""Waiting calls of every protocol end when their key is revoked, and claim nothing."""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import asyncpg
import httpx
import jwt
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import laneway
from laneway.domain.errors import AccessDenied
from laneway.domain.keys import Role, make_key
from laneway.engine.procedures.keys import create_api_key
from tests.protocol.access.world import OWNER, make_keys
from tests.protocol.servers import make_queue, run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

QUEUE = "space.polled"
SIGNING = "what tokens are signed with, at least 32 bytes"
# Longer than a test may take: a wait that ends is ended. SQS has no longer ones.
WAIT = 120
SQS_WAIT = 20
RECEIVE = json.dumps({"QueueUrl": QUEUE, "WaitTimeSeconds": SQS_WAIT})
SQS_HEADERS = {
    "X-Amz-Target": "AmazonSQS.ReceiveMessage",
    "Content-Type": "application/x-amz-json-1.0",
}


async def poll_everywhere(api: httpx.AsyncClient, headers: dict[str, str]) -> list[httpx.Response]:
    """Return the answers of a waiting call on each protocol, in one order."""
    pop = {"wait": "true", "timeout": WAIT * 1000}
    form = {"Action": "ReceiveMessage", "QueueUrl": QUEUE, "WaitTimeSeconds": str(SQS_WAIT)}

    async def ask(method: str, path: str, more: dict[str, str], **options: Any) -> httpx.Response:
        return await api.request(method, path, headers={**headers, **more}, **options)

    rest = {"queue": QUEUE, "timeout": WAIT}
    return await asyncio.gather(
        ask("GET", "/api/queue/message", {}, params=rest),
        ask("GET", "/api/queue/messages/batch", {}, params={**rest, "count": 5}),
        ask("GET", f"/api/v1/pop/queue/{QUEUE}", {}, params=pop),
        ask("GET", "/api/v1/pop", {}, params={**pop, "namespace": "space"}),
        ask("GET", "/api/v1/pop/queue/yet-to-come", {}, params=pop),
        ask("POST", "/", SQS_HEADERS, content=RECEIVE),
        ask("POST", "/", {}, data=form),
    )


def expect_refusals(answers: Sequence[httpx.Response]) -> None:
    rest, batch, pop, pop_any, pop_later, sqs, form = answers
    for answer in (rest, batch, pop, pop_any, pop_later):
        assert answer.status_code == 401, answer.text
        assert "no longer valid" in answer.text
    for answer in (rest, batch):
        assert answer.json()["error"] == "Unauthorized"
    for answer in (sqs, form):
        expect_sqs_refusal(answer)


def expect_sqs_refusal(answer: httpx.Response) -> None:
    assert answer.status_code in {401, 403}, answer.text
    assert "UnrecognizedClient" in answer.text or "InvalidClientTokenId" in answer.text


async def wait_until_busy(api: httpx.AsyncClient, count: int, headers: dict[str, str]) -> None:
    """Return once the server says that it has so many requests in flight beside the one that asks."""
    async with asyncio.timeout(30):
        while True:
            text = (await api.get("/metrics", headers=headers)).text
            found = re.search(r"^laneway_http_requests_in_flight\S* (\d+)", text, re.MULTILINE)
            assert found is not None, text
            if int(found[1]) > count:
                return
            await asyncio.sleep(0.1)


async def expect_nothing_claimed(api: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """Enqueue, and find that the message is there for the next who asks, untouched."""
    body = {"queue": QUEUE, "type": "job", "payload": "secret"}
    added = await api.post("/api/queue/message", json=body, headers=headers)
    assert added.status_code == 201, added.text
    taken = await api.get("/api/queue/message", params={"queue": QUEUE}, headers=headers)
    assert taken.status_code == 200, taken.text
    assert (taken.json()["id"], taken.json()["attempt_count"]) == (added.json()["id"], 1)


@asynccontextmanager
async def serve(dsn: str, **environment: str) -> AsyncIterator[httpx.AsyncClient]:
    options = json.dumps({"options": {"queen": {"namespace": "space", "task": "polled"}}})
    await make_queue(dsn, QUEUE, options)
    async with (
        run_laneway(dsn, **environment) as running,
        httpx.AsyncClient(base_url=running.url, timeout=WAIT) as api,
    ):
        yield api


def sign(api: httpx.AsyncClient, key: str) -> dict[str, str]:
    """Return the headers of a receive signed with the key."""
    key_id = "_".join(key.split("_")[:2])
    credentials = Credentials(key_id, sha256(key.encode()).hexdigest())
    request = AWSRequest("POST", f"{api.base_url}/".replace("//", "/").replace(":/", "://"))
    request.data = RECEIVE.encode()
    for name, value in SQS_HEADERS.items():
        request.headers[name] = value
    SigV4Auth(credentials, "sqs", "us-east-1").add_auth(request)
    return dict(request.headers.items())


async def claim_by_library(api: httpx.AsyncClient, key: str) -> None:
    url = str(api.base_url)
    async with laneway.connect(url, api_key=key) as connection:
        await connection.consumer(QUEUE).dequeue(wait=timedelta(seconds=WAIT))


async def test_waiting_calls_end_when_their_key_is_revoked(database: str) -> None:
    keys = await make_keys(database)
    owner = {"X-API-KEY": OWNER}
    await make_queue(database, "others")
    async with serve(database, SECRET_KEY=OWNER) as api:
        polls = asyncio.ensure_future(poll_everywhere(api, {"X-API-KEY": keys["write"]}))
        signed = asyncio.ensure_future(
            api.post("/", content=RECEIVE, headers=sign(api, keys["write"]))
        )
        claim = asyncio.ensure_future(claim_by_library(api, keys["write"]))
        # Another key's goes on, and gets what comes later.
        other = asyncio.ensure_future(
            api.get(
                "/api/queue/message",
                params={"queue": "others", "timeout": WAIT},
                headers={"X-API-KEY": keys["admin"]},
            )
        )
        await wait_until_busy(api, 10, owner)
        await revoke(database, "write")
        expect_refusals(await polls)
        expect_sqs_refusal(await signed)
        with pytest.raises(AccessDenied, match="no longer valid"):
            await claim
        await expect_nothing_claimed(api, owner)
        assert not other.done()
        body = {"queue": "others", "type": "job", "payload": "for the other"}
        await api.post("/api/queue/message", json=body, headers=owner)
        assert (await other).json()["payload"] == "for the other"


async def test_waiting_calls_end_when_their_token_expires(database: str) -> None:
    """Clocks may differ by 30 seconds: a token that has just expired is good that much longer."""
    claims = {"sub": "somebody", "role": "read-write", "exp": int(time.time()) - 20}
    token = jwt.encode(claims, SIGNING, algorithm="HS256")
    async with serve(database, SECRET_KEY=OWNER, JWT_SECRET=SIGNING) as api:
        headers = {"Authorization": f"Bearer {token}"}
        expect_refusals(await poll_everywhere(api, headers))
        await expect_nothing_claimed(api, {"X-API-KEY": OWNER})


async def test_waiting_calls_without_a_key_end_with_the_first_key(database: str) -> None:
    async with serve(database) as api:
        polls = asyncio.ensure_future(poll_everywhere(api, {}))
        await wait_until_busy(api, 7, {})
        keys = await make_keys(database)
        expect_refusals(await polls)
        await expect_nothing_claimed(api, {"X-API-KEY": keys["admin"]})


async def test_first_key_ends_no_wait_that_sent_it(database: str) -> None:
    """A server learns of a key within seconds: what was let in with it before goes on."""
    key = make_key()
    params: dict[str, Any] = {"queue": QUEUE, "timeout": WAIT}
    async with serve(database) as api:
        with_key, without = (
            asyncio.ensure_future(api.get("/api/queue/message", params=params, headers=headers))
            for headers in ({"X-API-KEY": key.text}, {})
        )
        await wait_until_busy(api, 2, {})
        connection = await asyncpg.connect(database)
        await create_api_key(
            connection,
            key_id=key.key_id,
            name="first",
            role=Role.WRITE,
            pattern=None,
            digest=key.digest,
        )
        await connection.close()
        assert (await without).status_code == 401
        body = {"queue": QUEUE, "type": "job", "payload": "later"}
        headers = {"X-API-KEY": key.text}
        added = await api.post("/api/queue/message", json=body, headers=headers)
        assert added.status_code == 201, added.text
        assert (await with_key).json()["payload"] == "later"


async def revoke(dsn: str, name: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "select laneway.revoke_api_key(key_id) from laneway.api_key where name = $1", name
        )
    finally:
        await connection.close()
