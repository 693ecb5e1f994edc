"""Keys that are limited to some queues: mixed requests, forged tokens and queue options."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from zlib import crc32

import pytest
from queen import Queen

from laneway.domain.messages import Nack, OutgoingMessage, Receipt
from laneway.server.queen.options import DEFAULTS, HARMLESS
from laneway.server.sqs.handles import _FORM
from tests.protocol.access.world import OWN

if TYPE_CHECKING:
    import httpx

    from tests.protocol.access.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Another value for each option of a stream, and for its labels.
OTHER: dict[str, Any] = {
    "leaseTime": 60,
    "retryLimit": 0,
    "retryDelay": 10_000_000,
    "maxSize": 1,
    "maxBytes": 1,
    "ackMode": "individual",
    "ttl": 1,
    "priority": 9,
    "delayedProcessing": 3600,
    "windowBuffer": 3600,
    "retentionSeconds": 1,
    "completedRetentionSeconds": 1,
    "retentionEnabled": True,
    "encryptionEnabled": True,
    "maxWaitTimeSeconds": 1,
    "deadLetterQueue": False,
    "dlqAfterMaxRetries": False,
    "dedupWindowSeconds": 1,
}


async def call(world: World, caller: str, method: str, path: str, body: Any = None) -> Any:
    answer = await request(world, caller, method, path, body)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


async def request(
    world: World, caller: str, method: str, path: str, body: Any = None
) -> httpx.Response:
    headers = {"X-API-KEY": world.keys[caller]}
    return await world.client.request(method, path, json=body, headers=headers)


async def act(world: World, caller: str, action: str, fields: dict[str, Any]) -> httpx.Response:
    headers = {"X-API-KEY": world.keys[caller], "X-Amz-Target": f"AmazonSQS.{action}"}
    return await world.client.post("/", content=json.dumps(fields), headers=headers)


async def test_write_changes_no_option_that_removes_or_hides(world: World) -> None:
    assert set(OTHER) == set(DEFAULTS)
    for option, value in OTHER.items():
        name = f"options-{option}-{uuid4().hex[:8]}"
        # Whoever may push may make the queue as it is to be.
        made = {"queue": name, "namespace": "ours", "options": {"leaseTime": 300}}
        await call(world, "write", "POST", "/api/v1/configure", made)
        change = {"queue": name, "options": {option: value}}
        answer = await request(world, "write", "POST", "/api/v1/configure", change)
        shown = await call(world, "read", "GET", f"/api/v1/resources/queues/{name}")
        if option in HARMLESS:
            assert answer.status_code == 201, answer.text
            assert shown["options"][option] == value
            continue
        assert answer.status_code == 403, (option, answer.text)
        assert option in answer.json()["error"]
        assert shown["options"][option] == DEFAULTS[option]
        # To say once more what is so already changes nothing.
        same = {"queue": name, "namespace": "ours", "options": {option: DEFAULTS[option]}}
        await call(world, "write", "POST", "/api/v1/configure", same)
        await call(world, "admin", "POST", "/api/v1/configure", change)
        await call(world, "write", "POST", "/api/v1/configure", change)


async def test_write_role_adds_labels_and_removes_none(world: World) -> None:
    name = f"labels-{uuid4().hex[:8]}"
    await call(world, "write", "POST", "/api/v1/configure", {"queue": name})
    for label in ("namespace", "task"):
        given = {"queue": name, label: "ours"}
        await call(world, "write", "POST", "/api/v1/configure", given)
        answer = await request(
            world, "write", "POST", "/api/v1/configure", {**given, label: "theirs"}
        )
        assert answer.status_code == 403
        assert label in answer.json()["error"]


async def test_write_does_not_change_a_queue_of_another_protocol(world: World) -> None:
    target = await world.make()
    before = await target.look()
    for options in ({"retentionEnabled": True, "retentionSeconds": 1}, {"ttl": 1}):
        body = {"queue": target.name, "options": options}
        answer = await request(world, "write", "POST", "/api/v1/configure", body)
        assert answer.status_code == 403
    assert await target.look() == before


async def test_clients_with_a_key_to_write_work_unmodified(world: World) -> None:
    name = f"clients-{uuid4().hex[:8]}"
    async with Queen(world.running.url, bearer_token=world.keys["write"]) as queen:
        for _ in range(2):
            await queen.queue(name).config({"leaseTime": 60, "retryLimit": 5}).create()
        await queen.queue(name).push([{"data": 1}])
        [message] = await queen.queue(name).batch(1).wait(enabled=False).pop()
        await queen.ack(message, status=True)
    fields = {"QueueName": name + "-sqs", "Attributes": {"VisibilityTimeout": "60"}}
    for _ in range(2):
        assert (await act(world, "write", "CreateQueue", fields)).status_code == 200
    other = {**fields, "Attributes": {"VisibilityTimeout": "61"}}
    assert "QueueNameExists" in (await act(world, "write", "CreateQueue", other)).text
    found = await act(world, "write", "GetQueueUrl", {"QueueName": name + "-sqs"})
    assert found.status_code == 200


async def test_limited_key_settles_its_own_part_of_a_mixed_batch(world: World) -> None:
    target = await world.make()
    theirs = await target.leased()
    before = await target.look()
    for way in ("acks", "nacks"):
        await world.broker.push(OWN, [OutgoingMessage("1")])
        [ours] = await world.broker.claim(OWN)
        items = [{"id": str(each.id), "lock_token": str(each.token)} for each in (theirs, ours)]
        path = f"/api/queue/{way[:-1]}/batch"
        shown = await call(world, "limited-write", "POST", path, {way: items})
        assert shown["succeeded"] == [str(ours.id)]
        assert [each["code"] for each in shown["failed"]] == ["NOT_FOUND"]
    held = await target.popped()
    before = await target.look()
    path = "/api/v1/ack"
    ack = {"transactionId": held.key, "partitionId": held.partition, "leaseId": held.lease}
    push = {"type": "push", "items": [{"queue": OWN, "payload": 1}]}
    body = {"operations": [push, {"type": "ack", **ack}]}
    answer = await request(world, "limited-write", "POST", "/api/v1/transaction", body)
    assert answer.status_code == 409
    [shown] = await call(world, "limited-write", "POST", path, ack)
    assert (shown["success"], shown["queueName"]) == (False, None)
    assert await target.look() == before


async def test_request_for_an_allowed_queue_reaches_no_message_of_another(world: World) -> None:
    target = await world.make()
    held = await target.leased()
    before = await target.look()
    path = "/library/v1/extend_any"
    body = {"queue": OWN, "message": list(held.id), "lease": "PT10H"}
    assert await call(world, "limited-write", "POST", path, body) is None
    body = {"queue": OWN, "holdings": [[str(held.token), *held.id]]}
    assert await call(world, "limited-write", "POST", "/library/v1/archive_held", body) == []
    assert await target.look() == before


async def test_forged_receipt_handle_deletes_nothing_of_another_queue(world: World) -> None:
    target = await world.make()
    address = [int(part) for part in (await target.ready()).split("-")]
    held = await target.leased()
    before = await target.look()
    own = (await world.broker.queues.get(OWN)).queue_id
    for queue_id in (own, target.queue_id):
        for place in (address, held.id):
            data = _FORM.pack(uuid4().bytes, queue_id, *place, 0)
            handle = b64encode(data + crc32(data).to_bytes(4, "big")).decode()
            fields = {"QueueUrl": OWN, "ReceiptHandle": handle}
            await act(world, "limited-write", "DeleteMessage", fields)
            fields["VisibilityTimeout"] = 0  # type: ignore[assignment]
            await act(world, "limited-write", "ChangeMessageVisibility", fields)
            entry = {"Id": "1", "ReceiptHandle": handle}
            await act(world, "limited-write", "DeleteMessageBatch", {**fields, "Entries": [entry]})
    assert await target.look() == before


async def test_run_is_driven_by_the_lease_of_its_message_alone(world: World) -> None:
    target = await world.make()
    run_id, driver = await target.held_run()
    token, _, address = driver.partition("/")
    forged = (f"{uuid4()}/{address}", f"/{address}", address, f"{token}/{address}1", "", "x/y")
    before = await target.look()
    for other in forged:
        body: dict[str, Any] = {"run_id": run_id, "driver": other}
        for again in (False, True):
            drive = await call(
                world, "write", "POST", "/library/v1/drive_run", {**body, "again": again}
            )
            assert drive[0] == "superseded", other
            assert target.marker not in json.dumps(drive)
        step = {**body, "step": "first", "result": '"forged"'}
        stored = await call(world, "write", "POST", "/library/v1/store_step", step)
        assert stored[0] == "superseded", other
        end = {**body, "status": "completed", "result": '"forged"'}
        await call(world, "write", "POST", "/library/v1/end_run", end)
    assert await target.look() == before
    body = {"run_id": run_id, "driver": driver}
    assert (await call(world, "write", "POST", "/library/v1/drive_run", body))[0] == "running"


async def test_message_of_another_queue_drives_no_run(world: World) -> None:
    """Also where the run's own message is gone, and any other would do."""
    target = await world.make()
    run_id, driver = await target.held_run()
    token, _, address = driver.partition("/")
    _, lane, seq = map(int, address.split("-"))
    assert not await world.broker.ack([Receipt(token, lane, seq)])
    before = await target.look()
    forged = json.dumps({"workflow": "flow", "run": run_id})
    await world.broker.push(OWN, [OutgoingMessage(forged, "forged", 9)])
    [held] = await world.broker.claim(OWN, partition="forged")
    body = {"run_id": run_id, "driver": f"{held.token}/{held.id}"}
    drive = await call(world, "write", "POST", "/library/v1/drive_run", body)
    assert drive[0] == "superseded"
    hidden = await request(world, "limited-write", "POST", "/library/v1/drive_run", body)
    assert hidden.status_code == 404
    assert await target.look() == before


