"""The gateway's calls: what is retried, what fails for good, and what the target may do wrong."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from laneway.domain.messages import OutgoingMessage
from laneway.domain.transactions import DEAD_LETTERS, TRANSACTIONS
from laneway.engine import Broker
from tests.protocol.gateway.world import answers, statuses

if TYPE_CHECKING:
    from tests.protocol.gateway.world import Client, World


async def count_calls(client: Client, path: str, done: dict[str, Any]) -> int:
    return len(await client.calls(path, key=done["transactionId"]))


async def test_calls_carry_the_transaction_as_idempotency_key(client: Client) -> None:
    done = await client.result("plain", answers(*statuses(503, 200)))
    first, second = await client.calls("plain", 2, key=done["transactionId"])
    assert first["method"] == "POST"
    assert first["body"] == second["body"]
    assert second["headers"]["idempotency-key"] == done["transactionId"]


async def test_method_and_headers_of_the_target_are_sent(client: Client) -> None:
    done = await client.result("secret")
    [call] = await client.calls("secret", 1, key=done["transactionId"])
    assert (call["method"], call["headers"]["authorization"]) == ("PUT", "Bearer of-the-target")


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_temporary_error_is_retried(client: Client, status: int) -> None:
    done = await client.result("plain", answers(*statuses(status, 200)))
    assert (done["status"], done["error_message"]) == ("success", None)
    assert await count_calls(client, "plain", done) == 2


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 409, 410, 422, 501])
async def test_permanent_error_fails_at_once(client: Client, status: int) -> None:
    elsewhere = {"Location": f"{client.target}/redirected"}
    answer = {"status": status, "body": {"why": "because"}, "headers": elsewhere}
    done = await client.result("plain", answers(answer))
    assert done["status"] == "failed"
    assert done["error_message"] == f'target plain answered {status}: {{"why": "because"}}'
    assert await count_calls(client, "plain", done) == 1
    assert await client.calls("redirected") == []


async def test_last_attempt_fails_with_the_reason(client: Client) -> None:
    done = await client.result("plain", answers({"status": 500, "body": "out of order"}))
    assert done["status"] == "failed"
    assert done["error_message"] == "target plain answered 500: out of order"
    assert await count_calls(client, "plain", done) == 3


async def test_targets_name_more_permanent_errors(client: Client) -> None:
    done = await client.result("choosy", answers({"status": 503}))
    assert (done["status"], await count_calls(client, "choosy", done)) == ("failed", 1)
    said = {"status": 500, "body": "Error: INSUFFICIENT funds for gas"}
    done = await client.result("choosy", answers(said))
    assert (done["status"], await count_calls(client, "choosy", done)) == ("failed", 1)


@pytest.mark.parametrize("kind", ["seconds", "date"])
async def test_retry_after_is_waited_for(client: Client, kind: str) -> None:
    # A date has whole seconds.
    at = datetime.now(UTC) + timedelta(seconds=3)
    value = "1" if kind == "seconds" else format_datetime(at, usegmt=True)
    answer = {"status": 429, "headers": {"Retry-After": value}}
    done = await client.result("plain", answers(answer, {"status": 200}))
    first, second = await client.calls("plain", 2, key=done["transactionId"])
    assert second["at"] - first["at"] >= 0.9


@pytest.mark.parametrize("value", ["", "soon", "-1", "1.5", "Mon, 99999999999 Jan 2026 00:00:00"])
async def test_retry_after_that_says_nothing_is_ignored(client: Client, value: str) -> None:
    answer = {"status": 503, "headers": {"Retry-After": value}}
    assert (await client.result("plain", answers(answer, {})))["status"] == "success"


@pytest.mark.parametrize("value", ["9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_far_retry_after_leaves_the_transaction_pending(client: Client, value: str) -> None:
    answer = {"status": 503, "headers": {"Retry-After": value}}
    transaction_id = await client.accept("plain", answers(answer, {}))
    async with asyncio.timeout(60):
        while (await client.status(transaction_id))["error_message"] is None:
            await asyncio.sleep(0.02)
    answered = await client.http.post(f"/relay/transactions/{transaction_id}/cancel")
    assert answered.status_code == 200


# Calls without an answer.


async def test_refused_connection_is_retried(client: Client) -> None:
    done = await client.result("nobody")
    assert done["status"] == "failed"
    assert "cannot connect" in done["error_message"]


@pytest.mark.parametrize("fault", [{"drop": True}, {"raw": "garbage\r\n\r\n"}])
async def test_call_without_an_answer_is_not_repeated_unless_configured(
    client: Client, fault: dict[str, Any]
) -> None:
    done = await client.result("plain", answers(fault, {}))
    assert done["status"] == "failed"
    assert "redelivery is at-most-once" in done["error_message"]
    assert await count_calls(client, "plain", done) == 1


@pytest.mark.parametrize(
    "fault", [{"drop": True}, {"raw": "garbage\r\n\r\n"}, {"size": 2 * 1024 * 1024}]
)
async def test_call_without_an_answer_is_repeated_at_least_once(
    client: Client, fault: dict[str, Any]
) -> None:
    done = await client.result("again", answers(fault, {}))
    assert done["status"] == "success"
    assert await count_calls(client, "again", done) == 2


async def test_call_whose_answer_is_too_long_is_unknown(client: Client) -> None:
    done = await client.result("plain", answers({"size": 2 * 1024 * 1024}, {}))
    assert done["status"] == "failed"
    assert "longer than 1048576 bytes" in done["error_message"]


async def test_call_that_takes_too_long_is_unknown(client: Client) -> None:
    name = f"hold-{uuid4()}"
    done = await client.result("impatient", answers({"hold": name}))
    assert done["status"] == "failed"
    assert "no answer within 0.5 s" in done["error_message"]
    await client.release(name)


async def test_target_that_can_be_asked_is_asked_before_it_is_called_again(
    client: Client,
) -> None:
    name = f"hold-{uuid4()}"
    transaction_id = await client.accept("known", answers({"hold": name, "drop": True}))
    await client.calls("known", 1, key=transaction_id)
    await client.script(f"found/{transaction_id}", {"body": {"ok": "it was accepted"}})
    await client.release(name)
    done = await client.until(transaction_id, "success")
    assert done["result"] == {"ok": "it was accepted"}
    assert await count_calls(client, "known", done) == 1
    assert len(await client.calls(f"found/{transaction_id}")) == 1


async def test_target_that_does_not_know_the_call_is_called_again(client: Client) -> None:
    name = f"hold-{uuid4()}"
    transaction_id = await client.accept("known", answers({"hold": name, "drop": True}, {}))
    await client.calls("known", 1, key=transaction_id)
    await client.script(f"found/{transaction_id}", {"status": 503}, {"status": 404})
    await client.release(name)
    done = await client.until(transaction_id, "success")
    assert await count_calls(client, "known", done) == 2


# Answers.


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("", None),
        ("not json", "not json"),
        ('{"n": 115792089237316195423570985008687907853269984665640564039457}', None),
        ('{"n": NaN}', '{"n": NaN}'),
        ("1e999", "1e999"),
        ('"a\\u0000b"', "a\ufffdb"),
        ('{"\\ud800": "\\udc00"}', {"?": "?"}),
        ("[" * 3000, "[" * 3000),
        ('{"status": "failed", "hash": 5}', None),
    ],
    ids=range(9),
)
async def test_any_answer_is_a_result(client: Client, body: str, result: Any) -> None:
    done = await client.result("plain", answers({"body": body}))
    if body.startswith('{"status'):
        assert (done["status"], done["hash"]) == ("failed", "5")
        return
    assert done["status"] == "success"
    assert done["result"] == (json.loads(body) if body and result is None else result)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\U0001f600"])
async def test_text_of_the_target_is_stored(client: Client, text: str) -> None:
    done = await client.result("plain", answers({"body": json.dumps({"hash": text})}))
    assert done["status"] == "success"
    assert len(done["hash"]) == len(text)
    done = await client.result("plain", answers({"status": 422, "body": json.dumps(text)}))
    assert done["status"] == "failed"


# Targets that work asynchronously.


def job(upstream_id: str) -> dict[str, Any]:
    return answers({"status": 202, "body": {"data": {"id": upstream_id, "state": "working"}}})


async def test_status_is_asked_until_it_is_final(client: Client) -> None:
    upstream_id = str(uuid4())
    states = ({"state": "working"}, {"state": "?"}, {"state": "done", "hash": "0xa"})
    await client.script(f"jobs/{upstream_id}", *({"body": {"data": each}} for each in states))
    transaction_id = await client.accept("job", job(upstream_id))
    done = await client.until(transaction_id, "success")
    assert (done["hash"], done["result"]) == ("0xa", {"data": states[-1]})
    assert len(await client.calls(f"jobs/{upstream_id}", 3)) == 3


async def test_failure_of_the_target_has_its_reason(client: Client) -> None:
    upstream_id = str(uuid4())
    broken = {"body": {"data": {"state": "broken", "why": "no funds"}}}
    await client.script(f"jobs/{upstream_id}", {"status": 500}, {"drop": True}, broken)
    transaction_id = await client.accept("job", job(upstream_id))
    done = await client.until(transaction_id, "failed")
    assert done["error_message"] == "no funds"


async def test_answer_without_an_id_fails(client: Client) -> None:
    done = await client.result("job", answers({"body": {"data": {}}}))
    assert done["status"] == "failed"
    assert "without data.id" in done["error_message"]


# The queue.


@pytest.fixture
async def broker(world: World) -> Any:
    async with Broker(world.dsn) as broker:
        yield broker


@pytest.mark.parametrize(
    "body",
    [
        "1",
        '"x"',
        "{}",
        '{"transactionId": 5, "type": "plain", "request": 1}',
        '{"transactionId": "00000000-0000-0000-0000-000000000001", "type": "plain", "request": 1}',
        '{"transactionId": "00000000-0000-0000-0000-000000000001"}',
    ],
)
async def test_message_that_is_not_the_gateways_becomes_a_dead_letter(
    client: Client, broker: Broker, body: str
) -> None:
    await client.result("plain")  # The queues exist.
    [before] = await broker.statistics.metrics(DEAD_LETTERS)
    await broker.push(TRANSACTIONS, [OutgoingMessage(body, "plain")])
    async with asyncio.timeout(60):
        while (await broker.statistics.metrics(DEAD_LETTERS))[0].total == before.total:
            await asyncio.sleep(0.02)


async def test_message_without_a_request_does_not_begin_a_call(
    client: Client, broker: Broker
) -> None:
    name = f"hold-{uuid4()}"
    transaction_id = await client.accept("plain", answers({"status": 503}, {"hold": name}))
    await client.calls("plain", 2, key=transaction_id)
    forged = json.dumps({"transactionId": transaction_id})
    await broker.push(TRANSACTIONS, [OutgoingMessage(forged, "plain")])
    await client.result("plain")
    await client.release(name)
    assert (await client.until(transaction_id, "success"))["error_message"] is None


async def test_transaction_that_was_given_up_is_sent_again(client: Client) -> None:
    script = answers(*statuses(500, 500, 500, 200))
    failed = await client.result("plain", script)
    assert failed["status"] == "failed"
    answered = await client.http.post(f"/relay/transactions/{failed['transactionId']}/retry")
    assert answered.status_code == 202
    done = await client.until(failed["transactionId"], "success")
    assert done["error_message"] is None
    assert await count_calls(client, "plain", done) == 4
