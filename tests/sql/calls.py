"""The SQL functions as coroutines, with typed results."""

from __future__ import annotations

import asyncio
import json
import random
import string
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import asyncpg

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

Session: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
T = TypeVar("T")

STATES = ("queued", "processing", "acknowledged", "dead", "archived")
HOUR = timedelta(hours=1)
# A name that no index can hold, however it is packed.
NOISE = "".join(random.Random(0).choices(string.ascii_letters + string.digits, k=10_000))  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    queue_id: int
    group_id: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where one pushed message is; a duplicate has the place of the first."""

    segment: int
    lane_id: int
    seq: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    waiter: int
    token: UUID
    segment: int
    lane_id: int
    seq: int
    partition: str
    priority: int
    attempt: int
    created_at: datetime
    until: datetime
    lease: timedelta | None
    max_attempts: int | None
    key: str | None
    headers: str | None
    body: str
    error: str | None = None

    @property
    def place(self) -> Place:
        return Place(self.segment, self.lane_id, self.seq)


@dataclass(frozen=True, slots=True)
class Counts:
    queued: int = 0
    processing: int = 0
    acknowledged: int = 0
    dead: int = 0
    archived: int = 0


async def create_queue(session: Session, name: str = "work", **settings: Any) -> Queue:
    """Create a queue; unless the settings say otherwise, it retries at once, with three attempts."""
    settings = {"backoff": "0", "max_attempts": 3, **settings}
    queue_id = await session.fetchval(
        "select laneway.create_queue($1, $2)", name, json.dumps(settings)
    )
    group_id = await session.fetchval(
        "select group_id from laneway.consumer_group where queue_id = $1", queue_id
    )
    return Queue(name, queue_id, group_id)


async def create_group(
    session: Session,
    queue: Queue,
    name: str,
    *,
    ordered: bool | None = None,
    start: str = "all",
    moment: datetime | None = None,
) -> int:
    group_id: int = await session.fetchval(
        "select laneway.create_group($1, $2, $3, $4, $5)", queue.name, name, ordered, start, moment
    )
    return group_id


async def push(
    session: Session,
    queue: Queue | Sequence[Queue],
    bodies: Sequence[str | None],
    *,
    partitions: Sequence[str | None] | None = None,
    priorities: Sequence[int | None] | None = None,
    delays: Sequence[timedelta | None] | None = None,
    keys: Sequence[str | None] | None = None,
    headers: Sequence[str | None] | None = None,
    leases: Sequence[timedelta | None] | None = None,
    max_attempts: Sequence[int | None] | None = None,
) -> list[Place]:
    """Push and return one place per body, in the order of the bodies."""
    queues = [queue] if isinstance(queue, Queue) else queue
    rows = await session.fetch(
        "select * from laneway.push_many($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        [each.queue_id for each in queues],
        bodies,
        partitions,
        priorities,
        delays,
        keys,
        headers,
        leases,
        max_attempts,
    )
    return spread_spans(rows)


def spread_spans(rows: Iterable[asyncpg.Record]) -> list[Place]:
    places: list[Place] = []
    for row in rows:
        assert row["idx"] == len(places)
        places.extend(
            Place(row["segment"], row["lane_id"], row["seq"] + step, row["duplicate"])
            for step in range(row["messages"])
        )
    return places


async def claim(
    session: Session,
    group: Queue | int,
    *wants: int,
    leases: Sequence[timedelta | None] | None = None,
    consumers: Sequence[str | None] | None = None,
    partition: str | None = None,
    priority: int | None = None,
    alone: bool = False,
) -> list[Delivery]:
    rows = await session.fetch(
        "select * from laneway.claim_many($1, $2, $3, $4, $5, $6, $7)",
        group if isinstance(group, int) else group.group_id,
        wants,
        leases,
        consumers,
        partition,
        priority,
        alone,
    )
    return [Delivery(**row) for row in rows]


async def ack(session: Session, deliveries: Sequence[Delivery]) -> list[int]:
    """Settle each and return the indexes of those that were not held in time."""
    return sorted(
        {
            idx
            for idx, _, _ in await ack_spans(
                session, [(each.token, each.lane_id, each.seq, each.seq) for each in deliveries]
            )
        }
    )


async def ack_spans(
    session: Session, runs: Sequence[tuple[UUID, int, int, int]]
) -> list[tuple[int, int, int]]:
    """Settle runs of (token, lane, first, last) and return (index, first, last) of what was not."""
    tokens, lanes, first, last = zip(*runs, strict=True) if runs else ((), (), (), ())
    rows = await session.fetch(
        "select * from laneway.ack_many($1, $2, $3, $4)", tokens, lanes, first, last
    )
    return sorted((row["idx"], row["first_seq"], row["last_seq"]) for row in rows)


async def nack(
    session: Session,
    deliveries: Sequence[Delivery],
    *,
    reason: str | None = None,
    delay: timedelta | None = None,
    dead: bool | None = None,
) -> list[str]:
    """Give each back and return the outcomes in the same order."""
    rows = await session.fetch(
        "select * from laneway.nack_many($1, $2, $3, $4, $5, $6) order by idx",
        [each.token for each in deliveries],
        [each.lane_id for each in deliveries],
        [each.seq for each in deliveries],
        [reason for _ in deliveries],
        [delay for _ in deliveries],
        [dead for _ in deliveries],
    )
    assert [row["idx"] for row in rows] == list(range(len(deliveries)))
    return [row["outcome"] for row in rows]


async def release(
    session: Session, deliveries: Sequence[Delivery], *, delay: timedelta | None = None
) -> list[int]:
    """Give each back unread and return the indexes of those that were not held in time."""
    rows = await session.fetch(
        "select idx from laneway.release_many($1, $2, $3, $4) order by idx",
        [each.token for each in deliveries],
        [each.lane_id for each in deliveries],
        [each.seq for each in deliveries],
        delay,
    )
    return [row["idx"] for row in rows]


async def extend(
    session: Session, deliveries: Sequence[Delivery], lease: timedelta, *, whole: bool = False
) -> list[datetime | None]:
    """Set each one's deadline, or its whole claim's, and return the new deadlines."""
    rows = await session.fetch(
        "select * from laneway.extend_many($1, $2, $3, $4) order by idx",
        [each.token for each in deliveries],
        [each.lane_id for each in deliveries],
        [None if whole else each.seq for each in deliveries],
        [lease for _ in deliveries],
    )
    assert [row["idx"] for row in rows] == list(range(len(deliveries)))
    return [row["until"] for row in rows]


async def expire_leases(session: Session, deliveries: Iterable[Delivery]) -> None:
    """Let the claims' time be up, as if their leases had passed."""
    await session.execute(
        "update laneway.claim set until = clock_timestamp() - interval '1 second' "
        "where token = any ($1)",
        [each.token for each in deliveries],
    )