async def test_worker_ids_of_other_keys_cannot_be_taken_over(world: World) -> None:
    target = await world.make()
    worker_id, run_id = await target.worker(), await target.run()
    before = await target.look()
    identity = [worker_id, "name", "host", 1, [OWN], "PT1M"]
    path = "/library/v1/register_worker"
    answer = await request(world, "limited-write", "POST", path, {"identity": identity})
    assert answer.status_code == 409
    assert target.name not in answer.text
    path = "/library/v1/start_run"
    for name in ("another", f"flow-of-{target.name}"):
        body = {"run_id": run_id, "name": name, "queue": OWN, "arguments": "[]"}
        answer = await request(world, "limited-write", "POST", path, body)
        assert answer.status_code == 409
        assert "another id" in answer.text
    assert await target.look() == before


async def test_worker_of_two_queues_is_no_limited_keys_own(world: World) -> None:
    target = await world.make()
    worker_id = f"worker.{uuid4().hex[:8]}"
    identity = [worker_id, "name", "host", 1, [OWN, target.name], "PT1M"]
    await call(world, "write", "POST", "/library/v1/register_worker", {"identity": identity})
    before = await target.look()
    for path, body in (
        ("beat_worker", {"handled": 0, "failed": 0}),
        ("step_worker", {"to": "stopped"}),
        ("hold_for_worker", {"lease": "PT1H"}),
    ):
        answer = await request(
            world, "limited-write", "POST", f"/library/v1/{path}", {"worker_id": worker_id, **body}
        )
        assert (answer.status_code, answer.json()["error"]) == (404, "WorkerNotFound")
    listed = await call(world, "limited-read", "POST", "/library/v1/list_workers", {"queue": OWN})
    assert worker_id not in json.dumps(listed)
    listed = await call(world, "read", "POST", "/library/v1/list_workers", {"queue": OWN})
    assert worker_id in json.dumps(listed)
    assert await target.look() == before


