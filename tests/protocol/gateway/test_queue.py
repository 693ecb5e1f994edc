"""The gateway's queue is an ordinary queue: a consumer over SQS serves it instead of the gateway."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from laneway.domain.settings import QueueSettings
from laneway.domain.transactions import DEAD_LETTERS, TRANSACTIONS, Finding, Finish, Settlement
from laneway.engine import Broker
from tests.postgres import make_database
from tests.protocol.gateway.world import Client, World, answers, make_target, write_settings
from tests.protocol.servers import run_laneway
from tests.protocol.sqs.clients import connect, drain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from laneway.domain.messages import Delivery

FIELDS = ["messageId", "transactionId", "type", "request", "timestamp"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def quiet(
    server: str, target: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Yield a server that accepts requests and sends none."""
    targets = {name: make_target(target, name, attempts=1) for name in ("plain", "sqs", "listed")}
    flags = write_settings(
        tmp_path_factory.mktemp("quiet"), targets, private_networks=["127.0.0.0/8"]
    )
    async with (
        make_database(server, "laneway_gateway_queue") as dsn,
        run_laneway(dsn, "--overdue-check-interval-ms", "100", *flags) as running,
    ):
        yield World(running, dsn, target, {})
        assert "Traceback" not in running.log


@pytest.fixture
async def client(quiet: World) -> AsyncIterator[Client]:
    async with Client(quiet.server.url, quiet.target) as client:
        yield client


@pytest.fixture
async def broker(quiet: World) -> AsyncIterator[Broker]:
    async with Broker(quiet.dsn) as broker:
        yield broker


async def claim(broker: Broker, transaction_id: str) -> Delivery:
    """Return the message of a transaction, leaving those of others."""
    while True:
        for message in await broker.claim(TRANSACTIONS, 10, wait=timedelta(seconds=20)):
            if transaction_id in message.body:
                return message


async def fail(broker: Broker, transaction_id: str, *, called: bool = True) -> None:
    message = await claim(broker, transaction_id)
    await broker.transactions.begin(UUID(transaction_id), message)
    finding = Finding(UUID(transaction_id), error="422", called=called)
    await broker.transactions.finish(Finish(message.receipt, Settlement.DEAD, finding, "422"))


async def test_consumer_over_sqs_serves_the_queue(client: Client, quiet: World) -> None:
    transaction_id = await client.accept("sqs", {"to": "ada"})
    sqs = connect(quiet.server.url)
    url = sqs.get_queue_url(QueueName=TRANSACTIONS)["QueueUrl"]
    loop = asyncio.get_running_loop()
    body = None
    while body is None:
        for each in await loop.run_in_executor(None, drain, sqs, url, 1):
            if transaction_id in each["Body"]:
                body = json.loads(each["Body"])
            sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
    assert list(body) == FIELDS
    assert (body["transactionId"], body["type"]) == (transaction_id, "sqs")
    assert body["request"] == {"to": "ada"}
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["VisibilityTimeout"] == "60"
    sqs.close()


async def test_cancelled_transaction_is_final(client: Client) -> None:
    transaction_id = await client.accept("plain")
    cancel = f"/relay/transactions/{transaction_id}/cancel"
    answer = await client.http.post(cancel)
    assert answer.status_code == 200
    assert answer.json() == {"transactionId": transaction_id, "status": "cancelled"}
    assert (await client.status(transaction_id))["status"] == "cancelled"
    again = await client.http.post(cancel)
    assert again.status_code == 409
    assert again.json()["message"].endswith("cannot be cancelled: it is cancelled")


async def test_transaction_whose_call_has_begun_is_not_cancelled(
    client: Client, broker: Broker
) -> None:
    transaction_id = await client.accept("plain")
    message = await claim(broker, transaction_id)
    await broker.transactions.begin(UUID(transaction_id), message)
    answer = await client.http.post(f"/relay/transactions/{transaction_id}/cancel")
    assert answer.status_code == 409
    assert "its call has begun" in answer.json()["message"]


async def test_cancellation_ends_a_wait(client: Client) -> None:
    key = str(uuid4())
    transaction_id = await client.accept("plain", idempotency_key=key)
    waiting = asyncio.ensure_future(client.result("plain", idempotency_key=key))
    await client.http.post(f"/relay/transactions/{transaction_id}/cancel")
    assert (await waiting)["status"] == "cancelled"


async def test_transaction_that_was_given_up_is_sent_again_once(
    client: Client, broker: Broker
) -> None:
    transaction_id = await client.accept("plain")
    retry = f"/relay/transactions/{transaction_id}/retry"
    assert (await client.http.post(retry)).status_code == 409
    await fail(broker, transaction_id)
    assert (await client.status(transaction_id))["error_message"] == "422"
    answer = await client.http.post(retry)
    assert answer.status_code == 202
    assert answer.json() == {"transactionId": transaction_id, "status": "pending"}
    assert (await client.status(transaction_id))["status"] == "pending"
    assert (await client.http.post(retry)).status_code == 409
    message = await claim(broker, transaction_id)
    assert (await broker.transactions.begin(UUID(transaction_id), message)).action == "send"


