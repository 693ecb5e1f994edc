"""A claim whose answer cannot be made is released at once, and its attempt is not counted."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from laneway.domain.messages import Nack, OutgoingMessage
from laneway.domain.settings import EngineSettings, MaintenanceSettings, QueueSettings
from laneway.engine import Broker
from tests.protocol.blocking import wait_for_gauge
from tests.protocol.rest.calls import add, dequeue
from tests.protocol.servers import run_laneway
from tests.protocol.sqs.clients import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from mypy_boto3_sqs import SQSClient

    from tests.protocol.servers import RunningServer

QUIET = EngineSettings(maintenance=MaintenanceSettings(enabled=False))

# Message headers that are valid JSON and that SQS cannot answer: the value is not Base64.
NOT_BASE64 = '{"sqs": {"attributes": {"a": {"DataType": "Binary", "BinaryValue": "%%%"}}}}'
# A JSON string that no text can express: half of a surrogate pair.
NO_TEXT = r'"\ud800"'


@pytest.fixture
async def own(database: str) -> AsyncIterator[RunningServer]:
    """Yield a server of the test's own: its gauges count nothing but this test's requests."""
    async with run_laneway(database) as server:
        yield server


@pytest.fixture
async def rest(own: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with own.client() as client:
        yield client


@pytest.fixture
async def broker(database: str, own: RunningServer) -> AsyncIterator[Broker]:  # noqa: ARG001 - installed
    async with Broker(database, QUIET) as broker:
        await broker.queues.create("jobs", QueueSettings())
        yield broker


async def rename_during(
    own: RunningServer, rest: httpx.AsyncClient, poll: Awaitable[Any], new_name: str = "renamed"
) -> asyncio.Future[Any]:
    """Rename the queue while a long poll waits in it; return the poll, which goes on."""
    waiting = asyncio.ensure_future(poll)
    await wait_for_gauge(own, "laneway_claim_pump_waiters", 1)
    answer = await rest.post("/queues/jobs/rename", json={"newName": new_name})
    assert answer.status_code == 200, answer.text
    assert not waiting.done()
    return waiting


async def test_rest_dequeue_answers_the_message_of_a_queue_renamed_during_the_poll(
    own: RunningServer, rest: httpx.AsyncClient, broker: Broker
) -> None:
    assert (await broker.queues.get("jobs")).name == "jobs"
    waiting = await rename_during(own, rest, dequeue(rest, "jobs", timeout=25))
    message_id = await add(rest, "renamed")
    message = await waiting
    assert (message["id"], message["attempt_count"]) == (message_id, 1)


async def test_pop_that_cannot_be_widened_releases_its_claim(
    own: RunningServer, rest: httpx.AsyncClient, broker: Broker
) -> None:
    async with httpx.AsyncClient(base_url=f"{own.url}/api/v1", timeout=30) as streams:
        poll = streams.get(
            "/pop/queue/jobs",
            params={"wait": "true", "timeout": 25_000, "batch": 5, "partitions": 2},
        )
        waiting = await rename_during(own, rest, poll)
        await add(rest, "renamed")
        assert (await waiting).status_code == 204
    [delivery] = await broker.claim("renamed")
    assert delivery.attempt == 1


def sqs_of(own: RunningServer) -> SQSClient:
    return connect(own.url, read_timeout=30)


async def receive(sqs: SQSClient, **options: Any) -> Any:
    url = f"{sqs.meta.endpoint_url}/000000000000/jobs"
    return await asyncio.to_thread(sqs.receive_message, QueueUrl=url, **options)


async def test_receive_whose_second_query_fails_releases_its_claim(
    own: RunningServer, rest: httpx.AsyncClient, broker: Broker
) -> None:
    """The time of the first claim is looked up for messages that were claimed before."""
    await broker.push("jobs", [OutgoingMessage('"x"')])
    [first] = await broker.claim("jobs")
    poll = receive(sqs_of(own), WaitTimeSeconds=20, AttributeNames=["All"])
    waiting = await rename_during(own, rest, poll)
    await broker.nack([Nack(*first.receipt, delay=timedelta(0))])
    with pytest.raises(Exception, match="The specified queue does not exist"):
        await waiting
    [delivery] = await broker.claim("renamed")
    assert delivery.attempt == 2


async def test_receive_that_cannot_encode_an_attribute_releases_its_claim(
    own: RunningServer, broker: Broker
) -> None:
    await broker.push("jobs", [OutgoingMessage('"x"', headers=NOT_BASE64)])
    with pytest.raises(Exception, match="Base64"):
        await receive(sqs_of(own), MessageAttributeNames=["All"])
    [delivery] = await broker.claim("jobs")
    assert delivery.attempt == 1


async def test_receive_shows_a_body_that_is_no_text_as_json(
    own: RunningServer, broker: Broker
) -> None:
    await broker.push("jobs", [OutgoingMessage(NO_TEXT)])
    answer = await receive(sqs_of(own))
    assert [message["Body"] for message in answer["Messages"]] == [NO_TEXT]