async def test_worker_holds_only_what_it_has_of_its_own_queues(world: World) -> None:
    """A worker registered under another consumer's name neither extends nor ends its leases."""
    target = await world.make()
    held = await target.leased()
    consumer = f"consumer-of-{target.name}"
    await world.broker.push(OWN, [OutgoingMessage("1", "held", 9)])
    [own] = await world.broker.claim(OWN, consumer=consumer, partition="held")
    before = await target.look()
    identity = [consumer, "name", "host", 1, [OWN], "PT0.001S"]
    await call(
        world, "limited-write", "POST", "/library/v1/register_worker", {"identity": identity}
    )
    body = {"worker_id": consumer, "lease": "P1000D"}
    await call(world, "limited-write", "POST", "/library/v1/hold_for_worker", body)
    assert await target.look() == before
    workers = {each.worker_id: each for each in await world.broker.workers.list_all(OWN)}
    assert workers[consumer].held == 1
    # What maintenance does once the worker was not heard of for its timeout.
    assert await world.broker.workers.reclaim(consumer) == 1
    assert await target.look() == before
    assert await world.broker.ack([own.receipt]) == [0]
    # The worker is stopped now. Also where messages come again, its name still claims in the other queue.
    await world.broker.nack([Nack(*held.receipt)._replace(delay=timedelta(0))])
    [again] = await world.broker.claim(target.name, consumer=consumer, priority=9)
    assert again.id == held.id
    assert await world.broker.claim(OWN, consumer=consumer, partition="held") == []
    [back] = await world.broker.claim(OWN, partition="held")
    assert not await world.broker.ack([again.receipt, back.receipt])


