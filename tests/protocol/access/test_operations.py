"""Every operation, called with every kind of key, allows what it declares."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import pytest

from laneway.domain.keys import Role
from laneway.server.access import Kind
from laneway.server.gateway import SURFACES as GATEWAY
from laneway.server.server_process import make_surfaces
from laneway.server.settings import ServerSettings
from laneway.server.sqs.actions import ACTIONS
from tests.protocol.access.examples import EXAMPLES, Ask
from tests.protocol.access.world import KEYS, Ghost

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx

    from tests.protocol.access.examples import Example
    from tests.protocol.access.world import Target, World

in_session = pytest.mark.asyncio(loop_scope="session")

# Two who have no key that counts.
STRANGERS = {"nobody": None, "somebody": "lw_00000000_not-a-key"}
CALLERS = (*STRANGERS, *KEYS)
LISTS = {Kind.FILTERED, Kind.NAMED_OR_FILTERED}
# What becomes of the example for a key that is limited to other queues.
OUTCOMES = {
    Kind.NOTHING: "done",
    Kind.TOKEN: "done",
    Kind.NAMED: "refused",
    Kind.NAMED_OR_FILTERED: "refused",
    Kind.EVERY: "refused",
    Kind.LOOKED_UP: "hidden",
    Kind.FILTERED: "filtered",
}
# Of an operation that names its queue or lists all: where it does.
NAMING = {"queueName", "queue_name", "queue"}
# What passes by itself.
PASSING = re.compile(r"timestamp|time|from|to|lagSeconds|maxTimeLag|oldest", re.IGNORECASE)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# It never ends: tests/protocol/access/test_events.py.
STREAM = "rest GET /queue/events"


class Declared(NamedTuple):
    """An operation, or an action of SQS, and what it declares."""

    method: str
    path: str
    role: Role | None
    kind: Kind

    @property
    def is_sqs(self) -> bool:
        return not self.path.startswith("/")


def collect() -> dict[str, Declared]:
    found = {}
    for surface in make_surfaces(ServerSettings()):
        if surface in GATEWAY:
            # All on one queue, of a server with targets: tests/protocol/gateway/test_access.py.
            continue
        for item in surface.operations:
            if item.reach.kind is not Kind.ACTION:
                name = f"{surface.name} {item.method} {item.path}"
                path = surface.prefix + item.path
                found[name] = Declared(item.method, path, item.role, item.reach.kind)
    for name, action in ACTIONS.items():
        found[f"sqs {name}"] = Declared("POST", name, action.role, action.reach.kind)
    return found


DECLARED = collect()
NAMES = sorted(set(DECLARED) - {STREAM})


def test_every_operation_has_an_example() -> None:
    assert set(DECLARED) - {STREAM} == set(EXAMPLES)
    assert len(ACTIONS) == 23


def test_only_harmless_operations_need_no_key() -> None:
    is_open = {name for name, declared in DECLARED.items() if declared.role is None}
    assert is_open == {
        "rest GET /health",
        "rest GET /health/live",
        "rest GET /health/ready",
        "rest GET /doc",
        "rest GET /docs",
        "rest GET /reference",
        "rest GET /reference/scalar.js",
        "rest GET /queue/events",
        "streams root GET /health",
    }


def test_few_operations_check_no_queue() -> None:
    kinds = {name: declared.kind for name, declared in DECLARED.items() if declared.role}
    assert {name for name, kind in kinds.items() if kind is Kind.NOTHING} == {
        "rest GET /queue/config",
        "library POST /ping",
        "streams POST /stats/refresh",
    }
    assert {name for name, kind in kinds.items() if kind is Kind.TOKEN} == {
        *(f"library POST /{name}" for name in ("ack", "ack_results", "nack", "release", "extend")),
        "streams POST /lease/{leaseId}/extend",
    }


def test_operations_that_remove_or_hide_messages_need_an_admin() -> None:
    """By the operations' texts, so that a new operation needs a decision."""
    words = re.compile(
        r"delete|clear|purge|rename|patch|update|seek|permission|tag|setqueue", re.IGNORECASE
    )
    # A message is settled by its lease, and a dead letter is put back. Whoever may set a timer may
    # cancel it.
    settling = {
        "sqs DeleteMessage",
        "sqs DeleteMessageBatch",
        "sqs ListQueueTags",
        "streams DELETE /timers/{queue}/{timerKey}",
    }
    for name, declared in DECLARED.items():
        if words.search(name) and name not in settling:
            assert declared.role is Role.ADMIN, name


