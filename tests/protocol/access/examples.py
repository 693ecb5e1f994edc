"""For each operation, a request that succeeds on another user's queue."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from laneway.domain.keys import Role
from laneway.domain.messages import OutgoingMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.protocol.access.world import Target

Example: TypeAlias = "Callable[[Target], Awaitable[Ask]]"

OLD, LATE = "2001-01-01T00:00:00Z", "2101-01-01T00:00:00Z"


@dataclass(slots=True, kw_only=True)
class Ask:
    """A request. path: what its names stand for. changes: whether it leaves the queue another.

    restless: the queue changes by itself meanwhile.
    """

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    file: str | None = None
    changes: bool = True
    restless: bool = False


EXAMPLES: dict[str, Example] = {}


def example(*names: str) -> Callable[[Example], Example]:
    def note(make: Example) -> Example:
        for name in names:
            assert name not in EXAMPLES, name
            EXAMPLES[name] = make
        return make

    return note


def plain(name: str, make: Callable[[Target], Ask]) -> None:
    async def wrapped(target: Target) -> Ask:
        return make(target)

    example(name)(wrapped)


def message(target: Target) -> dict[str, Any]:
    return {"type": "mail", "payload": target.marker, "queue": target.name}


def named(target: Target) -> dict[str, str]:
    return {"queueName": target.name}


# REST.

plain("rest POST /queue/message", lambda t: Ask(body=message(t)))
plain("rest POST /queue/batch", lambda t: Ask(body=[message(t)]))
plain("rest GET /queue/message", lambda t: Ask(query={"queue": t.name}))
plain("rest GET /queue/messages/batch", lambda t: Ask(query={"queue": t.name, "count": "1"}))


@example("rest POST /queue/ack")
async def _(target: Target) -> Ask:
    held = await target.leased()
    return Ask(body={"id": str(held.id), "lock_token": str(held.token)})


@example("rest POST /queue/ack/batch")
async def _(target: Target) -> Ask:
    held = await target.leased()
    return Ask(body={"acks": [{"id": str(held.id), "lock_token": str(held.token)}]})


@example("rest POST /queue/nack/batch")
async def _(target: Target) -> Ask:
    held = await target.leased()
    return Ask(body={"nacks": [{"id": str(held.id), "lock_token": str(held.token)}]})


@example("rest POST /queue/message/{id}/nack")
async def _(target: Target) -> Ask:
    return Ask(path={"id": str((await target.leased()).id)}, body={})


@example("rest PUT /queue/message/{id}/touch")
async def _(target: Target) -> Ask:
    held = await target.leased()
    return Ask(
        path={"id": str(held.id)}, body={"lock_token": str(held.token), "extend_seconds": 900}
    )


for _path in (
    "/health",
    "/health/live",
    "/health/ready",
    "/queue/config",
    "/doc",
    "/docs",
    "/reference",
    "/reference/scalar.js",
):
    plain(f"rest GET {_path}", lambda _: Ask())
plain("rest POST /queues", lambda t: Ask(body={"name": f"new-{t.queue_id}"}, changes=False))
plain("rest GET /queues", lambda _: Ask())
plain("rest GET /queues/{name}", lambda t: Ask(path={"name": t.name}))
plain(
    "rest PATCH /queues/{name}",
    lambda t: Ask(path={"name": t.name}, body={"retention_interval": "1 second"}),
)
plain("rest DELETE /queues/{name}", lambda t: Ask(path={"name": t.name}, query={"force": "true"}))
plain("rest POST /queues/{name}/purge", lambda t: Ask(path={"name": t.name}, body={}))
plain(
    "rest POST /queues/{name}/rename",
    lambda t: Ask(path={"name": t.name}, body={"newName": f"renamed-{t.queue_id}"}),
)
plain(
    "rest GET /queue/{queueType}/messages",
    lambda t: Ask(path={"queueType": "main"}, query=named(t)),
)
plain(
    "rest GET /queue/messages", lambda _: Ask(query={"startTimestamp": OLD, "endTimestamp": LATE})
)


@example("rest PUT /queue/message/{id}")
async def _(target: Target) -> Ask:
    return Ask(
        path={"id": await target.ready()}, query={"queueType": "main"}, body={"payload": "forged"}
    )


@example("rest DELETE /queue/message/{id}")
async def _(target: Target) -> Ask:
    return Ask(path={"id": await target.ready()}, query={"queueType": "main"})


@example("rest POST /queue/messages/delete")
async def _(target: Target) -> Ask:
    return Ask(query={"queueType": "main"}, body={"messageIds": [await target.ready()]})


@example("rest POST /queue/move")
async def _(target: Target) -> Ask:
    return Ask(
        body={"messages": [await target.ready()], "fromQueue": "main", "toQueue": "archived"}
    )


plain("rest DELETE /queue/clear", lambda _: Ask())
plain(
    "rest DELETE /queue/{queueType}/clear",
    lambda t: Ask(path={"queueType": "main"}, query=named(t)),
)
plain(
    "rest DELETE /queue/messages",
    lambda _: Ask(query={"startTimestamp": OLD, "endTimestamp": LATE}),
)
plain("rest GET /queue/metrics", lambda t: Ask(query=named(t)))
plain("rest GET /queue/status", lambda t: Ask(query=named(t)))
plain(
    "rest GET /queue/{queueType}/export", lambda t: Ask(path={"queueType": "main"}, query=named(t))
)
plain("rest POST /queue/import", lambda t: Ask(file=json.dumps([message(t)])))
plain("rest GET /queue/activity", lambda t: Ask(query={"queue_name": t.name}))
plain("rest GET /queue/activity/anomalies", lambda t: Ask(query={"queue_name": t.name}))
plain("rest GET /queue/activity/consumers", lambda _: Ask())
plain("rest DELETE /queue/activity/clear", lambda _: Ask(changes=False))


@example("rest GET /queue/activity/message/{id}")
async def _(target: Target) -> Ask:
    return Ask(path={"id": await target.ready()})


# The library.

plain("library POST /ping", lambda _: Ask(body={}, changes=False))
plain("library POST /install", lambda _: Ask(body={}, changes=False))
plain("library POST /verify", lambda _: Ask(body={}))


def new_key(key_id: str) -> dict[str, Any]:
    digest = b64encode(bytes(32)).decode()
    return {"key_id": key_id, "name": key_id, "role": 1, "pattern": None, "digest": digest}


plain("library POST /create_key", lambda t: Ask(body=new_key(f"of-{t.queue_id}"), changes=False))


@example("library POST /revoke_key")
async def _(target: Target) -> Ask:
    key_id = f"revoked-{target.queue_id}"
    await target.broker.keys.create(
        key_id, name=key_id, role=Role.READ, pattern=None, digest=bytes(32)
    )
    return Ask(body={"key_id": key_id}, changes=False)


plain("library POST /list_keys", lambda _: Ask(body={"revoked": True}, changes=False))
plain(
    "library POST /push",
    lambda t: Ask(body={"queue": t.name, "messages": [["1"]]}),
)
plain("library POST /claim", lambda t: Ask(body={"queue": t.name}))


@example("library POST /ack", "library POST /release")
async def _(target: Target) -> Ask:
    held = await target.leased()
    return Ask(body={"receipts": [[str(held.token), held.lane, held.seq]]})


@example("library POST /ack_results")
async def _(target: Target) -> Ask:
    held = await target.leased()
    receipt = [str(held.token), held.lane, held.seq]
    return Ask(body={"receipts": [receipt], "results": ["1"], "keep": "PT1H"})


@example("library POST /nack")
async def _(target: Target) -> Ask:
    held = await target.leased()
    return Ask(body={"nacks": [[str(held.token), held.lane, held.seq, None, None, None]]})


@example("library POST /extend")
async def _(target: Target) -> Ask:
    held = await target.leased()
    return Ask(body={"receipts": [[str(held.token), held.lane, held.seq]], "lease": "PT1H"})


@example("library POST /extend_any")
async def _(target: Target) -> Ask:
    held = await target.leased()
    return Ask(body={"queue": target.name, "message": list(held.id), "lease": "PT1H"})


@example("library POST /archive_held")
async def _(target: Target) -> Ask:
    held = await target.leased()
    holding = [str(held.token), *held.id]
    return Ask(body={"queue": target.name, "holdings": [holding]})


@example("library POST /find_result", "library POST /find_job")
async def _(target: Target) -> Ask:
    return Ask(body={"message": [int(part) for part in (await target.done()).split("-")]})


@example("library POST /cancel_job")
async def _(target: Target) -> Ask:
    return Ask(body={"message": [int(part) for part in (await target.ready()).split("-")]})


plain(
    "library POST /create_queue", lambda t: Ask(body={"name": f"new-{t.queue_id}"}, changes=False)
)
plain(
    "library POST /update_queue",
    lambda t: Ask(body={"name": t.name, "changes": {"retention": "PT1S"}}),
)
plain("library POST /delete_queue", lambda t: Ask(body={"name": t.name, "force": True}))
plain("library POST /get_queue", lambda t: Ask(body={"name": t.name}))
plain("library POST /list_queues", lambda _: Ask(body={}))
plain("library POST /create_group", lambda t: Ask(body={"queue": t.name, "name": "another"}))
plain("library POST /list_groups", lambda t: Ask(body={"queue": t.name}))


@example("library POST /delete_group")
async def _(target: Target) -> Ask:
    if target.queue_id:
        await target.broker.groups.create(target.name, "another")
    return Ask(body={"queue": target.name, "name": "another"})


plain("library POST /seek_group", lambda t: Ask(body={"queue": t.name, "target": "latest"}))
plain("library POST /list_failures", lambda t: Ask(body={"queue": t.name}))


@example(
    "library POST /browse_dead_letters",
    "library POST /redrive_dead_letters",
    "library POST /purge_dead_letters",
)
async def _(target: Target) -> Ask:
    await target.dead()
    return Ask(body={"queue": target.name, "wanted": [None, None, None, "content-of"]})


plain("library POST /purge", lambda t: Ask(body={"queue": t.name}))
plain("library POST /replay", lambda t: Ask(body={"queue": t.name}))
plain("library POST /browse", lambda t: Ask(body={"queue": t.name, "status": "queued"}))
plain(
    "library POST /hasten",
    lambda t: Ask(body={"queue": t.name, "until": "2999-01-01T00:00:00Z"}, changes=False),
)
plain("library POST /metrics", lambda t: Ask(body={"queue": t.name}))
plain("library POST /follow_queue", lambda t: Ask(body={"queue": t.name}))
plain("library POST /system_stats", lambda _: Ask(body={}))
plain(
    "library POST /register_worker",
    lambda t: Ask(body={"identity": [f"new.{t.queue_id}", "new", "host", 1, [t.name], "PT1M"]}),
)


@example("library POST /beat_worker")
async def _(target: Target) -> Ask:
    return Ask(body={"worker_id": await target.worker(), "handled": 1, "failed": 0})


@example("library POST /hold_for_worker")
async def _(target: Target) -> Ask:
    return Ask(body={"worker_id": await target.worker(), "lease": "PT1H"})


@example("library POST /step_worker")
async def _(target: Target) -> Ask:
    return Ask(body={"worker_id": await target.worker(), "to": "stopped"})


@example("library POST /ask_worker")
async def _(target: Target) -> Ask:
    return Ask(body={"worker_id": await target.worker(), "ask": "suspend"})


@example("library POST /list_workers")
async def _(target: Target) -> Ask:
    await target.worker()
    return Ask(body={"queue": target.name})


@example("library POST /reclaim_worker")
async def _(target: Target) -> Ask:
    return Ask(body={"worker_id": await target.worker()})


@example("library POST /reclaim_dead")
async def _(target: Target) -> Ask:
    await target.worker()
    return Ask(body={"timeout": "PT0S"})


@example("library POST /purge_workers")
async def _(target: Target) -> Ask:
    await target.worker()
    return Ask(body={"age": "PT0S"}, changes=False)


plain(
    "library POST /fire_schedule",
    lambda t: Ask(
        body={
            "name": "nightly",
            "expression": "* * * * *",
            "due": datetime.now(UTC).isoformat(),
            "queue": t.name,
            "message": ["1"],
        }
    ),
)
plain(
    "library POST /register_schedule",
    lambda t: Ask(
        body={"name": "new", "expression": "* * * * *", "queue": t.name, "message": ["1"]},
    ),
)


@example("library POST /list_schedules")
async def _(target: Target) -> Ask:
    return Ask(body={"queue": target.name})


async def scheduled(target: Target) -> Ask:
    if target.queue_id:
        await target.broker.schedules.register(
            "nightly", "0 0 * * *", queue=target.name, message=OutgoingMessage("1")
        )
    return Ask(body={"name": "nightly", "queue": target.name})


@example("library POST /pause_schedule", "library POST /run_schedule")
async def _(target: Target) -> Ask:
    return await scheduled(target)


plain(
    "library POST /start_run",
    lambda t: Ask(
        body={"run_id": f"new-{t.name}", "name": "flow", "queue": t.name, "arguments": "[]"}
    ),
)


@example("library POST /load_run", "library POST /load_steps")
async def _(target: Target) -> Ask:
    run_id, driver = await target.driven()
    if target.queue_id:
        await target.broker.workflows.store_step(
            run_id, driver, "first", result=f'"{target.marker}"'
        )
    return Ask(body={"run_id": run_id})


@example("library POST /drive_run")
async def _(target: Target) -> Ask:
    run_id, driver = await target.held_run()
    return Ask(body={"run_id": run_id, "driver": driver})


@example("library POST /store_step")
async def _(target: Target) -> Ask:
    run_id, driver = await target.driven()
    return Ask(body={"run_id": run_id, "driver": driver, "step": "first", "result": "1"})


@example("library POST /end_run")
async def _(target: Target) -> Ask:
    run_id, driver = await target.driven()
    return Ask(body={"run_id": run_id, "driver": driver, "status": "completed", "result": "1"})


@example("library POST /await_steps")
async def _(target: Target) -> Ask:
    run_id, driver = await target.driven()
    return Ask(body={"run_id": run_id, "driver": driver, "steps": ["approval"]})


@example("library POST /complete_step")
async def _(target: Target) -> Ask:
    return Ask(body={"run_id": await target.run(), "step": "approval", "result": "1"})


@example("library POST /ask_run")
async def _(target: Target) -> Ask:
    return Ask(body={"run_id": await target.run(), "ask": "cancel"})


@example("library POST /list_runs")
async def _(target: Target) -> Ask:
    await target.run()
    return Ask(body={})


@example("library POST /purge_runs")
async def _(target: Target) -> Ask:
    if target.queue_id:
        await target.broker.workflows.ask_run(await target.run(), "cancel")
    return Ask(body={"age": "PT0S"})


# What watches.

plain("monitoring GET /metrics", lambda _: Ask())
plain("monitoring GET /metrics/prometheus", lambda _: Ask())

# Streams.


def item(target: Target) -> dict[str, Any]:
    return {"queue": target.name, "payload": target.marker}


plain("streams POST /push", lambda t: Ask(body={"items": [item(t)]}))


@example("streams GET /pop/queue/{queue}/partition/{partition}")
async def _(target: Target) -> Ask:
    return Ask(path={"queue": target.name, "partition": f"type-of-{target.name}"})


plain("streams GET /pop/queue/{queue}", lambda t: Ask(path={"queue": t.name}))
plain("streams GET /pop", lambda t: Ask(query={"namespace": f"space-of-{t.name}"}))


async def settle(target: Target) -> dict[str, Any]:
    held = await target.popped()
    return {"transactionId": held.key, "partitionId": held.partition, "leaseId": held.lease}


@example("streams POST /ack")
async def _(target: Target) -> Ask:
    return Ask(body=await settle(target))


@example("streams POST /ack/batch")
async def _(target: Target) -> Ask:
    return Ask(body={"acknowledgments": [await settle(target)]})


@example("streams POST /lease/{leaseId}/extend")
async def _(target: Target) -> Ask:
    return Ask(path={"leaseId": (await target.popped()).lease}, body={"seconds": 3600})


@example("streams POST /transaction")
async def _(target: Target) -> Ask:
    operations = [
        {"type": "ack", **await settle(target)},
        {"type": "push", "items": [item(target)]},
    ]
    return Ask(body={"operations": operations})


plain(
    "streams POST /kv",
    lambda t: Ask(body={"operations": [{"op": "get", "ns": t.name, "key": "there"}]}),
)
plain("streams POST /locks", lambda t: Ask(body={"operations": [{"op": "get", "name": t.name}]}))
plain(
    "streams POST /timers",
    lambda t: Ask(body={"operations": [{"op": "cancel", "queue": t.name, "timerKey": "there"}]}),
)
plain("streams GET /timers/{queue}", lambda t: Ask(path={"queue": t.name}))
plain(
    "streams GET /timers/{queue}/{timerKey}",
    lambda t: Ask(path={"queue": t.name, "timerKey": "there"}),
)
plain(
    "streams DELETE /timers/{queue}/{timerKey}",
    lambda t: Ask(path={"queue": t.name, "timerKey": "there"}),
)
plain(
    "streams POST /fetch",
    lambda t: Ask(
        body={"entries": [{"queue": t.name, "partition": f"type-of-{t.name}", "offset": 0}]}
    ),
)
plain("streams POST /partitions/changed", lambda t: Ask(body={"entries": [{"queue": t.name}]}))
plain("streams POST /configure", lambda t: Ask(body={"queue": t.name, "options": {"priority": 3}}))
plain("streams GET /consumer-groups", lambda _: Ask())
plain("streams GET /consumer-groups/lagging", lambda _: Ask(query={"minLagSeconds": "0"}))
plain("streams GET /consumer-groups/{group}", lambda _: Ask(path={"group": "__QUEUE_MODE__"}))


async def group(target: Target) -> str:
    name = f"others-{target.queue_id}"
    await target.broker.subscriptions.subscribe(target.name, name, start="all")
    return name


@example("streams DELETE /consumer-groups/{group}")
async def _(target: Target) -> Ask:
    return Ask(path={"group": await group(target)})


@example("streams POST /consumer-groups/{group}/subscription")
async def _(target: Target) -> Ask:
    return Ask(path={"group": await group(target)}, body={"subscriptionTimestamp": LATE})


plain(
    "streams POST /consumer-groups/{group}/queues/{queue}",
    lambda t: Ask(path={"group": "new", "queue": t.name}, body={}),
)


@example("streams DELETE /consumer-groups/{group}/queues/{queue}")
async def _(target: Target) -> Ask:
    return Ask(path={"group": await group(target), "queue": target.name})


@example("streams POST /consumer-groups/{group}/queues/{queue}/seek")
async def _(target: Target) -> Ask:
    return Ask(path={"group": await group(target), "queue": target.name}, body={"toEnd": True})


@example("streams POST /consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek")
async def _(target: Target) -> Ask:
    names = {"group": await group(target), "queue": target.name}
    return Ask(path={**names, "partition": f"type-of-{target.name}"}, body={"toEnd": True})


plain("streams GET /resources/queues", lambda _: Ask(query={"limit": "1000"}))
plain("streams GET /resources/queues/{queue}/depth", lambda t: Ask(path={"queue": t.name}))
plain("streams GET /resources/queues/{queue}", lambda t: Ask(path={"queue": t.name}))
plain("streams DELETE /resources/queues/{queue}", lambda t: Ask(path={"queue": t.name}))
plain("streams DELETE /queues/{queue}/clear", lambda t: Ask(path={"queue": t.name}))
plain("streams GET /resources/partitions", lambda t: Ask(query={"queue": t.name, "limit": "1000"}))
plain("streams GET /resources/namespaces", lambda _: Ask())
plain("streams GET /resources/tasks", lambda _: Ask())
plain("streams GET /resources/overview", lambda _: Ask())
plain("streams GET /messages", lambda t: Ask(query={"queue": t.name}))


@example(
    "streams GET /messages/{partitionId}/{transactionId}",
    "streams DELETE /messages/{partitionId}/{transactionId}",
    "streams POST /messages/{partitionId}/{transactionId}/dlq",
)
async def _(target: Target) -> Ask:
    held = await target.popped()
    return Ask(path={"partitionId": held.partition, "transactionId": held.key})


@example("streams POST /messages/{partitionId}/{transactionId}/retry")
async def _(target: Target) -> Ask:
    held = await target.buried()
    return Ask(path={"partitionId": held.partition, "transactionId": held.key})


plain("streams GET /dlq", lambda t: Ask(query={"queue": t.name}))
plain("streams POST /dlq/retry", lambda t: Ask(query={"queue": t.name}))
plain("streams DELETE /dlq", lambda t: Ask(query={"queue": t.name}))


@example("streams POST /traces")
async def _(target: Target) -> Ask:
    held = await target.popped()
    return Ask(
        body={"transactionId": held.key, "partitionId": held.partition, "data": target.marker}
    )


plain("streams GET /traces/names", lambda _: Ask())
plain("streams GET /traces/by-name/{name}", lambda t: Ask(path={"name": t.marker}))


@example("streams GET /traces/{partitionId}/{transactionId}")
async def _(target: Target) -> Ask:
    held = await target.popped()
    if target.queue_id:
        await target.broker.traces.record(
            int(held.partition),
            held.key,
            group="default",
            event_type="info",
            names=[],
            data=json.dumps(target.marker),
        )
    return Ask(path={"partitionId": held.partition, "transactionId": held.key})


plain("streams GET /status", lambda _: Ask())
plain("streams GET /status/queues", lambda _: Ask(query={"limit": "1000"}))
plain("streams GET /status/queues/{queue}", lambda t: Ask(path={"queue": t.name}))
plain("streams GET /status/analytics", lambda _: Ask())
plain("streams POST /stats/refresh", lambda _: Ask())
plain("streams root GET /health", lambda _: Ask())


# SQS, by its actions.


def act(name: str, *, changes: bool = True, **fields: Any) -> None:
    def make(target: Target) -> Ask:
        return Ask(body={"QueueUrl": target.name, **fields}, changes=changes)

    plain(f"sqs {name}", make)


def arn(target: Target) -> str:
    return f"arn:aws:sqs:us-east-1:000000000000:{target.name}"


plain("sqs CreateQueue", lambda t: Ask(body={"QueueName": t.name.replace(".", "-")}, changes=False))
plain("sqs GetQueueUrl", lambda t: Ask(body={"QueueName": t.name}))
plain("sqs ListQueues", lambda _: Ask(body={}))
act("GetQueueAttributes", AttributeNames=["All"])
act("SetQueueAttributes", Attributes={"MessageRetentionPeriod": "60"})
act("ListDeadLetterSourceQueues")
act("ListQueueTags")
act("SendMessage", MessageBody="x")
act("SendMessageBatch", Entries=[{"Id": "1", "MessageBody": "x"}])
act("ReceiveMessage")
act("DeleteQueue")
act("PurgeQueue")
act("AddPermission", Label="all", AWSAccountIds=["000000000000"], Actions=["*"])
act("TagQueue", Tags={"color": "red"})
act("UntagQueue", TagKeys=["color"])


@example("sqs RemovePermission")
async def _(target: Target) -> Ask:
    fields = {"Label": "all", "AWSAccountIds": ["000000000000"], "Actions": ["*"]}
    await target.act("AddPermission", {"QueueUrl": target.name, **fields})
    return Ask(body={"QueueUrl": target.name, "Label": "all"})


@example("sqs DeleteMessage")
async def _(target: Target) -> Ask:
    return Ask(body={"QueueUrl": target.name, "ReceiptHandle": await target.received()})


@example("sqs DeleteMessageBatch")
async def _(target: Target) -> Ask:
    entry = {"Id": "1", "ReceiptHandle": await target.received()}
    return Ask(body={"QueueUrl": target.name, "Entries": [entry]})


@example("sqs ChangeMessageVisibility")
async def _(target: Target) -> Ask:
    handle = await target.received()
    return Ask(body={"QueueUrl": target.name, "ReceiptHandle": handle, "VisibilityTimeout": 3600})


@example("sqs ChangeMessageVisibilityBatch")
async def _(target: Target) -> Ask:
    entry = {"Id": "1", "ReceiptHandle": await target.received(), "VisibilityTimeout": 3600}
    return Ask(body={"QueueUrl": target.name, "Entries": [entry]})


@example("sqs StartMessageMoveTask")
async def _(target: Target) -> Ask:
    source = await target.dead_letter_queue()
    return Ask(body={"SourceArn": source, "DestinationArn": f"{source}-source"})


@example("sqs ListMessageMoveTasks")
async def _(target: Target) -> Ask:
    await target.moving()
    return Ask(body={"SourceArn": arn(target)}, restless=True)


@example("sqs CancelMessageMoveTask")
async def _(target: Target) -> Ask:
    return Ask(body={"TaskHandle": await target.moving()}, restless=True)