async def expire(session: Session) -> int:
    """End the claims whose time is up and return how many messages that gave back."""
    count: int = await session.fetchval(
        "select coalesce(sum(messages), 0)::int from laneway.expire_claims()"
    )
    return count


async def make_due(session: Session, group: Queue | int) -> None:
    """Let everything that a group waits for be due, as if the time had passed."""
    group_id = group if isinstance(group, int) else group.group_id
    await session.execute(
        "update laneway.parked set available_at = clock_timestamp() - interval '1 hour' "
        "where group_id = $1 and available_at > clock_timestamp()",
        group_id,
    )
    await session.execute(
        "update laneway.progress p set not_before = clock_timestamp() - interval '1 second' "
        "from laneway.reader r where r.reader_id = p.reader_id and r.group_id = $1 "
        "and p.not_before > clock_timestamp()",
        group_id,
    )


async def move(
    session: Session,
    group: Queue | int,
    places: Sequence[Place],
    *,
    source: str,
    target: str,
    reason: str | None = None,
    consumer: str | None = None,
    lease: timedelta | None = None,
) -> dict[int, UUID | None]:
    """Move messages by hand and return the tokens of those that moved, by index."""
    rows = await session.fetch(
        "select * from laneway.move_messages($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        group if isinstance(group, int) else group.group_id,
        [each.segment for each in places],
        [each.lane_id for each in places],
        [each.seq for each in places],
        source,
        target,
        reason,
        consumer,
        lease,
    )
    return {row["idx"]: row["token"] for row in rows}


async def edit(
    session: Session, group: Queue | int, place: Place, state: str, **changes: Any
) -> bool:
    done: bool = await session.fetchval(
        "select laneway.edit_message($1, $2, $3, $4, $5, $6)",
        group if isinstance(group, int) else group.group_id,
        place.segment,
        place.lane_id,
        place.seq,
        state,
        json.dumps(changes),
    )
    return done