@in_session
@pytest.mark.parametrize("name", NAMES)
async def test_every_caller_is_answered_as_declared(world: World, name: str) -> None:
    declared, make = DECLARED[name], EXAMPLES[name]
    writes = declared.role in {Role.WRITE, Role.ADMIN}
    target = await world.make()
    ask = await make(target)
    before = await look(target, ask)
    for caller in CALLERS:
        if expect(declared, caller) != "done":
            await keep_out(world, declared, ask, target, caller=caller, make=make)
        elif declared.kind is Kind.TOKEN:
            forged = change(ask, lambda text: UUID.sub(str(uuid4()), text))
            tells_nothing(await send(world, declared, forged, caller), target, ask)
        assert await look(target, ask) == before, caller
    admitted = [caller for caller in CALLERS if expect(declared, caller) == "done"]
    assert "admin" in admitted
    for caller in admitted:
        if writes and caller != admitted[0]:
            target = await world.make()
            ask = await make(target)
            before = await look(target, ask)
        answer = await send(world, declared, ask, caller)
        assert answer.is_success, (caller, answer.text)
        assert not re.search(r'"failed":\[\{|"success":false', answer.text), answer.text
        changed = await look(target, ask) != before
        assert changed == (writes and ask.changes), (caller, answer.text)
        if declared.kind is Kind.NOTHING:
            tells_nothing(answer, target, ask)
            assert not changed


async def keep_out(
    world: World, declared: Declared, ask: Ask, target: Target, *, caller: str, make: Example
) -> None:
    """Assert that a caller is told nothing of the target, in the way that is declared."""
    answer = await send(world, declared, ask, caller)
    tells_nothing(answer, target, ask)
    match expect(declared, caller):
        case "unknown":
            assert answer.status_code == (403 if declared.is_sqs else 401), answer.text
        case "refused":
            assert answer.status_code == 403, (caller, answer.text)
            if declared.kind in {Kind.NAMED, Kind.NAMED_OR_FILTERED}:
                # The same where there is no such queue.
                missing = target.name.replace("secret", "nowhere")
                other = await send(world, declared, rename(ask, target, missing), caller)
                assert other.status_code == answer.status_code
                assert other.text.replace(missing, target.name) == answer.text
        case "hidden":
            ghost = Ghost(world)
            other = await send(world, declared, await make(ghost), caller)
            assert answer.status_code == other.status_code, (caller, answer.text, other.text)
            assert same(answer, target) == same(other, ghost), caller
        case "filtered":
            # A group in no queue that is shown is none.
            absent = caller == "limited-to-none" and answer.status_code == 404
            assert answer.is_success or absent, (caller, answer.text)


@in_session
@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if DECLARED[name].kind in LISTS and DECLARED[name].role is Role.READ],
)
async def test_lists_do_not_count_other_queues(world: World, name: str) -> None:
    declared, make = DECLARED[name], EXAMPLES[name]
    limited = ("limited-read", "limited-admin", "limited-to-none")

    async def list_all(caller: str) -> Any:
        ask = await make(target)
        query = {key: value for key, value in ask.query.items() if key not in NAMING}
        answer = await send(world, declared, replace(ask, query=query), caller)
        if caller == "limited-to-none" and answer.status_code == 404:
            return None  # a group that none of no queues has
        assert answer.is_success, answer.text
        if caller != "admin":
            tells_nothing(answer, target, Ask())
        return settle(json.loads(answer.content))

    target = await world.make()
    shown = {caller: await list_all(caller) for caller in (*limited, "admin")}
    target = await world.make()
    for caller in limited:
        assert await list_all(caller) == shown[caller], caller
    # Anomalies are found a moment later.
    async with asyncio.timeout(30):
        while await list_all("admin") == shown["admin"]:
            await asyncio.sleep(0.05)


