"""Every operation of the gateway, called with every kind of key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pytest

from laneway.domain.keys import Role
from laneway.server.access import Kind
from laneway.server.gateway import SURFACES
from tests.protocol.gateway.conftest import KEYS
from tests.protocol.gateway.world import Client, answers

if TYPE_CHECKING:
    import httpx

    from tests.protocol.gateway.world import World

OPERATIONS = {
    f"{item.method} {surface.prefix}{item.path}": item
    for surface in SURFACES
    for item in surface.operations
}
STRANGERS = {"nobody": None, "somebody": "lw_00000000_not-a-key"}
CALLERS = (*STRANGERS, *KEYS)


class Example(NamedTuple):
    """A request that is allowed. status: what it then gets."""

    path: str
    status: int


async def make_example(client: Client, name: str) -> Example:
    """Return a request of an operation, with a transaction of its own to work on."""
    path = name.partition(" ")[2].removeprefix("/api/v1")
    status, ident = 200, ""
    match path:
        case "/relay/{target}":
            status = 202
        case "/relay/status/{transactionId}":
            ident = (await client.result("plain"))["transactionId"]
        case "/relay/transactions/{transactionId}/cancel":
            ident = await wait_for_another_attempt(client)
        case "/relay/transactions/{transactionId}/retry":
            failed = await client.result("plain", answers({"status": 422}, {}))
            status, ident = 202, failed["transactionId"]
        case "/relay/gasless/nonce/{address}":
            status = 404
        case "/webhooks/{target}":
            # Its signature is all that counts: tests/protocol/gateway/test_inbound_webhooks.py.
            status = 401
    names = {"target": "plain", "transactionId": ident, "address": f"0x{'0' * 40}"}
    return Example(path.format_map(names), status)


async def wait_for_another_attempt(client: Client) -> str:
    """Return a transaction whose next call is far away."""
    far = {"status": 503, "headers": {"Retry-After": "999"}}
    transaction_id = await client.accept("plain", answers(far))
    async with asyncio.timeout(60):
        while (await client.status(transaction_id))["error_message"] is None:
            await asyncio.sleep(0.02)
    return transaction_id


def test_operations_are_all_here() -> None:
    assert len(OPERATIONS) == 8
    for name, item in OPERATIONS.items():
        if name == "POST /api/v1/webhooks/{target}":
            assert item.role is None
            assert item.reach.kind is Kind.NOTHING
        else:
            assert item.reach.kind is Kind.NAMED
            assert item.role is (Role.READ if item.method == "GET" else Role.WRITE)


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
async def test_operation_allows_what_it_declares(
    client: Client, world: World, name: str, caller: str
) -> None:
    item = OPERATIONS[name]
    example = await make_example(client, name)
    wanted = example.status
    if item.role is not None:
        if caller in STRANGERS:
            wanted = 401
        elif caller == "write limited to others" or (
            caller == "read" and item.role is not Role.READ
        ):
            wanted = 403
    key = STRANGERS[caller] if caller in STRANGERS else world.keys[caller]
    async with Client(world.server.url, world.target, key) as asking:
        answer = await ask(asking, item.method, example.path)
    assert answer.status_code == wanted, answer.text
    if wanted in {401, 403}:
        shown = answer.json()
        assert shown["statusCode"] == wanted
        assert "plain" not in shown["message"] or name.startswith("POST /api/v1/webhooks")


async def test_refused_key_does_not_learn_what_exists(client: Client, world: World) -> None:
    known = (await client.result("plain"))["transactionId"]
    async with Client(
        world.server.url, world.target, world.keys["write limited to others"]
    ) as asking:
        for method, path in (
            ("GET", "/relay/status/{}"),
            ("POST", "/relay/transactions/{}/cancel"),
            ("POST", "/relay/transactions/{}/retry"),
        ):
            texts = {
                (await ask(asking, method, path.format(each))).text.replace(each, "")
                for each in (known, str(uuid4()), "no-id")
            }
            assert len(texts) == 1
        nothing, plain = [await ask(asking, "POST", f"/relay/{each}") for each in ("no", "plain")]
        assert nothing.text == plain.text


async def ask(client: Client, method: str, path: str) -> httpx.Response:
    return await client.http.request(method, path, json={} if method == "POST" else None)
