"""A server with keys of every kind, and queues that some of them must not reach."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg

from laneway.domain.keys import Role, make_key
from laneway.domain.messages import Delivery, Nack, OutgoingMessage
from laneway.domain.settings import QueueSettings
from laneway.domain.workers import WorkerIdentity
from laneway.engine.procedures.keys import create_api_key

if TYPE_CHECKING:
    import httpx

    from laneway.domain.messages import Pushed
    from laneway.engine import Broker
    from tests.protocol.servers import RunningServer

OWNER = "owner-of-the-test"
OWN = "mine-1"
LEASE = timedelta(minutes=10)

# Whose keys there are: by name, the role and the queues.
KEYS: dict[str, tuple[Role, str | None]] = {
    "read": (Role.READ, None),
    "write": (Role.WRITE, None),
    "admin": (Role.ADMIN, None),
    "limited-read": (Role.READ, "mine-*"),
    "limited-write": (Role.WRITE, "mine-*"),
    "limited-admin": (Role.ADMIN, "mine-*"),
    "limited-to-none": (Role.ADMIN, "nobody-*"),
}


class Leased(NamedTuple):
    """A message that a pop of streams returned."""

    partition: str
    key: str
    lease: str


class World:
    """One server and database for all examples; `broker` does what their past takes."""

    def __init__(
        self,
        running: RunningServer,
        client: httpx.AsyncClient,
        broker: Broker,
        rows: asyncpg.Connection,
        keys: dict[str, str],
    ) -> None:
        self.running = running
        self.client = client
        self.broker = broker
        self.rows = rows
        self.keys = keys
        self._number = 0

    async def make(self) -> Target:
        """Return another queue of somebody else, with a message in every state."""
        self._number += 1
        target = Target(self, f"fax{self._number}.secret-{uuid4().hex[:8]}")
        await target.fill()
        return target


class Target:
    """A queue of somebody else. ids: what of it was named so far, in order."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.marker = f"content-of-{name}"
        self.queue_id = 0
        self.ids: list[str] = []

    @property
    def broker(self) -> Broker:
        return self.world.broker

    async def fill(self) -> None:
        names = {"namespace": f"space-of-{self.name}", "task": f"task-of-{self.name}"}
        values = {
            "name": self.name,
            "settings": json.dumps(
                {
                    "lease": "10 min",
                    "default_group_optional": True,
                    "options": {"queen": names},
                }
            ),
            "body": json.dumps({"text": self.marker}),
            "type": f"type-of-{self.name}",
            "consumer": f"consumer-of-{self.name}",
            "marker": self.marker,
        }
        await self.world.rows.execute(FILL.format_map(values))
        self.queue_id = await self.world.rows.fetchval(
            "select queue_id from laneway.queue where name = $1", self.name
        )

    async def ready(self) -> str:
        return await self.note(str((await self._push("ready")).id))

    async def leased(self) -> Delivery:
        """Return a message in flight; its address is noted."""
        await self._push("leased", priority=9)
        deliveries = await self.broker.claim(
            self.name, 1, lease=LEASE, consumer=f"consumer-of-{self.name}"
        )
        await self.note(str(deliveries[0].id))
        return deliveries[0]

    async def dead(self) -> str:
        delivery = await self.leased()
        await self.broker.nack([Nack(*delivery.receipt, dead=True, reason=self.marker)])
        return str(delivery.id)

    async def done(self) -> str:
        """Return a message whose handler's result is kept."""
        delivery = await self.leased()
        await self.broker.workers.ack_results([delivery.receipt], [f'"{self.marker}"'], keep=LEASE)
        return str(delivery.id)

    async def popped(self) -> Leased:
        """Return a message that a consumer of streams holds, in a partition of its own."""
        key = f"key-{uuid4().hex}"
        items = [{"queue": self.name, "payload": self.marker, "partition": key}]
        items[0]["transactionId"] = key
        api = "/api/v1"
        (await self._ask("POST", f"{api}/push", json={"items": items})).raise_for_status()
        path = f"{api}/pop/queue/{self.name}/partition/{key}"
        shown = (await self._ask("GET", path)).json()
        await self.note(shown["partitionId"])
        return Leased(shown["partitionId"], key, shown["leaseId"])

    async def buried(self) -> Leased:
        """Return a dead letter as streams call it."""
        held = await self.popped()
        body = {"transactionId": held.key, "partitionId": held.partition, "status": "dlq"}
        answer = await self._ask("POST", "/api/v1/ack", json={**body, "leaseId": held.lease})
        assert answer.json()[0]["dlq"], answer.text
        return held

    async def run(self) -> str:
        run_id = f"run-{uuid4().hex}"
        await self.broker.workflows.start_run(
            run_id, name=f"flow-of-{self.name}", queue=self.name, arguments=f'["{self.marker}"]'
        )
        return await self.note(run_id)

    async def driven(self) -> tuple[str, str]:
        """Return a run and its driver: who holds its message."""
        run_id = await self.run()
        [delivery] = await self.broker.claim(
            self.name, lease=LEASE, partition=f"flow-of-{self.name}"
        )
        driver = f"{delivery.token}/{delivery.id}"
        await self.broker.workflows.drive_run(run_id, driver)
        return run_id, driver

    async def held_run(self) -> tuple[str, str]:
        """Return a run, and who may drive it and has not begun to."""
        run_id = await self.run()
        [delivery] = await self.broker.claim(
            self.name, lease=LEASE, partition=f"flow-of-{self.name}"
        )
        return run_id, f"{delivery.token}/{delivery.id}"

    async def worker(self) -> str:
        worker_id = f"worker.{uuid4().hex[:8]}"
        await self.broker.workers.register(
            WorkerIdentity(worker_id, self.marker, "host", 1, [self.name], LEASE)
        )
        await self._push("of a worker", priority=10)
        await self.broker.claim(self.name, lease=timedelta(minutes=5), consumer=worker_id)
        return await self.note(worker_id)

    async def received(self) -> str:
        """Return the receipt handle of a message that SQS returned."""
        request = {"QueueUrl": self.name, "MaxNumberOfMessages": 1}
        answer = await self.act("ReceiveMessage", request)
        handle: str = answer["Messages"][0]["ReceiptHandle"]
        return handle

    async def dead_letter_queue(self) -> str:
        """Make the queue one that takes another's dead letters; return its ARN."""
        source = await self.broker.queues.create(f"{self.name}-source", QueueSettings())
        arn = f"arn:aws:sqs:us-east-1:000000000000:{self.name}"
        await self.act(
            "SetQueueAttributes",
            {
                "QueueUrl": source.name,
                "Attributes": {
                    "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
                },
            },
        )
        return arn

    async def moving(self) -> str:
        """Return the handle of a move task under way."""
        arn = await self.dead_letter_queue()
        for _ in range(20):
            await self._push("moved")
        request = {"SourceArn": arn, "MaxNumberOfMessagesPerSecond": 1}
        request["DestinationArn"] = f"{arn}-source"
        handle: str = (await self.act("StartMessageMoveTask", request))["TaskHandle"]
        return handle

    async def note(self, thing: str) -> str:
        self.ids.append(thing)
        return thing

    async def look(self) -> str:
        """Return all that is kept of the queue."""
        text: str = await self.world.rows.fetchval(STATE, self.queue_id, self.name)
        return text

    async def _push(self, what: str, *, priority: int = 0) -> Pushed:
        body = json.dumps({"text": self.marker, "what": what})
        [pushed] = await self.broker.push(
            self.name, [OutgoingMessage(body, f"type-of-{self.name}", priority)]
        )
        return pushed

    async def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return await self.world.client.request(
            method, path, headers={"X-API-KEY": self.world.keys["admin"]}, **more
        )

    async def act(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        answer = await self.world.client.post(
            "/",
            content=json.dumps(request),
            headers={
                "X-API-KEY": self.world.keys["admin"],
                "X-Amz-Target": f"AmazonSQS.{action}",
            },
        )
        answer.raise_for_status()
        shown: dict[str, Any] = answer.json() if answer.content else {}
        return shown


class Ghost(Target):
    """What a target looks like to one who made it all up: nothing of it exists."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "mine-that-never-was")

    async def ready(self) -> str:
        return await self.note("1-900000001-1")

    async def leased(self) -> Delivery:
        await self.note("1-900000001-1")
        now = datetime.now(UTC)
        return Delivery(
            str(uuid4()), 1, 900_000_001, 1, "", 0, 1, now, now, None, None, None, None, "1"
        )

    async def dead(self) -> str:
        return await self.ready()

    async def done(self) -> str:
        return await self.ready()

    async def popped(self) -> Leased:
        await self.note("900000001")
        return Leased("900000001", f"key-{uuid4().hex}", str(uuid4()))

    async def buried(self) -> Leased:
        return await self.popped()

    async def run(self) -> str:
        return await self.note(f"run-{uuid4().hex}")

    async def driven(self) -> tuple[str, str]:
        return await self.run(), f"{uuid4()}/1-900000001-1"

    async def held_run(self) -> tuple[str, str]:
        return await self.driven()

    async def worker(self) -> str:
        return await self.note(f"worker.{uuid4().hex[:8]}")

    async def moving(self) -> str:
        arn = f"arn:aws:sqs:us-east-1:000000000000:{self.name}"
        return b64encode(
            json.dumps({"taskId": str(UUID(int=1)), "sourceArn": arn}).encode()
        ).decode()


async def make_keys(dsn: str) -> dict[str, str]:
    """Return the keys by the names of who has them."""
    connection = await asyncpg.connect(dsn)
    keys = {}
    try:
        for name, (role, pattern) in KEYS.items():
            key = make_key()
            await create_api_key(
                connection,
                key_id=key.key_id,
                name=name,
                role=role,
                pattern=pattern,
                digest=key.digest,
            )
            keys[name] = key.text
    finally:
        await connection.close()
    return keys


# A dead letter, a message that is acknowledged, one in flight and one that is ready, and a trace.
FILL = """
do $$
declare
  v_held record;
  v_id text;
begin
  perform laneway.create_queue('{name}', '{settings}');
  for i in 1..4 loop
    v_id := laneway.push('{name}', '{body}', '{type}');
    if i < 4 then
      select * into v_held from laneway.pop('{name}', 1, '10 min', 'default', '{consumer}');
    end if;
    if i = 1 then
      perform laneway.nack(v_held.id, v_held.token, '{marker}', null, true);
    elsif i = 2 then
      perform laneway.ack(v_held.id, v_held.token);
    end if;
  end loop;
  perform laneway.apply_kv(array['put', 'put'], array['{name}', 'queen-locks'], array['there', '{name}#0'],
                           array['{body}', '{{"owner": "{marker}"}}']::json[], null, null, null, null, null, null, null, null);
  perform laneway.apply_timers(array[laneway.find_queue('{name}')], array['there'], array[gen_random_uuid()], array['1 day'::interval],
                               array['{marker}'], array['{marker}'], null, array['{body}']::json[], array[0]::smallint[]);
  perform laneway.record_trace(split_part(v_id, '-', 2)::int, 'key', 'default', 'info', array['{marker}'], '1');
end $$
"""

# Rows of the queue, whatever it is called now, of its lanes and groups, and of what goes with it.
STATE = """
with l as (select lane_id from laneway.lane where queue_id = $1),
     g as (select group_id from laneway.consumer_group where queue_id = $1),
     r as (select reader_id from laneway.reader where group_id in (table g))
select jsonb_pretty(jsonb_build_object(
  'queue', (select jsonb_agg(to_jsonb(x)) from laneway.queue x where x.queue_id = $1),
  'groups', (select jsonb_agg(to_jsonb(x) order by x.group_id) from laneway.consumer_group x where x.queue_id = $1),
  'messages', (select jsonb_agg(jsonb_build_array(x.lane_id, x.seq, x.body) order by x.lane_id, x.seq) from laneway.message x where x.lane_id in (table l)),
  'progress', (select jsonb_agg(jsonb_build_array(r.reader_id, laneway.reader_seq(r.reader_id)) order by r.reader_id) from r),
  'claims', (select jsonb_agg(to_jsonb(x) order by x.token, x.part) from laneway.claim x where x.group_id in (table g)),
  'parked', (select jsonb_agg(to_jsonb(x) order by x.reader_id, x.seq) from laneway.parked x where x.reader_id in (table r)),
  'gaps', (select jsonb_agg(to_jsonb(x) order by x.reader_id, x.first_seq) from laneway.gap x where x.reader_id in (table r)),
  'retries', (select jsonb_agg(to_jsonb(x) order by x.reader_id, x.seq) from laneway.retry x where x.reader_id in (table r)),
  'revisions', (select jsonb_agg(to_jsonb(x) order by x.reader_id, x.seq) from laneway.revision x where x.reader_id in (table r)),
  'dead', (select jsonb_agg(to_jsonb(x) order by x.reader_id, x.seq) from laneway.dead_letter x where x.reader_id in (table r)),
  'archive', (select jsonb_agg(to_jsonb(x) order by x.reader_id, x.seq) from laneway.archive x where x.reader_id in (table r)),
  'results', (select jsonb_agg(to_jsonb(x) order by x.lane_id, x.seq) from laneway.result x where x.lane_id in (table l)),
  'traces', (select jsonb_agg(to_jsonb(x) order by x.trace_id) from laneway.stream_trace x where x.lane_id in (table l)),
  'leases', (select jsonb_agg(to_jsonb(x) order by x::text) from laneway.stream_subscription x where x.queue_id = $1),
  'runs', (select jsonb_agg(to_jsonb(x) order by x.run_id) from laneway.workflow x where x.queue_id = $1),
  'steps', (select jsonb_agg(to_jsonb(x) order by x.run_id, x.step) from laneway.workflow_step x join laneway.workflow w using (run_id) where w.queue_id = $1),
  'workers', (select jsonb_agg(to_jsonb(x) order by x.worker_id) from laneway.worker x where $2 = any (x.queues)),
  'schedules', (select jsonb_agg(to_jsonb(x) order by x.name) from laneway.schedule x where x.queue_id = $1),
  'keys', (select jsonb_agg(to_jsonb(x) order by x.namespace, x.key) from laneway.kv x where x.namespace = $2 or (x.namespace = 'queen-locks' and x.key like $2 || '%')),
  'timers', (select jsonb_agg(to_jsonb(x) order by x.key) from laneway.timer x where x.queue_id = $1),
  'moves', (select jsonb_agg(to_jsonb(x) - 'moved' - 'stepped_at' order by x.task_id) from laneway.move_task x where x.queue_id = $1)))
"""