async def purge(session: Session, group: Queue | int, status: str | None = None) -> int:
    return await step_through(
        session,
        "select * from laneway.purge($1, $2, p_after => $3, p_purged => $4)",
        group if isinstance(group, int) else group.group_id,
        status,
    )


async def delete_between(
    session: Session, group: Queue | int, first: datetime, last: datetime
) -> int:
    return await step_through(
        session,
        "select * from laneway.delete_between($1, $2, $3, p_after => $4, p_deleted => $5)",
        group if isinstance(group, int) else group.group_id,
        first,
        last,
    )


async def step_through(session: Session, statement: str, *arguments: Any) -> int:
    """Repeat what is done in steps of many lanes until it is done; return how many in all."""
    total, after = 0, None
    while True:
        row = await session.fetchrow(statement, *arguments, after, total)
        assert row is not None
        total, after = int(row[0]), row[1]
        if after is None:
            return total


async def replay(session: Session, group: Queue | int, limit: int | None = None) -> int:
    count: int = await session.fetchval(
        "select laneway.requeue_dead_letters($1, $2)",
        group if isinstance(group, int) else group.group_id,
        limit,
    )
    return count


async def seek(
    session: Session,
    group: Queue | int,
    target: str,
    *,
    moment: datetime | None = None,
    seq: int | None = None,
    partition: str | None = None,
) -> int:
    return await step_through(
        session,
        "select * from laneway.seek($1, $2, $3, $4, $5, $6, $7)",
        group if isinstance(group, int) else group.group_id,
        target,
        moment,
        seq,
        partition,
    )


async def rotate(session: Session) -> int:
    segment: int = await session.fetchval("select laneway.rotate(true)")
    return segment


async def retain(session: Session) -> list[int]:
    """Drop what is past retention and return the segments that went."""
    return [row[0] for row in await session.fetch("select * from laneway.retain()")]


async def keep_nothing(session: Session) -> None:
    """Set the policy so that a closed segment is past retention at once."""
    await session.execute("update laneway.policy set retention = '0', event_retention = '0'")


async def sweep_idle(session: Session) -> int:
    count: int = await session.fetchval("select laneway.sweep_idle(1000, '0')")
    return count


async def count(session: Session, group: Queue | int) -> Counts:
    """Return the counts, having checked that a full count over the view agrees."""
    async with session.transaction(isolation="repeatable_read", readonly=True):
        subtracted = await count_by_subtraction(session, group)
        rows = await session.fetch(
            "select status, count(*) as n from laneway.messages where group_id = $1 group by 1",
            group if isinstance(group, int) else group.group_id,
        )
    full = Counts(**{each["status"]: each["n"] for each in rows})
    assert subtracted == full, f"{subtracted}, but a full count gives {full}"
    return subtracted


async def count_by_subtraction(session: Session, group: Queue | int) -> Counts:
    row = await session.fetchrow(
        "select * from laneway.count_by_state(array[$1::int])",
        group if isinstance(group, int) else group.group_id,
    )
    assert row is not None
    return Counts(**{state: row[state] for state in STATES})


async def find_orphans(session: Session) -> dict[str, int]:
    rows = await session.fetch("select * from laneway.find_orphans()")
    return {row["table_name"]: row["rows"] for row in rows}


def sqlstate(error: BaseException) -> str:
    assert isinstance(error, asyncpg.PostgresError)
    return str(error.sqlstate)


async def count_reads(session: Session, index: str) -> int:
    """Return how many entries of the index this session has read, some time back."""
    read: int = await session.fetchval(
        "select pg_stat_get_xact_tuples_returned(('laneway.' || $1)::regclass)", index
    )
    return read


async def start_and_block(watch: Session, session: Session, work: Awaitable[T]) -> asyncio.Task[T]:
    """Start a call and return once the database says that it waits for a lock."""
    task = asyncio.ensure_future(work)
    pid = session.get_server_pid()
    while not await watch.fetchval(
        "select exists (select from pg_locks where pid = $1 and not granted)", pid
    ):
        assert not task.done(), task
        await asyncio.sleep(0.001)
    assert isinstance(task, asyncio.Task)
    return task