async def test_limited_key_registers_no_worker_without_queues(world: World) -> None:
    worker_id = f"worker.{uuid4().hex[:8]}"
    body = {"identity": [worker_id, "name", "host", 1, [], "PT1M"]}
    answer = await request(world, "limited-write", "POST", "/library/v1/register_worker", body)
    assert answer.status_code == 403
    assert "names no queue" in answer.text
    await call(world, "write", "POST", "/library/v1/register_worker", body)


@pytest.mark.parametrize("setting", ["dead_letter_queue", "dead_letter_source"])
async def test_settings_of_a_queue_name_no_queue_of_others(world: World, setting: str) -> None:
    target = await world.make()
    before = await target.look()
    name = f"mine-{uuid4().hex[:8]}"

    def settings(queue: str) -> dict[str, Any]:
        return {setting: arn(queue) if setting == "dead_letter_source" else queue}

    create, update = "/library/v1/create_queue", "/library/v1/update_queue"
    for queue in (target.name, "there-is-none"):
        body = {"name": name, "settings": {"max_attempts": 1, **settings(queue)}}
        answer = await request(world, "limited-admin", "POST", create, body)
        assert answer.status_code == 403, answer.text
        assert queue in answer.json()["message"]
    body = {"name": name, "settings": {"max_attempts": 1, **settings(OWN)}}
    await call(world, "limited-admin", "POST", create, body)
    for queue in (target.name, "there-is-none"):
        body = {"name": name, "changes": settings(queue)}
        answer = await request(world, "limited-admin", "POST", update, body)
        assert answer.status_code == 403, answer.text
        assert queue in answer.json()["message"]
    await call(world, "limited-admin", "POST", update, {"name": name, "changes": settings(OWN)})
    found = (await world.broker.queues.get(name)).settings
    assert getattr(found, setting) == settings(OWN)[setting]
    for other in (5, [target.name], {"queue": target.name}):
        body = {"name": name, "changes": {setting: other}}
        answer = await request(world, "limited-admin", "POST", update, body)
        assert answer.status_code in {400, 403, 422}, answer.text
    body = {"name": name, "changes": {setting: None}}
    await call(world, "limited-admin", "POST", update, body)
    # A key of all queues names any.
    body = {"name": name, "changes": settings(target.name)}
    await call(world, "admin", "POST", update, body)
    await world.broker.queues.delete(name)
    assert await target.look() == before


async def test_redrive_policy_names_no_queue_of_others(world: World) -> None:
    target = await world.make()
    name = f"mine-{uuid4().hex[:8]}"
    for queue in (target.name, "there-is-none"):
        policy = json.dumps({"deadLetterTargetArn": arn(queue), "maxReceiveCount": 1})
        attributes = {"Attributes": {"RedrivePolicy": policy}}
        fields = {"QueueName": name, **attributes}
        answer = await act(world, "limited-admin", "CreateQueue", fields)
        assert (answer.status_code, "AccessDenied" in answer.text) == (403, True), answer.text
        fields = {"QueueUrl": OWN, **attributes}
        answer = await act(world, "limited-admin", "SetQueueAttributes", fields)
        assert (answer.status_code, "AccessDenied" in answer.text) == (403, True), answer.text
    own = (await world.broker.queues.get(OWN)).settings
    assert (own.dead_letter_queue, "sqs" in own.options) == (None, False)


async def test_move_task_does_not_name_a_queue_of_others(world: World) -> None:
    target = await world.make()
    name = f"mine-dead-{uuid4().hex[:8]}"
    redrive = {"deadLetterTargetArn": arn(name), "maxReceiveCount": 3}
    for action, fields in (
        ("CreateQueue", {"QueueName": name}),
        (
            "CreateQueue",
            {"QueueName": f"{name}-source", "Attributes": {"RedrivePolicy": json.dumps(redrive)}},
        ),
        ("StartMessageMoveTask", {"SourceArn": arn(name), "DestinationArn": arn(target.name)}),
    ):
        assert (await act(world, "admin", action, fields)).is_success
    listed = await act(world, "limited-read", "ListMessageMoveTasks", {"SourceArn": arn(name)})
    assert listed.json()["Results"]
    assert target.name not in listed.text
    listed = await act(world, "read", "ListMessageMoveTasks", {"SourceArn": arn(name)})
    assert target.name in listed.text