@in_session
async def test_every_sqs_address_authenticates(world: World) -> None:
    target = await world.make()
    address = f"000000000000/{quote(target.name)}"
    attributes = {"Action": "GetQueueAttributes", "AttributeName.1": "QueueArn"}
    seen = 0
    for surface in make_surfaces(ServerSettings()):
        for item in surface.operations:
            if item.reach.kind is not Kind.ACTION:
                continue
            seen += 1
            path = item.path.replace("{account}/{queue}", address).replace("{region}", "us-east-1")
            for caller, key in (STRANGERS | world.keys).items():
                headers = {} if key is None else {"X-API-KEY": key}
                query = dict(attributes)
                if path == "/":
                    query["QueueUrl"] = target.name
                answer = await world.client.request(
                    item.method, path, params=query, headers=headers
                )
                may = caller in {"read", "write", "admin"}
                assert answer.status_code == (200 if may else 403), (path, caller, answer.text)
                assert (target.name in answer.text) == (may or "limited" in caller)
    assert seen == 6


def expect(declared: Declared, caller: str) -> str:
    """Return what becomes of the example, by what its operation declares."""
    if declared.role is None:
        return "done"
    if caller in STRANGERS:
        return "unknown"
    role, pattern = KEYS[caller]
    if role < declared.role:
        return "refused"
    return "done" if pattern is None else OUTCOMES[declared.kind]


async def send(world: World, declared: Declared, ask: Ask, caller: str) -> httpx.Response:
    key = (STRANGERS | world.keys)[caller]
    headers = {} if key is None else {"X-API-KEY": key}
    if declared.is_sqs:
        headers["X-Amz-Target"] = f"AmazonSQS.{declared.path}"
        return await world.client.post("/", content=json.dumps(ask.body), headers=headers)
    path = declared.path
    for name, value in ask.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    more: dict[str, Any] = {}
    if ask.file is not None:
        more["files"] = {"file": ask.file.encode()}
    elif ask.body is not None:
        more["json"] = ask.body
    return await world.client.request(
        declared.method, path, params=ask.query, headers=headers, **more
    )


async def look(target: Target, ask: Ask) -> str:
    state = await target.look()
    return json.dumps(json.loads(state)["moves"]) if ask.restless else state


def tells_nothing(answer: httpx.Response, target: Target, ask: Ask) -> None:
    """Assert that an answer has nothing of the queue in it, but its name where the request has it."""
    text = answer.text
    said = f"{ask.path} {ask.query} {ask.body} {ask.file}"
    for secret in (target.marker, target.name):
        assert secret not in text or secret in said, text
    for thing in target.ids:
        assert thing.isdigit() or thing not in text or thing in said, text


def same(answer: httpx.Response, target: Target) -> str:
    """Return an answer's text without what the request itself named."""
    text = answer.text
    for thing in target.ids:
        text = re.sub(rf"(?<![\w-]){re.escape(thing)}(?![\w-])", "THING", text)
    text = re.sub(r"key-[0-9a-f]{32}", "KEY", text)
    return UUID.sub("UUID", text)


def rename(ask: Ask, target: Target, name: str) -> Ask:
    """Return the same request about a queue of another name."""
    return change(ask, lambda text: text.replace(target.name, name))


def change(ask: Ask, edit: Callable[[str], str]) -> Ask:
    def turn(value: Any) -> Any:
        return json.loads(edit(json.dumps(value)))

    return replace(
        ask,
        path=turn(ask.path),
        query=turn(ask.query),
        body=turn(ask.body),
        file=turn(ask.file),
    )


def settle(shown: Any) -> Any:
    """Return JSON without what passes by itself."""
    match shown:
        case dict():
            return {
                name: settle(value) for name, value in shown.items() if not PASSING.fullmatch(name)
            }
        case list():
            return [settle(value) for value in shown]
        case _:
            return shown