async def test_dead_letter_is_moved_to_its_queue_and_redriven_over_sqs(
    client: Client, broker: Broker, quiet: World
) -> None:
    transaction_id = await client.accept("plain")
    await fail(broker, transaction_id)
    sqs = connect(quiet.server.url)
    url = sqs.get_queue_url(QueueName=DEAD_LETTERS)["QueueUrl"]
    loop = asyncio.get_running_loop()
    letter = None
    while letter is None:
        for each in await loop.run_in_executor(None, drain, sqs, url, 1):
            if transaction_id in each["Body"]:
                letter = each
    assert list(json.loads(letter["Body"])) == FIELDS
    # It is given back, and all are moved to the queue that they came from.
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=letter["ReceiptHandle"], VisibilityTimeout=0
    )
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    source = arn["QueueArn"]
    sqs.start_message_move_task(
        SourceArn=source, DestinationArn=source.replace(DEAD_LETTERS, TRANSACTIONS)
    )
    message = await claim(broker, transaction_id)
    assert (await broker.transactions.begin(UUID(transaction_id), message)).action == "send"
    assert (await client.status(transaction_id))["status"] == "pending"
    sqs.close()


@pytest.mark.parametrize("text", ["x", "1", "00000000-0000-0000-0000-00000000000", "%00", "..%2f"])
async def test_malformed_id_is_refused(client: Client, text: str) -> None:
    for method, path in (
        ("GET", "status/{}"),
        ("POST", "transactions/{}/cancel"),
        ("POST", "transactions/{}/retry"),
    ):
        answer = await client.http.request(method, f"/relay/{path.format(text)}")
        assert answer.status_code == 400, answer.text
        unknown = await client.http.request(method, f"/relay/{path.format(uuid4())}")
        assert unknown.status_code == 404
        assert unknown.json()["error"] == "Not Found"


# Lists.


async def list_all(client: Client, **query: str) -> list[str]:
    """Return the ids of all pages, having read them two by two."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        answer = await client.http.get(
            "/relay/transactions", params={**query, "limit": "2", **more}
        )
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["transactions"]) <= 2
        found += [each["transactionId"] for each in page["transactions"]]
        if (cursor := page["nextCursor"]) is None:
            return found


async def test_list_is_read_in_pages_while_transactions_are_added(client: Client) -> None:
    made = [await client.accept("listed", {"n": n}) for n in range(5)]
    first = await client.http.get("/relay/transactions?target=listed&limit=2")
    added = await client.accept("listed")
    following = await client.http.get(
        "/relay/transactions",
        params={"target": "listed", "limit": "9", "cursor": first.json()["nextCursor"]},
    )
    shown = [each["transactionId"] for each in following.json()["transactions"]]
    assert shown == made[2::-1]
    assert following.json()["nextCursor"] is None
    assert await list_all(client, target="listed") == [added, *reversed(made)]
    await client.http.post(f"/relay/transactions/{made[1]}/cancel")
    assert await list_all(client, target="listed", status="cancelled") == [made[1]]
    moment = (await client.status(made[2]))["createdAt"]
    since = {"target": "listed", "from": moment}
    assert await list_all(client, **since) == [added, *made[:1:-1]]
    assert await list_all(client, target="listed", to=moment) == made[1::-1]
    record = first.json()["transactions"][0]
    assert record == await client.status(record["transactionId"])


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "x"},
        {"cursor": "x"},
        {"cursor": "\u00e4"},
        {"cursor": "MjAyNi0wMS0wMVQwMDowMDowMCBub25l"},
        {"from": "yesterday"},
        {"from": "2026-01-06T12:34:56"},
        {"to": "2026-13-06T12:34:56Z"},
        {"colour": "red"},
    ],
)
async def test_list_with_a_wrong_filter_is_refused(client: Client, query: dict[str, str]) -> None:
    answer = await client.http.get("/relay/transactions", params=query)
    assert answer.status_code == 400, answer.text
    [issue] = answer.json()["issues"]
    assert next(iter(query)) in issue["path"] or next(iter(query)) in issue["message"]


@pytest.mark.parametrize(
    "query",
    [
        {"from": "0001-01-01T00:00:00+14:00"},
        {"to": "9999-12-31T23:59:59-12:00"},
        # 0001-01-01T00:00:00+14:00 and a UUID.
        {
            "cursor": "MDAwMS0wMS0wMVQwMDowMDowMCsxNDowMCAwMDAwMDAwMC0wMDAwLTAwMDAtMDAwMC0wMDAwMDAwMDAwMDA="
        },
        {"status": "\u0000"},
        {"target": "x" * 5000},
        {"status": "nothing"},
    ],
    ids=range(6),
)
async def test_list_with_an_unusual_filter_is_answered(
    client: Client, query: dict[str, str]
) -> None:
    answer = await client.http.get("/relay/transactions", params=query)
    assert answer.status_code in {200, 400}, answer.text


async def test_pool_shows_targets_and_breakers(client: Client, broker: Broker) -> None:
    await broker.transactions.set_breaker("listed", is_open=True, open_for=timedelta(hours=1))
    shown = (await client.http.get("/relay/pool-status")).json()["targets"]
    assert {each["name"]: each["breaker"] for each in shown} == {
        "plain": "closed",
        "sqs": "closed",
        "listed": "open",
    }
    assert shown[0]["urls"] == [
        {
            "url": f"{client.target}/plain",
            "available": True,
            "pending": 0,
            "detail": "the target has no health check",
        }
    ]


async def test_queues_are_created_as_documented(client: Client, broker: Broker) -> None:
    await client.accept("plain", answers())
    found = {each.name: each.settings for each in await broker.queues.list_all()}
    work = found[TRANSACTIONS]
    assert isinstance(work, QueueSettings)
    assert (work.max_attempts, work.dead_letter_queue) == (3, DEAD_LETTERS)
    assert (work.lease, work.retention) == (timedelta(seconds=60), timedelta(days=4))


async def test_nonce_without_a_target_that_has_any_is_not_found(client: Client) -> None:
    answer = await client.http.get(f"/relay/gasless/nonce/0x{'0' * 40}")
    assert answer.status_code == 404