def arn(name: str) -> str:
    return f"arn:aws:sqs:us-east-1:000000000000:{name}"


async def test_key_to_read_writes_no_keys_and_holds_no_locks(world: World) -> None:
    name = f"mine-{uuid4().hex[:8]}"
    put = {"op": "put", "ns": name, "key": "k", "value": 1, "ttlSeconds": 60}
    get = {"op": "get", "ns": name, "key": "k"}
    lock = {"op": "acquire", "name": name, "ttlSeconds": 60}
    writes = [put, {**put, "op": "putIfAbsent"}, {"op": "delete", "ns": name, "key": "k"}]
    writes.append({"op": "incr", "ns": name, "key": "k", "delta": 1, "ttlSeconds": 60})
    for caller in ("read", "limited-read"):
        for write in writes:
            answer = await request(
                world, caller, "POST", "/api/v1/kv", {"operations": [get, write]}
            )
            assert answer.status_code == 403, answer.text
        for step in (lock, {"op": "release", "name": name, "token": 1}):
            answer = await request(world, caller, "POST", "/api/v1/locks", {"operations": [step]})
            assert answer.status_code == 403, answer.text
        check = {"op": "check", "ns": name, "key": "k", "expect": 0}
        await call(world, caller, "POST", "/api/v1/kv", {"operations": [get, check]})
    done = await call(world, "limited-write", "POST", "/api/v1/kv", {"operations": [put]})
    assert done["results"][0]["applied"]
    done = await call(world, "limited-write", "POST", "/api/v1/locks", {"operations": [lock]})
    assert done["results"][0]["acquired"]


async def test_limited_key_reaches_no_key_lock_or_timer_of_others(world: World) -> None:
    target = await world.make()
    own, locks, theirs = f"mine-{uuid4().hex[:8]}", "queen-locks", target.name
    put = {"op": "put", "value": 1, "forever": True}
    forbidden: list[tuple[str, dict[str, Any]]] = [
        (
            "/kv",
            {"operations": [{**put, "ns": own, "key": "k"}, {**put, "ns": theirs, "key": "k"}]},
        ),
        ("/kv", {"operations": [{**put, "ns": locks, "key": f"{theirs}#0"}]}),
        ("/kv", {"operations": [{"op": "delete", "ns": locks, "key": f"{theirs}#0"}]}),
        ("/kv", {"operations": [{"op": "getMany", "ns": locks, "keys": [f"{own}#0", theirs]}]}),
        ("/kv", {"operations": [{"op": "getPrefix", "ns": locks, "prefix": "mine-"}]}),
        ("/kv", {"operations": [{"op": "getPrefix", "ns": locks, "prefix": f"{theirs}#"}]}),
        ("/locks", {"operations": [{"op": "acquire", "name": theirs, "ttlSeconds": 1}]}),
        ("/timers", {"operations": [{"op": "cancel", "queue": theirs, "timerKey": "there"}]}),
    ]
    push = {"type": "push", "items": [{"queue": own, "payload": 1}]}
    check = {"op": "check", "ns": locks, "key": f"{theirs}#0", "expect": 0, "required": True}
    cancel = {"op": "cancel", "queue": theirs, "timerKey": "there"}
    parts = ({"kv": [check]}, {"kv": [{**put, "ns": theirs, "key": "k"}]}, {"timers": [cancel]})
    forbidden += [("/transaction", {"operations": [push], **part}) for part in parts]
    before = await target.look()
    for path, body in forbidden:
        answer = await request(world, "limited-write", "POST", f"/api/v1{path}", body)
        assert answer.status_code == 403, (path, body, answer.text)
    assert await target.look() == before
    allowed = {"operations": [{"op": "getPrefix", "ns": locks, "prefix": f"{own}#"}]}
    shown = await call(world, "limited-read", "POST", "/api/v1/kv", allowed)
    assert shown["results"][0]["rows"] == []
    assert (
        await world.rows.fetchval("select count(*) from laneway.kv where namespace = $1", own) == 0
    )
