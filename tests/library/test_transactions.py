"""Pushes in the caller's own transaction, on every kind of connection."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row, namedtuple_row, scalar_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import laneway.sync
from laneway import PayloadRules, RateLimit
from laneway.domain.errors import (
    BrokerClosed,
    InvalidMessage,
    InvalidPayload,
    InvalidRequest,
    MessageTooLarge,
    QueueNotFound,
)
from tests.library.conftest import QUIET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from laneway import Connection, Message
    from tests.library.conftest import Place

LONG = timedelta(seconds=20)
NOISE = token_urlsafe(10_000)


@asynccontextmanager
async def of_asyncpg(dsn: str) -> AsyncIterator[tuple[Any, Any]]:
    connection = await asyncpg.connect(dsn)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield connection, transaction
    finally:
        await connection.close()


@asynccontextmanager
async def of_psycopg(dsn: str) -> AsyncIterator[tuple[Any, Any]]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection, connection


@asynccontextmanager
async def of_sqlalchemy(dsn: str) -> AsyncIterator[tuple[Any, Any]]:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    try:
        async with engine.connect() as connection:
            yield connection, connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def of_sqlalchemy_psycopg(dsn: str) -> AsyncIterator[tuple[Any, Any]]:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    try:
        async with AsyncSession(engine) as session:
            yield session, session
    finally:
        await engine.dispose()


@contextmanager
def of_psycopg_sync(dsn: str) -> Iterator[tuple[Any, Any]]:
    with psycopg.connect(dsn) as connection:
        yield connection, connection


@contextmanager
def of_sqlalchemy_sync(dsn: str) -> Iterator[tuple[Any, Any]]:
    engine = sqlalchemy.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.connect() as connection:
            yield connection, connection
    finally:
        engine.dispose()


@contextmanager
def of_session_sync(dsn: str) -> Iterator[tuple[Any, Any]]:
    engine = sqlalchemy.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with Session(engine) as session:
            yield session, session
    finally:
        engine.dispose()


ASYNC = [of_asyncpg, of_psycopg, of_sqlalchemy, of_sqlalchemy_psycopg]
SYNC = [of_psycopg_sync, of_sqlalchemy_sync, of_session_sync]


@pytest.mark.parametrize("opened", ASYNC)
async def test_message_exists_exactly_when_the_caller_commits(
    lane: Connection, place: Place, queue: str, opened: Any
) -> None:
    producer, consumer = lane.producer(queue), lane.consumer(queue)
    async with opened(place.dsn) as (connection, transaction):
        await producer.enqueue_in(connection, "rolled back")
        await transaction.rollback()
    async with opened(place.dsn) as (connection, transaction):
        await producer.enqueue_in(
            connection, {"n": 1}, priority=3, partition="p", headers={"h": 1}, dedup_key="k"
        )
        await producer.batch_enqueue_in(connection, [2, 3])
        # A long transaction holds nobody else up: others push, and are served, meanwhile.
        await producer.enqueue("other", priority=9)
        first = await consumer.dequeue(wait=LONG)
        assert first is not None
        assert first.payload == "other"
        assert await consumer.dequeue() is None
        await transaction.commit()
    taken: list[Message] = []
    while len(taken) < 3:
        taken += await consumer.dequeue_many(3, wait=LONG)
    assert [message.payload for message in taken] == [{"n": 1}, 2, 3]
    assert (taken[0].priority, taken[0].partition, taken[0].headers) == (3, "p", {"h": 1})
    assert await consumer.dequeue() is None


@pytest.mark.parametrize("opened", SYNC)
def test_pushes_without_an_event_loop(place: Place, queue: str, opened: Any) -> None:
    with laneway.sync.connect(place.dsn, settings=QUIET) as lane:
        producer, consumer = lane.producer(queue), lane.consumer(queue)
        with opened(place.dsn) as (connection, transaction):
            producer.enqueue_in(connection, "rolled back")
            transaction.rollback()
        with opened(place.dsn) as (connection, transaction):
            producer.enqueue_in(connection, 1, priority=2)
            producer.batch_enqueue_in(connection, [2, 3])
            assert consumer.dequeue() is None
            transaction.commit()
        taken: list[Message] = []
        while len(taken) < 3:
            taken += consumer.dequeue_many(3, wait=LONG)
        assert [message.payload for message in taken] == [1, 2, 3]


def test_blocked_push_blocks_no_other_thread(address: str, place: Place, queue: str) -> None:
    with (
        laneway.sync.connect(address, settings=QUIET) as lane,
        psycopg.connect(place.dsn) as own,
        psycopg.connect(place.dsn, autocommit=True) as looker,
        ThreadPoolExecutor() as threads,
        psycopg.connect(place.dsn) as holder,
    ):
        holder.execute("lock table laneway.outbox in share row exclusive mode")
        producer = lane.producer(queue)
        waiting = threads.submit(producer.enqueue_in, own, "waits")
        while not looker.execute(
            "select from pg_locks where pid = %s and not granted", [own.info.backend_pid]
        ).fetchall():
            time.sleep(0.01)
        threads.submit(producer.enqueue, "other").result(LONG.total_seconds())
        assert not waiting.done()
        holder.rollback()
        waiting.result(LONG.total_seconds())


def test_closed_connection_pushes_nothing(place: Place, queue: str) -> None:
    with laneway.sync.connect(place.dsn, settings=QUIET) as lane:
        producer = lane.producer(queue)
    with psycopg.connect(place.dsn) as own, pytest.raises(BrokerClosed):
        producer.enqueue_in(own, 1)


async def test_payload_rules_apply_in_a_transaction(
    place: Place, lane: Connection, queue: str
) -> None:
    async with of_psycopg(place.dsn) as (connection, _):
        with pytest.raises(InvalidPayload, match="payload 1 of the batch"):
            await lane.producer(queue, rules=PayloadRules(max_string=2)).batch_enqueue_in(
                connection, ["ok", "too long"]
            )


@pytest.mark.parametrize("opened", ASYNC)
async def test_unknown_queue_and_too_large_body_are_refused(
    place: Place, lane: Connection, queue: str, opened: Any
) -> None:
    await lane.admin.update_queue(queue, {"max_bytes": 100})
    async with opened(place.dsn) as (connection, transaction):
        with pytest.raises(QueueNotFound, match="nowhere"):
            await lane.producer("nowhere").enqueue_in(connection, 1)
        await transaction.rollback()
    async with opened(place.dsn) as (connection, transaction):
        with pytest.raises(MessageTooLarge):
            await lane.producer(queue).enqueue_in(connection, "x" * 200)
        await transaction.rollback()


async def test_batch_is_all_or_none_where_each_statement_commits(
    place: Place, lane: Connection, queue: str
) -> None:
    await lane.admin.update_queue(queue, {"max_bytes": 100})
    producer = lane.producer(queue, rate_limit=RateLimit(0.001, 3))
    async with await psycopg.AsyncConnection.connect(place.dsn, autocommit=True) as connection:
        with pytest.raises(MessageTooLarge, match="message 1 is"):
            await producer.batch_enqueue_in(connection, ["one", "x" * 200, "three"])
        # Nothing was sent, so all of it may be.
        await producer.batch_enqueue_in(connection, [1, 2, 3])
        assert await producer.batch_enqueue_in(connection, []) == []
    assert [message.payload for message in await dequeue(lane, queue, 3)] == [1, 2, 3]
    assert (await lane.admin.queue_metrics(queue)).pending == 0


@pytest.mark.parametrize("opened", ASYNC)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partition": NOISE}, "up to 1300 bytes each always fit"),
        ({"dedup_key": NOISE}, "up to 1300 bytes each always fit"),
    ],
    ids=["partition", "dedup_key"],
)
async def test_message_that_could_never_be_delivered_is_refused(
    place: Place, lane: Connection, queue: str, *, opened: Any, options: dict[str, Any], words: str
) -> None:
    async with opened(place.dsn) as (connection, transaction):
        with pytest.raises(InvalidMessage, match=words):
            await lane.producer(queue).enqueue_in(connection, 1, **options)
        await transaction.rollback()


async def test_unsupported_connection_is_refused(lane: Connection, queue: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot push on a str"):
        await lane.producer(queue).enqueue_in("postgresql://", 1)


async def dequeue(lane: Connection, queue: str, n: int) -> list[Message]:
    taken: list[Message] = []
    while len(taken) < n:
        taken += await lane.consumer(queue).dequeue_many(n, wait=LONG)
    return taken


async def test_connection_that_encodes_json_by_itself_changes_nothing(
    place: Place, lane: Connection, queue: str
) -> None:
    async with of_asyncpg(place.dsn) as (connection, transaction):
        for kind in ("json", "jsonb"):
            await connection.set_type_codec(
                kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
        await lane.producer(queue).enqueue_in(connection, {"n": [1, "é"]}, headers={"h": 1})
        await transaction.commit()
    (message,) = await dequeue(lane, queue, 1)
    assert (message.payload, message.headers) == ({"n": [1, "é"]}, {"h": 1})


@pytest.mark.parametrize("rows", [dict_row, namedtuple_row, scalar_row])
async def test_connection_answers_in_rows_of_any_kind(
    place: Place, lane: Connection, queue: str, rows: Any
) -> None:
    producer = lane.producer(queue)
    with psycopg.connect(place.dsn, row_factory=rows) as connection:
        first = await producer.enqueue_in(connection, 1)
    async with await psycopg.AsyncConnection.connect(
        place.dsn, row_factory=rows, cursor_factory=psycopg.AsyncRawCursor
    ) as other:
        second = await producer.enqueue_in(other, 2)
    assert isinstance(first, int)
    assert second > first
    assert sorted(message.payload for message in await dequeue(lane, queue, 2)) == [1, 2]


async def test_pool_or_engine_is_refused(place: Place, lane: Connection, queue: str) -> None:
    producer = lane.producer(queue)
    engine = sqlalchemy.create_engine(place.dsn.replace("postgresql://", "postgresql+psycopg://"))
    later = create_async_engine(place.dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with asyncpg.create_pool(place.dsn, min_size=1, max_size=1) as pool:
        with psycopg.connect(place.dsn) as connection:
            for wrong in (pool, engine, later, connection.cursor(), engine.connect):
                with pytest.raises(InvalidRequest, match="use a connection of psycopg"):
                    await producer.enqueue_in(wrong, 1)
        async with pool.acquire() as lent, lent.transaction():
            await producer.enqueue_in(lent, "lent")
    assert [message.payload for message in await dequeue(lane, queue, 1)] == ["lent"]
    elsewhere = sqlalchemy.create_engine("sqlite://")
    with elsewhere.connect() as light, pytest.raises(InvalidRequest, match="to sqlite"):
        await producer.enqueue_in(light, 1)
    with Session(elsewhere) as session, pytest.raises(InvalidRequest, match="to sqlite"):
        await producer.enqueue_in(session, 1)
    engine.dispose()
    elsewhere.dispose()
    await later.dispose()


async def test_options_are_checked_in_a_transaction(
    place: Place, lane: Connection, queue: str
) -> None:
    async with of_psycopg(place.dsn) as (connection, _):
        with pytest.raises(InvalidRequest, match="delay is 5"):
            await lane.producer(queue).enqueue_in(connection, 1, delay=5)  # type: ignore[arg-type]
        # The caller's transaction goes on.
        await connection.execute("select 1")


async def test_connection_of_an_event_loop_is_not_for_code_without_one(
    place: Place, queue: str
) -> None:
    def push(connection: object) -> None:
        with laneway.sync.connect(place.dsn, settings=QUIET) as lane:
            lane.producer(queue).enqueue_in(connection, 1)

    for opened in ASYNC:
        async with opened(place.dsn) as (connection, _):
            with pytest.raises(InvalidRequest, match=r"from laneway\.sync"):
                await asyncio.to_thread(push, connection)
